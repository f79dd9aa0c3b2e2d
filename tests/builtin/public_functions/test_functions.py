"""Calls of built-in ops: as functions, through ``oplib.ops``, on arrays, with numbers."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.builtin.public_functions.registry import ALIASES, COMPOSED, FUNCTIONS
from oplib.errors import ArgumentError, DtypeError, UnknownOperatorError


def test_a_packet_takes_numbers_and_tensors_as_the_function_does():
    x = oplib.tensor([1.0, 2.0])
    for other in (2, 0.5, x, oplib.tensor(3.0)):
        for name in ("add", "mul", "div", "sub", "pow", "lt"):
            packet, function = getattr(oplib.ops.oplib, name), getattr(oplib, name)
            assert packet(x, other).tolist() == function(x, other).tolist()
    assert oplib.ops.oplib.where(x > 1, x, 0.0).tolist() == [0.0, 2.0]


def test_a_number_as_a_tensor_of_no_axes_has_its_gradient_through_the_packet_too():
    x, factor = oplib.tensor([1.0, 2.0]), oplib.tensor(3.0, requires_grad=True)
    oplib.ops.oplib.mul(x, factor).sum().backward()
    assert factor.grad.tolist() == 3.0


def test_a_namespace_of_ops_is_an_attribute_and_an_unknown_op_suggests_the_nearest():
    assert oplib.ops.oplib.exp.default.name() == "oplib::exp"
    with pytest.raises(UnknownOperatorError, match="exp"):
        oplib.ops.oplib.expp  # noqa: B018  looking it up is what raises


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_its_name_its_parameters_and_its_source(name):
    function = getattr(oplib, name)
    stem, in_place = name.removesuffix("_"), "_" if name.endswith("_") else ""
    assert function.__name__ == {**ALIASES, "lstsq": "linalg_lstsq"}.get(stem, stem) + in_place
    assert next(iter(inspect.signature(function).parameters)) != "self"
    assert function.__doc__
    if name not in COMPOSED:
        assert "Gradient:" in function.__doc__
        assert "torch." in function.__doc__


def test_arrays_in_give_arrays_out_and_a_tensor_among_them_a_tensor():
    a = jnp.array([1.0, 2.0])
    assert isinstance(oplib.add(a, 2.0), type(a))
    assert isinstance(oplib.add(a, oplib.ones(2)), oplib.Tensor)
    assert isinstance(oplib.ones(2) * a, oplib.Tensor)


def test_numpys_numbers_count_as_pythons_and_its_arrays_are_checked():
    x = oplib.tensor([1.0, 2.0], dtype=oplib.float16)
    assert (x * np.float32(2)).dtype == oplib.float16
    assert (x * np.ones(2, np.float32)).dtype == oplib.float32
    with pytest.raises(DtypeError, match="x64 is off"):
        x * np.ones(2)


def test_an_operand_of_another_kind_is_refused_with_the_schema():
    with pytest.raises(ArgumentError, match=r"argument 'other' .* expected a value of type 'Tensor'"):
        oplib.add(oplib.ones(2), [1.0])
    with pytest.raises(TypeError, match="unsupported operand"):
        oplib.ones(2) + "text"


def test_shapes_that_do_not_broadcast_name_both():
    with pytest.raises(ArgumentError, match=r"add: the sizes .* Got self f32\[2\], other f32\[3\]"):
        oplib.ones(2) + oplib.ones(3)


def test_ops_run_as_plain_python_where_compiling_is_off(monkeypatch):
    monkeypatch.setattr(oplib.config, "compile_kernels", False)
    x = oplib.tensor([0.5, 2.0], requires_grad=True)
    y = (x * 2.0).exp() + oplib.cat([x[1:], x[:1]]) ** 2
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp([1.0, 4.0]) + [1.0, 4.0], rtol=1e-5)


def test_a_tensor_moves_between_devices_with_its_history():
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    there = (x * 3).to(jax.devices()[-1])
    assert there.array.devices() == {jax.devices()[-1]}
    (there * 2).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_a_norm_of_arrays_takes_the_moments_of_the_batch_and_writes_running_ones_into_tensors_only():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    mean, variance = oplib.zeros(4), oplib.ones(4)
    normed = oplib.nn.functional.batch_norm(jnp.asarray(x), mean, variance, training=True)
    np.testing.assert_allclose(normed, (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5), rtol=1e-5)
    np.testing.assert_allclose(mean.numpy(), 0.1 * x.mean(0), rtol=1e-5)
    np.testing.assert_allclose(variance.numpy(), 0.9 + 0.1 * x.var(0, ddof=1), rtol=1e-5)
    with pytest.raises(
        ArgumentError, match="batch_norm: argument 'running_mean' is written, and only a Tens"
    ):
        oplib.nn.functional.batch_norm(jnp.asarray(x), jnp.zeros(4), None, training=True)


def test_an_instance_norm_of_arrays_writes_running_moments_into_tensors_only():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    mean = oplib.zeros(3)
    oplib.nn.functional.instance_norm(jnp.asarray(x), mean)
    np.testing.assert_allclose(mean.numpy(), 0.1 * x.mean((0, 2)), rtol=1e-5)
    with pytest.raises(ArgumentError, match="instance_norm: argument 'running_var' is written"):
        oplib.nn.functional.instance_norm(jnp.asarray(x), mean, jnp.ones(3))


def test_an_integer_of_64_bits_beside_floats_is_a_float():
    x = oplib.ones(2, requires_grad=True)
    for _ in range(3):  # the first call, one with cached numbers, and the fast path
        (x * 3_000_000_000).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(2, 9e9, np.float32))
    assert (x / 2**31 < 2**40).tolist() == [True, True]
    assert oplib.add(jnp.ones(2, "bfloat16"), 2**40).dtype == jnp.bfloat16
    assert (2**40 - oplib.ones(1, dtype=oplib.complex64)).dtype == oplib.complex64
    with jax.enable_x64(True):
        assert (oplib.ones(2, dtype=oplib.int64) * 2**40).tolist() == [2**40, 2**40]


def test_an_integer_that_no_integer_here_holds_is_not_cut_beside_integers():
    for _ in range(2):
        with pytest.raises(OverflowError, match=str(2**40)):
            oplib.tensor([1, 2]) + 2**40


def test_an_in_place_function_writes_and_returns_its_tensor_and_refuses_an_array():
    x = oplib.tensor([-1.0, 4.0])
    assert oplib.relu_(x) is x
    assert oplib.clamp_(x, max=3) is x
    assert x.tolist() == [0.0, 3.0]
    assert inspect.signature(oplib.clamp_) == inspect.signature(oplib.Tensor.clamp)
    with pytest.raises(ArgumentError, match="exp_: only a Tensor can be written in place"):
        oplib.exp_(jnp.ones(2))
    assert oplib.nn.functional.relu_ is oplib.relu_ is oplib.Tensor.relu_


def test_every_in_place_function_is_the_method_of_its_name():
    names = [name for name in FUNCTIONS if name.endswith("_") and name != "detach_"]
    assert len(names) > 60
    assert [name for name in names if getattr(oplib, name) is not getattr(oplib.Tensor, name)] == []
