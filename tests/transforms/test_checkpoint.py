"""A checkpoint forgets what its function computes, computes it again, and gives the same gradients."""

from __future__ import annotations

import gc
import math
import threading
import weakref

import jax
import pytest

import oplib
from oplib.autograd import Function, grad, gradcheck, gradgradcheck
from oplib.autograd.graph import saved_tensors_hooks
from oplib.errors import ArgumentValueError, AutogradError, CheckpointError, SavedTensorError
from oplib.utils.checkpoint import (
    CheckpointFunction,
    DefaultDeviceType,
    GraphExecGroup,
    check_backward_validity,
    checkpoint,
    checkpoint_sequential,
    detach_variable,
    get_device_states,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
    set_device_states,
)

BOTH = pytest.mark.parametrize("reentrant", [False, True])


@pytest.fixture
def x():
    return oplib.tensor([0.5, 1.0], requires_grad=True)


@pytest.fixture
def w():
    return oplib.tensor([2.0, 3.0], requires_grad=True)


class Region:
    """A function that counts its calls and remembers weakly which arrays it has made."""

    def __init__(self):
        self.calls = 0
        self.made = []

    def __call__(self, x, w):
        self.calls += 1
        product = x * w
        sine = product.sin()
        self.made += [weakref.ref(tensor._storage.array) for tensor in (product, sine)]
        return sine * sine

    def alive(self):
        return [reference() is not None for reference in self.made]


def plain_gradients(function, *inputs):
    return [gradient.tolist() for gradient in grad(function(*inputs).sum(), inputs)]


# What it computes -----------------------------------------------------------------------------------------


@BOTH
def test_gradients_are_those_of_the_function(x, w, reentrant):
    region = Region()
    checkpoint(region, x, w, use_reentrant=reentrant).sum().backward()
    assert [x.grad.tolist(), w.grad.tolist()] == plain_gradients(Region(), x, w)
    assert region.calls == 2


@BOTH
def test_what_the_function_computes_dies_with_the_forward(x, w, reentrant):
    gc.collect()
    gc.disable()
    try:
        region = Region()
        result = checkpoint(region, x, w, use_reentrant=reentrant)
        assert region.alive() == [False, False]
        assert result.requires_grad
    finally:
        gc.enable()


def test_without_a_checkpoint_it_stays(x, w):
    region = Region()
    result = region(x, w)
    assert region.alive() == [True, True]
    del result


@BOTH
def test_nothing_is_left_of_a_region_after_the_backward(x, w, reentrant):
    gc.collect()
    gc.disable()
    try:
        region = Region()
        watched = weakref.ref(region)
        result = checkpoint(region, x, w, use_reentrant=reentrant).sum()
        result.backward()
        assert region.alive() == [False] * 4
        del region, result
        assert watched() is None
    finally:
        gc.enable()


def test_what_is_computed_again_dies_with_its_pass_even_if_the_graph_stays(x, w):
    region = Region()
    result = checkpoint(region, x, w, use_reentrant=False).sum()
    result.backward(retain_graph=True)
    assert region.alive() == [False] * 4
    result.backward()
    assert region.calls == 3
    assert x.grad.tolist() == pytest.approx([2 * entry for entry in plain_gradients(Region(), x, w)[0]])


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
    assert w.grad is not None


def test_saved_tensors_of_a_function_may_be_read_twice(x):
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * (ctx.saved_tensors[0] + ctx.saved_tensors[0])

    checkpoint(lambda x: Square.apply(x.exp()), x, use_reentrant=False).sum().backward()
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


# Nesting, stopping early, threads -------------------------------------------------------------------------


@BOTH
def test_checkpoints_nest(x, w, reentrant):
    def outer(x, w):
        return checkpoint(Region(), x.exp(), w, use_reentrant=reentrant).cos()

    checkpoint(outer, x, w, use_reentrant=reentrant).sum().backward()
    expected = plain_gradients(lambda x, w: Region()(x.exp(), w).cos(), x, w)
    assert x.grad.tolist() == pytest.approx(expected[0])
    assert w.grad.tolist() == pytest.approx(expected[1])


def test_checkpoints_nest_three_deep_and_free_what_they_make(x, w):
    region = Region()

    def wrap(function):
        return lambda x, w: checkpoint(function, x * 1, w, use_reentrant=False)

    wrap(wrap(wrap(region)))(x, w).sum().backward()
    assert x.grad.tolist() == pytest.approx(plain_gradients(Region(), x, w)[0])
    assert not any(region.alive())


def test_a_repetition_stops_when_all_that_is_needed_is_there(x):
    reached = []

    def function(x):
        result = x.sin() * x
        reached.append(1)
        return result

    checkpoint(function, x, use_reentrant=False).sum().backward()
    assert len(reached) == 1
    checkpoint(function, x, use_reentrant=False, early_stop=False).sum().backward()
    assert len(reached) == 3
    with set_checkpoint_early_stop(False):
        result = checkpoint(function, x, use_reentrant=False, early_stop=True)
    result.sum().backward()
    assert len(reached) == 5


def test_stopping_early_is_no_exception_that_the_function_could_catch(x):
    caught = []

    def function(x):
        try:
            return x.sin() * x
        except Exception as error:  # noqa: BLE001  what a function may do
            caught.append(error)
            return x

    checkpoint(function, x, use_reentrant=False).sum().backward()
    assert caught == []


def test_stopping_early_leaves_modes_as_they_were(x):
    result = checkpoint(lambda x: x.sin() * x, x, use_reentrant=False)
    with oplib.no_grad():
        result.backward(oplib.ones(2))
        assert not oplib.is_grad_enabled()


def test_passes_of_a_group_compute_a_region_once_between_them(x):
    calls = []

    def function(x):
        calls.append(1)
        return x.sin(), x.cos()

    sine, cosine = checkpoint(function, x, use_reentrant=False)
    with GraphExecGroup():
        sine.sum().backward()
        cosine.sum().backward()
    assert len(calls) == 2
    with GraphExecGroup(), pytest.raises(AutogradError, match="cannot be nested"), GraphExecGroup():
        pass


def test_threads_run_regions_of_their_own(x):
    found = []

    def work():
        leaf = oplib.tensor([0.5, 1.0], requires_grad=True)
        for _ in range(5):
            checkpoint(lambda leaf: (leaf * leaf).exp(), leaf, use_reentrant=False).sum().backward()
        found.append(leaf.grad.tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [found[0]] * 4


def test_a_backward_inside_the_function_is_allowed(x, w):
    def function(x, w):
        inner = x.detach().requires_grad_()
        (slope,) = grad((inner * inner * w).sum(), inner)
        return (x * slope).sin()

    checkpoint(function, x, w, use_reentrant=False, early_stop=False).sum().backward()
    (expected,) = grad(function(x, w).sum(), x)
    assert x.grad.tolist() == pytest.approx(expected.tolist())


def test_hooks_around_a_checkpoint_see_its_arguments_and_nothing_of_its_inside(x):
    packed = []

    def pack(tensor):
        packed.append(tensor.tolist())
        return tensor

    y = x * 1
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        result = checkpoint(lambda y: y.sin().exp(), y, use_reentrant=False)
    assert packed == [[0.5, 1.0]]
    result.sum().backward()
    assert packed == [[0.5, 1.0]]


# The random state -----------------------------------------------------------------------------------------


@BOTH
def test_random_numbers_are_the_same_again_and_the_generator_goes_on_where_it_was(x, reentrant):
    drawn = []

    def function(x):
        noise = oplib.rand(2)
        drawn.append(noise.tolist())
        return (x * noise).exp()

    oplib.manual_seed(0)
    result = checkpoint(function, x, use_reentrant=reentrant, preserve_rng_state=True)
    between = oplib.rand(2).tolist()
    result.sum().backward()
    after = oplib.rand(2).tolist()
    assert drawn[0] == drawn[1]
    oplib.manual_seed(0)
    assert [oplib.rand(2).tolist() for _ in range(3)] == [drawn[0], between, after]


@BOTH
def test_the_random_state_can_be_left_alone(x, reentrant):
    drawn = []

    def function(x):
        noise = oplib.rand(2)
        drawn.append(noise.tolist())
        return (x * noise).exp()

    oplib.manual_seed(0)
    checkpoint(function, x, use_reentrant=reentrant, preserve_rng_state=False).sum().backward()
    assert drawn[0] != drawn[1]


# What goes wrong ------------------------------------------------------------------------------------------


class Unsteady:
    """Does one thing in the forward, and another when it is repeated."""

    def __init__(self, first, then):
        self._steps = [first, then]

    def __call__(self, x):
        return self._steps.pop(0)(x)


def test_a_repetition_that_saves_less_raises(x):
    function = Unsteady(lambda x: x.sin().exp(), lambda x: x.sin())
    with pytest.raises(CheckpointError, match=r"(?s)different number.*during forward: 2\n.*recomputation: 1"):
        checkpoint(function, x, use_reentrant=False).sum().backward()


def test_a_repetition_that_saves_more_raises_unless_it_stops_early(x):
    def make():
        return Unsteady(lambda x: x.sin(), lambda x: x.sin().exp())

    with pytest.raises(CheckpointError, match="trying to save more tensors during recomputation"):
        checkpoint(make(), x, use_reentrant=False, early_stop=False).sum().backward()
    checkpoint(make(), x, use_reentrant=False).sum().backward()


def test_a_repetition_that_saves_other_shapes_raises_unless_that_is_not_checked(x):
    def make():
        return Unsteady(lambda x: (x * 1).exp().sum(), lambda x: x.sum().exp())

    text = r"(?s)different metadata.*position 0:\nsaved metadata: .*\(2,\).*recomputed metadata: .*\(\)"
    with pytest.raises(CheckpointError, match=text):
        checkpoint(make(), x, use_reentrant=False).sum().backward()
    checkpoint(make(), x, use_reentrant=False, determinism_check="none").sum().backward()


@pytest.mark.parametrize("everywhere", [False, True])
def test_debug_lists_the_ops_of_both_computations_and_where_they_were_called(x, everywhere):
    function = Unsteady(lambda x: x.sin().exp(), lambda x: x.cos())
    with set_checkpoint_debug_enabled(True if everywhere else None):
        result = checkpoint(function, x, use_reentrant=False, debug=not everywhere)
    with pytest.raises(CheckpointError) as caught:
        result.sum().backward()
    forward, again = str(caught.value).split("Operations executed during recomputation:")
    assert "oplib.sin.default(f32[2])" in forward
    assert "oplib.exp.default(f32[2])" in forward
    assert "oplib.cos.default(f32[2])" in again
    assert "test_checkpoint.py:" in again


@pytest.mark.spec("001.10", "004.15")
def test_a_reentrant_checkpoint_refuses_grad_and_inputs(x, w):
    text = r"incompatible with .grad\(\) or passing an `inputs` parameter"
    with pytest.raises(AutogradError, match=text):
        grad(checkpoint(Region(), x, w, use_reentrant=True).sum(), x)
    with pytest.raises(AutogradError, match=text):
        checkpoint(Region(), x, w, use_reentrant=True).sum().backward(inputs=[x])


def test_a_reentrant_checkpoint_whose_function_cuts_history_raises(x):
    result = checkpoint(lambda x: x.detach() * 2, x, use_reentrant=True)
    with pytest.raises(AutogradError, match="none of output has requires_grad=True"):
        result.sum().backward()


def test_a_reentrant_checkpoint_warns_where_no_argument_requires_grad(x):
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        check_backward_validity([x.detach(), 1])
    with oplib.no_grad():
        check_backward_validity([1])


def test_the_choice_between_the_two_has_to_be_said(x):
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        result = checkpoint(lambda x: x * 2, x)
    assert isinstance(result.grad_fn, CheckpointFunction._backward_cls)
    with pytest.warns(UserWarning, match="checkpoint_sequential: the use_reentrant"):
        checkpoint_sequential([lambda x: x], 1, x)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"use_reentrant": True, "scale": 2}, "Unexpected keyword arguments: scale"),
        ({"use_reentrant": True, "debug": True}, "only supported when use_reentrant=False"),
        ({"use_reentrant": True, "context_fn": lambda: None}, "only supported when use_reentrant=False"),
        (
            {"use_reentrant": False, "debug": True, "context_fn": lambda: None},
            "incompatible with non-default",
        ),
        ({"use_reentrant": False, "determinism_check": "all"}, "should be one of .*Got 'all'"),
    ],
)
def test_options_that_exclude_each_other_raise(x, options, text):
    with pytest.raises(ArgumentValueError, match=text):
        checkpoint(lambda x: x, x, **options)


def test_an_exception_of_the_function_passes_through_and_leaves_no_hooks(x):
    def broken(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        checkpoint(broken, x, use_reentrant=False)
    assert (x * x).grad_fn._saved_self is x


def test_a_context_that_swallows_exceptions_of_the_forward_is_refused(x):
    def broken(x):
        raise KeyError("mine")

    from contextlib import nullcontext, suppress

    with pytest.raises(CheckpointError, match="suppressed an exception"):
        checkpoint(broken, x, use_reentrant=False, context_fn=lambda: (suppress(KeyError), nullcontext()))


# Sequences, and names kept for parity ---------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("segments", [1, 2, 3])
def test_a_sequence_in_segments_gives_the_gradients_of_the_sequence(x, segments, reentrant):
    steps = [oplib.Tensor.sin, oplib.Tensor.exp, oplib.Tensor.sin, oplib.Tensor.exp]

    class Module:
        def children(self):
            return iter(steps)

    checkpoint_sequential(Module(), segments, x, use_reentrant=reentrant).sum().backward()
    assert x.grad.tolist() == pytest.approx(plain_gradients(lambda x: x.sin().exp().sin().exp(), x)[0])


def test_a_sequence_takes_no_other_keywords(x):
    with pytest.raises(ArgumentValueError, match="Unexpected keyword arguments: scale"):
        checkpoint_sequential([oplib.Tensor.sin], 1, x, use_reentrant=False, scale=2)


def test_detached_variables_are_new_leaves(x):
    y = x * 2
    first, number, second = detach_variable((y, 3, x.detach()))
    assert (first.is_leaf, first.requires_grad, number, second.requires_grad) == (True, True, 3, False)
    with pytest.raises(AutogradError, match="Only tuple of tensors is supported"):
        detach_variable([y])


def test_devices_have_no_random_state_of_their_own(x):
    devices, states = get_device_states(x)
    set_device_states(devices, states)
    assert (devices, states) == ([], [])
    DefaultDeviceType.set_device_type("tpu")
    assert DefaultDeviceType.get_device_type() == "tpu"
    DefaultDeviceType.set_device_type("cuda")


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
