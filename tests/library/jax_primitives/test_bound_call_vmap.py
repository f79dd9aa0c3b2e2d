"""A kernel of plain Python that reads values is not mapped; a batching rule is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib import Tensor
from oplib.errors import ReadValueError, TracingError
from oplib.library import custom_op, opcheck

pytestmark = [pytest.mark.usefixtures("forget_ops"), pytest.mark.spec("D.61")]
X = np.arange(6.0, dtype=np.float32).reshape(2, 3) - 2.5


def make_cube() -> Any:
    """Returns an op whose kernel reads values, with a formula and a fake kernel."""

    def cube(x: Tensor) -> Tensor:
        return oplib.from_numpy(x.detach().numpy() ** 3)

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    op = custom_op("mapped::cube", cube)
    op.register_fake(lambda x: oplib.empty_like(x))
    op.register_autograd(lambda ctx, g: 3 * g * ctx.saved_tensors[0] ** 2, setup_context=save)
    return op


def write_a_value(x: Tensor) -> None:
    x.copy_(oplib.from_numpy(x.numpy() + 1))


@pytest.mark.parametrize(
    "program",
    [
        lambda cube: oplib.vmap(cube)(oplib.tensor(X)),
        lambda cube: oplib.vmap(oplib.vmap(cube))(oplib.tensor(X)),
        lambda cube: oplib.vmap(cube)(oplib.tensor(X, requires_grad=True)),
        lambda cube: jax.vmap(cube)(jnp.array(X)),
        lambda cube: jax.vmap(jax.grad(lambda x: cube(x).sum()))(jnp.array(X)),
        lambda cube: jax.jit(cube)(jnp.array(X)),
        lambda cube: jax.jit(jax.vmap(cube))(jnp.array(X)),
        lambda cube: oplib.jit(cube)(oplib.tensor(X)),
        lambda cube: oplib.jit(oplib.vmap(cube))(oplib.tensor(X)),
        lambda cube: oplib.vmap(cube)(oplib.zeros(0, 3)),
        lambda cube: oplib.vmap(custom_op("mapped::write", write_a_value, mutates_args=("x",)))(
            oplib.tensor(X)
        ),
    ],
    ids=[
        "vmap", "two maps", "recorded", "jax.vmap", "gradient", "jit", "jit of vmap", "oplib.jit",
        "oplib.jit of vmap", "no example", "written argument",
    ],
)  # fmt: skip
def test_the_error_names_the_line_and_the_rule_that_cures_it(program: Callable[[Any], Any]) -> None:
    cube = make_cube()
    with pytest.raises(TracingError, match=r"^mapped::\w+: the kernel reads values .*, at .*register_vmap"):
        program(cube)


def test_an_array_kernel_of_plain_python_is_refused_too() -> None:
    @custom_op("mapped::flip", compile=False)
    def flip(x: jax.Array) -> jax.Array:
        return -x if x.sum() < 0 else x

    assert flip(jnp.array([-1.0, -2.0])).tolist() == [1.0, 2.0]
    for run in (jax.vmap(flip), lambda x: oplib.vmap(flip)(Tensor.from_array(x))):
        with pytest.raises(ReadValueError, match=r"mapped::flip: .* under vmap, .*boolean.*register_vmap"):
            run(jnp.array([[1.0, 2.0], [-1.0, -2.0]]))
    flip.register_vmap(lambda info, in_dims, x: (jnp.where(x.sum(1, keepdims=True) < 0, -x, x), 0))
    assert jax.vmap(flip)(jnp.array([[1.0, 2.0], [-1.0, -2.0]])).tolist() == [[1.0, 2.0], [1.0, 2.0]]


def test_a_batching_rule_maps_it_and_the_formula_stays() -> None:
    cube = make_cube()
    cube.register_vmap(lambda info, in_dims, x: (x**3, in_dims[0]))
    x = oplib.tensor(X, requires_grad=True)
    y = oplib.vmap(cube)(x)
    y.sum().backward()
    np.testing.assert_allclose(y.detach().numpy(), X**3, rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), 3 * X**2, rtol=1e-6)
    for function in (
        jax.vmap(jax.grad(lambda x: cube(x).sum())),
        jax.grad(lambda x: jax.vmap(cube)(x).sum()),
    ):
        np.testing.assert_allclose(function(jnp.array(X)), 3 * X**2, rtol=1e-6)


def test_opcheck_skips_what_needs_a_trace() -> None:
    results = opcheck(make_cube(), (oplib.tensor(X, requires_grad=True),))
    skipped = {name: result for name, result in results.items() if result != "SUCCESS"}
    assert skipped == {
        "test_aot_dispatch_dynamic": "SKIPPED: the kernel reads values, so it has no compiled run",
        "test_vmap": "SKIPPED: the kernel reads values, so only a batching rule maps it",
    }
