"""The capture of calls of hooks and backwards by hand, under torch's names."""

import jax
import pytest

import oplib
from oplib.autograd import compiled_autograd
from oplib.autograd.compiled_autograd import (
    AutogradCompilerInstance,
    BackwardState,
    FakeCompiledAutogradEngine,
    call_backward,
    call_hook,
    enable,
)
from oplib.errors import AutogradError
from tests.autograd.functions import Double, Square


@pytest.fixture
def instance():
    return AutogradCompilerInstance(lambda function: function)


@pytest.fixture
def tensor():
    return oplib.tensor([1.0, 2.0])


def run(captured, inputs, hooks):
    wrapper, program = captured
    return [one if one is None else one.tolist() for one in wrapper(program, list(inputs), [], tuple(hooks))]


@pytest.mark.spec("002.6")
def test_an_instance_needs_a_compiler(instance):
    assert AutogradCompilerInstance(jax.jit).compiler_fn is jax.jit
    assert instance.hooks_proxy is None
    assert instance.close == instance.stack.close
    with pytest.raises(TypeError, match="compiler_fn"):
        AutogradCompilerInstance()
    with pytest.raises(AutogradError, match=r"'compiler_fn' cannot be called. Got int"):
        AutogradCompilerInstance(3)


@pytest.mark.spec("002.9")
def test_a_capture_starts_with_values_for_inputs_and_counts(instance, tensor, counts):
    values, sizes = instance.begin_capture([tensor, tensor.sum()], [4, 5])
    assert [value.shape for value in values] == [(2,), ()]
    assert [value.number for value in values] == [0, 1]
    assert sizes == [4, 5]
    assert instance.hooks_proxy == []
    assert counts("captures") == 1


@pytest.mark.spec("002.12", "002.13", "002.14", "002.15", "002.22")
def test_nothing_is_recorded_before_a_capture_begins(instance, tensor):
    value = AutogradCompilerInstance(jax.jit).begin_capture([tensor], [])[0][0]
    for record in (
        lambda: instance.tensor_pre_hook([value], 0, 0),
        lambda: instance.pre_hook([value], 0),
        lambda: instance.post_hook([value], [value], 0),
        lambda: instance.post_acc_grad_hook(value, 0),
        lambda: instance.bind_backward_state(0),
        lambda: instance.proxy_call_backward([value], [None], [], 0),
    ):
        with pytest.raises(AssertionError, match="begin_capture was not called"):
            record()


@pytest.mark.spec("002.12", "002.18")
def test_a_tensor_hook_replaces_one_gradient(instance, tensor):
    values, _ = instance.begin_capture([tensor, tensor], [])
    other = values[1]
    result = instance.tensor_pre_hook(values, 0, 0)
    assert result is values
    assert values[1] is other
    captured = instance.end_capture(values)
    assert run(captured, [tensor, tensor], [lambda g: g * 10]) == [[10.0, 20.0], [1.0, 2.0]]
    assert run(captured, [tensor, tensor], [lambda g: None]) == [[1.0, 2.0], [1.0, 2.0]]


@pytest.mark.spec("002.13", "002.14")
def test_node_hooks_replace_all_gradients_and_none_stays_none(instance, tensor):
    values, _ = instance.begin_capture([tensor], [])
    before = instance.pre_hook([values[0], None], 0)
    assert before[1] is None
    after = instance.post_hook([before[0]], before, 1)
    captured = instance.end_capture(after)
    hooks = (lambda grads: (grads[0] + 1, None), lambda results, grads: (results[0] * grads[0],))
    assert run(captured, [tensor], hooks) == [[4.0, 9.0]]


@pytest.mark.spec("002.15")
def test_a_post_accumulate_hook_gets_the_leaf_and_must_return_nothing(instance, tensor):
    with pytest.raises(AssertionError, match="expected a tensor, got int"):
        instance.post_acc_grad_hook(3, 0)
    seen = []
    values, _ = instance.begin_capture([tensor], [])
    captured = instance.end_capture(instance.post_acc_grad_hook(values[0], 0))
    assert run(captured, [tensor], [lambda leaf: seen.append(leaf.tolist())]) == [[1.0, 2.0]]
    assert seen == [[1.0, 2.0]]
    with pytest.raises(AutogradError, match="post accumulate grad hooks should return None"):
        run(captured, [tensor], [lambda leaf: leaf])


@pytest.mark.spec("002.17")
def test_the_end_of_a_capture_gives_a_wrapper_and_a_program_and_leaves_all_contexts(instance, tensor):
    left = []
    instance.stack.callback(lambda: left.append(True))
    instance.begin_capture([tensor], [])
    wrapper, program = instance.end_capture([])
    assert callable(wrapper)
    assert callable(program)
    assert left == [True]
    assert run((wrapper, program), [tensor], []) == []


@pytest.mark.spec("002.17")
def test_the_compiler_gets_the_program_and_what_it_returns_comes_back(tensor):
    seen = []

    def compiler(function):
        seen.append(function)
        return jax.jit(function, static_argnums=2)

    instance = AutogradCompilerInstance(compiler)
    values, _ = instance.begin_capture([tensor], [])
    instance.set_node_origin("MulBackward0", 3)
    captured = instance.end_capture(instance.tensor_pre_hook(values, 0, 0))
    assert len(seen) == 1
    assert hasattr(captured[1], "lower")
    hooks = (lambda g: g * 10,)
    assert run(captured, [tensor], hooks) == run((captured[0], seen[0]), [tensor], hooks) == [[10.0, 20.0]]
    assert "MulBackward0 (NodeCall 3)" in captured[1].lower([tensor], [], hooks).as_text(debug_info=True)
    assert AutogradCompilerInstance(lambda function: 3).end_capture([])[1] == 3


@pytest.mark.spec("002.10", "002.28")
def test_the_backward_of_a_function_is_called_with_other_saved_tensors(instance, x):
    node = Square.apply(x).grad_fn
    values, _ = instance.begin_capture([x.detach(), x.detach() * 10], [])
    described = (None, "cpu", x.dtype, x.shape)
    results = instance.proxy_call_backward(values[:1], [described], values[1:], 0)
    assert [one.shape for one in results] == [x.shape]
    assert instance.hooks_proxy == [0]
    captured = instance.end_capture(results)
    assert run(captured, [x.detach(), x.detach() * 10], [node]) == [[20.0, 80.0]]


@pytest.mark.spec("002.18", "002.24")
def test_the_region_flag_is_true_while_a_program_runs_and_restored_after_an_error(instance, tensor):
    seen = []

    def look(g):
        seen.append(
            (compiled_autograd.in_compiled_autograd_region, compiled_autograd.compiled_autograd_enabled)
        )
        raise KeyError("mine")

    values, _ = instance.begin_capture([tensor], [])
    captured = instance.end_capture(instance.tensor_pre_hook(values, 0, 0))
    with enable(), pytest.raises(KeyError, match="mine"):
        run(captured, [tensor], [look])
    assert seen == [(True, False)]
    assert not compiled_autograd.in_compiled_autograd_region


@pytest.mark.spec("002.22")
def test_a_backward_state_is_an_empty_bag(instance, tensor):
    instance.begin_capture([tensor], [])
    state = instance.bind_backward_state(3)
    assert isinstance(state, BackwardState)
    assert vars(state) == {}
    state.name = 1
    assert instance.hooks_proxy == [3]


@pytest.mark.spec("002.28")
def test_a_hook_that_returns_none_keeps_the_first_argument():
    assert call_hook(lambda a, b: None, 1, 2) == 1
    assert call_hook(lambda a, b: a + b, 1, 2) == 3


@pytest.mark.spec("002.28")
def test_a_post_accumulate_hook_must_return_none():
    assert call_hook(lambda a: None, 1, hook_type="post_acc_grad_hook") == 1
    with pytest.raises(
        AutogradError, match=r"tensor post accumulate grad hooks should return None\. Got int"
    ):
        call_hook(lambda a: a, 1, hook_type="post_acc_grad_hook")


@pytest.mark.spec("002.28")
def test_a_backward_gets_the_saved_tensors_it_is_given_and_returns_a_tuple(x):
    node = Square.apply(x).grad_fn
    (result,) = call_backward(node, [x.detach() * 10], x.detach())
    assert result.tolist() == [20.0, 80.0]
    assert len(call_backward(Double.apply(x).grad_fn, [], x.detach())) == 1


@pytest.mark.spec("002.28")
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


@pytest.mark.spec("002.28")
def test_callbacks_run_in_order_with_those_added_meanwhile():
    seen, callbacks = [], []
    engine = FakeCompiledAutogradEngine
    engine.queue_callback(callbacks, lambda: engine.queue_callback(callbacks, lambda: seen.append(2)))
    engine.queue_callback(callbacks, lambda: seen.append(1))
    engine.exec_final_callbacks(callbacks)
    assert seen == [1, 2]
    assert callbacks == []
    assert engine._exec_final_callbacks_stub() is None
