"""A kernel of plain Python that reads values runs once for each example of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib import Tensor
from oplib.errors import ResultError, TracingError
from oplib.library import custom_op, opcheck

pytestmark = pytest.mark.usefixtures("forget_ops")
X = np.arange(6.0, dtype=np.float32).reshape(2, 3) - 2.5


def make_cube() -> Any:
    """Returns an op whose kernel reads values, with a formula and a fake kernel."""

    def cube(x: Tensor) -> Tensor:
        return oplib.from_numpy(x.detach().numpy() ** 3)

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    op = custom_op("looped::cube", cube)
    op.register_fake(lambda x: oplib.empty_like(x))
    op.register_autograd(lambda ctx, g: 3 * g * ctx.saved_tensors[0] ** 2, setup_context=save)
    return op


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_kernel_without_rules_runs_once_for_each_example(depth: int) -> None:
    shapes: list[tuple[int, ...]] = []

    def take_sine(x: Tensor) -> Tensor:
        array = x.numpy()
        shapes.append(array.shape)
        return oplib.from_numpy(np.asarray(np.sin(array)))

    sine: Any = custom_op("looped::sine", take_sine)
    batch = np.stack([X] * 2)
    function: Callable[..., Any] = sine
    arrays: Callable[..., Any] = sine
    for _ in range(depth):
        function, arrays = oplib.vmap(function), jax.vmap(arrays)
    np.testing.assert_allclose(function(oplib.tensor(batch)).numpy(), np.sin(batch), rtol=1e-6)
    assert shapes == [batch.shape[depth:]] * int(np.prod(batch.shape[:depth]))
    np.testing.assert_allclose(arrays(jnp.array(batch)), np.sin(batch), rtol=1e-6)


ROW = X[0]


@pytest.mark.parametrize(
    ("in_dims", "x", "y"), [((0, None, None), X, ROW), ((None, [0], None), ROW, X), ((1, [0], None), X.T, X)]
)
def test_arguments_may_be_lists_and_the_same_for_all_examples(in_dims: Any, x: Any, y: Any) -> None:
    @custom_op("looped::pair")
    def pair(x: Tensor, ys: list[Tensor], factor: int) -> tuple[Tensor, list[Tensor]]:
        total = x.numpy() + ys[0].numpy()
        return oplib.from_numpy(total), [oplib.from_numpy(factor * total)]

    total, (scaled,) = oplib.vmap(pair, in_dims)(oplib.tensor(x), [oplib.tensor(y)], 3)
    wanted = (x.T if x.shape == (3, 2) else x) + y
    assert total.tolist() == wanted.tolist()
    assert scaled.tolist() == (3 * wanted).tolist()


def test_the_formula_is_used_inside_and_outside_of_the_map() -> None:
    cube = make_cube()
    x = oplib.tensor(X, requires_grad=True)
    oplib.vmap(cube)(x).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), 3 * X**2, rtol=1e-6)
    inside = oplib.vmap(lambda x: oplib.autograd.grad(cube(x).sum(), x)[0])(x)
    np.testing.assert_allclose(inside.detach().numpy(), 3 * X**2, rtol=1e-6)
    for function in (
        jax.vmap(jax.grad(lambda x: cube(x).sum())),
        jax.grad(lambda x: jax.vmap(cube)(x).sum()),
    ):
        np.testing.assert_allclose(function(jnp.array(X)), 3 * X**2, rtol=1e-6)


def test_such_an_op_passes_opcheck() -> None:
    x = oplib.tensor(X, requires_grad=True)
    results = opcheck(make_cube(), (x,))
    skipped = "SKIPPED: the kernel reads values, so it has no compiled run"
    assert {name for name, result in results.items() if result == skipped} == {"test_aot_dispatch_dynamic"}
    assert set(results.values()) == {"SUCCESS", skipped}


def test_a_wrong_formula_of_such_an_op_fails_opcheck() -> None:
    cube = make_cube()
    cube.register_autograd(lambda ctx, g: 2 * g)
    found = opcheck(cube, (oplib.tensor(X, requires_grad=True),), raise_exception=False)
    assert [name for name, result in found.items() if isinstance(result, Exception)] == ["test_gradients"]


def test_a_batching_rule_has_priority() -> None:
    cube = make_cube()
    cube.register_vmap(lambda info, in_dims, x: (x * 10, in_dims[0]))
    np.testing.assert_allclose(oplib.vmap(cube)(oplib.tensor(X)).numpy(), X * 10, rtol=1e-6)


def test_an_array_kernel_of_plain_python_is_looped_too() -> None:
    @custom_op("looped::flip", compile=False)
    def flip(x: jax.Array) -> jax.Array:
        return -x if x.sum() < 0 else x

    assert jax.vmap(flip)(jnp.array([[1.0, 2.0], [-1.0, -2.0]])).tolist() == [[1.0, 2.0], [1.0, 2.0]]


def test_a_kernel_that_calls_such_an_op_is_mapped() -> None:
    inner = make_cube()
    outer = custom_op("looped::outer", lambda x: inner(x) + 1, schema="(Tensor x) -> Tensor")
    np.testing.assert_allclose(oplib.vmap(outer)(oplib.tensor(X)).numpy(), X**3 + 1, rtol=1e-6)


def test_examples_with_results_of_other_shapes_are_refused() -> None:
    @custom_op("looped::positive")
    def positive(x: Tensor) -> Tensor:
        array = x.numpy()
        return oplib.from_numpy(array[array > 0])

    assert oplib.vmap(positive)(oplib.tensor([[1.0, -1.0], [-2.0, 2.0]])).tolist() == [[1.0], [2.0]]
    with pytest.raises(ResultError, match=r"the results differ.*\[f32\[1\]\] and \[f32\[2\]\]"):
        oplib.vmap(positive)(oplib.tensor([[1.0, -1.0], [2.0, 2.0]]))


def write_a_value(x: Tensor) -> None:
    x.copy_(oplib.from_numpy(x.numpy() + 1))


@pytest.mark.parametrize(
    "program",
    [
        lambda cube: jax.jit(cube)(jnp.array(X)),
        lambda cube: jax.jit(jax.vmap(cube))(jnp.array(X)),
        lambda cube: oplib.jit(cube)(oplib.tensor(X)),
        lambda cube: oplib.jit(oplib.vmap(cube))(oplib.tensor(X)),
        lambda cube: oplib.vmap(cube)(oplib.zeros(0, 3)),
        lambda cube: oplib.vmap(custom_op("looped::write", write_a_value, mutates_args=("x",)))(
            oplib.tensor(X)
        ),
    ],
    ids=["jit", "jit of vmap", "oplib.jit", "oplib.jit of vmap", "no example", "written argument"],
)
def test_where_there_are_no_values_the_error_names_the_line(program: Callable[[Any], Any]) -> None:
    cube = make_cube()
    oplib.vmap(cube)(oplib.tensor(X))
    with pytest.raises(TracingError, match=r"^looped::\w+: the kernel reads values while it is traced, at "):
        program(cube)
