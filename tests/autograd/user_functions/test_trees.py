"""Keyword arguments of user Functions, and tensors in containers."""

import dataclasses
from typing import Any, NamedTuple

import pytest

import oplib
from oplib.errors import AutogradError
from tests.autograd.functions import Square, make_function


def test_keywords_go_to_their_positions(x):
    def forward(ctx, a, factor=2.0, other=None):
        ctx.count = len(ctx.needs_input_grad)
        return a * factor if other is None else a * factor + other

    def backward(ctx, g):
        return (g * 2, None, g)[: ctx.count]

    function = make_function(forward, backward)
    function.apply(x, other=x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert function.apply(a=x, factor=4.0).grad_fn.count == 2


def test_an_unknown_keyword_is_a_type_error(x):
    with pytest.raises(TypeError, match="colour"):
        Square.apply(x, colour=3)


def test_keyword_only_tensors_get_gradients_after_the_positional_ones(x):
    w = oplib.tensor([3.0, 4.0], requires_grad=True)

    def forward(ctx, a, scale=1.0, *, weight, bias=None):
        ctx.save_for_backward(a, weight)
        return a * weight

    def backward(ctx, g):
        a, weight = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False, True, False)
        return g * weight, None, g * a, None

    make_function(forward, backward).apply(x, weight=w).sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]
    assert w.grad.tolist() == [1.0, 2.0]


def test_setup_context_gets_keyword_only_inputs_apart(x):
    seen = []

    def forward(a, *, k=2.0):
        return a * k

    def setup(ctx, inputs, output, keyword_only_inputs):
        seen.append((len(inputs), keyword_only_inputs))

    make_function(forward, lambda ctx, g: (g, None), setup_context=setup).apply(x)
    assert seen == [(1, {"k": 2.0})]


@dataclasses.dataclass(frozen=True)
class Pair:
    left: Any
    right: Any


class Both(NamedTuple):
    sum: Any
    product: Any


def test_tensors_in_dictionaries_dataclasses_and_nested_lists(x):
    w = oplib.tensor([3.0, 4.0], requires_grad=True)

    def forward(ctx, tree):
        return {"out": [tree["x"] * 2, Pair(tree["pair"].left * 5, "text")]}

    def backward(ctx, g):
        assert ctx.needs_input_grad == ({"x": True, "pair": Pair(True, False)},)
        assert g["out"][1].right is None
        return {"x": g["out"][0] * 2, "pair": Pair(g["out"][1].left * 5, None)}

    result = make_function(forward, backward).apply({"x": x, "pair": Pair(w, 7)})
    first, pair = result["out"]
    assert pair.right == "text"
    (first * 1 + pair.left * 10).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert w.grad.tolist() == [50.0, 50.0]


def test_a_namedtuple_result_is_several_outputs_and_stays_one(x):
    function = make_function(lambda ctx, a: Both(a + a, a * a), lambda ctx, g, h: g * 2 + h)
    result = function.apply(x)
    assert type(result) is Both
    result.sum.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_none_stands_for_the_gradients_of_a_whole_container(x):
    make_function(lambda ctx, a, rest: a * rest[0], lambda ctx, g: (g, None)).apply(
        x, [x, x]
    ).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_gradient_of_another_structure_raises(x):
    function = make_function(lambda ctx, pair: pair[0] * pair[1], lambda ctx, g: [g])
    with pytest.raises(
        AutogradError, match=r"argument 0 must have the same structure.* differ at \[0\]\[1\]\."
    ):
        function.apply([x, x]).sum().backward()


def test_a_container_without_tensors_is_a_constant(x):
    function = make_function(lambda ctx, a, sizes: a * sizes[0], lambda ctx, g: (g, None))
    y = function.apply(x, [2.0, 3.0])
    assert y.grad_fn.needs_input_grad == (True, False)


def test_a_tuple_of_one_stays_a_tuple_and_a_list_a_list(x):
    assert isinstance(make_function(lambda ctx, a: (a * 2,)).apply(x), tuple)
    assert isinstance(make_function(lambda ctx, a: [a * 2]).apply(x), list)
