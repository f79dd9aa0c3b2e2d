"""Side effects in bodies of control flow: they happen as often as op by op, differentiated or not."""

import jax
import numpy as np
import pytest

import oplib
import oplib.autograd.forward_ad as fwAD
from oplib.autograd import grad
from oplib.autograd.compiled_autograd import enable
from oplib.errors import TracingError

journal = []


@oplib.custom_op("effects::note", tags=oplib.Tag.ordered)
def note(x: np.ndarray) -> None:
    journal.append(float(x.sum()))


@oplib.custom_op("effects::count", tags=oplib.Tag.ordered)
def count(x: np.ndarray) -> np.ndarray:
    journal.append(float(x.sum()))
    return np.asarray(len(journal), np.int32)


@count.register_fake
def _(x):
    return jax.ShapeDtypeStruct((), np.int32)


def step(carry, x):
    note(carry)
    return carry * x, carry


def loop(x):
    return oplib.scan(step, x, oplib.tensor([2.0, 3.0]))[0]


def loop_by_hand(x):
    for factor in (2.0, 3.0):
        x, _ = step(x, oplib.tensor(factor))
    return x


def choose(x):
    return oplib.cond(x.detach() > 0, lambda x: (note(x), x * 2)[1], lambda x: x * 3, x)


def choose_by_hand(x):
    note(x)
    return x * 2


def note_constant(x):
    fixed = oplib.tensor(7.0)
    return oplib.scan(lambda c, _: ((note(fixed), c * 2)[1], None), x, length=3)[0]


def note_constant_by_hand(x):
    for _ in range(3):
        note(oplib.tensor(7.0))
        x = x * 2
    return x


def choose_in_loop(x):
    def body(carry, x):
        return oplib.cond(x > 2, lambda c: (note(c), c * 2)[1], lambda c: c * 3, carry), None

    return oplib.scan(body, x, oplib.tensor([2.0, 3.0]))[0]


def choose_in_loop_by_hand(x):
    x = x * 3
    note(x)
    return x * 2


def use_result(x):
    return oplib.scan(lambda c, _: (c * count(c), None), x, length=2)[0]


def use_result_by_hand(x):
    for _ in range(2):
        x = x * count(x)
    return x


PAIRS = [
    (loop, loop_by_hand),
    (choose, choose_by_hand),
    (note_constant, note_constant_by_hand),
    (choose_in_loop, choose_in_loop_by_hand),
    (use_result, use_result_by_hand),
]


def run(function, *, requires_grad, backward):
    journal.clear()
    x = oplib.tensor(5.0, requires_grad=requires_grad)
    y = function(x)
    if backward:
        y.backward()
    jax.effects_barrier()
    return list(journal), y.item(), x.grad.item() if backward else None


@pytest.mark.spec("D.53")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(("requires_grad", "backward"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].__name__)
def test_side_effects_happen_as_often_as_op_by_op(pair, requires_grad, backward, compiled):
    function, by_hand = pair
    if compiled:
        function = oplib.jit(function)
    expected = run(by_hand, requires_grad=requires_grad, backward=backward)
    for _ in range(2):  # the second call finds a program
        assert run(function, requires_grad=requires_grad, backward=backward) == expected


def test_a_compiled_backward_keeps_side_effects():
    expected = run(loop_by_hand, requires_grad=True, backward=True)
    with enable():
        assert run(loop, requires_grad=True, backward=True) == expected


def test_a_loop_whose_derivative_would_lose_a_side_effect_is_refused():
    def nested(x):
        return oplib.scan(lambda c, _: (loop(c), None), x, length=2)[0]

    def inside_of_cond(x):
        return oplib.cond(x.detach() > 0, loop, lambda x: x, x)

    for function in (nested, inside_of_cond):
        run(function, requires_grad=False, backward=False)
        assert len(journal) in (2, 4)
        with pytest.raises(TracingError, match="side effect stands in a loop inside"):
            run(function, requires_grad=True, backward=False)


def test_an_op_without_results_needs_no_rule_in_any_mode():
    journal.clear()
    x = oplib.tensor(2.0)
    with fwAD.dual_level():
        note(fwAD.make_dual(x, x))
    value, tangent = jax.jvp(lambda a: (note(a), a * 2)[1], (3.0,), (1.0,))
    slope = jax.grad(jax.jit(lambda a: (note(a), count(a), a * 2)[2]))(4.0)
    jax.effects_barrier()
    assert (value, tangent, slope) == (6.0, 2.0, 2.0)
    assert journal == [2.0, 3.0, 4.0, 4.0]


def test_a_first_derivative_with_a_graph_repeats_no_side_effect():
    x = oplib.tensor(5.0, requires_grad=True)
    journal.clear()
    (first,) = grad(loop(x) ** 2, x, create_graph=True)
    jax.effects_barrier()
    assert (journal, first.item()) == ([5.0, 10.0], 360.0)
