"""register_sharding for kernels on the host: each device processes its part, and nothing is gathered."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec as P

from oplib.errors import CompilationWarning
from oplib.library import CustomOpDef, custom_op
from oplib.tensor import Tensor

from .shards import X, make_mesh, put, read_collectives


def make_host_sine(seen: list[Any], rule: Any = "i j -> i j") -> CustomOpDef:
    """A sine on the host that records the shapes of its arguments."""

    @custom_op("shard::sine")
    def sine(x: np.ndarray) -> np.ndarray:
        seen.append(x.shape)
        return np.sin(x)

    sine.register_fake(lambda x: x)
    sine.register_autograd(
        lambda ctx, grad: grad * jnp.cos(ctx.saved_tensors[0]),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    if rule is not None:
        sine.register_sharding(rule)
    return sine


@pytest.mark.devices(8)
class TestHostKernels:
    def test_each_device_runs_its_part_and_nothing_is_gathered(self) -> None:
        seen: list[Any] = []
        sine = make_host_sine(seen)
        x = put(X, make_mesh(), "i")
        run = jax.jit(lambda x: sine(x) * 2)
        result = run(x)
        np.testing.assert_allclose(result, 2 * np.sin(X), rtol=1e-6)
        assert result.sharding.spec == P("i")
        assert seen == [(1, 4)] * 8
        assert read_collectives(run, x) == set()

    def test_the_gradient_is_cut_too(self) -> None:
        sine = make_host_sine([])
        x = put(X, make_mesh(), "i")
        run = jax.jit(jax.grad(lambda x: sine(x).sum()))
        np.testing.assert_allclose(run(x), np.cos(X), rtol=1e-6)
        assert run(x).sharding.spec == P("i")
        assert read_collectives(run, x) == set()

    def test_two_calls_of_one_op_may_be_cut_differently(self) -> None:
        seen: list[Any] = []
        sine, mesh, values = make_host_sine(seen), make_mesh(), X.repeat(2, 1)
        rows, columns = jax.jit(lambda x, y: (sine(x), sine(y)))(
            put(values, mesh, "i"), put(values, mesh, None, "i")
        )
        np.testing.assert_allclose(rows, np.sin(values), rtol=1e-6)
        np.testing.assert_allclose(columns, np.sin(values), rtol=1e-6)
        assert sorted(seen) == [(1, 8)] * 8 + [(8, 1)] * 8

    def test_two_of_them_in_one_program_are_distinguished(self) -> None:
        @custom_op("shard::cosine")
        def cosine(x: np.ndarray) -> np.ndarray:
            return np.cos(x)

        cosine.register_fake(lambda x: x)
        cosine.register_sharding("... -> ...")
        sine, x = make_host_sine([]), put(X, make_mesh(), "i")
        run = jax.jit(lambda x: sine(x) - cosine(x) + sine(2 * x))
        np.testing.assert_allclose(run(x), np.sin(X) - np.cos(X) + np.sin(2 * X), rtol=1e-5, atol=1e-6)
        assert read_collectives(run, x) == set()

    def test_vmap_cuts_the_batch_as_well(self) -> None:
        seen: list[Any] = []
        sine = make_host_sine(seen, "j -> j")
        x = put(X, make_mesh(), "i")
        run = jax.jit(jax.vmap(sine))
        np.testing.assert_allclose(run(x), np.sin(X), rtol=1e-6)
        assert seen == [(4,)] * 8
        assert read_collectives(run, x) == set()

    def test_in_shard_map_it_runs_on_its_arguments(self) -> None:
        seen: list[Any] = []
        sine, mesh = make_host_sine(seen), make_mesh()
        run = jax.jit(jax.shard_map(sine, mesh=mesh, in_specs=P("i"), out_specs=P("i")))
        np.testing.assert_allclose(run(put(X, mesh, "i")), np.sin(X), rtol=1e-6)
        assert seen == [(1, 4)] * 8

    def test_on_an_explicit_mesh_the_type_of_the_result_has_its_sharding(self) -> None:
        seen: list[Any] = []
        sine, mesh = make_host_sine(seen), make_mesh(AxisType.Explicit)
        with jax.set_mesh(mesh):
            x = put(X, mesh, "i")
            run = jax.jit(lambda x: (sine(x), jax.grad(lambda x: sine(x).sum())(x)))
            assert jax.eval_shape(run, x)[0].sharding.spec == P("i", None)
            value, grad = run(x)
        np.testing.assert_allclose(value, np.sin(X), rtol=1e-6)
        np.testing.assert_allclose(grad, np.cos(X), rtol=1e-6)
        assert set(seen) == {(1, 4)}

    def test_a_mesh_may_have_axes_of_both_kinds(self) -> None:
        seen: list[Any] = []
        sine = make_host_sine(seen)
        mesh = jax.make_mesh((4, 2), ("i", "k"), axis_types=(AxisType.Explicit, AxisType.Auto))
        with jax.set_mesh(mesh):
            result = jax.jit(sine)(put(X, mesh, "i"))
        np.testing.assert_allclose(result, np.sin(X), rtol=1e-6)
        assert seen == [(2, 4)] * 8

    def test_on_one_device_it_runs_as_without_a_rule(self) -> None:
        seen: list[Any] = []
        np.testing.assert_allclose(jax.jit(make_host_sine(seen))(X), np.sin(X), rtol=1e-6)
        assert seen == [(8, 4)]

    def test_an_eager_call_runs_on_the_parts_of_a_spread_array(self) -> None:
        seen: list[Any] = []
        sine = make_host_sine(seen)
        result = sine(put(X, make_mesh(), "i"))
        np.testing.assert_allclose(result, np.sin(X), rtol=1e-6)
        assert (result.sharding.spec, seen) == (P("i"), [(1, 4)] * 8)

    def test_on_the_tape_value_and_gradient_stay_cut(self) -> None:
        seen: list[Any] = []
        sine = make_host_sine(seen)
        x = Tensor.from_array(put(X, make_mesh(), "i"), requires_grad=True)
        y = sine(x)
        y.sum().backward()
        assert y.array.sharding.spec == P("i")
        assert set(seen) == {(1, 4)}
        np.testing.assert_allclose(x.grad.array, np.cos(X), rtol=1e-6)

    def test_without_a_rule_one_warning_reports_gathered_arrays(self) -> None:
        seen: list[Any] = []
        sine = make_host_sine(seen, None)
        x = put(X, make_mesh(), "i")
        with pytest.warns(
            CompilationWarning, match=r"shard::sine: its arrays will be gathered.*register_sharding"
        ) as warned:
            result = jax.jit(sine)(x)
        assert [one.filename for one in warned] == [__file__]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            jax.jit(lambda x: sine(x) + 1)(x)
        np.testing.assert_allclose(result, np.sin(X), rtol=1e-6)
        assert seen[0] == (8, 4)

    def test_an_error_of_the_kernel_names_the_op(self) -> None:
        sine = make_host_sine([])
        sine.register_fake(lambda x: jnp.zeros(x.shape, jnp.float16))
        x = put(X, make_mesh(), "i")
        with pytest.raises(
            Exception, match=r"shard::sine: the kernel's results differ from those of its fake"
        ):
            jax.jit(sine)(x).block_until_ready()
        sine.register_fake(lambda x: x)  # JAX raises the error again until the devices have run a program
        jax.jit(lambda x: sine(x) + 1)(x).block_until_ready()
        jax.effects_barrier()
