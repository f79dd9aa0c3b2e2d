"""Names kept for parity."""

import importlib
import subprocess
import sys

import pytest

import oplib
from oplib import autograd
from oplib.autograd import parity
from oplib.errors import AutogradError, RegistrationError
from tests.threads import run_in_thread


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


NATIVE = """
_add_metadata_json _disable_profiler _disable_profiler_legacy _enable_profiler _enable_profiler_legacy
_enable_record_function _get_sequence_nr _kineto_step _KinetoEvent _pop_saved_tensors_default_hooks
_prepare_profiler _profiler_enabled _ProfilerResult _push_saved_tensors_default_hooks
_record_function_with_args_enter _record_function_with_args_exit _set_empty_test_observer
_supported_activities DeviceType kineto_available ProfilerEvent SavedTensor ProfilerActivity
ProfilerConfig ProfilerState
"""
OTHERS = """
_calculate_shape _make_grads _tensor_or_tensors_to_tuple _is_checkpoint_valid _engine_run_backward
_force_original_view_tracking _unsafe_preserve_version_counter _register_py_tensor_class_for_device
is_multithreading_enabled is_view_replay_enabled
"""
MODULES = "anomaly_mode forward_ad function functional grad_mode gradcheck graph"


@pytest.mark.spec("001.13")
@pytest.mark.parametrize("name", NATIVE.split())
def test_a_native_name_of_torch_can_be_imported(name):
    assert hasattr(autograd, name)


@pytest.mark.spec("001.2")
@pytest.mark.parametrize("name", OTHERS.split())
def test_a_private_name_of_torch_can_be_imported(name):
    assert hasattr(autograd, name)


@pytest.mark.spec("001.2")
@pytest.mark.parametrize("name", MODULES.split())
def test_a_module_of_torch_has_its_counterpart(name):
    assert importlib.import_module(f"oplib.autograd.{name}")


@pytest.mark.spec("001.3")
def test_type_aliases_can_be_used_in_annotations():
    assert isinstance(None, autograd._OptionalTensor)
    assert isinstance(oplib.ones(1), autograd._OptionalTensor)
    assert autograd._ShapeorNestedShape == tuple[int, ...]


@pytest.mark.slow
@pytest.mark.spec("001.12")
def test_an_engine_that_did_not_start_is_told_at_import():
    command = (
        "import oplib, sys; from oplib.autograd import parity; parity.init = lambda: False; "
        "import importlib; importlib.reload(oplib.autograd)"
    )
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=False)
    assert "autograd could not be initialised" in done.stderr
    assert autograd.init() is True


@pytest.mark.spec("001.2")
def test_a_version_can_be_kept_over_a_write():
    x = oplib.tensor([2.0], requires_grad=True) * 1
    y = x * x
    with autograd._unsafe_preserve_version_counter(x), oplib.no_grad():
        x.add_(1.0)
    assert (x.tolist(), x._version) == ([3.0], 0)
    (found,) = autograd.grad(y.sum(), x)
    assert found.tolist() == [4.0]


@pytest.mark.spec("D.12")
def test_what_is_not_taken_over_is_not_there():
    missing = ("enforce_grad_layout_policy", "set_stream", "_stash_obj_in_tls")
    assert [name for name in missing if hasattr(autograd, name) or hasattr(autograd.grad_mode, name)] == []


@pytest.mark.spec("001.15")
def test_multithreading_is_a_flag_of_the_thread():
    with autograd.set_multithreading_enabled(False):
        assert run_in_thread(autograd.is_multithreading_enabled)
        assert not autograd.is_multithreading_enabled()
    assert autograd.is_multithreading_enabled()
