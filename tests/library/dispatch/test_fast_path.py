"""The fast path: it can be turned off, its code can be read, and it does what the complete path does."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.core import Tracer

import oplib
from oplib import Tensor
from oplib.config import config
from oplib.library import Library, custom_op, ops, register_autograd
from oplib.library.dispatch.dispatcher import MAX_ITEMS, MAX_LENGTHS, MAX_PATTERNS
from tests.complete_calls import count_complete_calls

X = np.array([[1.0, -2.0], [3.0, 0.5]], np.float32)
CALLS: list[Callable[[Tensor], Any]] = [
    lambda x: x * 2.0,
    lambda x: x * x,
    lambda x: x.sum(),
    lambda x: x.sum(0, keepdim=True),
    lambda x: oplib.max(x, 0),
    lambda x: oplib.linear(x, x, x[0]),
    lambda x: oplib.linear(x, x),
    lambda x: x.exp(),
    lambda x: x[0] * x[1],
    lambda x: oplib.addcmul(x, x.detach(), x),
    lambda x: oplib.cat([x, x.detach(), x]),
    lambda x: oplib.nn.functional.layer_norm(x, (2,), x[0]),
]


def leaf() -> Tensor:
    return Tensor.from_array(jnp.asarray(X), requires_grad=True)


@pytest.mark.fast_path
def test_the_setting_turns_it_off_and_on_while_a_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    x = leaf()
    for _ in range(3):
        x * 2.0, ops.oplib.mul.Tensor(x, x)
    assert count_complete_calls(lambda: (x * 2.0, ops.oplib.mul.Tensor(x, x))) == 0
    monkeypatch.setattr(config, "fast_path", False)
    assert count_complete_calls(lambda: (x * 2.0, ops.oplib.mul.Tensor(x, x))) == 2
    monkeypatch.setattr(config, "fast_path", True)
    assert count_complete_calls(lambda: (x * 2.0, ops.oplib.mul.Tensor(x, x))) == 0


@pytest.mark.fast_path
def test_an_op_first_called_while_it_is_off_is_served_when_it_is_on(
    monkeypatch: pytest.MonkeyPatch, forget_ops: None
) -> None:
    @custom_op("fast::later")
    def later(x: jax.Array) -> jax.Array:
        return x + 1

    monkeypatch.setattr(config, "fast_path", False)
    assert count_complete_calls(lambda: [later(X) for _ in range(3)]) == 3
    monkeypatch.setattr(config, "fast_path", True)
    assert count_complete_calls(lambda: [later(jnp.asarray(X)) for _ in range(3)]) == 1


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_both_paths_record_the_same(call: Callable[[Tensor], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[Any]] = []
    for fast_path in (True, False):
        monkeypatch.setattr(config, "fast_path", fast_path)
        for _ in range(3):
            x = leaf()
            results = oplib.pytree.tree_leaves(call(x))
            node = results[0].grad_fn
            saved = [(one.tolist(), one.requires_grad) for one in node.saved_tensors]
            edges = [None if edge is None else edge[0].name() for edge in node.edges]
            results[0].sum().backward()
            values = [one.tolist() for one in (*results, x.grad)]
            facts = [(one.requires_grad, one.output_nr, one.grad_fn is node) for one in results]
            found.append([node.name(), saved, edges, values, facts])
    assert all(one == found[0] for one in found)


@pytest.mark.fast_path
@pytest.mark.parametrize(
    "transform", [oplib.vmap, lambda call: lambda x: jax.vmap(on_tensors(call))(x.array)]
)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_calls_in_a_trace_of_jax_take_it_too(transform: Any, requires_grad: bool) -> None:
    def call(row: Tensor) -> Tensor:
        row = Tensor.from_array(row.array, requires_grad=requires_grad)
        return (row * row).sin().sum().detach()

    x = Tensor.from_array(jnp.asarray(X))
    for _ in range(3):
        transform(call)(x)
    assert count_complete_calls(lambda: transform(call)(x)) == 0
    assert count_complete_calls(lambda: x * x) == 0


@pytest.mark.fast_path
def test_calls_below_hooks_for_saved_tensors_take_it_and_save_what_the_hooks_return() -> None:
    x = leaf()
    for _ in range(3):
        _ = (x * 2.0 * x).exp()

    def call() -> None:
        with oplib.autograd.graph.saved_tensors_hooks(lambda t: t.shape, lambda shape: oplib.ones(*shape)):
            results.append((x * 2.0 * x).exp())

    results: list[Tensor] = []
    assert count_complete_calls(call) == 0
    results[0].sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), np.full_like(X, 3.0))


@pytest.mark.parametrize("fast_path", [True, False])
def test_a_constant_result_in_a_trace_takes_traced_values(
    fast_path: bool, monkeypatch: pytest.MonkeyPatch, forget_ops: None
) -> None:
    @custom_op("fast::ones")
    def ones(x: jax.Array) -> jax.Array:
        return jnp.ones(2)

    def call(row: Tensor) -> Tensor:
        constants = [ones(row) for _ in range(3)]
        assert not isinstance(constants[-1].array, Tracer)
        return constants[-1].add_(row)

    monkeypatch.setattr(config, "fast_path", fast_path)
    assert oplib.vmap(call)(Tensor.from_array(jnp.asarray(X))).tolist() == (X + 1).tolist()


@pytest.mark.parametrize("fast_path", [True, False])
def test_no_grad_in_a_trace_cuts_each_call(fast_path: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(x: Tensor) -> Tensor:
        for _ in range(3):
            x.cos()
        with oplib.no_grad():
            return x.cos() + x.sum()

    monkeypatch.setattr(config, "fast_path", fast_path)
    slope = jax.grad(lambda x: on_tensors(lambda x: (call(x) * x).sum())(x))
    x = jnp.asarray(X)
    assert slope(x).tolist() == (jnp.cos(x) + x.sum()).tolist()


def on_tensors(call: Callable[[Tensor], Tensor]) -> Callable[[Any], Any]:
    """Returns the function of arrays."""
    return lambda x: call(Tensor.from_array(x)).array


@pytest.mark.fast_path
def test_of_several_results_those_with_a_gradient_are_recorded_in_its_code() -> None:
    for _ in range(3):
        values, places = ops.oplib.max.dim(leaf(), 0)
    assert count_complete_calls(lambda: ops.oplib.max.dim(leaf(), 0)) == 0
    assert (values.requires_grad, places.requires_grad, places.grad_fn) == (True, False, None)
    assert "return (__tensor, __tensor1)" in inspect.getsource(ops.oplib.max.dim.call)


@pytest.mark.usefixtures("forget_ops")
def test_a_traceback_shows_the_line_of_generated_code_that_made_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @custom_op("fast::strict")
    def strict(x: jax.Array, y: jax.Array) -> jax.Array:
        return x + y

    monkeypatch.setattr(config, "traceback", "full")
    x, y = leaf().detach(), Tensor.from_array(jnp.ones(3))
    strict(x, x), strict(x, x)
    with pytest.raises(ValueError, match="Incompatible shapes") as caught:
        strict(x, y)
    frames = [
        one for one in traceback.extract_tb(caught.value.__traceback__) if "fast::strict" in one.filename
    ]
    expected = "run_one(" if config.fast_path else "__decline("
    assert expected in (frames[0].line or "")
    assert (frames[0].line or "") in inspect.getsource(ops.fast.strict.default.call)


def test_no_two_generated_functions_share_a_place() -> None:
    functions = [oplib.sum, oplib.mul, Tensor.__mul__, ops.oplib.mul.Tensor.call, ops.oplib.mul.Scalar.call]
    places = {one.__code__.co_filename for one in functions}
    assert len(places) == len(functions)


@pytest.mark.fast_path
@pytest.mark.usefixtures("forget_ops")
def test_the_code_is_bounded_and_calls_beyond_it_are_recorded_too() -> None:
    @custom_op("fast::four")
    def four(a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array) -> jax.Array:
        return a * b + c * d

    register_autograd("fast::four", "derive")
    masks = [[bool(bits >> place & 1) for place in range(4)] for bits in range(1, 16)]
    for mask in [*masks, *masks]:
        tensors = [Tensor.from_array(jnp.asarray(X), requires_grad=want) for want in mask]
        four(*tensors).sum().backward()
        assert [one.grad is not None for one in tensors] == mask
        assert all(np.array_equal(one.grad.array, X) for one in tensors if one.grad is not None)
    source = inspect.getsource(ops.fast.four.default.call)
    assert source.count("__pattern is ") == MAX_PATTERNS


@pytest.mark.usefixtures("forget_ops")
def test_arguments_may_have_the_names_of_builtins_and_of_variables_in_the_code() -> None:
    library = Library("names", "FRAGMENT")
    arguments = "Tensor self, Tensor[] node, Tensor? int, float str=1., int[] len=[1], *, Scalar float=2"
    library.define(f"odd({arguments}) -> Tensor", operand=["float"])

    def kernel(
        self: jax.Array,
        node: Any,
        int: jax.Array | None,  # noqa: A002
        str: Any,  # noqa: A002
        len: Any,  # noqa: A002
        *,
        float: Any,  # noqa: A002
    ) -> jax.Array:
        return (self + sum(node) + (0.0 if int is None else int)) * str * float

    library.impl("odd", kernel, "default")
    register_autograd("names::odd", "derive")
    x, y = leaf(), leaf()
    for other, factor in [(None, 5.0), (y, 3)] * 3:
        x.grad = None
        result = ops.names.odd(x, [x, y], other, 3.0, float=factor)
        expected = (X * 2 + X * (1 if other is None else 2)) * 3.0 * factor
        np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-6)
        result.sum().backward()
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), np.full_like(X, 6.0 * factor))
    if config.fast_path:
        assert count_complete_calls(lambda: ops.names.odd(x, [x, y], y, 3.0, float=3)) == 0
    library._destroy()


LISTS: list[Callable[[Tensor], Tensor]] = [
    lambda x: oplib.cat([x, x], 1),
    lambda x: oplib.cat((x, x.detach(), x)),
    lambda x: oplib.stack([x]),
    lambda x: oplib.hstack((x, x * 2.0)),
    lambda x: ops.oplib.einsum("ij,jk", [x, x]),
    lambda x: oplib.cat([x, x.detach(), *[x * 2.0] * MAX_ITEMS]),
    lambda x: oplib.stack((x[0], *[x.t()[1]] * MAX_ITEMS), -1),
]


@pytest.mark.fast_path
@pytest.mark.parametrize("call", LISTS, ids=range(len(LISTS)))
def test_it_serves_lists_of_each_length_that_was_seen(call: Callable[[Tensor], Tensor]) -> None:
    def differentiate() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        x = leaf()
        result = call(x)
        result.backward(oplib.ones_like(result) * 3.0)
        assert x.grad is not None
        return result.detach().numpy(), x.grad.numpy()

    first = differentiate()  # by the complete path
    for _ in range(3):
        differentiate()
        call(leaf().detach())
    assert count_complete_calls(lambda: (call(leaf()), call(leaf().detach()))) == 0
    for mine, expected in zip(differentiate(), first, strict=True):
        np.testing.assert_array_equal(mine, expected)


@pytest.mark.fast_path
def test_lengths_that_code_is_written_for_are_bounded_and_other_calls_are_right() -> None:
    x = leaf().detach()
    for _ in range(3):
        for length in (*range(1, MAX_LENGTHS + 3), MAX_ITEMS + 1):
            found = oplib.vstack([x * float(place) for place in range(length)])
            np.testing.assert_array_equal(
                found.numpy(), np.concatenate([X * place for place in range(length)])
            )
    source = inspect.getsource(oplib.vstack)
    assert source.count("__len(tensors) == ") == MAX_LENGTHS
    assert f"__len(tensors) == {MAX_ITEMS + 1}" not in source


@pytest.mark.fast_path
def test_a_long_list_in_each_mode_and_of_each_class_gives_what_the_complete_path_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def call(*items: Any) -> tuple[type, bool, bool, list[float]]:
        found = oplib.cat([*items, *items[:1] * MAX_ITEMS])
        boxed = found if isinstance(found, Tensor) else Tensor.from_array(found)
        return type(found), boxed.requires_grad, boxed.is_inference(), boxed.detach().tolist()

    def call_all() -> list[Any]:
        x, array = leaf(), jnp.asarray(X)
        with oplib.inference_mode():
            found = [call(x, x)]
            made_there = x * 2.0
        with oplib.no_grad():
            found.append(call(x, x))
        return [*found, *(call(*items) for items in [(x, array), (array, array), (x.detach(), made_there)])]

    found = [call_all() for _ in range(3)]
    monkeypatch.setattr(config, "fast_path", False)
    assert found == [call_all()] * 3


@pytest.mark.fast_path
def test_a_long_list_with_something_else_than_tensors_is_refused() -> None:
    x = leaf()
    for _ in range(3):
        oplib.cat([x] * (MAX_ITEMS + 2))
    for wrong in (1.0, None, "x"):
        with pytest.raises((oplib.errors.ArgumentError, TypeError), match=r"cat"):
            oplib.cat([*[x] * (MAX_ITEMS + 1), wrong])  # pyright: ignore[reportArgumentType]  that is refused


@pytest.mark.parametrize("make", [list, tuple, iter], ids=["list", "tuple", "iterator"])
def test_a_list_with_something_else_than_tensors_is_answered_by_the_complete_path(
    make: Callable[[list[Any]], Any],
) -> None:
    x = leaf()
    for _ in range(3):
        for pair in ([x, x], (x, x)):
            oplib.cat(pair)
    for wrong in ([x, 1.0], [x, None], [None, x], [x, "x"]):
        with pytest.raises((oplib.errors.ArgumentError, TypeError), match=r"cat"):
            oplib.cat(make(wrong))
    with pytest.raises((oplib.errors.OplibError, ValueError, RuntimeError), match=r"cat"):
        oplib.cat(make([]))


def test_arrays_in_lists_give_arrays_and_a_mixture_gives_a_tensor() -> None:
    array = jnp.asarray(X)
    for _ in range(4):
        assert isinstance(oplib.cat([array, array]), jax.Array)
        assert isinstance(oplib.cat([array, leaf()]), Tensor)


@pytest.mark.fast_path
def test_a_list_in_inference_mode_gives_tensors_of_inference_mode() -> None:
    x = leaf()
    with oplib.inference_mode():
        for _ in range(4):
            found = oplib.cat([x, x])
            assert found.is_inference()
            assert not found.requires_grad
        assert count_complete_calls(lambda: oplib.cat([x, x])) == 0


@pytest.mark.usefixtures("forget_ops")
def test_a_tensor_in_place_of_a_number_raises_the_same_error_at_every_call():
    @custom_op("fast_path::limited")
    def limited(x: jax.Array, bound: float = 1.0) -> jax.Array:
        return jnp.minimum(x, bound)

    for _ in range(2):  # the second call takes the fast path
        with pytest.raises(TypeError, match=r"fast_path::limited: argument 'bound' .* found f32\[2\]"):
            limited(leaf(), oplib.ones(2))
        with pytest.raises(TypeError, match=r"argument 'bound' .* traced, so it is not known"):
            jax.jit(lambda bound: limited(leaf(), Tensor.from_array(bound)))(2.0)
        limited(leaf())
