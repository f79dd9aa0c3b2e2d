"""Functions in forward mode: what jvp gets, and what it may return."""

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd import Function, grad
from oplib.autograd.forward_ad import dual_level, make_dual, unpack_dual
from oplib.errors import AutogradError, MissingRuleError, SavedTensorError
from tests.autograd.functions import make_function

pytestmark = pytest.mark.spec("001.2")


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return 3 * x * x * t


@pytest.fixture
def tangent():
    return oplib.tensor([3.0, 4.0])


def push(function, tangent, *rest, value=(1.0, 2.0)):
    """Returns the tangents of a Function's results."""
    with dual_level():
        result = function.apply(make_dual(oplib.tensor(list(value)), tangent), *rest)
        several = result if isinstance(result, tuple) else (result,)
        tangents = [unpack_dual(one).tangent if isinstance(one, oplib.Tensor) else one for one in several]
    return tangents if isinstance(result, tuple) else tangents[0]


def test_jvp_gives_the_tangent_that_jax_gives(tangent):
    expected = jax.jvp(lambda a: a**3, (jnp.array([1.0, 2.0]),), (tangent.array,))[1]
    assert push(Cube, tangent).tolist() == expected.tolist()
    with oplib.no_grad():
        assert push(Cube, tangent).tolist() == expected.tolist()


def test_the_tangent_is_differentiable_backwards(tangent):
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    with dual_level():
        pushed = unpack_dual(Cube.apply(make_dual(x, tangent))).tangent
        (second,) = grad(pushed.sum(), x)
    assert second.tolist() == [18.0, 48.0]


def test_forward_sees_no_tangents_and_jvp_runs_in_the_mode_of_the_call(tangent):
    seen = []

    def forward(ctx, a):
        seen.append((unpack_dual(a).tangent, oplib.is_grad_enabled()))
        return a * 2

    def jvp(ctx, t):
        seen.append((t is tangent, oplib.is_grad_enabled(), ctx.needs_input_grad))
        return t * 2

    push(make_function(forward, jvp=jvp), tangent)
    assert seen == [(None, False), (True, True, (False,))]


def test_saved_tensors_are_then_those_saved_for_forward(tangent):
    def setup(ctx, inputs, output):
        ctx.save_for_forward(inputs[0], None, output)
        ctx.save_for_backward(output)

    def jvp(ctx, t, k):
        x, nothing, y = ctx.saved_tensors
        assert (nothing, k) == (None, None)
        return t * y / x

    function = make_function(lambda x, k=2.0: x * k, jvp=jvp, setup_context=setup)
    assert push(function, tangent).tolist() == [6.0, 8.0]
    x = oplib.tensor([1.0], requires_grad=True)
    assert len(function.apply(x).grad_fn.saved_tensors) == 1


def test_saved_for_forward_is_not_kept(tangent):
    x = oplib.tensor([1.0], requires_grad=True)
    assert Cube.apply(x).grad_fn.saved_for_forward == ()


@pytest.mark.parametrize("materialize", [True, False])
def test_the_tangent_of_an_argument_without_one_is_zeros_or_none(tangent, materialize):
    seen = []

    def forward(ctx, a, b, i, k):
        ctx.set_materialize_grads(materialize)
        return a * b

    def jvp(ctx, t, *rest):
        seen.extend(rest)
        return t

    push(make_function(forward, jvp=jvp), tangent, oplib.ones(2), oplib.tensor([1, 2]), 3.0)
    assert seen[1:] == [None, None]
    assert (seen[0].tolist() == [0.0, 0.0]) if materialize else seen[0] is None


def test_containers_have_containers_of_tangents(tangent):
    def jvp(ctx, t, pair):
        assert pair[1] is None
        return {"out": [t * 2, None]}

    function = make_function(lambda ctx, a, pair: {"out": [a * 2, a.detach() * 1]}, jvp=jvp)
    with dual_level():
        result = function.apply(make_dual(oplib.ones(2), tangent), [oplib.ones(2), 5])
        first, second = (unpack_dual(one).tangent for one in result["out"])
    assert first.tolist() == [6.0, 8.0]
    assert second is None


def test_results_that_are_no_tensors_have_no_tangent(tangent):
    function = make_function(lambda ctx, a: (a * 2, 5), jvp=lambda ctx, t: (t * 2, None))
    assert push(function, tangent)[1] == 5


def test_a_written_input_keeps_its_tangent_object(tangent):
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a.mul_(2.0)

    with dual_level():
        x = make_dual(oplib.ones(2), tangent)
        assert make_function(forward, jvp=lambda ctx, t: t.mul_(2.0)).apply(x) is x
        assert unpack_dual(x).tangent.tolist() == [6.0, 8.0]
        with pytest.raises(AutogradError, match="not modifying the forward mode gradients inplace"):
            make_function(forward, jvp=lambda ctx, t: t * 2.0).apply(x)
        with pytest.raises(AutogradError, match="not returning the forward mode gradients as-is"):
            make_function(forward, jvp=lambda ctx, t: t.mul_(2.0) * 1).apply(x)


def test_an_input_that_is_returned_has_the_tangent_of_jvp(tangent):
    assert push(make_function(lambda ctx, a: a, jvp=lambda ctx, t: t.view_as(t)), tangent).tolist() == [
        3.0,
        4.0,
    ]
    with pytest.raises(AutogradError, match=r"is not returning a view.*Apply the same view to the tangent"):
        push(make_function(lambda ctx, a: a, jvp=lambda ctx, t: t * 5), tangent)
    with pytest.raises(AutogradError, match="returning a view of another Tensor than the given tangent"):
        push(make_function(lambda ctx, a: a, jvp=lambda ctx, t: (t * 5).view(2)), tangent)


def test_the_tangent_of_a_view_is_compared_with_that_of_the_viewed_input_alone(tangent):
    def push_view(jvp, second):
        function = make_function(lambda ctx, a, b: b.view_as(b), jvp=jvp)
        return unpack_dual(function.apply(make_dual(oplib.ones(2), tangent * 2), second)).tangent.tolist()

    with dual_level():
        second = make_dual(oplib.ones(2), tangent)
        assert push_view(lambda ctx, s, t: t.view_as(t), second) == [3.0, 4.0]
        with pytest.raises(AutogradError, match="returning a view of another Tensor than the given tangent"):
            push_view(lambda ctx, s, t: s.view_as(s), second)
        # an input without a tangent has none that a later write would have to reach
        assert push_view(lambda ctx, s, t: s.view_as(s), oplib.ones(2)) == [6.0, 8.0]


# Refused tangents ----------------------------------------------------------------------------


def test_a_missing_jvp_is_named(tangent):
    function = type("NoRule", (Function,), {"forward": staticmethod(lambda ctx, a: a * 2)})
    with pytest.raises(MissingRuleError, match="NoRuleBackward: its Function has no jvp"):
        push(function, tangent)


@pytest.mark.parametrize(
    ("forward", "jvp", "text"),
    [
        (
            lambda ctx, a: a * 2,
            lambda ctx, t: (t, t),
            r"invalid number of forward gradients. Got 2, expected 1",
        ),
        (
            lambda ctx, a: (a, a * 3),
            lambda ctx, t: t,
            r"invalid number of forward gradients. Got 1, expected 2",
        ),
        (lambda ctx, a: a * 2, lambda ctx, t: 3, r"expected Variable or None .* for grad output 0. Got int"),
        (lambda ctx, a: a * 2, lambda ctx, t: [t], r"Got list"),
        (lambda ctx, a: a * 2, lambda ctx, t: oplib.ones(3), r"different size than that of the original"),
    ],
)
def test_a_tangent_that_does_not_fit_is_refused(tangent, forward, jvp, text):
    with pytest.raises(AutogradError, match=text):
        push(make_function(forward, jvp=jvp), tangent)


def test_a_tangent_for_a_marked_output_is_refused(tangent):
    def forward(ctx, a):
        b = a * 3
        ctx.mark_non_differentiable(b)
        return a * 2, b

    with pytest.raises(AutogradError, match=r"jvp returned a gradient at position 1.*not a differentiable"):
        push(make_function(forward, jvp=lambda ctx, t: (t, t)), tangent)
    assert push(make_function(forward, jvp=lambda ctx, t: (t, None)), tangent)[1] is None


def test_an_error_in_jvp_leaves_the_ctx_usable(tangent):
    def fail(ctx, t):
        raise ZeroDivisionError

    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    function = type("Fails", (Cube,), {"jvp": staticmethod(fail)})
    with dual_level(), pytest.raises(ZeroDivisionError):
        function.apply(make_dual(x, tangent))
    function.apply(x).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]


class KeepsForBackward(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def jvp(ctx, t):
        return 2.0 * ctx.saved_tensors[0] * t


@pytest.mark.parametrize(
    "run",
    [
        lambda: push(KeepsForBackward, oplib.ones(2)),
        lambda: jax.jvp(KeepsForBackward.apply, (jnp.ones(2),), (jnp.ones(2),)),
    ],
)
def test_a_jvp_that_reads_what_was_saved_for_backward_only_is_told_of_save_for_forward(run):
    with pytest.raises(SavedTensorError, match=r"save_for_backward got 1\. Call ctx\.save_for_forward"):
        run()
