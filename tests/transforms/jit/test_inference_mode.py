"""Inference mode inside and around a compiled function; the uncompiled run says what must come out."""

from types import SimpleNamespace

import pytest

import oplib
from oplib.errors import AutogradError


def make_weight():
    return oplib.tensor([1.0, 2.0], requires_grad=True)


def work_inside(x):
    with oplib.inference_mode():
        made = x * 2
        return {
            "made": made,
            "view": made[0],
            "view of nothing that stays": (x * 3)[1:],
            "detached": made.detach(),
            "written": (x * 4).add_(1),
            "ordinary": x,
            "view of an ordinary one": x[0],
            "factory": oplib.ones(2),
        }


def leave_and_clone(x):
    with oplib.inference_mode():
        made = x * 2
    return {"clone": made.clone(), "sum": made + x, "made": made}


def list_flags(results):
    return {
        name: (type(one), one.is_inference(), one.requires_grad, one.tolist())
        for name, one in results.items()
    }


@pytest.mark.parametrize("function", [work_inside, leave_and_clone, oplib.inference_mode()(work_inside)])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_results_are_inference_tensors_where_those_of_the_uncompiled_run_are(function, requires_grad):
    x = oplib.tensor([1.0, 2.0], requires_grad=requires_grad)
    if requires_grad and function is leave_and_clone:
        x = x.detach()  # else an inference tensor would be saved
    compiled = oplib.jit(function)
    for _ in range(2):
        assert list_flags(compiled(x)) == list_flags(function(x))
    assert compiled.compilations == 1


def test_a_call_inside_the_mode_has_a_program_of_its_own():
    weight = make_weight()
    model = oplib.jit(lambda x: x * weight)
    x = oplib.ones(2)
    for _ in range(2):
        assert not model(x).is_inference()
        assert model(x).requires_grad
        with oplib.inference_mode():
            result = model(x)
        assert result.is_inference()
        assert not result.requires_grad
    assert model.compilations == 2


def test_an_inference_tensor_of_a_program_cannot_be_saved_or_written_outside():
    result = oplib.jit(oplib.inference_mode()(lambda x: x * 2))(oplib.ones(2))
    with pytest.raises(AutogradError, match="Inference tensors cannot be saved for backward"):
        result * make_weight()
    with pytest.raises(AutogradError, match="Inplace update to inference tensor outside InferenceMode"):
        result.add_(1)
    with pytest.raises(AutogradError, match="Inference tensors do not track version counter"):
        _ = result._version
    with oplib.inference_mode():
        assert result.add_(1).tolist() == [3.0, 3.0]


def test_a_returned_view_shares_the_memory_of_its_base():
    @oplib.jit
    @oplib.inference_mode()
    def make(x):
        made = x * 2
        return made, made[0]

    made, view = make(oplib.ones(2))
    with oplib.inference_mode():
        view.add_(5)
    assert made.tolist() == [7.0, 2.0]


def test_state_that_is_written_in_the_mode_stays_of_the_mode():
    def run(compile_it):
        state = SimpleNamespace(total=oplib.zeros(2))

        def step(x):
            with oplib.inference_mode():
                state.total = state.total + x
            return state.total

        compiled = compile_it(step)
        found = [compiled(oplib.ones(2)) for _ in range(3)]
        assert found[-1] is state.total
        return [(one.is_inference(), one.tolist()) for one in found]

    assert run(oplib.jit) == run(lambda step: step)
    assert run(oplib.jit)[-1] == (True, [3.0, 3.0])


def test_a_program_writes_into_a_captured_inference_tensor_in_the_mode_only():
    with oplib.inference_mode():
        total = oplib.zeros(2)
    add = oplib.jit(lambda x: total.add_(x))
    with pytest.raises(AutogradError, match="Inplace update to inference tensor outside InferenceMode"):
        add(oplib.ones(2))
    with oplib.inference_mode():
        for _ in range(3):
            assert add(oplib.ones(2)) is total
    assert total.tolist() == [3.0, 3.0]
    assert total.is_inference()
