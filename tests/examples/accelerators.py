"""A GPU for programs that are lowered on a machine without one."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import export

PLATFORMS = ("cuda", "tpu")
TRITON = "__gpu$xla.gpu.triton"
HAS_GPU = any(device.platform == "gpu" for device in jax.devices())


def imagine_gpu() -> contextlib.AbstractContextManager[Any]:
    """Tells JAX the GPU for Triton code; up to 0.10 JAX makes the same code for all GPUs."""
    if HAS_GPU or "platform" not in inspect.signature(jax.sharding.AbstractDevice).parameters:
        return contextlib.nullcontext()
    gpu = jax.sharding.AbstractDevice(device_kind="NVIDIA H100", num_cores=132, platform="gpu")
    types = (jax.sharding.AxisType.Auto,)
    return jax.sharding.use_abstract_mesh(
        jax.sharding.AbstractMesh((1,), ("one",), axis_types=types, abstract_device=gpu)
    )


def lower(function: Callable[..., Any], arrays: Sequence[Any], platform: str) -> str:
    """Returns the program of a function for a platform."""
    check = export.DisabledSafetyCheck.custom_call(TRITON)  # JAX promises no compatibility of its code
    with imagine_gpu():
        exported = export.export(jax.jit(function), platforms=(platform,), disabled_checks=[check])
        return exported(*map(jnp.asarray, arrays)).mlir_module()
