"""Names kept for parity."""

import pytest

import oplib
from oplib import autograd
from oplib.autograd import parity
from oplib.errors import AutogradError, RegistrationError


@pytest.mark.spec("001.2", "D.22")
def test_every_tensor_is_a_variable():
    x = oplib.tensor([1.0])
    assert isinstance(x, autograd.Variable)
    assert not isinstance(3, autograd.Variable)
    marked = autograd.Variable(x, requires_grad=True)
    assert isinstance(marked, oplib.Tensor)
    assert marked.requires_grad
    assert not x.requires_grad


@pytest.mark.spec("001.11")
def test_variable_the_function_refuses_and_carries_the_class():
    with pytest.raises(AutogradError, match=r"deprecated.*oplib\.tensor"):
        autograd.variable([1.0])
    assert autograd.variable.Variable is autograd.Variable


@pytest.mark.spec("001.2")
def test_nested_io_function_is_a_function():
    assert issubclass(autograd.NestedIOFunction, autograd.Function)


@pytest.mark.spec("001.16")
def test_view_replay_is_a_flag():
    assert not autograd.is_view_replay_enabled()
    with autograd._force_original_view_tracking(True):
        assert autograd.is_view_replay_enabled()
    assert not autograd.is_view_replay_enabled()


@pytest.mark.spec("001.14")
def test_a_tensor_class_for_a_device_must_be_a_class():
    with pytest.raises(RegistrationError, match="typeinfo"):
        autograd._register_py_tensor_class_for_device("cpu", 3)


@pytest.mark.spec("001.13")
def test_the_next_sequence_number_counts_recorded_operations():
    x = oplib.tensor([1.0], requires_grad=True)
    before = autograd._get_sequence_nr()
    _ = x * 2
    assert autograd._get_sequence_nr() == before + 1


@pytest.mark.spec("001.13", "D.22")
def test_there_is_no_profiler():
    assert autograd.kineto_available() is False
    with pytest.raises(AutogradError, match=r"jax\.profiler"):
        parity._enable_profiler()


@pytest.mark.spec("001.2", "001.13")
def test_private_names_of_torch_can_be_imported():
    names = (
        "_calculate_shape",
        "_make_grads",
        "_tensor_or_tensors_to_tuple",
        "_is_checkpoint_valid",
        "SavedTensor",
    )
    assert [name for name in names if not hasattr(autograd, name)] == []
