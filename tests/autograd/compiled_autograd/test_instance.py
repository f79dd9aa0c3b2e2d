"""The capture of a program by hand, under torch's names."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import compiled_autograd
from oplib.autograd.compiled_autograd import (
    AutogradCompilerInstance,
    BackwardState,
    enable,
    maybe_clone,
    snapshot_cudagraph_enabled,
)
from oplib.autograd.compiled_autograd.script import Script
from oplib.autograd.compiled_autograd.steps import AccumulateStep, AddStep, HostStep
from oplib.errors import AutogradError
from tests.autograd.functions import Square


@pytest.fixture
def instance():
    return AutogradCompilerInstance(jax.jit)


@pytest.fixture
def tensor():
    return oplib.tensor([1.0, 2.0])


def run(captured, inputs, hooks):
    wrapper, program = captured
    return [one if one is None else one.tolist() for one in wrapper(program, list(inputs), [], tuple(hooks))]


@pytest.mark.spec("002.5")
def test_a_clone_has_its_own_storage_and_no_history(x):
    clone = maybe_clone(x)
    assert maybe_clone(None) is None
    assert clone.tolist() == x.tolist()
    assert clone._storage is not x._storage
    assert not clone.requires_grad


@pytest.mark.spec("002.6")
def test_an_instance_needs_a_compiler(instance):
    assert instance.compiler_fn is jax.jit
    assert instance.hooks_proxy is None
    assert instance.close == instance.stack.close
    with pytest.raises(TypeError, match="compiler_fn"):
        AutogradCompilerInstance()
    with pytest.raises(AutogradError, match=r"'compiler_fn' cannot be called. Got int"):
        AutogradCompilerInstance(3)


@pytest.mark.spec("002.7", "002.8")
def test_a_value_has_the_shape_and_dtype_of_a_tensor(instance, tensor):
    source = instance.source("inputs", 2)
    value = instance.wrap_fake(tensor, source)
    assert (value.shape, value.dtype) == ((2,), jnp.float32)
    assert source == ("inputs", 2)
    with pytest.raises(AssertionError, match=r"inputs.*got int"):
        instance.wrap_fake(3, source)


@pytest.mark.spec("002.9")
def test_a_capture_starts_with_values_for_inputs_and_counts(instance, tensor, counts):
    values, sizes = instance.begin_capture([tensor, tensor.sum()], [4, 5])
    assert [value.shape for value in values] == [(2,), ()]
    assert [value.number for value in values] == [0, 1]
    assert sizes == [4, 5]
    assert instance.hooks_proxy == []
    assert counts("captures") == 1


@pytest.mark.spec("002.10")
def test_the_backward_of_a_function_runs_when_the_program_runs(instance, x):
    node = Square.apply(x).grad_fn
    values, _ = instance.begin_capture([x.detach(), x.detach()], [])
    outputs = instance.proxy_call_backward(
        [values[0]], [(None, None, jnp.float32, (2,)), None], [values[1]], 0
    )
    assert outputs[0].shape == (2,)
    assert outputs[1] is None
    captured = instance.end_capture([outputs[0], None])
    numbers = oplib.tensor([10.0, 100.0]), x.detach()
    assert run(captured, numbers, [node]) == [[20.0, 400.0], None]


@pytest.mark.spec("002.10", "002.11", "002.12", "002.13", "002.14", "002.15", "002.22")
def test_nothing_is_recorded_before_a_capture_begins(instance, tensor):
    value = instance.wrap_fake(tensor, ("inputs", 0))
    for record in (
        lambda: instance.proxy_call_backward([value], [], [], 0),
        lambda: instance.proxy_call_hook(0, value),
        lambda: instance.tensor_pre_hook([value], 0, 0),
        lambda: instance.pre_hook([value], 0),
        lambda: instance.post_hook([value], [value], 0),
        lambda: instance.post_acc_grad_hook(value, 0),
        lambda: instance.bind_backward_state(0),
    ):
        with pytest.raises(AssertionError, match="begin_capture was not called"):
            record()


@pytest.mark.spec("002.11", "002.12", "002.18")
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


@pytest.mark.spec("002.4", "002.16")
def test_numbers_on_the_host_move_only_if_another_input_is_on_an_accelerator(instance, tensor, monkeypatch):
    assert not snapshot_cudagraph_enabled()
    oplib.config.stage_host_scalars = True
    assert snapshot_cudagraph_enabled()
    oplib.config.stage_host_scalars = False
    values, _ = instance.begin_capture([tensor, oplib.tensor(2.0), oplib.tensor(3.0)], [])
    instance.tensor_pre_hook(values, 0, 2)
    captured = instance.end_capture(values)
    assert instance.move_graph_nodes_to_cuda(captured[1]) == []


@pytest.mark.spec("002.16")
def test_with_the_option_on_a_pass_on_the_cpu_runs_normally(x):
    oplib.config.stage_host_scalars = True
    with enable():
        (x * 2).sum().backward()
    oplib.config.stage_host_scalars = False
    assert x.grad.tolist() == [2.0, 2.0]


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
def test_a_program_returns_one_gradient_for_each_requested_input(x, caplog):
    with caplog.at_level(logging.INFO, "oplib.autograd.compiled_autograd.__compiled_autograd"), enable():
        assert len(oplib.autograd.grad((x * x).sum(), x)) == 1
    assert "CompiledAutograd0 = { lambda" in caplog.text


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


@pytest.mark.spec("002.19")
def test_accumulations_follow_the_step_that_makes_their_gradient():
    spec = jax.ShapeDtypeStruct((2,), jnp.float32)
    script = Script([])
    a, b, c, d = (script.make_value(spec) for _ in range(4))
    steps = [
        AddStep((a, b), c),
        AddStep((a, c), d),
        HostStep("call_hook", 0, "", ((a,),), ()),
        AddStep((a, d), script.make_value(spec)),
        AccumulateStep(0, c, None, c),
    ]
    script.steps = [*steps[:2], steps[4]]
    script.move_accumulations()
    assert script.steps == [steps[0], steps[4], steps[1]]
    script.steps = list(steps)
    script.move_accumulations()
    assert script.steps == [*steps[:3], steps[4], steps[3]]  # a hook may read the grad


@pytest.mark.spec("002.19")
def test_gradients_are_accumulated_as_soon_as_they_are_there(agree):
    def pass_backward(w, y, z):
        seen = []
        w.register_post_accumulate_grad_hook(lambda leaf: seen.append("w"))
        a = y.exp()
        a.register_hook(lambda g: seen.append("exp"))
        (a * z * w).sum().backward()
        return seen

    agree(pass_backward)


@pytest.mark.spec("002.20")
def test_values_numbers_and_containers_have_proxies(instance, tensor):
    (value,), _ = instance.begin_capture([tensor], [])
    assert instance.to_proxy(None) is None
    assert instance.to_proxy(3) == 3
    assert instance.to_proxy([value, (value, None)]) == [value, (value, None)]
    with pytest.raises(AssertionError, match="got str"):
        instance.to_proxy("a")
    with pytest.raises(AssertionError, match="not bound"):
        instance.to_proxy(tensor)


@pytest.mark.spec("002.21")
def test_tensors_are_bound_to_proxies(instance, tensor):
    (value,), _ = instance.begin_capture([tensor], [])
    other = oplib.tensor([3.0])
    instance.bind_tensors_to_proxies([tensor, other], [value, value])
    assert instance.to_proxy([tensor, other]) == [value, value]
    with pytest.raises(AssertionError, match="2 tensors and 1 proxies"):
        instance.bind_tensors_to_proxies([tensor, other], [value])


@pytest.mark.spec("002.22")
def test_a_backward_state_is_an_empty_bag(instance, tensor):
    instance.begin_capture([tensor], [])
    state = instance.bind_backward_state(3)
    assert isinstance(state, BackwardState)
    assert vars(state) == {}
    state.name = 1
    assert instance.hooks_proxy == [3]


@pytest.mark.spec("002.23")
def test_steps_are_labelled_with_the_node_and_the_number_of_its_call(instance, tensor):
    values, _ = instance.begin_capture([tensor], [])
    instance.set_node_origin("MulBackward0", 4)
    instance.tensor_pre_hook(values, 0, 0)
    (item,) = instance.end_capture([])[1].items
    assert item[1].label == "MulBackward0 (NodeCall 4)"


@pytest.mark.spec("002.23", "002.29")
def test_the_labels_of_nodes_are_in_the_program_in_call_order(x):
    stacks = []

    def compiler(function):
        stacks.extend(str(one.source_info.name_stack) for one in function.jaxpr.jaxpr.eqns)
        return function

    with enable(compiler):
        (x * 2).exp().sum().backward()
    found = list(dict.fromkeys(stack.partition("/")[0] for stack in stacks))
    assert found == ["SumBackward0 (NodeCall 0)", "ExpBackward0 (NodeCall 1)", "MulBackward0 (NodeCall 2)"]
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp([2.0, 4.0]), rtol=1e-5)
