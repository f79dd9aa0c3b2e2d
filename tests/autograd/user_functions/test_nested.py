"""Functions whose arguments, results, gradients and saved tensors are nested."""

import pytest

import oplib
from oplib.autograd import NestedIOFunction
from oplib.autograd.function import BackwardCFunction
from oplib.autograd.user_functions.nested import iterate_tensors
from oplib.errors import AutogradError, GradientValueError, MissingRuleError, SavedTensorError

pytestmark = pytest.mark.spec("001.2")


class Mixed(NestedIOFunction):
    def forward_extended(self, a, rest):
        b, (c, nothing) = rest
        self.save_for_backward(a, [b, (c, nothing)])
        self.seen = (a, rest)
        return a * b, [b * c]

    def backward_extended(self, g, gs):
        a, (b, (c, nothing)) = self.saved_tensors
        assert nothing is None
        return g * b, [g * a + gs[0] * c, (gs[0] * b,)]


@pytest.fixture
def leaves():
    return [oplib.tensor([value], requires_grad=True) for value in (2.0, 3.0, 5.0)]


def test_methods_see_arguments_and_gradients_as_they_were_nested(leaves):
    a, b, c = leaves
    product, [other] = Mixed.apply(a, [b, (c, None)])
    assert product.grad_fn.seen == (a, [b, (c, None)])
    (product * 1 + other * 10).sum().backward()
    assert [leaf.grad.item() for leaf in leaves] == [3.0, 52.0, 30.0]


def test_the_node_is_named_after_the_class_and_has_an_edge_for_each_tensor(leaves):
    a, b, c = leaves
    product, _ = Mixed.apply(a, [b, (c, None)])
    assert product.grad_fn.name() == "MixedBackward"
    assert isinstance(product.grad_fn, BackwardCFunction)
    assert len(product.grad_fn.next_functions) == 3
    assert product.grad_fn.needs_input_grad == (True, [True, (True, False)])


def test_saved_tensors_keep_their_nesting_and_are_freed(leaves):
    a, b, c = leaves
    product, _ = Mixed.apply(a, [b, (c, None)])
    first, [second, (third, nothing)] = product.grad_fn.saved_tensors
    assert (first, second, third, nothing) == (a, b, c, None)
    product.sum().backward()
    with pytest.raises(SavedTensorError, match="second time"):
        _ = product.grad_fn.saved_tensors


def test_it_is_differentiable_twice(leaves):
    a, b, c = leaves
    product, _ = Mixed.apply(a, [b, (c, None)])
    (first,) = oplib.autograd.grad((product * product).sum(), a, create_graph=True)
    assert oplib.autograd.grad(first.sum(), a)[0].item() == 18.0


def test_gradients_may_be_nested_in_any_way(leaves):
    class Flat(Mixed):
        def backward_extended(self, g, gs):
            return [g, [[g * 2], None]]

    a, b, c = leaves
    Flat.apply(a, [b, (c, None)])[0].sum().backward()
    assert (a.grad.item(), b.grad.item(), c.grad) == (1.0, 2.0, None)


def test_static_methods_are_taken_too(leaves):
    class Double(NestedIOFunction):
        @staticmethod
        def forward_extended(ctx, tensors):
            return [tensor * 2 for tensor in tensors]

        @staticmethod
        def backward_extended(ctx, grads):
            return [grad * 2 for grad in grads]

    for result in Double.apply(leaves):
        result.sum().backward(retain_graph=True)
    assert [leaf.grad.item() for leaf in leaves] == [2.0] * 3


def test_marks_may_be_nested(leaves):
    class Marks(NestedIOFunction):
        def forward_extended(self, tensors):
            written, constant = tensors[0].add_(1.0), tensors[1] * 2
            self.mark_dirty([written])
            self.mark_non_differentiable(constants=[(constant,)])
            return [written, constant]

        def backward_extended(self, grads):
            return [grads[0], None]

    h = leaves[0] * 1
    written, constant = Marks.apply([h, leaves[1]])
    assert written is h
    assert not constant.requires_grad
    written.sum().backward()
    assert leaves[0].grad.item() == 1.0


def test_something_that_cannot_be_nested_is_refused(leaves):
    for value in (3, "text", {"a": leaves[0]}):
        with pytest.raises(GradientValueError, match=r"Auto nesting doesn't know how to process .* of type"):
            Mixed.apply(leaves[0], value)
    with pytest.raises(GradientValueError, match="of type int"):
        list(iterate_tensors([leaves[0], 3]))


def test_a_wrong_count_of_gradients_names_both(leaves):
    class Short(Mixed):
        def backward_extended(self, g, gs):
            return g

    a, b, c = leaves
    with pytest.raises(
        AutogradError, match=r"ShortBackward.*incorrect number of gradients. Got 1, expected 3"
    ):
        Short.apply(a, [b, (c, None)])[0].sum().backward()
    assert a.grad is None


def test_methods_that_are_missing_are_named(leaves):
    class Empty(NestedIOFunction):
        pass

    class Half(NestedIOFunction):
        def forward_extended(self, a):
            return a * 2

    with pytest.raises(MissingRuleError, match="no forward_extended"):
        Empty.apply(leaves[0])
    with pytest.raises(MissingRuleError, match="no backward_extended"):
        Half.apply(leaves[0]).sum().backward()
