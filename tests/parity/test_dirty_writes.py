"""``mark_dirty`` beside torch's: each way to write, recorded, in no_grad, and with a constant result."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import oplib
from oplib.errors import AutogradError

from .programs import make_function

POINT = [0.5, 1.5]


@oplib.library.custom_op(mutates_args=("x",))
def add_on_arrays(x: jax.Array) -> jax.Array:
    return x + 1


@oplib.library.custom_op(mutates_args=("x",))
def add_on_tensors(x: oplib.Tensor) -> None:
    x.add_(1)


@oplib.library.custom_op(mutates_args=("x",))
def add_on_numpy(x: np.ndarray) -> None:
    x += 1


def _by_op(op: Any) -> Any:
    return lambda library, x: op(x) if library is oplib else x.add_(1)


WRITES: dict[str, Any] = {
    "add_": lambda library, x: x.add_(1),
    "an item": lambda library, x: x.__setitem__(0, 5.0),
    "out=": lambda library, x: library.add(x, 1, out=x),
    "a view": lambda library, x: x[:1].add_(1),
    "data": lambda library, x: x.data.add_(1),
    "an op on arrays": _by_op(add_on_arrays),
    "an op on Tensors": _by_op(add_on_tensors),
    "an op on numpy arrays": _by_op(add_on_numpy),
}
MODES = ["recorded", "in no_grad", "a constant", "a constant in no_grad"]


def make_program(library: Any, write: str, mode: str, *, marked: bool = True) -> Any:
    class Write(library.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            with library.no_grad():
                WRITES[write](library, x)
            if marked:
                ctx.mark_dirty(x)
            if mode.startswith("a constant"):
                ctx.mark_non_differentiable(x)
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 3

    def program(t: Any) -> Any:
        x = t * t
        with library.no_grad() if "no_grad" in mode else nullcontext():
            y = Write.apply(x)
        return (y * y).sum() + (x * t).sum()

    return program


def on_tape(program: Any, library: Any = oplib) -> tuple[float, list[float]]:
    t = library.tensor(POINT, requires_grad=True)
    value = program(t)
    return value.item(), library.autograd.grad(value, t)[0].tolist()


def on_arrays(program: Any) -> Any:
    return lambda array: program(oplib.Tensor.from_array(array)).array


def run_twice(program: Any) -> Any:
    compiled = oplib.jit(program)
    on_tape(compiled)
    return on_tape(compiled)


def map_gradient(program: Any) -> Any:
    values, slopes = jax.vmap(jax.value_and_grad(on_arrays(program)))(jnp.array([POINT, POINT]))
    return values[1], slopes[1]


WORLDS: dict[str, Any] = {
    "op by op": on_tape,
    "oplib.jit": run_twice,
    "jax.grad": lambda program: jax.value_and_grad(on_arrays(program))(jnp.array(POINT)),
    "jit of grad": lambda program: jax.jit(jax.value_and_grad(on_arrays(program)))(jnp.array(POINT)),
    "vmap of grad": map_gradient,
}


@pytest.mark.matrix(3)
@pytest.mark.spec("D.48")
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("write", WRITES)
def test_a_written_argument_has_the_derivative_that_torch_gives_it(write: str, mode: str, world: str) -> None:
    value, slope = WORLDS[world](make_program(oplib, write, mode))
    due, due_slope = on_tape(make_program(torch, write, mode), torch)
    np.testing.assert_allclose(value, due, rtol=1e-6)
    np.testing.assert_allclose(slope, due_slope, rtol=1e-6)


@pytest.mark.parametrize("world", ["jax.grad", "jit of grad", "vmap of grad"])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_is_not_declared_is_refused_where_jax_would_lose_it(write: str, world: str) -> None:
    with pytest.raises(
        AutogradError, match=r"Write: forward writes into an argument .* ctx\.mark_dirty\(x\)"
    ):
        WORLDS[world](make_program(oplib, write, "recorded", marked=False))


def test_a_refused_history_of_another_argument_leaves_a_dirty_one_as_it_was(assert_agrees):
    def program(lib):
        def forward(ctx, x, y):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        function = make_function(lib, forward, lambda ctx, g: (g, None))
        base = lib.tensor([0.5, 2.0], requires_grad=True) * 1
        with lib.no_grad():
            view = base.view(2)
        base.mul_(2)  # so the history of the view may not be read
        written = base * 3
        with pytest.raises(RuntimeError, match="no_grad"):
            function.apply(written, view)
        return written, written._version

    assert_agrees(program)


def make_views(lib: Any, base: Any) -> dict[str, Any]:
    function = make_function(lib, lambda ctx, x: x.view(-1), lambda ctx, grad: grad.view(3, 1))
    return {
        "a view": lambda: base.view(3),
        "one of several": lambda: base.unbind(0)[0],
        "of a Function": lambda: function.apply(base),
        "of a view": lambda: base.view(3)[1:],
        "that requires grad": lambda: base.view(3).requires_grad_(),
    }


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("base", ["leaf", "result", "constant"])
@pytest.mark.parametrize("made", ["recorded", "no_grad", "inference", "view of no_grad", "view of inference"])
@pytest.mark.parametrize("view", make_views(oplib, None))
def test_a_view_may_be_dirty_where_torch_allows_it(assert_agrees, view, made, base, beside):
    def program(lib):
        def forward(ctx, x, y):
            ctx.mark_dirty(x)
            return x.mul_(2)

        function = make_function(lib, forward, lambda ctx, grad: (grad * 2, None))
        x = lib.tensor([[0.5], [1.0], [2.0]], requires_grad=base != "constant")
        root = x * 1 if base == "result" else x
        modes = {"no_grad": lib.no_grad, "inference": lib.inference_mode}
        with modes.get(made.removeprefix("view of "), nullcontext)():
            given = make_views(lib, root)[view]()
        if made.startswith("view of"):
            given = given[:1]
        was_refused = False
        try:
            result = function.apply(given, lib.tensor(1.0, requires_grad=beside))
        except RuntimeError:
            was_refused = True
        else:
            if result.requires_grad:
                (result * result).sum().backward()
        return was_refused, root, x.grad

    assert_agrees(program)
