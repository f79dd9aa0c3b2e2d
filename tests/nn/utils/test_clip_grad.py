"""Gradient clipping in place; numbers are compared with torch in ``tests/parity/test_nn_utils.py``."""

import jax
import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentError, ArgumentTypeError
from oplib.nn.utils import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm


def make_parameters(*gradients: list[float]) -> list[oplib.Tensor]:
    found = [oplib.zeros(len(gradient), requires_grad=True) for gradient in gradients]
    for one, gradient in zip(found, gradients, strict=True):
        one.grad = oplib.tensor(gradient)
    return found


def test_gradients_are_written_where_they_stand_and_nothing_is_recorded():
    parameters = make_parameters([3.0, 0.0], [0.0, 4.0])
    boxes = [one.grad for one in parameters]
    total = clip_grad_norm_(iter(parameters), 1.0)
    clip_grad_value_(parameters, 0.5)
    assert all(one.grad is box for one, box in zip(parameters, boxes, strict=True))
    assert [box._version for box in boxes] == [2, 2]
    assert not total.requires_grad


def test_a_norm_that_is_not_finite_is_an_error_where_asked_for_and_nothing_is_written():
    parameters = make_parameters([float("inf"), 1.0])
    with pytest.raises(ArgumentError, match=r"order 2.0 is non-finite.*Got inf of 1 tensors, the first of"):
        clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    assert parameters[0].grad.tolist() == [float("inf"), 1.0]


def test_an_empty_generator_is_warned_of():
    with pytest.warns(UserWarning, match="clip_grad_norm_: `parameters` is an empty generator") as warned:
        assert clip_grad_norm_((one for one in ()), 1.0).item() == 0.0
    assert [one.filename for one in warned] == [__file__]


def test_the_norm_of_nothing_is_0():
    assert get_total_norm([]).item() == 0.0


THRESHOLDS = {
    "Tensor": oplib.tensor,
    "Tensor with an axis": lambda value: oplib.tensor([value]),
    "array": lambda value: oplib.tensor(value).array,
    "numpy": np.float32,
    "float": float,
}


@pytest.mark.matrix(3)
@pytest.mark.parametrize("clip", [clip_grad_norm_, clip_grad_value_])
@pytest.mark.parametrize("kind", THRESHOLDS)
@pytest.mark.parametrize("dtype", [oplib.float32, oplib.float16, oplib.bfloat16])
def test_a_threshold_may_be_an_operand_of_a_compiled_function(clip, kind, dtype):
    (parameter,) = make_parameters([3.0, -4.0])
    parameter = parameter.detach().to(dtype).requires_grad_()
    gradient = oplib.tensor([3.0, -4.0], dtype=dtype)

    def run(threshold):
        parameter.grad = gradient.clone()
        return clip([parameter], threshold), parameter.grad

    compiled = oplib.jit(run)
    for value in (0.5, 1.0, 100.0):
        total, expected = run(value)
        for run_it in (run, compiled):
            found, clipped = run_it(THRESHOLDS[kind](value))
            assert clipped.dtype == dtype
            np.testing.assert_allclose(clipped.float(), expected.float(), rtol=2 * oplib.finfo(dtype).eps)
            assert total is found is None or found.item() == total.item()
    assert compiled.compilations == 1


def test_a_threshold_that_requires_grad_is_no_history():
    (parameter,) = make_parameters([3.0, 4.0])
    clip_grad_norm_(parameter, oplib.tensor(1.0, requires_grad=True))
    assert not parameter.grad.requires_grad
    np.testing.assert_allclose(parameter.grad, [0.6, 0.8], rtol=1e-5)


@pytest.mark.parametrize("clip", [clip_grad_norm_, clip_grad_value_])
def test_a_threshold_of_several_items_is_refused_and_nothing_is_written(clip):
    (parameter,) = make_parameters([3.0, 4.0])
    with pytest.raises(ArgumentError, match=r"is one number for all gradients. Got f32\[2\]"):
        clip(parameter, oplib.ones(2))
    assert parameter.grad.tolist() == [3.0, 4.0]


W = oplib.ones(2)
REFUSED = [
    (lambda: clip_grad_norm_(W, "a"), "clip_grad_norm_: argument 'max_norm' is no number. Got 'a'"),
    (lambda: clip_grad_norm_(W, 1.0, "a"), "clip_grad_norm_: argument 'norm_type' is no number. Got 'a'"),
    (lambda: clip_grad_norm_(3, 1.0), "clip_grad_norm_: argument 'parameters' holds no Tensors. Got 3"),
    (lambda: clip_grad_norm_([W, 3], 1.0), "clip_grad_norm_: argument 'parameters' holds no Tensors. Got 3"),
    (lambda: clip_grads_with_norm_(W, 1.0, 2.0), "clip_grads_with_norm_: argument 'total_norm' holds no T"),
    (lambda: clip_grads_with_norm_(W, None, W.sum()), "clip_grads_with_norm_: argument 'max_norm' is no nu"),
    (lambda: get_total_norm([1.0]), "get_total_norm: argument 'tensors' holds no Tensors. Got 1.0"),
    (lambda: clip_grad_value_(["w"], 1.0), "clip_grad_value_: argument 'parameters' holds no Tensors. Got"),
]


@pytest.mark.parametrize(("call", "told"), REFUSED)
def test_a_wrong_argument_is_named_with_the_function_that_was_called(call, told):
    with pytest.raises(ArgumentTypeError, match=f"^{told}"):
        call()


def test_gradients_that_share_memory_are_scaled_one_after_the_other():
    (parameter,) = make_parameters([3.0, 4.0])
    flat = oplib.tensor([3.0, 4.0, 12.0])
    parts = make_parameters([0.0], [0.0, 0.0])
    parts[0].grad, parts[1].grad = flat[:1], flat[1:]
    clip_grad_norm_([parameter, parameter], 5.0)  # torch 2.13 scales it twice too
    np.testing.assert_allclose(parameter.grad, [1.5, 2.0], rtol=1e-5)
    assert clip_grad_norm_(parts, 1.0).item() == 13.0
    np.testing.assert_allclose(flat, np.float32([3, 4, 12]) / 13, rtol=1e-5)


def test_all_gradients_are_clipped_by_two_compiled_calls(caplog: pytest.LogCaptureFixture):
    parameters = make_parameters(*[[1.0] * length for length in range(31, 41)])
    with jax.log_compiles():
        clip_grad_norm_(parameters, 1.0)
    compiled = [text for text in caplog.messages if text.startswith("Compiling jit(")]
    assert len([text for text in compiled if "float32[31]" in text]) == 2
    assert len([text for text in compiled if "float32[40]" in text]) == 2


def test_gradients_on_several_devices_are_scaled_where_they_are():
    parameters = make_parameters([3.0, 0.0], [0.0, 4.0])
    devices = jax.devices()[:2]
    for one, device in zip(parameters, devices, strict=True):
        one.grad = oplib.Tensor.from_array(jax.device_put(one.grad.array, device))
    clip_grads_with_norm_(parameters, 1.0, oplib.tensor(5.0))
    assert [one.grad.array.devices() for one in parameters] == [{device} for device in devices]
    np.testing.assert_allclose([one.grad.numpy() for one in parameters], [[0.6, 0.0], [0.0, 0.8]], rtol=1e-5)


def test_the_norm_of_gradients_on_several_devices_is_where_the_first_is():
    parameters = make_parameters([3.0, 0.0], [0.0, 4.0])
    devices = jax.devices()[:2][::-1]
    for one, device in zip(parameters, devices, strict=True):
        one.grad = oplib.Tensor.from_array(jax.device_put(one.grad.array, device))
    total = clip_grad_norm_(parameters, 1.0)
    assert total.array.devices() == {devices[0]}
    np.testing.assert_allclose(total.numpy(), 5.0, rtol=1e-6)
    assert [one.grad.array.devices() for one in parameters] == [{device} for device in devices]
    np.testing.assert_allclose([one.grad.numpy() for one in parameters], [[0.6, 0.0], [0.0, 0.8]], rtol=1e-5)
