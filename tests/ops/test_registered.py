"""Every built-in op against finite differences and JAX, as a Tensor op and under JAX's transformations.

A new row in a table is tested by being there: it needs samples if its schema looks like no other's. A run
takes some samples of some ops, drawn by a seed that the environment can set (``OPLIB_OPS_SEED``); ``make
test-ops`` takes them all (``OPLIB_OPS_SAMPLES=all``).
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.library import OpOverload
from oplib.library.binding import Binder
from oplib.library.overload import list_overloads
from oplib.tensor import Tensor

from .drawing import Sample, list_arrays
from .samples import find_samples


def has_gradient(op: OpOverload, sample: Sample) -> bool:
    derivative = op.record.derivative
    return (derivative.constant, derivative.missing) == (None, None) and any(
        array.dtype.kind == "f" for array in list_arrays(sample)
    )


def choose(part: float, purpose: str, *, smooth: bool = False) -> list[tuple[str, Sample]]:
    """Returns a sample for this part of the ops, or all of all where the environment says so."""
    chosen: list[tuple[str, Sample]] = []
    for name, op in OPS.items():
        samples = [sample for sample in find_samples(op) if not smooth or has_gradient(op, sample)]
        if os.environ.get("OPLIB_OPS_SAMPLES") != "all":
            rng = random.Random(f"{os.environ.get('OPLIB_OPS_SEED', '0')} {name} {purpose}")
            samples = rng.sample(samples, min(rng.random() < part, len(samples)))
        chosen += [(name, sample) for sample in samples]
    return chosen


OPS = {  # what draws random numbers is looked at in test_random
    op.name(): op for op in list_overloads() if op.namespace == "oplib" and not op.record.draws
}
CASES = choose(1.0, "results")
GRADIENTS = choose(0.6, "gradients")
TRANSFORMED = choose(0.3, "transformations")
SMOOTH = choose(0.3, "second derivatives", smooth=True)
MISSING = [name for name, op in OPS.items() if op.record.derivative.missing is not None]
EPSILON = 1e-6


def name_case(value: Any) -> str:
    return str(value).removeprefix("oplib::")


@pytest.fixture(autouse=True)
def strict_double():
    """64 bits, and JAX in the mode in which it converts and broadcasts nothing by itself."""
    with jax.enable_x64(True), jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        yield


class Call:
    """A sample as a function of its arrays.

    Attributes:
        arrays: the flat arrays.
        places: which of them are floating.
    """

    def __init__(self, op: OpOverload, sample: Sample) -> None:
        leaves, self._tree = jax.tree_util.tree_flatten((sample.args, sample.kwargs))
        self._leaves = leaves
        self._where = [place for place, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray)]
        self.op = op
        self.arrays = [leaves[place] for place in self._where]
        self.places = [place for place, array in enumerate(self.arrays) if array.dtype.kind == "f"]

    def arguments(self, arrays: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        leaves = list(self._leaves)
        for place, array in zip(self._where, arrays, strict=True):
            leaves[place] = array
        return jax.tree_util.tree_unflatten(self._tree, leaves)

    def run(self, *arrays: Any) -> tuple[Any, ...]:
        """Calls the op."""
        args, kwargs = self.arguments(arrays)
        return as_tuple(self.op(*args, **kwargs))

    def run_kernel(self, *arrays: Any) -> tuple[Any, ...]:
        """Calls the kernel as the plain JAX function that it is, without oplib around it."""
        args, kwargs = self.arguments(arrays)
        record = self.op.record
        values = Binder(record.schema).bind(args, kwargs)
        values = [
            jnp.asarray(value) if argument.name in record.operand else value
            for argument, value in zip(record.schema.arguments, values, strict=True)
        ]
        count = record.schema.num_positional
        named = dict(
            zip([argument.name for argument in record.schema.arguments[count:]], values[count:], strict=True)
        )
        return as_tuple(record.kernels["default"](*values[:count], **named))

    def with_floats(self, *floats: Any) -> list[Any]:
        """All arrays, these in place of the floating ones."""
        arrays: list[Any] = [jnp.asarray(array) for array in self.arrays]
        for place, value in zip(self.places, floats, strict=True):
            arrays[place] = value
        return arrays

    def floats(self) -> list[np.ndarray]:
        return [self.arrays[place] for place in self.places]


def as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def draw_weights(shape: tuple[int, ...], seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape)


def weigh(run: Callable[..., tuple[Any, ...]], call: Call) -> Callable[..., Any]:
    """A number made of the floating results, as a function of the floating arrays."""

    def loss(*floats: Any) -> Any:
        results = [
            value for value in run(*call.with_floats(*floats)) if jnp.issubdtype(value.dtype, jnp.inexact)
        ]
        doubles = [jnp.real(value).astype(jnp.float64) for value in results]
        return sum((jnp.sum(value * draw_weights(value.shape)) for value in doubles), start=jnp.zeros(()))

    return loss


def differentiate_by_finite_differences(
    loss: Callable[..., Any], floats: list[np.ndarray]
) -> list[np.ndarray]:
    gradients = [np.zeros_like(array) for array in floats]
    for array, gradient in zip(floats, gradients, strict=True):
        for index in np.ndindex(array.shape):
            values = []
            for step in (EPSILON, -EPSILON):
                moved = [np.array(other) for other in floats]
                moved[[other is array for other in floats].index(True)][index] += step
                values.append(float(loss(*map(jnp.asarray, moved))))
            gradient[index] = (values[0] - values[1]) / (2 * EPSILON)
    return gradients


def make_leaves(call: Call) -> list[Tensor]:
    return [
        Tensor.from_array(jnp.asarray(array), requires_grad=place in call.places)
        for place, array in enumerate(call.arrays)
    ]


def differentiate_on_tape(call: Call, *, create_graph: bool = False) -> tuple[list[Tensor], list[Any]]:
    leaves = make_leaves(call)
    inputs = [leaves[place] for place in call.places]
    results = [result for result in call.run(*leaves) if result.requires_grad]
    weights = [Tensor.from_array(jnp.asarray(draw_weights(result.shape), result.dtype)) for result in results]
    found = oplib.autograd.grad(results, inputs, weights, create_graph=create_graph, materialize_grads=True)
    return inputs, list(found)


def assert_close(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", OPS)
def test_every_built_in_op_has_samples(name):
    assert find_samples(OPS[name])


@pytest.mark.parametrize(("name", "sample"), GRADIENTS, ids=name_case)
def test_the_gradient_of_an_op_is_that_of_finite_differences_and_of_jax(name, sample):
    call = Call(OPS[name], sample)
    if call.op.record.derivative.missing is not None:
        return  # see the test of those
    if not has_gradient(call.op, sample):
        assert not any(result.requires_grad for result in call.run(*make_leaves(call)))
        return
    _, found = differentiate_on_tape(call)
    loss = weigh(call.run_kernel, call)
    places = tuple(range(len(call.places)))
    both = jax.jit(jax.value_and_grad(loss, places))
    arrays = [tensor.array for tensor in found]
    assert_close(arrays, both(*map(jnp.asarray, call.floats()))[1])
    differences = differentiate_by_finite_differences(lambda *floats: both(*floats)[0], call.floats())
    assert_close(arrays, differences, 1e-6)


@pytest.mark.parametrize("name", MISSING)
def test_an_op_without_a_derivative_says_so_when_it_is_asked_for(name):
    call = Call(OPS[name], find_samples(OPS[name])[0])
    (result,) = call.run(*make_leaves(call))
    with pytest.raises(NotImplementedError, match="torch has none either"):
        result.sum().backward()


@pytest.mark.parametrize(("name", "sample"), CASES, ids=name_case)
def test_the_results_of_an_op_are_those_of_its_kernel_in_both_worlds_and_never_weak(name, sample):
    call = Call(OPS[name], sample)
    arrays = list(map(jnp.asarray, call.arrays))
    expected = jax.jit(call.run_kernel)(*arrays)
    in_arrays, in_tensors = call.run(*arrays), call.run(*map(Tensor.from_array, arrays))
    assert_close(in_arrays, expected)
    assert_close([tensor.array for tensor in in_tensors], expected)
    assert [value.dtype for value in in_arrays] == [value.dtype for value in in_tensors]
    assert not any(value.weak_type for value in (*in_arrays, *(tensor.array for tensor in in_tensors)))


@pytest.mark.parametrize(("name", "sample"), TRANSFORMED, ids=name_case)
def test_an_op_gives_the_same_under_jit_and_vmap_with_its_gradient(name, sample):
    call = Call(OPS[name], sample)
    floats = list(map(jnp.asarray, call.floats()))
    if call.op.record.derivative.missing is not None:
        return  # see the test of those

    def differentiate(run: Callable[..., Any]) -> Callable[..., Any]:
        loss = weigh(run, call)
        return jax.value_and_grad(loss, tuple(range(len(floats)))) if floats else lambda: (loss(), ())

    both = differentiate(call.run)
    expected = jax.jit(differentiate(call.run_kernel))(*floats)
    assert_close(jax.tree.leaves(jax.jit(both)(*floats)), jax.tree.leaves(expected))
    if floats:
        batched = jax.jit(jax.vmap(both))(*[jnp.stack([value, value, value]) for value in floats])
        for place in range(3):
            assert_close([value[place] for value in jax.tree.leaves(batched)], jax.tree.leaves(expected))


@pytest.mark.parametrize(("name", "sample"), SMOOTH, ids=name_case)
def test_the_second_backward_of_an_op_is_the_second_derivative_of_jax(name, sample):
    call = Call(OPS[name], sample)
    places = tuple(range(len(call.places)))
    loss = weigh(call.run_kernel, call)

    def weighted_gradient(*floats: Any) -> Any:
        gradients = jax.grad(loss, places)(*floats)
        return sum(jnp.sum(gradient * draw_weights(gradient.shape, 5)) for gradient in gradients)

    expected = jax.jit(jax.grad(weighted_gradient, places))(*map(jnp.asarray, call.floats()))
    inputs, first = differentiate_on_tape(call, create_graph=True)
    first = [tensor for tensor in first if tensor.requires_grad]
    weights = [Tensor.from_array(jnp.asarray(draw_weights(tensor.shape, 5))) for tensor in first]
    found = (
        oplib.autograd.grad(first, inputs, weights, materialize_grads=True)
        if first
        else [oplib.zeros_like(tensor) for tensor in inputs]
    )
    assert_close([tensor.array for tensor in found], expected, 1e-8)
