"""A checkpoint forgets what its function computes, computes it again, and gives the same gradients."""

from __future__ import annotations

import math
import weakref

import jax
import pytest

import oplib
from oplib.autograd import grad, gradcheck, gradgradcheck
from oplib.errors import CheckpointError, SavedTensorError
from oplib.utils.checkpoint import checkpoint
from tests.autograd.functions import Square, make_function

from .regions import BOTH, Region, find_gradients


@BOTH
def test_gradients_are_those_of_the_function(x, w, reentrant):
    region = Region()
    checkpoint(region, x, w, use_reentrant=reentrant).sum().backward()
    assert [x.grad.tolist(), w.grad.tolist()] == find_gradients(Region(), x, w)
    assert region.calls == 2


@BOTH
@pytest.mark.spec("D.60")
def test_it_decorates_functions_and_methods(x, w, reentrant):
    region = Region()

    class Model:
        @checkpoint(use_reentrant=reentrant, preserve_rng_state=False)
        def __call__(self, x, w):
            """Doc."""
            return region(x, w)

    Model()(x, w).sum().backward()
    assert [x.grad.tolist(), w.grad.tolist()] == find_gradients(Region(), x, w)
    assert (region.calls, Model.__call__.__doc__) == (2, "Doc.")
    with pytest.raises(TypeError, match="'function' is None"):
        checkpoint(None, x, use_reentrant=reentrant)


@BOTH
@pytest.mark.usefixtures("collector_off")
def test_what_the_function_computes_dies_with_the_forward(x, w, reentrant):
    region = Region()
    result = checkpoint(region, x, w, use_reentrant=reentrant)
    assert region.alive() == [False, False]
    assert result.requires_grad


def test_without_a_checkpoint_it_stays(x, w):
    region = Region()
    result = region(x, w)
    assert region.alive() == [True, True]
    del result


@BOTH
@pytest.mark.usefixtures("collector_off")
def test_nothing_is_left_of_a_region_after_the_backward(x, w, reentrant):
    region = Region()
    watched = weakref.ref(region)
    result = checkpoint(region, x, w, use_reentrant=reentrant).sum()
    result.backward()
    assert region.alive() == [False] * 4
    del region, result
    assert watched() is None


def test_what_is_computed_again_dies_with_its_pass_even_if_the_graph_stays(x, w):
    region = Region()
    result = checkpoint(region, x, w, use_reentrant=False).sum()
    result.backward(retain_graph=True)
    assert region.alive() == [False] * 4
    result.backward()
    assert region.calls == 3
    assert x.grad.tolist() == pytest.approx([2 * entry for entry in find_gradients(Region(), x, w)[0]])


def test_a_region_that_nobody_differentiates_runs_once(x, w):
    region = Region()
    checkpoint(region, x, w, use_reentrant=False)
    with oplib.no_grad():
        checkpoint(region, x, w, use_reentrant=False)
    assert region.calls == 2


@BOTH
def test_without_grad_mode_nothing_is_recorded(x, w, reentrant):
    with oplib.no_grad():
        assert not checkpoint(Region(), x, w, use_reentrant=reentrant).requires_grad


def test_the_region_runs_once_for_all_that_a_pass_reads(x, w):
    region = Region()
    first = checkpoint(region, x, w, use_reentrant=False)
    (first * first.exp()).sum().backward()
    assert region.calls == 2


def test_arguments_by_keyword_in_containers_and_in_closures_get_gradients(x, w):
    bias = oplib.tensor([1.0, 1.0], requires_grad=True)

    def function(pair, *, scale):
        return pair["x"] * pair["w"] * scale * bias

    scale = oplib.tensor([4.0, 5.0], requires_grad=True)
    result = checkpoint(function, {"x": x, "w": w}, scale=scale, use_reentrant=False)
    result.sum().backward()
    assert [t.grad.tolist() for t in (x, w, scale, bias)] == [[8, 15], [2, 5], [1, 3], [4, 15]]


def test_results_in_any_structure_come_back_as_they_are(x):
    found = checkpoint(lambda x: {"a": [x * 2], "b": None, "c": 3}, x, use_reentrant=False)
    assert list(found) == ["a", "b", "c"]
    found["a"][0].sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_grad_inputs_and_create_graph_work(x, w):
    result = checkpoint(Region(), x, w, use_reentrant=False)
    (first,) = grad(result.sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    (expected_first,) = grad(Region()(x, w).sum(), x, create_graph=True)
    assert first.tolist() == expected_first.tolist()
    assert second.tolist() == grad(expected_first.sum(), x)[0].tolist()
    checkpoint(Region(), x, w, use_reentrant=False).sum().backward(inputs=[w])
    assert x.grad is None
    assert w.grad.tolist() == find_gradients(Region(), x, w)[1]


def test_saved_tensors_of_a_function_may_be_read_twice(x):
    square = make_function(Square.forward, lambda ctx, g: g * (ctx.saved_tensors[0] + ctx.saved_tensors[0]))
    checkpoint(lambda x: square.apply(x.exp()), x, use_reentrant=False).sum().backward()
    assert x.grad.tolist() == pytest.approx([2 * 2.718281828, 2 * 7.389056099])


def test_saved_tensors_read_outside_of_a_pass_are_computed_for_that(x):
    calls = []

    def function(x):
        calls.append(1)
        return x.exp().sin()

    result = checkpoint(function, x, use_reentrant=False)
    found = result.grad_fn._saved_self
    assert found.tolist() == x.detach().exp().tolist()
    result.sum().backward()
    assert len(calls) == 3


def test_what_the_function_overwrites_keeps_the_value_that_was_saved(x):
    def function(x):
        doubled = x * 2
        result = doubled.detach().requires_grad_().sin()
        kept = doubled * doubled
        with oplib.no_grad():
            result.mul_(0)
        return kept

    checkpoint(function, x, use_reentrant=False).sum().backward()
    assert x.grad.tolist() == [4, 8]


def test_an_argument_written_since_raises(x):
    y = x * 1
    result = checkpoint(lambda y: y.sin(), y, use_reentrant=False)
    y.detach().zero_()
    with pytest.raises(SavedTensorError, match=r"checkpoint: .*modified by an inplace"):
        result.sum().backward()


# Under a trace --------------------------------------------------------------------------------------------


def step(array):
    leaf = oplib.Tensor.from_array(array, requires_grad=True)
    checkpoint(lambda leaf: (leaf * leaf).exp(), leaf, use_reentrant=False).sum().backward()
    return leaf.grad.array


def test_a_step_with_a_checkpoint_can_be_compiled_differentiated_and_mapped():
    array = jax.numpy.array([0.5, 1.0])
    expected = [2 * entry * math.exp(entry * entry) for entry in (0.5, 1.0)]
    assert jax.jit(step)(array).tolist() == pytest.approx(expected)
    assert jax.vmap(step)(array[None]).tolist() == [pytest.approx(expected)]
    second = [(2 + 4 * entry * entry) * math.exp(entry * entry) for entry in (0.5, 1.0)]
    assert jax.grad(lambda array: step(array).sum())(array).tolist() == pytest.approx(second)


def test_the_compiler_may_not_take_the_repetition_for_the_forward():
    assert jax.jit(step).lower(jax.numpy.ones(2)).as_text().count("optimization_barrier") == 1


# As a function to be checked -------------------------------------------------------------------------------


def test_derivatives_through_a_checkpoint_are_right_to_the_second_order(x):
    def function(x):
        return checkpoint(lambda x: x.sin() * x, x, use_reentrant=False)

    assert gradcheck(function, x, check_batched_grad=True)
    assert gradgradcheck(function, x)


# As a function that computes something else the second time -------------------------------------------------


def test_another_dtype_in_the_second_computation_is_refused(x):
    dtypes = iter(["float32", "bfloat16"])

    def function(x):
        return x.to(next(dtypes)).sin().float()

    result = checkpoint(function, x, use_reentrant=False).sum()
    with pytest.raises(CheckpointError, match=r"(?s)have different metadata.*bfloat16"):
        result.backward()
