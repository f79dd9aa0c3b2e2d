"""``oplib.scan``: the same as the loop in Python, on the tape, in JAX, and with few compilations."""

import gc
import logging
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import forward_ad, grad
from oplib.errors import (
    ArgumentError,
    ArgumentTypeError,
    ArgumentValueError,
    AutogradError,
    DimensionError,
    ResultError,
    TracingError,
)

from .bodies import NAMES, Weights, assert_close, differentiate, find_tensors, host, loop, make_bodies

pytestmark = pytest.mark.spec("J.15")


@pytest.fixture
def at(with_64_bits):
    return Weights()


def add(carry, x):
    return carry + x, carry


# Against the loop -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_values_and_two_derivatives_are_those_of_the_loop(name, at):
    body = make_bodies(at)[name]
    found, expected = oplib.scan(body, at.init, at.xs), loop(body, at.init, at.xs)
    assert_close(find_tensors(found), find_tensors(expected))
    flags = [[one.requires_grad for one in find_tensors(results)] for results in (found, expected)]
    assert flags[0] == flags[1]
    assert_close(differentiate(found, at.inputs), differentiate(expected, at.inputs))


def test_a_host_op_in_a_body_has_its_derivative(at):
    def body(h, x):
        return host(h) + x, host(at.w).sum() * h

    found, expected = oplib.scan(body, at.init, at.xs), loop(body, at.init, at.xs)
    gradients = [grad(sum(one.sum() for one in results), at.inputs[:1]) for results in (found, expected)]
    assert_close(*gradients)


def test_reverse_begins_with_the_last_slice(at):
    body = make_bodies(at)["plain"]
    found = oplib.scan(body, at.init, at.xs, reverse=True)
    expected = loop(body, at.init, at.xs, reverse=True)
    assert_close(find_tensors(found), find_tensors(expected))
    assert_close(differentiate(found, at.inputs), differentiate(expected, at.inputs))


def test_containers_and_nones_keep_their_places(at):
    def body(carry, x):
        return {"h": carry["h"] + x["a"], "none": None, "pair": carry["pair"]}, [x["none"], carry["h"]]

    init = {"h": at.init, "none": None, "pair": (at.b, at.w)}
    carry, (none, ys) = oplib.scan(body, init, {"a": at.xs, "none": None})
    assert list(carry) == ["h", "none", "pair"]
    assert carry["none"] is None
    assert none is None
    assert isinstance(carry["pair"], tuple)
    assert ys.shape == (4, 3)


def test_it_is_one_node_on_the_tape(at):
    _, ys = oplib.scan(make_bodies(at)["plain"], at.init, at.xs)
    assert type(ys.grad_fn).__name__ == "ScanBackward"
    nodes = {node for node, _ in ys.grad_fn.next_functions if node is not None}
    assert {node.name() for node in nodes} == {"oplib::autograd::AccumulateGrad"}
    assert {id(node.variable) for node in nodes} == set(map(id, at.inputs))


def test_no_calls_at_all_give_the_first_carry(at):
    carry, ys = oplib.scan(lambda c, x: (c * 2, c), at.init, oplib.zeros(0, 3, dtype=oplib.float64))
    assert carry.tolist() == at.init.tolist()
    assert ys.shape == (0, 3)


def test_without_slices_the_length_says_how_often():
    carry, ys = oplib.scan(lambda c, _: (c * 2, None), oplib.tensor(1.0), None, length=5)
    assert (carry.item(), ys) == (32.0, None)


def test_backward_adds_to_the_grad_of_captured_leaves(at):
    carry, _ = oplib.scan(make_bodies(at)["plain"], at.init, at.xs)
    carry.sum().backward()
    expected = grad(loop(make_bodies(at)["plain"], at.init, at.xs)[0].sum(), at.inputs)
    assert_close([one.grad for one in at.inputs], expected)


def test_under_no_grad_nothing_is_recorded(at):
    with oplib.no_grad():
        carry, ys = oplib.scan(make_bodies(at)["plain"], at.init, at.xs)
    assert not carry.requires_grad
    assert not ys.requires_grad


def test_hooks_of_captured_tensors_see_the_whole_gradient(at):
    seen = []
    at.w.register_hook(seen.append)
    carry, _ = oplib.scan(make_bodies(at)["plain"], at.init, at.xs)
    (found,) = grad(carry.sum(), at.w)
    assert_close(seen, [found])


# In forward mode ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["plain", "under_no_grad", "in_place", "views", "detached"])
@pytest.mark.slow
def test_tangents_are_those_of_the_loop(name, at):
    tangents = [oplib.tensor(np.random.default_rng(1).normal(size=one.shape)) for one in at.inputs]
    results = []
    for run in (oplib.scan, loop):
        with forward_ad.dual_level():
            here = Weights()
            here.w, here.b, here.init, here.xs = map(forward_ad.make_dual, at.inputs, tangents)
            here.row = here.w[0]
            found = find_tensors(run(make_bodies(here)[name], here.init, here.xs))
            results.append([forward_ad.unpack_dual(one).tangent for one in found])
    assert_close(*results)


def test_the_tangent_of_a_gradient_is_that_of_the_loop(at):
    results = []
    for run in (oplib.scan, loop):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(at.init, oplib.ones_like(at.init))
            carry, _ = run(make_bodies(at)["plain"], dual, at.xs)
            found = grad(carry.sum(), at.inputs[:2], create_graph=True)
            results.append([forward_ad.unpack_dual(one).tangent for one in found])
    assert_close(*results)


# In JAX ---------------------------------------------------------------------------------------------------


def test_jax_differentiates_and_maps_it(at):
    body = make_bodies(at)["plain"]

    def run(array):
        return oplib.scan(body, oplib.Tensor.from_array(array), at.xs)[0].array.sum()

    w, b, init, xs = (one.detach().array for one in at.inputs)

    def expected(array):
        return jax.lax.scan(lambda h, x: (jnp.tanh(h @ w + x * b), None), array, xs)[0].sum()

    batch = jnp.stack([init, init * 2])
    with oplib.no_grad():
        for transform in (lambda f: f, jax.jit, jax.grad, lambda f: jax.jit(jax.grad(f)), jax.hessian):
            np.testing.assert_allclose(transform(run)(init), transform(expected)(init), rtol=1e-9)
        np.testing.assert_allclose(jax.vmap(run)(batch), jax.vmap(expected)(batch), rtol=1e-9)


def test_the_tape_works_inside_jit(at):
    def run(w, init, xs):
        w, init, xs = (oplib.Tensor.from_array(one, requires_grad=True) for one in (w, init, xs))
        carry, _ = oplib.scan(lambda h, x: ((h @ w + x).tanh(), None), init, xs)
        return [one.array for one in grad(carry.sum(), (w, init, xs))]

    arrays = [at.w.detach().array, at.init.detach().array, at.xs.detach().array]
    for found, expected in zip(jax.jit(run)(*arrays), run(*arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_vmap_of_tensors_maps_it(at):
    body = make_bodies(at)["plain"]
    found = oplib.vmap(lambda h: oplib.scan(body, h, at.xs)[0].sin())(oplib.stack([at.init, at.init * 2]))
    expected = oplib.stack([loop(body, h, at.xs)[0].sin() for h in (at.init, at.init * 2)])
    assert_close([found], [expected])
    assert_close(differentiate([found], at.inputs), differentiate([expected], at.inputs))


def test_gradients_inside_vmap_are_per_example(at):
    batch = oplib.stack([at.init, at.init * 2]).detach().requires_grad_()

    def find(run):
        return lambda h: grad(run(make_bodies(at)["plain"], h, at.xs)[0].sum(), h)[0]

    found = oplib.vmap(find(oplib.scan))(batch)
    assert_close([found], [oplib.vmap(find(loop))(batch)])


def test_the_backward_does_not_run_the_forward_again(at):
    """The loop of the backward reads what the forward has saved: nothing computes a tanh."""
    carry, _ = oplib.scan(make_bodies(at)["plain"], at.init, at.xs)
    node = carry.grad_fn
    formula = node.plan.backward((True, False))
    arrays = [*node.saved[: len(node.plan.sources)], carry.detach().array]
    assert "= tanh" not in str(jax.make_jaxpr(formula.function)(*arrays))


# Compilations ---------------------------------------------------------------------------------------------


@pytest.fixture
def compilations(caplog):
    """Counts what JAX compiles."""
    caplog.set_level(logging.WARNING, logger="jax")
    with jax.log_compiles():
        yield lambda: sum("Finished XLA compilation" in record.getMessage() for record in caplog.records)


class Cell:
    def __init__(self, weight):
        self.weight = weight
        self.is_training = True

    def __call__(self, h, x):
        return h * self.weight + (x if self.is_training else x * 0)


def run_cell(cell, init, xs):
    return oplib.scan(lambda h, x: (cell(h, x), None), init, xs)[0]


def test_a_function_made_again_compiles_nothing_again(compilations):
    cell, xs = Cell(oplib.tensor([2.0, 3.0], requires_grad=True)), oplib.ones(5, 2)
    for _ in range(2):
        found = run_cell(cell, oplib.ones(2), xs)
        grad(found.sum(), cell.weight)
    before = compilations()
    cell.weight = oplib.tensor([1.0, -1.0], requires_grad=True)
    found = run_cell(cell, oplib.ones(2), xs)
    (gradient,) = grad(found.sum(), cell.weight)
    assert found.tolist() == [6.0, 0.0]
    assert gradient.tolist() == [15.0, 3.0]
    assert compilations() == before


def test_a_write_into_a_captured_tensor_is_seen_by_the_next_call():
    cell, xs = Cell(oplib.tensor([2.0])), oplib.zeros(3, 1)
    assert run_cell(cell, oplib.ones(1), xs).tolist() == [8.0]
    cell.weight.mul_(2)
    assert run_cell(cell, oplib.ones(1), xs).tolist() == [64.0]


def test_a_changed_attribute_is_seen_by_the_next_call():
    cell, xs = Cell(oplib.tensor([2.0])), oplib.ones(3, 1)
    assert run_cell(cell, oplib.ones(1), xs).tolist() == [15.0]
    cell.is_training = False
    assert run_cell(cell, oplib.ones(1), xs).tolist() == [8.0]


def test_two_tensors_that_held_one_array_may_differ_later():
    shared = jnp.ones(1)
    first, second = oplib.Tensor.from_array(shared), oplib.Tensor.from_array(shared)

    def run():
        return oplib.scan(lambda h, _: (h * first + second, None), oplib.ones(1), None, length=2)[0].tolist()

    assert run() == [3.0]
    first.mul_(2)
    assert run() == [7.0]


SCALE = 2.0
WEIGHT = oplib.tensor([3.0], requires_grad=True)


def scale_by_globals(h, _):
    return h * WEIGHT * SCALE, None


def test_globals_are_found_and_compared(monkeypatch):
    def run():
        carry, _ = oplib.scan(scale_by_globals, oplib.ones(1), None, length=2)
        return carry.tolist(), grad(carry.sum(), WEIGHT)[0].tolist()

    assert run() == ([36.0], [24.0])
    monkeypatch.setitem(globals(), "SCALE", 1.0)
    assert run() == ([9.0], [6.0])


def test_a_tensor_to_which_nothing_leads_is_read_at_each_call():
    held = oplib.tensor([2.0])
    table = weakref.WeakValueDictionary({"it": held})

    def run():
        return oplib.scan(lambda h, _: (h * table["it"], None), oplib.ones(1), None, length=2)[0].tolist()

    assert run() == [4.0]
    held.mul_(2)
    assert run() == [16.0]


def test_a_body_is_traced_once(at):
    calls = []

    def body(h, x):
        calls.append(h)
        return h * at.w[0] + x * at.row, None

    carry, _ = oplib.scan(body, at.init, at.xs)
    assert len(calls) == 1
    expected, _ = loop(body, at.init, at.xs)
    assert_close(*[grad(one.sum(), at.inputs, allow_unused=True) for one in (carry, expected)])


def test_a_gradient_flows_to_a_tensor_to_which_nothing_leads():
    held = oplib.tensor([2.0], requires_grad=True)
    table = weakref.WeakValueDictionary({"it": held})
    carry, _ = oplib.scan(lambda h, _: (h * table["it"], None), oplib.ones(1), None, length=3)
    assert grad(carry.sum(), held)[0].tolist() == [12.0]


def test_tensors_that_share_memory_have_gradients_of_their_own():
    first = oplib.tensor([2.0], requires_grad=True)
    second = first.detach().requires_grad_()
    carry, _ = oplib.scan(lambda h, _: (h * first * second**2, None), oplib.ones(1), None, length=2)
    assert [one.tolist() for one in grad(carry.sum(), (first, second))] == [[64.0], [128.0]]


def test_a_read_past_the_accessor_sees_the_value_of_the_call():
    """A body that reads a storage itself gets an operand of the program, and no constant."""
    weight = oplib.tensor([2.0])

    def run():
        def body(h, _):
            return h * oplib.Tensor.from_array(weight._storage.array), None

        return oplib.scan(body, oplib.ones(1), None, length=2)[0].tolist()

    assert run() == [4.0]
    weight.mul_(2)
    assert run() == [16.0]


def test_what_is_kept_holds_nothing_of_the_user():
    cell = Cell(oplib.tensor([2.0, 3.0], requires_grad=True))
    run_cell(cell, oplib.ones(2), oplib.ones(5, 2)).sum().backward()
    references = [weakref.ref(cell), weakref.ref(cell.weight)]
    del cell
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_a_captured_array_that_is_replaced_compiles_nothing_again(compilations):
    def run(mask):
        return oplib.scan(lambda h, _: (h * mask, None), oplib.ones(2), None, length=2)[0].tolist()

    masks = [jnp.array([1.0, 2.0]), jnp.array([3.0, 0.0])]
    assert run(masks[0]) == [1.0, 4.0]
    before = compilations()
    assert run(masks[1]) == [9.0, 0.0]
    assert compilations() == before


@pytest.mark.parametrize("other", [jnp.ones(1), oplib.ones(2), 2.0, np.ones(2, np.float32)])
def test_a_captured_array_that_becomes_something_else_is_read(other):
    cell = Cell(jnp.ones(2))
    assert run_cell(cell, oplib.ones(2), oplib.ones(3, 2)).tolist() == [4.0, 4.0]
    cell.weight = other
    expected, _ = loop(lambda h, x: (cell(h, x), None), oplib.ones(2), oplib.ones(3, 2))
    assert run_cell(cell, oplib.ones(2), oplib.ones(3, 2)).tolist() == expected.tolist()


@pytest.mark.parametrize(
    "run",
    [
        lambda scale, h: oplib.scan(lambda h, _: (scale(h), None), h, None, length=2),
        lambda scale, h: oplib.cond(h.sum() > 0, scale, lambda h: h * scale.weight, h),
        lambda scale, h: oplib.while_loop(lambda h: (h * scale.weight).sum() < 2, scale, h),
    ],
)
def test_a_program_keeps_no_capture_and_no_class_alive(run):
    class Scale:
        def __init__(self):
            self.mask, self.array = np.full(2, 2, np.float32), 2 * jnp.ones(2)
            self.weight = oplib.ones(2, requires_grad=True)

        def __call__(self, h):
            return h * self.mask * self.array * self.weight

    scale = Scale()
    run(scale, oplib.ones(2))
    references = [weakref.ref(one) for one in (scale, scale.mask, scale.array, scale.weight, Scale)]
    del scale, Scale
    gc.collect()
    assert [reference() for reference in references] == [None] * 5


def test_saved_values_are_freed_with_the_node(at):
    carry, _ = oplib.scan(make_bodies(at)["plain"], at.init, at.xs)
    grad(carry.sum(), at.w)
    with pytest.raises(AutogradError, match="a second time"):
        grad(carry.sum(), at.w)


def test_xs_may_be_left_out():
    assert oplib.scan(lambda carry, _: (carry + 1, None), oplib.zeros(()), length=3)[0].item() == 3


# Bad input ------------------------------------------------------------------------------------------------

scan = oplib.scan
ONE = oplib.tensor(1.0)
OUTSIDE = oplib.ones(3)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: scan(3, ONE, None, 2), ArgumentTypeError, "scan: 'f' cannot be called. Got 3"),
        (
            lambda: scan(add, 1.0, OUTSIDE),
            ArgumentTypeError,
            "scan: 'init' holds something that is no Tensor. Got 1.0",
        ),
        (
            lambda: scan(add, ONE, [1, 2]),
            ArgumentTypeError,
            "scan: 'xs' holds something that is no Tensor. Got 1",
        ),
        (lambda: scan(add, ONE, None), ArgumentValueError, "the number of calls is not clear"),
        (
            lambda: scan(add, ONE, OUTSIDE, length=2),
            ArgumentValueError,
            r"Got first dimensions \[3\], length=2",
        ),
        (lambda: scan(add, ONE, ONE), DimensionError, "'xs' holds a Tensor without dimensions"),
        (lambda: scan(add, ONE, None, length=-1), ArgumentValueError, "'length' is negative"),
        (lambda: scan(add, ONE, None, length=2.5), ArgumentError, "'length' is no integer"),
        (lambda: scan(lambda c, x: c, ONE, OUTSIDE), ResultError, "'f' has to return a pair"),
        (
            lambda: scan(lambda c, x: (c, 3), ONE, OUTSIDE),
            ArgumentTypeError,
            "'f': its result holds .* Got 3",
        ),
        (
            lambda: scan(lambda c, x: ((c, c), x), ONE, OUTSIDE),
            ResultError,
            r"Got the structure \(Tensor, Tensor\), expected Tensor",
        ),
        (
            lambda: scan(lambda c, x: (c.int(), x), ONE, OUTSIDE),
            ResultError,
            r"Got i32\[\] for leaf 0, expected f32\[\]",
        ),
        (lambda: scan(lambda c, x: (c + OUTSIDE, x), ONE, OUTSIDE), ResultError, r"Got f32\[3\] for leaf 0"),
        (
            lambda: scan(lambda c, x: (c.mul_(2), x), ONE, OUTSIDE),
            AutogradError,
            "the function writes into an argument",
        ),
        (
            lambda: scan(lambda c, x: (c, OUTSIDE.mul_(c)), ONE, OUTSIDE),
            TracingError,
            "a traced value would be stored",
        ),
        (
            lambda: scan(lambda c, x: (c, OUTSIDE.zero_()), ONE, OUTSIDE),
            TracingError,
            "a traced value would be stored",
        ),
        (
            lambda: scan(lambda c, x: (c if c > 0 else x, x), ONE, OUTSIDE),
            TracingError,
            "a traced tensor has no values",
        ),
        (
            lambda: scan(lambda c, x: (c if OUTSIDE.sum() > 0 else x, x), ONE, OUTSIDE),
            TracingError,
            "has no values",
        ),
        (lambda: scan(lambda c, x: (c, oplib.rand(2)), ONE, OUTSIDE), TracingError, "a draw inside the body"),
    ],
)
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text):
        call()
    assert OUTSIDE.tolist() == [1.0, 1.0, 1.0]
    assert OUTSIDE._version == 0


def test_a_write_into_a_captured_traced_tensor_raises():
    def run(array):
        outside = oplib.Tensor.from_array(array) * 1

        def body(c, x):
            outside.mul_(2)
            return c + outside.sum(), None

        return oplib.scan(body, oplib.tensor(0.0), None, length=2)[0].array

    with pytest.raises((TracingError, AutogradError), match=r"captures|stored"):
        jax.jit(run)(jnp.ones(2))


def test_a_hook_registered_in_a_body_raises(at):
    def body(h, x):
        y = h * x
        y.register_hook(lambda g: g * 2)
        return y, None

    with pytest.raises(AutogradError, match="scan: 'f': the function registers a hook"):
        oplib.scan(body, at.init, at.xs)


def test_other_threads_see_the_captured_tensors_while_a_body_is_traced():
    weight = oplib.tensor([2.0], requires_grad=True)
    is_inside, may_go_on, seen = threading.Event(), threading.Event(), []

    def body(h, _):
        is_inside.set()
        assert may_go_on.wait(300)
        return h * weight, None

    def read():
        assert is_inside.wait(300)
        seen.append(weight.tolist())
        with oplib.no_grad():
            weight.mul_(2)
        may_go_on.set()

    reader = threading.Thread(target=read)
    reader.start()
    carry, _ = oplib.scan(body, oplib.ones(1), None, length=2)
    reader.join()
    assert seen == [[2.0]]
    assert carry.tolist() == [16.0]
    assert grad(oplib.scan(body, oplib.ones(1), None, length=2)[0].sum(), weight)[0].tolist() == [8.0]


@pytest.mark.parametrize("transform", [lambda function: function, jax.jit], ids=["grad", "jit of grad"])
def test_under_no_grad_results_are_constants_for_jax_too(transform):
    def measure(array):
        x = oplib.Tensor.from_array(array)
        with oplib.no_grad():
            total, rows = oplib.scan(lambda carry, row: (carry + row * x.sum(), carry), oplib.zeros(()), x)
        return ((total + rows.sum()) * x.sum()).array

    array = jnp.array([1.0, 2.0, 3.0])
    constant = 6.0 * 6.0 + (0.0 + 6.0 + 18.0)
    np.testing.assert_allclose(transform(jax.grad(measure))(array), [constant] * 3)
    np.testing.assert_allclose(jax.jvp(measure, (array,), (array,))[1], constant * 6.0)
