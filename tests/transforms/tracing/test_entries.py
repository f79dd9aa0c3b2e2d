"""The contents of attributes, slots, items, closure cells and globals after a call."""

from collections import defaultdict, namedtuple
from functools import cached_property

import pytest

import oplib
from oplib.errors import TracingError

pytestmark = pytest.mark.spec("J.9")

Pair = namedtuple("Pair", "first second")  # noqa: PYI024  untyped, as users write it
total = oplib.zeros(2)


class Plain:
    def __init__(self):
        self.weight, self.state = oplib.ones(2), None


class Slotted:
    __slots__ = ("__weakref__", "state", "weight")

    def __init__(self):
        self.weight, self.state = oplib.ones(2), None


def add_list(holder, x):
    if holder.state is None:
        holder.state = [oplib.zeros(2)]
    holder.state[0].add_(x)
    return holder.state[0].sum()


def replace_list(holder, x):
    holder.state = [x * holder.weight + (0 if holder.state is None else holder.state[0])]
    return holder.state[0].sum()


def add_nested(holder, x):
    if holder.state is None:
        holder.state = {"pair": Pair(oplib.zeros(2), (oplib.ones(2), "name"))}
    holder.state["pair"].first.add_(x)
    return (holder.state["pair"].first * holder.state["pair"].second[0]).sum()


def add_attribute(holder, x):
    if not hasattr(holder, "weight"):
        holder.weight = oplib.zeros(2)
    holder.weight = holder.weight + x
    return holder.weight.sum()


@pytest.mark.parametrize("make", [Plain, Slotted])
@pytest.mark.parametrize("function", [add_list, replace_list, add_nested, add_attribute])
def test_state_that_is_made_at_the_first_call_stays(function, make):
    plain, held = make(), make()
    for holder in (plain, held):
        if function is add_attribute:
            del holder.weight
    step = oplib.jit(lambda x: function(held, x))
    for number in range(4):
        x = oplib.full((2,), float(number))
        assert step(x).item() == function(plain, x).item()
    assert step.compilations == 2


def test_a_dictionary_with_tensors_as_keys_is_filled_at_the_first_call():
    holder, state = Plain(), defaultdict(dict)

    @oplib.jit
    def step(x):
        entry = state[holder.weight]
        if not entry:
            entry["sum"] = oplib.zeros(2)
        return entry["sum"].add_(x * holder.weight).sum()

    assert [step(oplib.ones(2)).item() for _ in range(3)] == [2, 4, 6]
    first, holder.weight = holder.weight, oplib.full((2,), 10.0)
    state.clear()
    assert [step(oplib.ones(2)).item() for _ in range(3)] == [20, 40, 60]
    assert first not in state
    assert step.compilations == 2


def test_a_closure_cell_gets_a_new_tensor_after_each_call():
    mean = oplib.zeros(2)

    @oplib.jit
    def step(x):
        nonlocal mean
        mean = 0.5 * mean + x
        return mean.sum()

    assert [step(oplib.ones(2)).item() for _ in range(3)] == [2, 3, 3.5]
    assert mean.tolist() == [1.75, 1.75]
    assert step.compilations == 1


def test_a_global_gets_a_new_tensor_after_each_call(monkeypatch):
    monkeypatch.setitem(globals(), "total", oplib.zeros(2))

    @oplib.jit
    def step(x):
        global total  # noqa: PLW0603  the test is about it
        total = total + x
        return total.sum()

    assert [step(oplib.ones(2)).item() for _ in range(3)] == [2, 4, 6]
    assert total.tolist() == [3, 3]


def test_a_cached_property_that_is_read_first_inside_is_kept():
    class Scaled(Plain):
        @cached_property
        def rate(self):
            return 0.5

    holder = Scaled()
    step = oplib.jit(lambda x: (x * holder.weight * holder.rate).sum())
    assert [step(oplib.ones(2)).item() for _ in range(3)] == [1, 1, 1]
    assert vars(holder)["rate"] == 0.5
    assert step.compilations == 2


@pytest.mark.spec("J.3")
def test_a_number_that_is_made_at_the_first_call_is_refused_when_it_changes():
    holder = Plain()

    @oplib.jit
    def step(x):
        holder.calls = getattr(holder, "calls", 0) + 1
        return (x * holder.weight * holder.calls).sum()

    assert step(oplib.ones(2)).item() == 2
    with pytest.raises(TracingError, match=r"holder\.calls was changed from 1 to 2"):
        step(oplib.ones(2))
    assert holder.calls == 1


@pytest.mark.parametrize(
    ("wrap", "unwrap"),
    [
        (lambda x: {"x": x}, lambda kept: kept["x"]),
        (lambda x: [x], lambda kept: kept[0]),
        (lambda x: lambda: x, lambda kept: kept()),
    ],
)
def test_a_tensor_inside_what_a_list_keeps_raises_where_it_is_used(wrap, unwrap):
    kept = []
    oplib.jit(lambda x: kept.append(wrap(x * 2)))(oplib.ones(2))
    with pytest.raises(TracingError, match="made inside a compiled function"):
        unwrap(kept[0]).sum()


def test_a_second_derivative_outside_leaves_attributes_alone():
    holder = Plain()

    @oplib.jit
    def run(x):
        holder.state = x.detach() * 3
        return (x**3).sum()

    x = oplib.ones(2, requires_grad=True)
    (first,) = oplib.autograd.grad(run(x), x, create_graph=True)
    (second,) = oplib.autograd.grad(first.sum(), x)
    assert second.tolist() == [6, 6]
    assert holder.state.tolist() == [3, 3]


@pytest.mark.spec("J.8")
def test_an_error_while_tracing_leaves_every_kind_of_place_as_it_was(monkeypatch):
    monkeypatch.setitem(globals(), "total", oplib.zeros(2))
    cell, plain, slotted = total, Plain(), Slotted()

    @oplib.jit
    def step(x):
        global total  # noqa: PLW0603  the test is about it
        nonlocal cell
        total = cell = plain.state = slotted.state = plain.new = x * slotted.weight
        del plain.weight
        raise KeyError("stop")

    before = total
    with pytest.raises(KeyError, match="stop"):
        step(oplib.ones(2))
    assert total is before
    assert cell is before
    assert plain.state is None
    assert slotted.state is None
    assert not hasattr(plain, "new")
    assert plain.weight.tolist() == [1, 1]


@pytest.mark.spec("J.2", "J.5")
def test_the_state_of_a_hook_is_found():
    weight, velocity = oplib.ones(2, requires_grad=True), oplib.zeros(2)

    def update(parameter):
        with oplib.no_grad():
            parameter.sub_(velocity.mul_(0.5).add_(parameter.grad))
        parameter.grad = None

    weight.register_post_accumulate_grad_hook(update)
    step = oplib.jit(lambda x: (x * weight).sum().backward())
    step(oplib.ones(2))
    step(oplib.ones(2))
    assert weight.tolist() == [-1.5, -1.5]
    assert velocity.tolist() == [1.5, 1.5]
    assert step.compilations == 1
