"""Results that are trees: an op gives, in every transformation, what the function without the op gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import PartitionSpec as P

import oplib
from oplib.autograd import forward_ad, gradcheck, gradgradcheck
from oplib.library import CustomOpDef, opcheck
from tests.library.batching_and_sharding.shards import make_mesh
from tests.library.matrix.result_trees import FORMS, KINDS, W, X, compute, list_arrays, make_op

pytestmark = pytest.mark.spec("D.33")
ROWS = jnp.stack([X, 2 * X, X - 1])
OUTSIDE = ("host",)  # JAX cannot differentiate a callback once more
Call = Callable[[Any, Any], Any]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def op(kind: str) -> CustomOpDef:
    return make_op(kind)


def loss_of(call: Any, form: str) -> Call:
    return lambda x, w: sum((array * jnp.cos(array)).sum() for array in list_arrays(call(x, w, form)))


def repeat(call: Any, form: str) -> Call:
    """Makes the results carries of a loop."""

    def body(carry: Any, _: Any) -> tuple[Any, None]:
        wave, square = list_arrays(carry)
        return call(wave + square, W, form), None

    return lambda x, w: jax.lax.scan(body, call(x, w, form), length=3)[0]


TRANSFORMS: dict[str, Callable[[Any, str], Any]] = {
    "values": lambda call, form: lambda x, w: list_arrays(call(x, w, form)),
    "gradient": lambda call, form: jax.grad(loss_of(call, form), (0, 1)),
    "jvp": lambda call, form: (
        lambda x, w: jax.jvp(lambda *at: list_arrays(call(*at, form)), (x, w), (jnp.cos(x), w))
    ),
    "linearize": lambda call, form: (
        lambda x, w: jax.linearize(lambda at: list_arrays(call(at, w, form)), x)[1](jnp.sin(x))
    ),
    "checkpoint": lambda call, form: jax.grad(jax.checkpoint(loss_of(call, form)), (0, 1)),
    "vmap": lambda call, form: (
        lambda x, w: jax.vmap(lambda row: list_arrays(call(row, w, form)))(jnp.stack([x, 2 * x]))
    ),
    "vmap of the gradient": lambda call, form: (
        lambda x, w: jax.vmap(jax.grad(loss_of(call, form)), (0, None))(jnp.stack([x, 2 * x]), w)
    ),
}
HIGHER: dict[str, Callable[[Any, str], Any]] = {
    "hessian": lambda call, form: jax.hessian(loss_of(call, form)),
    "gradient of the gradient": lambda call, form: jax.grad(
        lambda x, w: (jax.grad(loss_of(call, form), 1)(x, w) ** 2).sum(), (0, 1)
    ),
}


def assert_same(got: Any, due: Any) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(due)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5), got, due)


def test_the_result_is_the_tree_of_the_kernel_with_its_static_parts(op: CustomOpDef, form: str) -> None:
    assert str(op._schema).endswith("-> Any")
    got, due = op(X, W, form), compute(X, W, form)
    assert_same(
        *(jax.tree.map(lambda leaf: 0 if isinstance(leaf, str) else leaf, tree) for tree in (got, due))
    )
    assert [leaf for leaf in jax.tree.leaves(got) if isinstance(leaf, (int, str))] == [
        leaf for leaf in jax.tree.leaves(due) if isinstance(leaf, (int, str))
    ]


@pytest.mark.matrix(10)
def test_transformations_agree_with_the_function_without_the_op(
    kind: str, op: CustomOpDef, form: str
) -> None:
    cells = TRANSFORMS if kind in OUTSIDE else TRANSFORMS | HIGHER

    def run_all(call: Any) -> Any:
        return lambda x, w: {name: transform(call, form)(x, w) for name, transform in cells.items()}

    due = jax.jit(run_all(compute))(X, W)
    assert_same(jax.jit(run_all(op))(X, W), due)
    assert_same(run_all(op)(X, W), due)


@pytest.mark.matrix(4)
def test_a_tree_is_the_carry_of_a_scan(op: CustomOpDef, form: str) -> None:
    if form == "numbers among arrays":
        pytest.skip("a carry of JAX holds arrays only")
    assert_same(repeat(op, form)(X, W), repeat(compute, form)(X, W))
    due = jax.grad(loss_of(lambda x, w, _: repeat(compute, form)(x, w), form))(X, W)
    assert_same(jax.grad(loss_of(lambda x, w, _: repeat(op, form)(x, w), form))(X, W), due)


def make_tensors() -> tuple[oplib.Tensor, oplib.Tensor]:
    x, w = (oplib.Tensor.from_array(array, requires_grad=True) for array in (X, W))
    return x, w


def measure(call: Any, form: str) -> Callable[..., oplib.Tensor]:
    """Returns the loss on Tensors."""

    def run(x: Any, w: Any) -> Any:
        wave, square = list_arrays(call(x, w, form))
        return (wave * wave.cos()).sum() + (square * square.cos()).sum()

    return run


@pytest.mark.matrix(4)
def test_tensors_are_in_the_tree_and_have_gradients(op: CustomOpDef, form: str) -> None:
    x, w = make_tensors()
    result = op(x, w, form)
    leaves = jax.tree.leaves(result, is_leaf=lambda leaf: isinstance(leaf, oplib.Tensor))
    assert [type(leaf).__name__ for leaf in leaves].count("Tensor") == 3
    assert all(array.requires_grad and array.grad_fn is not None for array in list_arrays(result))
    measure(op, form)(x, w).backward()
    assert_same((x.grad.array, w.grad.array), jax.grad(loss_of(compute, form), (0, 1))(X, W))
    with oplib.no_grad():
        assert_same([one.array for one in list_arrays(op(x, w, form))], list_arrays(compute(X, W, form)))


@pytest.mark.matrix(4)
def test_one_array_of_the_tree_alone_has_a_gradient(op: CustomOpDef, form: str) -> None:
    for place in (0, 1):
        x, w = make_tensors()
        list_arrays(op(x, w, form))[place].sum().backward()
        due = jax.grad(lambda *at, place=place: list_arrays(compute(*at, form))[place].sum(), (0, 1))(X, W)
        assert_same((x.grad.array, w.grad.array), due)


@pytest.mark.slow
def test_tensors_in_both_modes_and_orders_agree_with_finite_differences(
    kind: str, op: CustomOpDef, form: str
) -> None:
    inputs = make_tensors()
    call = lambda x, w: tuple(list_arrays(op(x, w, form)))  # noqa: E731
    assert gradcheck(call, inputs, check_forward_ad=True, check_batched_grad=kind not in OUTSIDE)
    if kind not in OUTSIDE:
        assert gradgradcheck(call, inputs)


@pytest.mark.matrix(4)
def test_tangents_of_tensors(op: CustomOpDef, form: str) -> None:
    due = jax.jvp(lambda x: list_arrays(compute(x, W, form)), (X,), (jnp.cos(X),))[1]
    with forward_ad.dual_level():
        x = forward_ad.make_dual(oplib.Tensor.from_array(X), oplib.Tensor.from_array(jnp.cos(X)))
        arrays = list_arrays(op(x, oplib.Tensor.from_array(W), form))
        got = [forward_ad.unpack_dual(array).tangent.array for array in arrays]
    assert_same(got, due)


@pytest.mark.matrix(4)
def test_vmap_of_tensors(op: CustomOpDef, form: str) -> None:
    x, w = oplib.Tensor.from_array(ROWS, requires_grad=True), make_tensors()[1]
    values = oplib.vmap(lambda row: tuple(list_arrays(op(row, w, form))))(x)
    due = jax.vmap(lambda row: list_arrays(compute(row, W, form)))(ROWS)
    assert_same([value.array for value in values], due)
    oplib.vmap(lambda row: measure(op, form)(row, w))(x).sum().backward()
    by = jax.grad(lambda x, w: jax.vmap(lambda row: loss_of(compute, form)(row, w))(x).sum(), (0, 1))(ROWS, W)
    assert_same((x.grad.array, w.grad.array), by)


@pytest.mark.matrix(4)
def test_a_compiled_step_returns_the_tree(op: CustomOpDef, form: str) -> None:
    x, w = make_tensors()

    @oplib.jit
    def step(x: Any, w: Any) -> Any:
        result = op(x, w, form)
        measure(op, form)(x, w).backward()
        return result

    with jax.enable_checks(False):  # JAX's checks accept no unused input of the program of a step
        result = step(x, w)
    is_tensor = lambda leaf: isinstance(leaf, oplib.Tensor)  # noqa: E731
    arrays = jax.tree.map(lambda leaf: leaf.array if is_tensor(leaf) else leaf, result, is_leaf=is_tensor)
    assert jax.tree.structure(arrays) == jax.tree.structure(compute(X, W, form))
    assert_same(list_arrays(arrays), list_arrays(compute(X, W, form)))
    assert_same((x.grad.array, w.grad.array), jax.grad(loss_of(compute, form), (0, 1))(X, W))


@pytest.mark.slow
def test_opcheck_checks_each_array(op: CustomOpDef, form: str) -> None:
    results = opcheck(op, (X, W, form)), opcheck(op, (*make_tensors(), form))
    told = {str(result) for each in results for result in each.values()} - {"SUCCESS"}
    derived = "SKIPPED: the backward is derived from the jvp rule, which test_forward_mode checks"
    assert told <= ({derived} if op._opoverload.record.jvp is not None else set())


@pytest.mark.parametrize("form", ["a dict", "a dataclass"])
def test_an_exported_call_returns_the_tree(kind: str, op: CustomOpDef, form: str) -> None:
    if kind == "host":
        pytest.skip("an exported program holds no Python")
    exported = export.export(jax.jit(lambda x, w: op(x, w, form)))(X, W)
    assert_same(exported.call(X, W), compute(X, W, form))
    gradient = export.export(jax.jit(jax.grad(loss_of(op, form), (0, 1))))(X, W)
    assert_same(gradient.call(X, W), jax.grad(loss_of(compute, form), (0, 1))(X, W))


@pytest.mark.matrix(4)
@pytest.mark.devices(4)
@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("form", ["a dict", "a dataclass"])
def test_shard_map(kind: str, op: CustomOpDef, form: str, check_vma: bool) -> None:
    if kind == "host" and check_vma:
        pytest.skip("without a fake kernel's word its results vary, tests/library/matrix/test_shard_map.py")
    wide = jnp.linspace(-1.0, 1.0, 16)

    def spread(call: Any, *, check_vma: bool) -> Any:
        def inside(x: Any, w: Any) -> Any:
            arrays = list_arrays(call(x, w, form))
            gradients = jax.grad(loss_of(call, form), (0, 1))(x, w)
            return arrays, jax.lax.psum(gradients[0], "i"), gradients[0]

        specs = {"mesh": make_mesh(shape=(4,)), "in_specs": (P("i"), P()), "out_specs": (P("i"), P(), P("i"))}
        return jax.jit(jax.shard_map(inside, **specs, check_vma=check_vma))(wide, W)

    assert_same(spread(op, check_vma=check_vma), spread(compute, check_vma=check_vma))
