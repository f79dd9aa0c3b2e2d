"""Kernels per platform: lowering decides which one runs, for one platform or several."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.experimental import pallas as pl

import oplib
from oplib.errors import MissingRuleError, ResultError, TracingError
from oplib.library import custom_op, refresh
from oplib.library.dispatch.fast_key import is_eligible
from oplib.library.kernels.kernel_choice import find_kernel, find_platform_kernels
from oplib.library.op_records.platforms import list_platforms, list_slots, name_platform

X = jnp.array([1.0, 2.0])


def scale(factor):
    def kernel(x: jax.Array) -> jax.Array:
        return x * factor

    return kernel


def make_op(name="plat::f", **kernels):
    """Makes an op whose kernels multiply; ``default=None`` omits the default kernel."""
    default = kernels.pop("default", 2)
    op = custom_op(name, scale(default or 2), device_types=None if default else ())
    for platform, factor in kernels.items():
        op.register_kernel(platform, scale(factor))
    return op


def lower(op, *platforms, x=X):
    return export.export(jax.jit(lambda x: op(x)), platforms=platforms)(x).mlir_module()


def factors_in(module):
    """Returns the factors in a lowered module."""
    found = (line.split("dense<")[1].split(">")[0] for line in module.splitlines() if "dense<" in line)
    return {float(number) for number in found if "e+" in number}


class TestWhichKernelRuns:
    def test_lowering_keeps_the_kernels_of_its_platforms_alone(self):
        op = make_op(cpu=3, cuda=5, tpu=7)
        assert factors_in(lower(op, "cpu")) == {3}
        assert factors_in(lower(op, "cuda")) == {5}
        assert factors_in(lower(op, "tpu")) == {7}
        assert factors_in(lower(op, "cpu", "cuda")) == {3, 5}
        assert factors_in(lower(op, "cpu", "rocm", "tpu")) == {3, 2, 7}

    def test_an_op_with_a_kernel_for_all_keeps_the_fast_path_beside_those_for_some(self):
        assert is_eligible(make_op(cuda=5)._opoverload.record)
        assert not is_eligible(make_op("plat::g", default=None, cuda=5)._opoverload.record)

    def test_a_program_for_several_platforms_runs_on_this_one(self):
        op = make_op(cpu=3, cuda=5)
        program = export.export(jax.jit(lambda x: op(x)), platforms=["cpu", "cuda"])(X)
        np.testing.assert_allclose(program.call(X), 3 * X)

    def test_it_may_have_symbolic_shapes_and_be_a_gradient(self):
        op = make_op(cpu=3, tpu=5)
        op.register_autograd(lambda ctx, g: op(g))
        grad = jax.jit(jax.grad(lambda x: op(x).sum()))
        length = jax.ShapeDtypeStruct(export.symbolic_shape("n"), jnp.float32)
        program = export.export(grad, platforms=["cpu", "tpu"])(length)
        assert {3, 5} <= factors_in(program.mlir_module())
        np.testing.assert_allclose(program.call(jnp.ones(4)), 3 * jnp.ones(4))

    def test_a_kernel_for_cuda_goes_before_one_for_gpu_whatever_was_first(self):
        for op in (make_op(cuda=5, gpu=11), make_op(gpu=11, cuda=5)):
            assert factors_in(lower(op, "cuda")) == {5}
            assert factors_in(lower(op, "rocm")) == {11}
            assert factors_in(lower(op, "cpu")) == {2}

    def test_a_kernel_for_gpu_serves_both_makers(self):
        assert set(find_platform_kernels(make_op(gpu=11)._opoverload.record)) == {"cuda", "rocm"}
        assert list_platforms("gpu") == ("cuda", "rocm")
        assert (list_slots("rocm"), list_slots("cpu")) == (("rocm", "gpu", "default"), ("cpu", "default"))

    def test_a_gpu_is_named_by_its_maker(self):
        class Gpu:
            platform = "gpu"

            class client:
                platform_version = "rocm 60000"

        assert name_platform(Gpu) == "rocm"
        Gpu.client.platform_version = "PJRT C API\ncuda 12080"
        assert name_platform(Gpu) == "cuda"
        assert name_platform(jax.devices("cpu")[0]) == "cpu"

    def test_another_platform_of_jax_has_the_default(self):
        record = make_op(cpu=3)._opoverload.record
        assert find_kernel(record, "METAL") is record.kernels["default"]

    def test_under_every_transformation_it_is_the_kernel_of_the_platform(self):
        op = make_op(cpu=3, tpu=7)
        op.register_autograd(lambda ctx, g: g * 10)
        for run in (op, jax.jit(op), jax.vmap(op), lambda x: jax.lax.map(op, x), jax.checkpoint(op)):
            np.testing.assert_allclose(run(X), 3 * X)
        np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(op)))(X), [10, 10])
        mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
        split = jax.sharding.PartitionSpec("d")
        spread = jax.shard_map(op, mesh=mesh, in_specs=split, out_specs=split)
        np.testing.assert_allclose(jax.jit(spread)(X), 3 * X)
        x = oplib.Tensor.from_array(X, requires_grad=True)
        op(x).sum().backward()
        assert (op(x).tolist(), x.grad.tolist()) == ([3, 6], [10, 10])

    def test_in_shard_map_one_kernel_may_return_a_constant(self):
        op = make_op(cpu=3)
        op.register_kernel("tpu", lambda x: jnp.zeros_like(x, shape=(1,)))
        mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
        split = jax.sharding.PartitionSpec("d")
        np.testing.assert_allclose(jax.shard_map(op, mesh=mesh, in_specs=split, out_specs=split)(X), 3 * X)

    def test_a_derivative_that_jax_derives_is_that_of_the_platforms_kernel(self):
        op = make_op(cpu=3, tpu=7)
        op.register_autograd("derive")
        grad = jax.jit(jax.grad(lambda x: op(x).sum()))
        np.testing.assert_allclose(grad(X), [3, 3])
        program = export.export(grad, platforms=["cpu", "tpu", "cuda"])(X)
        assert {2, 3, 7} <= factors_in(program.mlir_module())
        np.testing.assert_allclose(program.call(X), [3, 3])

    @pytest.mark.spec("D.61")
    def test_a_program_for_several_platforms_has_no_pallas_kernel_of_one(self):
        def double(x: jax.Array) -> jax.Array:
            def kernel(source: Any, target: Any) -> None:
                target[...] = source[...] * 2

            return pl.pallas_call(kernel, jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

        op = custom_op("plat::double", double, device_types="tpu")
        op.register_kernel("cpu", lambda x: x * 2)
        function, x = jax.jit(lambda x: op(x)), jnp.ones((8, 128))
        told = r"plat::double: a program for several platforms .*Got tpu, cpu.*platforms=\["
        with pytest.raises(TracingError, match=told):
            export.export(function, platforms=["tpu", "cpu"])(x)
        for platform in ("tpu", "cpu"):
            export.export(function, platforms=[platform])(x)

    def test_kernels_on_tensors_are_chosen_too(self):
        op = custom_op("plat::t", lambda x: x.exp(), schema="(Tensor x) -> Tensor")
        op.register_kernel("cpu", lambda x: x.tanh())
        np.testing.assert_allclose(op(oplib.Tensor.from_array(X)).numpy(), np.tanh(X), rtol=1e-6)
        np.testing.assert_allclose(jax.jit(op)(X), np.tanh(X), rtol=1e-6)
        module = lower(op, "cpu", "tpu")
        assert "stablehlo.tanh" in module
        assert "stablehlo.exponential" in module
        assert "stablehlo.exponential" not in lower(op, "cpu")


class TestWhereThereIsNone:
    def test_the_default_stands_in(self):
        assert factors_in(lower(make_op(tpu=7), "cuda", "tpu")) == {2, 7}

    def test_the_error_of_an_eager_call_lists_the_platforms(self):
        op = make_op(default=None, tpu=7, cuda=5)
        with pytest.raises(
            MissingRuleError,
            match=r"plat::f: .* kernel registered for platform 'cpu'\. Registered: cuda, tpu",
        ):
            op(X)

    def test_lowering_raises_for_any_of_its_platforms(self):
        op = make_op(default=None, cpu=3, cuda=5)
        assert factors_in(lower(op, "cpu", "cuda")) == {3, 5}
        with pytest.raises(MissingRuleError, match=r"for platform 'tpu'\. Registered: cpu, cuda\. Register"):
            lower(op, "cpu", "tpu")

    def test_a_machine_without_the_platform_can_still_lower_for_it(self):
        op = make_op(default=None, tpu=7)
        assert factors_in(lower(op, "tpu")) == {7}
        with pytest.raises(MissingRuleError, match="for platform 'cpu'"):
            jax.jit(lambda x: op(x))(X)
        with pytest.raises(MissingRuleError, match="for platform 'cpu'"):
            op(X)

    def test_an_op_without_kernels_raises_under_a_trace_too(self):
        op = make_op(default=None)
        with pytest.raises(MissingRuleError, match=r"platform 'cpu'\. Registered: none"):
            jax.jit(lambda x: op(x))(X)


class TestKernelsThatDiffer:
    def test_in_shape_are_refused_and_both_named(self):
        op = make_op()
        op.register_kernel("tpu", lambda x: x[:1])
        with pytest.raises(
            ResultError,
            match=r"plat::f: the kernels for 'tpu' and 'default' return different .*f32\[1\].*f32\[2\]",
        ):
            op(X)

    def test_in_dtype_are_refused(self):
        op = make_op()
        op.register_kernel("tpu", lambda x: x.astype(jnp.int32))
        with pytest.raises(ResultError, match=r"different results.*i32\[2\].*f32\[2\]"):
            jax.jit(lambda x: op(x))(X)

    def test_in_weak_typing_only_are_the_same(self):
        op = make_op()
        op.register_kernel("tpu", lambda x: jnp.broadcast_to(jnp.asarray(1.0), x.shape))
        np.testing.assert_allclose(op(X), 2 * X)

    def test_in_a_number_that_is_no_array_are_refused(self):
        op = custom_op("plat::n", lambda x: (x, 1), schema="(Tensor x) -> (Tensor, int)", compile=True)
        op.register_kernel("tpu", lambda x: (x, 2))
        with pytest.raises(ResultError, match="different results"):
            op(X)


def test_an_error_in_a_kernel_tells_for_which_platform_it_is():
    def broken(x: jax.Array) -> jax.Array:
        return x.nonsense

    op = make_op()
    op.register_kernel("tpu", broken)
    with pytest.raises(AttributeError) as caught:
        op(X)
    assert any(
        "This is the kernel for 'tpu'; kernels are traced on every" in note for note in caught.value.__notes__
    )


class TestAKernelThatComesLater:
    def test_eager_calls_and_new_traces_see_it_at_once(self):
        op = make_op()
        np.testing.assert_allclose(op(X), 2 * X)
        np.testing.assert_allclose(jax.jit(lambda x: op(x))(X), 2 * X)
        op.register_kernel("cpu", scale(3))
        np.testing.assert_allclose(op(X), 3 * X)
        np.testing.assert_allclose(jax.jit(lambda x: op(x))(X), 3 * X)
        np.testing.assert_allclose(jax.vmap(op)(X), 3 * X)

    def test_a_function_compiled_before_sees_it_after_refresh(self):
        op = make_op()
        compiled = jax.jit(lambda x: op(x) + 1)
        np.testing.assert_allclose(compiled(X), 2 * X + 1)
        op.register_kernel("cpu", scale(3))
        np.testing.assert_allclose(compiled(X), 2 * X + 1)
        refresh()
        np.testing.assert_allclose(compiled(X), 3 * X + 1)

    def test_lowering_an_older_trace_for_its_platform_names_refresh(self):
        op = make_op(default=None, tpu=7)
        function = jax.jit(lambda x: op(x))
        export.export(function, platforms=["tpu"])(X)
        op.register_kernel("cpu", scale(3))
        with pytest.raises(MissingRuleError, match=r"'cpu' was registered after .*tpu.*refresh\(\)"):
            function(X)
        refresh()
        np.testing.assert_allclose(function(X), 3 * X)
