"""Calls of hooks and backwards, and the callbacks of a program, under torch's names."""

import pytest

from oplib.autograd.compiled_autograd import FakeCompiledAutogradEngine, call_backward, call_hook
from oplib.errors import AutogradError
from tests.autograd.functions import Double, Square

pytestmark = pytest.mark.spec("002.28")


def test_a_hook_that_returns_none_keeps_the_first_argument():
    assert call_hook(lambda a, b: None, 1, 2) == 1
    assert call_hook(lambda a, b: a + b, 1, 2) == 3


def test_a_post_accumulate_hook_must_return_none():
    assert call_hook(lambda a: None, 1, hook_type="post_acc_grad_hook") == 1
    with pytest.raises(
        AutogradError, match=r"tensor post accumulate grad hooks should return None\. Got int"
    ):
        call_hook(lambda a: a, 1, hook_type="post_acc_grad_hook")


def test_a_backward_gets_the_saved_tensors_it_is_given_and_returns_a_tuple(x):
    node = Square.apply(x).grad_fn
    (result,) = call_backward(node, [x.detach() * 10], x.detach())
    assert result.tolist() == [20.0, 80.0]
    assert len(call_backward(Double.apply(x).grad_fn, [], x.detach())) == 1


def test_the_ctx_of_a_call_shows_the_real_one_and_warns_of_saved_variables(x):
    seen = []

    class Look(Square):
        @staticmethod
        def backward(ctx, grad):
            seen.extend([ctx.needs_input_grad, ctx.saved_variables])
            return grad

    with pytest.warns(DeprecationWarning, match="saved_variables is deprecated"):
        call_backward(Look.apply(x).grad_fn, [x], x)
    assert seen == [(True,), (x,)]


def test_callbacks_run_in_order_with_those_added_meanwhile():
    seen, callbacks = [], []
    engine = FakeCompiledAutogradEngine
    engine.queue_callback(callbacks, lambda: engine.queue_callback(callbacks, lambda: seen.append(2)))
    engine.queue_callback(callbacks, lambda: seen.append(1))
    engine.exec_final_callbacks(callbacks)
    assert seen == [1, 2]
    assert callbacks == []
    assert engine._exec_final_callbacks_stub() is None
