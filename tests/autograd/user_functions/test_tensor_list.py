"""``supports_tensorlist``."""

import re

import pytest

import oplib
from oplib.autograd import Function
from oplib.autograd.user_functions.tensor_list import (
    flatten,
    not_list_of_optional_tensor,
    not_list_of_tensor,
    spec_t,
    supports_tensorlist,
    unflatten,
)
from oplib.errors import AutogradError, MissingRuleError
from tests.autograd.functions import make_function


@pytest.fixture
def x():
    return oplib.tensor([1.0], requires_grad=True)


@pytest.fixture
def y():
    return oplib.tensor([2.0], requires_grad=True)


def make(forward, backward):
    return supports_tensorlist(make_function(forward, backward))


@pytest.mark.spec("003.10")
def test_the_decorator_returns_the_same_class():
    class Plain(Function):
        pass

    assert supports_tensorlist(Plain) is Plain


@pytest.mark.spec("003.10", "003.13")
def test_a_list_of_tensors_has_a_list_of_gradients(x, y):
    seen = []

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return [g * 2, None, g * 5], None

    constant = oplib.tensor([1.0])
    result = make(lambda ctx, many, k: many[0] * k + many[2], backward).apply([x, constant, y], 3.0)
    result.sum().backward()
    assert x.grad.tolist() == [2.0]
    assert y.grad.tolist() == [5.0]
    assert seen == [([True, False, True], False)]


@pytest.mark.spec("003.15")
def test_a_list_that_holds_none_is_a_leaf_unless_none_may_stand_in_it(x):
    def make_class():
        class Double(Function):
            @staticmethod
            def forward(ctx, many):
                return [many[0] * 2, None]

            @staticmethod
            def backward(ctx, grads):
                assert grads[1] is None
                return [grads[0] * 2, None]

        return Double

    assert not supports_tensorlist(make_class()).apply([x, None])[0].requires_grad
    supports_tensorlist(make_class(), or_none=True).apply([x, None])[0].sum().backward()
    assert x.grad.tolist() == [2.0]


@pytest.mark.spec("003.10", "003.13")
def test_nested_tuples_are_structure_too(x, y):
    seen = []

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return g, (None, (g * 3, None))

    make(lambda ctx, a, pair: a + pair[1][0], backward).apply(x, (2.0, (y, 1))).sum().backward()
    assert seen == [(True, (False, (True, False)))]
    assert y.grad.tolist() == [3.0]


@pytest.mark.spec("003.13")
def test_a_list_result_gives_one_list_of_gradients_with_zeros_for_missing_ones(x):
    seen = []

    def backward(ctx, grads, nothing):
        seen.append(([g.tolist() for g in grads], nothing))
        return grads[1]

    many, number = make(lambda ctx, a: ([a * 2, a * 3], 5), backward).apply(x)
    assert number == 5
    many[1].sum().backward()
    assert seen == [([[0.0], [1.0]], None)]


@pytest.mark.spec("003.14")
@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_tuple_result_stays_a_tuple(x, count):
    result = make(lambda ctx, a: (a * 2,) * count, lambda ctx, *g: None).apply(x)
    assert isinstance(result, tuple)
    assert len(result) == count


@pytest.mark.spec("003.14")
def test_a_list_result_stays_a_list(x):
    assert isinstance(make(lambda ctx, a: [a * 2], lambda ctx, g: g).apply(x), list)


@pytest.mark.spec("003.14")
def test_a_dictionary_passes_undifferentiated(x):
    result = make(lambda ctx, d: d["x"] * 2, lambda ctx, g: None).apply({"x": x})
    assert result.grad_fn is None


@pytest.mark.spec("003.13")
def test_needs_input_grad_is_restored_when_backward_raises(x):
    def backward(ctx, g):
        raise ZeroDivisionError

    result = make(lambda ctx, many: many[0] * 2, backward).apply([x])
    with pytest.raises(ZeroDivisionError):
        result.sum().backward()
    assert result.grad_fn.needs_input_grad == (True, False)


@pytest.mark.spec("003.13")
@pytest.mark.parametrize(
    ("gradients", "path"),
    [
        (lambda g: (None, None), "[0][0]"),
        (lambda g: ((g, g), None), "[0][0]"),
        (lambda g: ([g], None), "[0][1]"),
        (lambda g: ([g, g],), "[1]"),
        (lambda g: ([g, 1], None), "[0][0]"),
        (lambda g: [g, g], "[1]"),
    ],
)
def test_another_structure_of_gradients_raises_with_the_path_that_differs(x, gradients, path):
    result = make(lambda ctx, many, k: many[0] * k, lambda ctx, g: gradients(g)).apply([x, x], 2.0)
    told = re.escape(f"same structure as the arguments. They differ at {path}. Got")
    with pytest.raises(AutogradError, match=told):
        result.sum().backward()


@pytest.mark.spec("003.13")
def test_the_gradient_of_a_list_of_numbers_is_none(x):
    make(lambda ctx, a, sizes: a * sizes[0], lambda ctx, g: (g, None)).apply(x, [2.0, 3.0]).sum().backward()
    assert x.grad.tolist() == [1.0]


@pytest.mark.spec("003.14")
def test_keywords_are_refused(x):
    with pytest.raises(TypeError, match="unexpected keyword argument 'a'"):
        make(lambda ctx, a: a, lambda ctx, g: g).apply(a=x)


@pytest.mark.spec("003.12", "003.13")
def test_forward_and_backward_are_not_called_directly(x):
    function = make(lambda ctx, a: a, lambda ctx, g: g)
    with pytest.raises(MissingRuleError, match="forward was called directly"):
        function.forward(None, x)
    with pytest.raises(MissingRuleError, match="backward was called directly"):
        function.backward(object(), x)


@pytest.mark.spec("003.12", "003.11")
def test_the_name_of_the_metadata_is_reserved(x):
    def forward(ctx, a):
        ctx._pt_metadata = 1
        return a * 2

    with pytest.raises(AutogradError, match=r"_pt_metadata was set.*reserved"):
        make(forward, lambda ctx, g: g).apply(x)


@pytest.mark.spec("003.15")
def test_the_leaf_test_of_arguments():
    t = oplib.tensor([1.0])
    leaves = [[t, None], [[t]], None, {"a": t}, 1, [1]]
    assert [not_list_of_tensor(tree) for tree in leaves] == [True] * len(leaves)
    assert [not_list_of_tensor(tree) for tree in ([], [t], (None,))] == [False] * 3


@pytest.mark.spec("003.16")
def test_the_leaf_test_of_gradients():
    t = oplib.tensor([1.0])
    assert [not_list_of_optional_tensor(tree) for tree in ([t, None], [None], [])] == [False] * 3
    assert not_list_of_optional_tensor([t, 1])


@pytest.mark.spec("003.17")
def test_flatten_and_unflatten_are_inverse_in_torchs_order():
    leaves, spec = flatten([1, (None, 2)])
    assert leaves == [1, None, 2]
    assert isinstance(spec, spec_t)
    assert unflatten(leaves, spec) == [1, (None, 2)]
