"""Kernels that JAX cannot look into, in Pallas, Triton and C++: values, derivatives, batches, meshes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rms_norm_ffi
import softmax_triton
import swiglu_pallas
from jax import export
from jax.sharding import NamedSharding, PartitionSpec

import oplib
from tests.examples.accelerators import HAS_GPU, TRITON, imagine_gpu

pytestmark = [
    pytest.mark.slow,  # each compiles several programs
    pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning"),
]
SPLIT, WHOLE = PartitionSpec("rows"), PartitionSpec()
needs_compiler = pytest.mark.skipif(rms_norm_ffi.find_compiler() is None, reason="needs a C++ compiler")


@dataclass(frozen=True)
class Case:
    """An op as a function of arrays, the same in plain ``jnp``, and the batched arguments (``rows``)."""

    op: Callable[..., Any]
    plain: Callable[..., Any]
    rows: tuple[bool, ...]

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(range(len(self.rows)))


def plain_rms_norm(x, weight):
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight


CASES = [
    pytest.param(Case(swiglu_pallas.swiglu, swiglu_pallas.plain, (True, True)), id="pallas"),
    pytest.param(Case(softmax_triton.softmax_rows, jax.nn.softmax, (True,)), id="triton"),
    pytest.param(
        Case(lambda x, w: rms_norm_ffi.rms_norm(x, w)[0], plain_rms_norm, (True, False)),
        id="ffi",
        marks=needs_compiler,
    ),
]
every_case = pytest.mark.parametrize("case", CASES)


def draw(case: Case, *batch: int) -> list[jax.Array]:
    rng = np.random.default_rng(3)
    return [jnp.asarray(rng.normal(size=(*batch, 16, 8) if has else 8), jnp.float32) for has in case.rows]


def weigh(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a number to which every element contributes differently."""
    return lambda *arrays: (function(*arrays) ** 2 * jnp.arange(1.0, 9)).sum()


def derive(function: Callable[..., Any], case: Case) -> Callable[..., Any]:
    """Returns the result, its gradients, its tangent, and their tangents."""
    grad = jax.grad(weigh(function), case.places)
    return jax.jit(lambda *x: (function(*x), grad(*x), jax.jvp(function, x, x)[1], jax.jvp(grad, x, x)[1]))


@cache
def find_expected(case: Case) -> Any:
    return derive(case.plain, case)(*draw(case))


def assert_close(got: Any, expected: Any) -> None:
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)


@every_case
def test_it_agrees_with_the_plain_function(case: Case) -> None:
    arrays, expected = draw(case), find_expected(case)[0]
    assert_close(case.op(*arrays), expected)
    tensors = [oplib.Tensor.from_array(array) for array in arrays]
    assert_close(case.op(*tensors).array, expected)


@every_case
def test_its_derivatives_are_those_of_the_plain_function(case: Case) -> None:
    assert_close(derive(case.op, case)(*draw(case)), find_expected(case))


@every_case
def test_on_the_tape_its_gradients_are_those_of_the_plain_function(case: Case) -> None:
    arrays = draw(case)
    tensors = [oplib.Tensor.from_array(array, requires_grad=True) for array in arrays]
    (case.op(*tensors) ** 2 * oplib.arange(1.0, 9.0)).sum().backward()
    assert_close([tensor.grad.array for tensor in tensors], find_expected(case)[1])


@every_case
def test_it_is_batched_as_the_plain_function(case: Case) -> None:
    arrays, axes = draw(case, 3), [0 if has else None for has in case.rows]

    def batch(function):
        grad = jax.grad(weigh(function), case.places)
        return jax.jit(jax.vmap(lambda *x: (function(*x), grad(*x)), axes))

    assert_close(batch(case.op)(*arrays), batch(case.plain)(*arrays))


@needs_compiler
def test_a_batch_of_weights_is_one_call_of_cplusplus_too() -> None:
    weights = jax.device_put(jnp.arange(24.0).reshape(3, 8), jax.devices("cpu")[0])
    x = jnp.ones_like(weights, shape=(16, 8))
    batched = jax.jit(jax.vmap(lambda w: rms_norm_ffi.rms_norm(x, w)[0]))
    assert_close(batched(weights), jax.vmap(lambda w: plain_rms_norm(x, w))(weights))
    assert batched.lower(weights).as_text().count(rms_norm_ffi.TARGET) == 1


@pytest.mark.devices(4)
@every_case
@pytest.mark.parametrize("check_vma", [True, False])
def test_in_shard_map_its_gradients_are_those_of_the_plain_function(case: Case, check_vma: bool) -> None:
    if case.op is swiglu_pallas.swiglu and check_vma and jax.default_backend() == "cpu":
        pytest.skip("Pallas's interpreter knows no varying axes; what it compiles does")
    arrays = draw(case)
    mesh = jax.make_mesh((4,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))

    def spread(*local):
        return jax.lax.psum(weigh(case.op)(*local), "rows")

    specs = tuple(SPLIT if has else WHOLE for has in case.rows)
    total = jax.shard_map(spread, mesh=mesh, in_specs=specs, out_specs=WHOLE, check_vma=check_vma)
    assert_close(jax.jit(jax.grad(total, case.places))(*arrays), find_expected(case)[1])


@pytest.mark.devices(4)
@every_case
def test_on_rows_spread_over_devices_nothing_is_gathered(case: Case) -> None:
    mesh = jax.make_mesh((4,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    places = [NamedSharding(mesh, SPLIT if has else WHOLE) for has in case.rows]
    arrays = [jax.device_put(array, place) for array, place in zip(draw(case), places, strict=True)]
    grad = jax.grad(weigh(case.op), case.places)
    for function, expected in zip((case.op, grad), find_expected(case), strict=False):
        compiled = jax.jit(function).lower(*arrays).compile()
        text = compiled.as_text()
        assert "all-gather" not in text
        assert "all-to-all" not in text
        results = compiled(*arrays)
        assert_close(results, expected)
        first = results[0] if isinstance(results, tuple) else results
        assert first.sharding.is_equivalent_to(places[0], 2)


# Lowering for other machines ----------------------------------------------------------------------------


def test_the_pallas_kernel_is_lowered_for_a_tpu_here() -> None:
    x = jax.device_put(jnp.ones((16, 128)), jax.devices("cpu")[0])
    gate = jax.jit(lambda a, b: swiglu_pallas.swiglu(a, b))
    assert export.export(gate, platforms=["tpu"])(x, x).mlir_module().count("@tpu_custom_call") == 1
    assert_close(export.export(gate, platforms=["cpu"])(x, x).call(x, x), swiglu_pallas.plain(x, x))
    grad = jax.grad(lambda a, b: swiglu_pallas.swiglu(a, b).sum(), (0, 1))
    assert export.export(jax.jit(grad), platforms=["tpu"])(x, x).mlir_module().count("@tpu_custom_call") == 1


@pytest.mark.devices(4)
def test_inside_shard_map_the_pallas_kernels_are_lowered_for_tpus() -> None:
    mesh = jax.make_mesh((4,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))

    def loss(a, b):
        return jax.lax.psum(swiglu_pallas.swiglu(a, b).sum(), "rows")

    total = jax.shard_map(loss, mesh=mesh, in_specs=(SPLIT, SPLIT), out_specs=WHOLE)
    x = jnp.ones((64, 128))
    program = export.export(jax.jit(jax.grad(total, (0, 1))), platforms=["tpu"])(x, x)
    assert program.mlir_module().count("@tpu_custom_call") == 1


def test_the_triton_kernel_computes_a_softmax() -> None:
    """Runs the kernel by Pallas's interpreter, so that its body is tested on every machine."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 10)), jnp.float32)
    assert_close(softmax_triton.launch(x, interpret=True), jax.nn.softmax(x))


def test_the_triton_kernel_is_lowered_for_cuda_here() -> None:
    x = jnp.ones((4, 100))
    check = export.DisabledSafetyCheck.custom_call(TRITON)
    with imagine_gpu():
        program = export.export(
            jax.jit(lambda x: softmax_triton.softmax_rows(x)),
            platforms=["cuda"],
            disabled_checks=[check],
        )(x)
    assert program.mlir_module().count(f"@{TRITON}") == 1


@pytest.mark.skipif(not HAS_GPU, reason="needs a GPU, on which Triton compiles")
def test_on_a_gpu_the_triton_kernel_runs() -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(64, 100)), jnp.float32)
    x = jax.device_put(x, jax.devices("gpu")[0])
    run = jax.jit(softmax_triton.softmax_rows)
    assert "triton" in run.lower(x).as_text()
    assert_close(run(x), jax.nn.softmax(x))


@needs_compiler
def test_cplusplus_is_called_on_cpus_alone() -> None:
    x, weight = jnp.ones((4, 8)), jnp.ones(8)
    check = export.DisabledSafetyCheck.custom_call(rms_norm_ffi.TARGET)

    def lower(*platforms):
        function = jax.jit(lambda x, w: rms_norm_ffi.rms_norm(x, w)[0])
        program = export.export(function, platforms=platforms, disabled_checks=[check])(x, weight)
        return program.mlir_module().count(f"@{rms_norm_ffi.TARGET}")

    assert (lower("cpu"), lower("tpu"), lower("cpu", "cuda")) == (1, 0, 1)
