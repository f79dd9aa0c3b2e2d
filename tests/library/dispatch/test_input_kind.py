"""Calls with Tensors, with arrays and with both: the kind of the results, and the kernel that runs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentError, DtypeError
from oplib.library import Tag, custom_op, define, impl, ops


def test_a_call_with_any_tensor_gives_tensors_and_arrays_in_it_are_constants() -> None:
    @custom_op("compiled::dot")
    def dot(x: jax.Array, y: jax.Array) -> jax.Array:
        return (x * y).sum()

    dot.register_autograd("derive")
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    result = dot(x, jnp.array([3.0, 4.0]))
    assert isinstance(result, oplib.Tensor)
    result.backward()
    assert x.grad.tolist() == [3.0, 4.0]


@pytest.mark.spec("D.30")
@pytest.mark.parametrize(
    ("number", "dtype"),
    [(2.0, "float32"), (2, "int32"), (True, "bool"), (2j, "complex64"), (np.float16(2), "float16"),
     (np.float64(2), "float32")],
)  # fmt: skip
def test_a_number_in_a_tensors_place_is_a_constant_for_a_kernel_on_arrays(number: Any, dtype: str) -> None:
    seen: list[Any] = []

    @custom_op("compiled::plus", autograd="derive")
    def plus(x: jax.Array, y: jax.Array) -> jax.Array:
        seen.append((y.dtype, y.weak_type))
        return x + y

    x = oplib.tensor([1.0], requires_grad=True)
    result = plus(x, number)
    assert seen[-1] == (dtype, False)
    assert isinstance(result, oplib.Tensor)
    result.abs().sum().backward()
    assert x.grad.shape == (1,)
    assert plus(number, x).tolist() == result.tolist()
    assert plus(jnp.array([1.0]), number).tolist() == result.tolist()


@pytest.mark.spec("D.30")
def test_a_number_in_a_tensors_place_is_refused_by_a_kernel_on_tensors_and_a_built_in_op() -> None:
    @custom_op("compiled::eager_plus")
    def plus(x: oplib.Tensor, y: oplib.Tensor) -> oplib.Tensor:
        return x + y

    x = oplib.tensor([1.0])
    for op in (plus, oplib.ops.oplib.matmul.default):
        with pytest.raises(
            ArgumentError, match=r"Expected a value of type 'Tensor' for argument .*found type 'float'"
        ):
            op(x, 2.0)
    assert plus(jnp.array([1.0]), 2.0).tolist() == [3.0]


def test_a_number_for_a_tensor_may_change_without_a_new_compilation() -> None:
    traced: list[Any] = []

    @custom_op("compiled::times")
    def times(x: jax.Array, y: jax.Array) -> jax.Array:
        traced.append(y)
        return x * y

    x = oplib.tensor([1.0])
    assert [times(x, float(number)).item() for number in range(5)] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert len(traced) == 1


def test_numbers_in_a_list_of_tensors_are_refused_and_taken_beside_arrays() -> None:
    @custom_op("compiled::total")
    def total(xs: list[jax.Array], y: jax.Array | None = None) -> jax.Array:
        return jnp.asarray(sum(xs)) + (0.0 if y is None else y)

    with pytest.raises(
        TypeError, match=r"Expected a value of type 'Tensor' for argument 'xs'.*found type 'int'.*tensor\(2\)"
    ):
        total([2, 3])
    assert total([jnp.ones(()), 2]).item() == 3.0
    assert total([oplib.ones(1)[0], 2]).item() == 3.0
    assert total([1, 2], jnp.ones(())).item() == 4.0


def test_an_op_without_tensor_arguments_gives_tensors_and_its_arrays_form_gives_arrays() -> None:
    @custom_op("compiled::ramp")
    def ramp(length: int) -> jax.Array:
        return jnp.arange(length, dtype=jnp.float32)

    assert isinstance(ramp(3), oplib.Tensor)
    array = ops.compiled.ramp.default.arrays(3)
    assert isinstance(array, jax.Array)
    assert array.tolist() == ramp(3).tolist() == [0.0, 1.0, 2.0]


def test_a_kernel_registered_later_is_seen_at_once_by_eager_calls_and_new_traces() -> None:
    @custom_op("compiled::late")
    def late(x: jax.Array) -> jax.Array:
        return x * 2

    assert late(jnp.ones(())) == 2.0
    assert jax.jit(lambda x: late(x))(jnp.ones(())) == 2.0
    late.register_kernel("cpu", lambda x: x * 5)
    assert late(jnp.ones(())) == 5.0
    assert late(oplib.tensor(1.0)).item() == 5.0
    assert jax.jit(lambda x: late(x))(jnp.ones(())) == 5.0


def test_the_error_of_a_missing_platform_lists_the_kernels() -> None:
    define("compiled::tpu_only", "(Tensor x) -> Tensor")
    impl("compiled::tpu_only", "tpu", lambda x: x)
    with pytest.raises(NotImplementedError, match=r"Could not run.*'cpu'.*Registered: tpu"):
        ops.compiled.tpu_only(oplib.tensor([1.0]))


def test_an_inplace_or_out_op_of_an_array_kernel_returns_the_written_objects() -> None:
    @custom_op("compiled::twice_", mutates_args=("x",), tags=Tag.inplace)
    def twice_(x: jax.Array) -> jax.Array:
        return x * 2

    @custom_op("compiled::add_out", mutates_args=("out",), tags=Tag.out)
    def add_out(x: jax.Array, *, out: jax.Array) -> jax.Array:
        return x + 1

    x, out = oplib.tensor([1.0]), oplib.tensor([0.0])
    assert twice_(x) is x
    assert add_out(x, out=out) is out
    assert (x.tolist(), out.tolist()) == ([2.0], [3.0])


def test_a_one_tuple_is_a_return_of_its_own() -> None:
    @custom_op("compiled::single", schema="(Tensor x) -> ((Tensor))")
    def single(x: jax.Array) -> tuple[jax.Array]:
        return (x * 2,)

    single.register_autograd("derive")
    x = oplib.tensor([1.0], requires_grad=True)
    (result,) = single(x)
    result.sum().backward()
    assert x.grad.item() == 2.0
    assert single(jnp.ones(1))[0].tolist() == [2.0]


@pytest.mark.parametrize("keyword", [False, True], ids=["positional", "by keyword"])
def test_present_and_absent_optional_tensors_are_distinguished(keyword: bool) -> None:
    @custom_op("compiled::affine")
    def affine(x: jax.Array, w: jax.Array, b: jax.Array | None = None, *, scale: float = 1.0) -> jax.Array:
        return scale * x * w if b is None else scale * x * w + b

    affine.register_autograd("derive")
    call = (
        (lambda x, w, b: affine(x, w, b=b, scale=3.0))
        if keyword
        else (lambda x, w, b: affine(x, w, b, scale=3.0))
    )
    for _ in range(3):  # the first call takes the complete path, the others the fast path
        for bias in (None, 5.0):
            w = oplib.tensor([2.0], requires_grad=True)
            b = None if bias is None else oplib.tensor([bias], requires_grad=True)
            result = call(oplib.tensor([7.0]), w, b)
            assert result.item() == 42.0 + (bias or 0.0)
            result.sum().backward()
            assert w.grad.item() == 21.0
            assert b is None or b.grad.item() == 1.0
            arrays = call(jnp.array([7.0]), jnp.array([2.0]), None if bias is None else jnp.array([bias]))
            assert arrays.tolist() == [42.0 + (bias or 0.0)]


def test_the_complete_path_and_the_fast_path_run_the_same_executable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @custom_op("compiled::once")
    def once(x: jax.Array, w: jax.Array) -> jax.Array:
        return x * w

    x = oplib.tensor([1.0, 2.0])
    with jax.log_compiles(), caplog.at_level("WARNING"):
        for _ in range(3):
            once(x, x)
    compiled = [record for record in caplog.records if record.getMessage().startswith("Compiling")]
    assert len(compiled) == 1


def test_numpy_arrays_among_tensors_keep_to_the_rules_for_dtypes() -> None:
    @custom_op("compiled::plus64")
    def plus64(x: jax.Array, y: jax.Array) -> jax.Array:
        return x + y

    with pytest.raises(DtypeError, match="int32"):
        plus64(oplib.ones(2), np.arange(2) + 2**40)
    assert plus64(oplib.ones(2), np.ones(2, np.float32)).tolist() == [2.0, 2.0]


def test_a_tensor_that_requires_grad_is_not_taken_for_a_number() -> None:
    @custom_op("compiled::by_number")
    def by_number(x: jax.Array, scale: float) -> jax.Array:
        return x * scale

    scale = oplib.tensor(2.0, requires_grad=True)
    with pytest.raises(ArgumentError, match=r"argument 'scale'.*would lose its gradient"):
        by_number(oplib.ones(2), scale)
    assert by_number(oplib.ones(2), scale.detach()).tolist() == [2.0, 2.0]


def test_the_name_of_an_op_comes_first() -> None:
    with pytest.raises(TypeError, match=r"custom_op: the name comes first. Got 3, of type int"):
        custom_op(3)  # pyright: ignore[reportArgumentType, reportCallIssue]
