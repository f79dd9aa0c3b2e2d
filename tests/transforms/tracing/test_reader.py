"""Why a program does not serve a call: what differs from what was found while it was traced, and its text."""

import operator
from types import SimpleNamespace

import pytest

import oplib

pytestmark = pytest.mark.spec("J.24", "J.25")


def make():
    first = oplib.ones(2)
    return SimpleNamespace(
        weight=first,
        again=first,
        other=oplib.full((2,), 2.0),
        rate=2.0,
        sign=0.0,
        table={"a": 1.0, "b": oplib.ones(2)},
        layers=[oplib.ones(2), oplib.ones(2)],
        scale=operator.pos,
        items=slice(0, 2),
        cast=float,
        named=SimpleNamespace(rate=3.0),
    )


def step(held, x):
    total = x * held.weight + held.again + held.other * held.rate
    total = total * held.scale(oplib.ones(2)) + held.table["a"] * held.table["b"]
    total = total + held.named.rate + (1 if str(held.sign) == "0.0" else 5)
    total = total[held.items] + held.cast(1.5)
    for layer in held.layers:
        total = total + layer
    return total + (10 if hasattr(held, "bias") else 0)


def change_rate(held):
    held.rate = 3.0


def change_class_of_number(held):
    held.rate = 2


def change_sign_of_zero(held):
    held.sign = -0.0


def change_number_in_a_dict(held):
    held.table["a"] = 7.0


def add_key(held):
    held.table["c"] = 7.0


def change_function(held):
    held.scale = operator.neg


def add_layer(held):
    held.layers.append(oplib.ones(2))


def take_layer(held):
    held.layers.pop()


def part_places(held):
    held.again = oplib.full((2,), 9.0)


def put_an_equal_object(held):
    held.named = SimpleNamespace(rate=float("3"))  # another object than the constant of this file


def add_attribute(held):
    held.bias = True


def change_slice(held):
    held.items = slice(0, 1)


def change_class(held):
    held.cast = int


CHANGED = "a number, string or the like of held"
CONTENT = "is another function, or of another class, length or content"
REASONS = {
    change_rate: f"{CHANGED} has changed: ['rate']",
    change_class_of_number: f"{CHANGED} has changed: ['rate']",
    change_sign_of_zero: f"{CHANGED} has changed: ['sign']",
    change_number_in_a_dict: f"{CHANGED}.table has changed: ['a']",
    add_key: "held.table has other keys than ['a', 'b']",
    change_function: f"held.scale {CONTENT}",
    add_layer: f"held.layers {CONTENT}",
    take_layer: f"held.layers {CONTENT}",
    change_slice: f"{CHANGED} has changed: ['items']",
    change_class: f"{CHANGED} has changed: ['cast']",
    part_places: "held.again is no longer held.weight",
    add_attribute: "held has now ['bias']",
    put_an_equal_object: "a compiled program serves this call",
}


@pytest.mark.parametrize("change", REASONS, ids=lambda change: change.__name__)
def test_a_call_that_differs_is_compiled_again_with_its_reason(change):
    held, x = make(), oplib.ones(2)
    compiled = oplib.jit(lambda x: step(held, x))
    assert compiled(x).tolist() == compiled(x).tolist() == step(held, x).tolist()
    assert compiled.compilations == 1
    change(held)
    assert compiled.explain(x).endswith(f": {REASONS[change]}")
    assert compiled(x).tolist() == step(held, x).tolist()
    assert compiled.compilations == 1 + (change is not put_an_equal_object)


def test_a_way_that_is_gone_is_a_reason():
    held, x = make(), oplib.ones(2)
    compiled = oplib.jit(lambda x: x * held.named.weight if hasattr(held, "named") else x)
    held.named.weight = oplib.full((2,), 3.0)
    assert compiled(x).tolist() == [3.0, 3.0]
    del held.named
    assert not compiled.explain(x).endswith("serves this call")
    assert compiled(x).tolist() == [1.0, 1.0]


def test_two_places_that_hold_one_object_are_a_reason_where_the_code_asks():
    first, second = SimpleNamespace(rate=2.0), SimpleNamespace(rate=2.0)

    def join():
        nonlocal second
        second = first

    def add(x):
        return x * first.rate * second.rate

    def compare(x):
        return x * first.rate * second.rate * (2 if first is second else 1)

    x, programs = oplib.ones(2), {oplib.jit(add): 1, oplib.jit(compare): 2}
    for compiled in programs:
        assert compiled(x).tolist() == [4.0, 4.0]
    join()
    for compiled, count in programs.items():
        assert compiled(x).tolist() == [4.0 * count] * 2
        assert compiled.compilations == count


@pytest.mark.parametrize("separate", [(1,), (0, 1)])
@pytest.mark.parametrize("by_backward", [True, False])
def test_leaves_that_no_longer_share_a_gradient_are_a_reason(separate, by_backward):
    def step(leaves):
        for leaf in leaves:
            if by_backward:
                (leaf * 3).sum().backward()
            else:
                leaf.grad.mul_(3)

    def run(call, leaves):
        leaves[0].grad = leaves[1].grad = oplib.ones(2)
        call(leaves)
        for place in separate:
            leaves[place].grad = oplib.full((2,), float(place))
        call(leaves)
        return [leaf.grad.tolist() for leaf in leaves]

    plain, held = ([oplib.ones(2, requires_grad=True) for _ in range(2)] for _ in range(2))
    compiled = oplib.jit(lambda: step(held))
    assert run(lambda _: compiled(), held) == run(step, plain)
    assert compiled.compilations == 2


def test_what_a_call_changes_is_compared_with_what_the_trace_found():
    def remember(held, x):
        if held.state is None:
            held.state = x * 0
        held.state = held.state + x
        return held.state * held.rate

    plain, held = (SimpleNamespace(state=None, rate=2.0) for _ in range(2))
    compiled = oplib.jit(lambda x: remember(held, x))
    for number in range(6):
        x = oplib.full((2,), float(number))
        assert compiled(x).tolist() == remember(plain, x).tolist()
        if number == 3:
            plain.state = held.state = None
    assert compiled.compilations == 2


def test_a_function_whose_apply_is_replaced_at_its_first_call_is_the_same():
    class Double(oplib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    compiled = oplib.jit(lambda x: Double.apply(x))
    for _ in range(3):
        assert compiled(oplib.ones(2, requires_grad=True)).tolist() == [2.0, 2.0]
    assert compiled.compilations == 1


def test_an_object_that_is_returned_is_a_reason_if_it_is_another():
    held, x = SimpleNamespace(tag=SimpleNamespace(name="a")), oplib.ones(2)
    compiled = oplib.jit(lambda x: (x * 2, held.tag))
    assert compiled(x)[1] is held.tag
    held.tag = SimpleNamespace(name="a")
    assert compiled.explain(x).endswith("held.tag is another object")
    assert compiled(x)[1] is held.tag


def test_of_many_constants_that_changed_eight_are_named():
    held, x = SimpleNamespace(**{f"n{number}": 1.0 for number in range(9)}), oplib.ones(2)

    def add(x):
        return x + held.n0 + held.n1 + held.n2 + held.n3 + held.n4 + held.n5 + held.n6 + held.n7 + held.n8

    compiled = oplib.jit(add)
    compiled(x)
    vars(held).update(dict.fromkeys(vars(held), 2.0))
    told = compiled.explain(x)
    assert (told.count("'n"), told.endswith(", Ellipsis]")) == (8, True)
    assert compiled(x).tolist() == [19.0, 19.0]
