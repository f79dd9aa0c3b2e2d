"""Random programs with hooks, writes and several roots: the tape's gradients are those of ``jax.grad``.

``RANDOM_GRAPHS=1000`` runs so many examples of each test; without it a few. ``OPLIB_TEST_SEED`` draws others.
"""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import oplib
from oplib.autograd.graph import allow_mutation_on_saved_tensors
from oplib.errors import SavedTensorError
from tests.autograd.machines import BINARY, IN_PLACE, SHAPE, UNARY, VIEWS, Functions, Instruction, Tape
from tests.counts import counts
from tests.threads import run_in_threads

pytestmark = pytest.mark.usefixtures("with_64_bits")

EXAMPLES = int(os.environ.get("RANDOM_GRAPHS", "0"))
thorough = settings(max_examples=EXAMPLES or 8)

LEAVES = [np.sin(np.arange(6.0) * (place + 1) + 1).reshape(SHAPE) for place in range(3)]
LARGE = 1e4  # beyond this, rounding would be all that a comparison sees

number = st.integers(0, 30)
hook = st.none() | st.sampled_from([2.0, -1.0, 0.5])


def instructions(kind, table):
    return st.builds(Instruction, st.just(kind), st.sampled_from(sorted(table)), number, number, hook)


plain = instructions("unary", UNARY) | instructions("binary", BINARY)
cut = instructions("detach", UNARY) | instructions("no_grad", UNARY)
writing = instructions("in_place", IN_PLACE)
viewing = instructions("view", VIEWS) if hasattr(oplib.Tensor, "_is_view") else writing


def programs(*kinds):
    return st.lists(st.one_of(plain, *kinds), min_size=1, max_size=12)


def unhook_saved_results(program):
    """Takes hooks off results that their own backward reads.

    A second pass goes through such a result and its hooks once more, for which functions of JAX have no way.
    """
    reading = {"tanh", "sigmoid"}
    return [one._replace(hook=None) if one.name in reading else one for one in program]


roots = st.lists(number, min_size=1, max_size=3)


def make_leaves():
    return [oplib.Tensor.from_array(jnp.asarray(array), requires_grad=True) for array in LEAVES]


def run_tape(program, leaves=None):
    """Runs a program whose numbers stay in a range where they can be compared."""
    tape = Tape(leaves or make_leaves())
    tape.run(program)
    counts["random programs"] += 1
    assume(all(np.abs(value.detach().numpy()).max() < LARGE for value in tape.values))
    return tape


def weights(outputs):
    """Returns the gradient that each root starts with."""
    return [jnp.cos(jnp.arange(float(output.size)).reshape(output.shape)) for output in outputs]


def root_gradients(outputs):
    return [oplib.Tensor.from_array(weight) for weight in weights([output.array for output in outputs])]


def loss(program, numbers, arrays, probes=None):
    """The weighted sum of the roots, as a function of arrays."""
    machine = Functions(arrays, probes)
    machine.run(program)
    outputs = machine.roots(numbers)
    return sum((output * weight).sum() for output, weight in zip(outputs, weights(outputs), strict=True))


def expected_gradients(program, numbers):
    return jax.grad(lambda arrays: loss(program, numbers, arrays))([jnp.asarray(array) for array in LEAVES])


def assert_gradients(ours, theirs, factor=1.0):
    """Compares gradients; one that is not there counts as zeros."""
    for mine, right in zip(ours, theirs, strict=True):
        array = jnp.zeros(right.shape) if mine is None else mine.array
        np.testing.assert_allclose(array, right * factor, rtol=1e-7, atol=1e-7)


@pytest.mark.slow
@thorough
@given(programs(cut), roots)
def test_values_are_those_of_jax(program, numbers):
    tape, machine = run_tape(program), Functions([jnp.asarray(array) for array in LEAVES])
    machine.run(program)
    for ours, theirs in zip(tape.roots(numbers), machine.roots(numbers), strict=True):
        np.testing.assert_allclose(ours.array, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@thorough
@given(programs(cut), roots, st.sampled_from(["backward", "grad", "twice", "one by one"]))
def test_gradients_are_those_of_jax(program, numbers, way):
    tape = run_tape(program)
    outputs = tape.roots(numbers)
    starts = root_gradients(outputs)
    factor = 1.0
    if way == "grad":
        found = oplib.autograd.grad(outputs, tape.leaves, starts, allow_unused=True)
    else:
        if way == "one by one":
            for output, start in zip(outputs, starts, strict=True):
                output.backward(start, retain_graph=True)
        else:
            factor = 2.0 if way == "twice" else 1.0
            if way == "twice":
                oplib.autograd.backward(outputs, starts, retain_graph=True)
            oplib.autograd.backward(outputs, starts)
        found = [leaf.grad for leaf in tape.leaves]
    assert_gradients(found, expected_gradients(program, numbers), factor)


@pytest.mark.slow
@thorough
@given(programs(cut), roots, st.sets(st.integers(0, 2), min_size=1))
def test_a_restricted_pass_gives_the_same_to_the_inputs_and_nothing_to_others(program, numbers, chosen):
    tape = run_tape(program)
    outputs = tape.roots(numbers)
    oplib.autograd.backward(
        outputs, root_gradients(outputs), inputs=[tape.leaves[place] for place in sorted(chosen)]
    )
    expected = expected_gradients(program, numbers)
    assert_gradients([tape.leaves[place].grad for place in chosen], [expected[place] for place in chosen])
    assert all(tape.leaves[place].grad is None for place in {0, 1, 2} - chosen)


@pytest.mark.slow
@thorough
@given(programs(cut).map(unhook_saved_results), roots)
def test_second_derivatives_are_those_of_jax(program, numbers):
    tape = run_tape(program)
    outputs = tape.roots(numbers)
    first = oplib.autograd.grad(
        outputs, tape.leaves, root_gradients(outputs), create_graph=True, materialize_grads=True
    )
    total = sum((grad * grad).sum() for grad in first)
    found = [None] * 3
    if total.requires_grad:
        found = oplib.autograd.grad(total, tape.leaves, allow_unused=True)

    def square(arrays):
        return sum((grad**2).sum() for grad in jax.grad(lambda inner: loss(program, numbers, inner))(arrays))

    expected = jax.grad(square)([jnp.asarray(array) for array in LEAVES])
    assume(all(np.abs(grad).max() < LARGE for grad in expected))
    assert_gradients(found, expected)


@pytest.mark.slow
@thorough
@given(programs(), roots, number)
def test_a_retained_gradient_is_the_derivative_by_the_value(program, numbers, which):
    tape = run_tape(program)
    place = 3 + which % (len(tape.values) - 3)
    value = tape.values[place]
    value.retain_grad()
    outputs = tape.roots(numbers)
    oplib.autograd.backward(outputs, root_gradients(outputs))
    arrays = [jnp.asarray(array) for array in LEAVES]
    (expected,) = jax.grad(lambda probe: loss(program, numbers, arrays, {place: probe[0]}))(
        [jnp.zeros(value.shape)]
    )
    assert_gradients([value.grad], [expected])


@pytest.mark.slow
@settings(thorough, max_examples=EXAMPLES or 12)
@given(programs(cut, writing, viewing), roots)
def test_writes_are_differentiated_as_functions_are(program, numbers):
    with allow_mutation_on_saved_tensors():
        tape = run_tape(program)
        outputs = tape.roots(numbers)
        oplib.autograd.backward(outputs, root_gradients(outputs))
    assert_gradients([leaf.grad for leaf in tape.leaves], expected_gradients(program, numbers))


@pytest.mark.slow
@settings(thorough, max_examples=EXAMPLES or 12)
@given(programs(writing, viewing), roots)
def test_a_write_is_noticed_or_harmless(program, numbers):
    tape = run_tape(program)
    outputs = tape.roots(numbers)
    try:
        found = oplib.autograd.grad(outputs, tape.leaves, root_gradients(outputs), allow_unused=True)
    except SavedTensorError:
        return
    assert_gradients(found, expected_gradients(program, numbers))


@pytest.mark.slow
@settings(thorough, max_examples=EXAMPLES or 3)
@given(programs(cut), roots)
def test_threads_that_share_leaves_add_up(program, numbers):
    leaves = make_leaves()
    run_tape(program)

    def work(_):
        with jax.enable_x64(True):
            tape = Tape(leaves)
            tape.run(program)
            outputs = tape.roots(numbers)
            oplib.autograd.backward(outputs, root_gradients(outputs))

    run_in_threads(work, 3)
    assert_gradients([leaf.grad for leaf in leaves], expected_gradients(program, numbers), factor=3.0)
