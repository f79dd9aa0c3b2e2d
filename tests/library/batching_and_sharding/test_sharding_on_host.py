"""Kernels on the host in programs for several devices: on gathered arrays."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec as P

from oplib.errors import CompilationWarning, RegistrationValueError
from oplib.library import CustomOpDef, custom_op
from oplib.tensor import Tensor

from .shards import X, make_mesh, put


def make_host_sine(seen: list[Any], rule: Any = "i j -> i j", name: str = "sine") -> CustomOpDef:
    """A sine on the host that records the shapes of its arguments."""

    @custom_op(f"shard::{name}")
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


@pytest.mark.spec("D.61")
@pytest.mark.devices(8)
class TestHostKernels:
    @pytest.mark.parametrize("rule", ["i j -> i j", None], ids=["rule", "no rule"])
    @pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=["auto", "explicit"])
    def test_a_program_gathers_its_arrays_and_one_warning_reports_it(self, kind: Any, rule: Any) -> None:
        seen: list[Any] = []
        name = f"sine_{kind}_{rule is None}"  # the warning is issued once per op
        sine, mesh = make_host_sine(seen, rule, name), make_mesh(kind)
        with jax.set_mesh(mesh):
            x = put(X, mesh, "i")
            cure = r"Call it inside jax.shard_map, where each device runs it on its part\."
            with pytest.warns(
                CompilationWarning, match=rf"shard::{name}: its arrays will be gathered.*{cure}"
            ) as warned:
                result = jax.jit(sine)(x)
            assert [one.filename for one in warned] == [__file__]
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                grad = jax.jit(jax.grad(lambda x: sine(x).sum()))(x)
        np.testing.assert_allclose(result, np.sin(X), rtol=1e-6)
        np.testing.assert_allclose(grad, np.cos(X), rtol=1e-6)
        assert set(seen) == {(8, 4)}

    def test_in_shard_map_it_runs_on_its_arguments(self) -> None:
        seen: list[Any] = []
        sine, mesh = make_host_sine(seen), make_mesh()
        run = jax.jit(jax.shard_map(sine, mesh=mesh, in_specs=P("i"), out_specs=P("i")))
        np.testing.assert_allclose(run(put(X, mesh, "i")), np.sin(X), rtol=1e-6)
        assert seen == [(1, 4)] * 8

    def test_vmap_in_a_program_maps_it(self) -> None:
        sine = make_host_sine([], "j -> j", "mapped_sine")
        with pytest.warns(CompilationWarning, match="gathered"):
            result = jax.jit(jax.vmap(sine))(put(X, make_mesh(), "i"))
        np.testing.assert_allclose(result, np.sin(X), rtol=1e-6)

    def test_its_rule_is_compared_with_the_arrays(self) -> None:
        sine = make_host_sine([], "i -> i")
        with pytest.raises(RegistrationValueError, match=r"argument 0 \('x'\) has 2 axes"):
            jax.jit(sine)(put(X, make_mesh(), "i"))

    def test_an_eager_call_on_the_tape_runs_on_the_whole(self) -> None:
        seen: list[Any] = []
        sine = make_host_sine(seen)
        x = Tensor.from_array(put(X, make_mesh(), "i"), requires_grad=True)
        y = sine(x)
        y.sum().backward()
        np.testing.assert_allclose(y.array, np.sin(X), rtol=1e-6)
        np.testing.assert_allclose(x.grad.array, np.cos(X), rtol=1e-6)
        assert seen == [(8, 4)]
