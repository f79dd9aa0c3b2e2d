"""A GPU for programs that are lowered on a machine without one."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import jax

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
