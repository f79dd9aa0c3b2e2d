"""The device that these tests compare with a CPU.

It is a GPU or TPU if JAX has one, and otherwise another CPU device, so that every run tries the tests
themselves. ``OPLIB_ACCELERATOR`` names a platform that must be there: ``gpu``, ``tpu`` or ``cpu``.
"""

from __future__ import annotations

import os
from typing import Any

import jax
import pytest

ASKED_FOR = os.environ.get("OPLIB_ACCELERATOR", "")
REFERENCE: Any = jax.devices("cpu")[0]


def find_accelerator() -> Any:
    """Returns the device to test; None if the platform that was asked for is not there."""
    device = jax.devices()[0]
    if ASKED_FOR not in ("", "cpu") and device.platform != ASKED_FOR:
        return None
    return jax.devices("cpu")[-1] if device.platform == "cpu" or ASKED_FOR == "cpu" else device


ACCELERATOR: Any = find_accelerator()
IS_CPU = ACCELERATOR is not None and ACCELERATOR.platform == "cpu"
needs_accelerator = pytest.mark.skipif(
    ACCELERATOR is None, reason=f"OPLIB_ACCELERATOR={ASKED_FOR}, and JAX has {jax.default_backend()} alone"
)
needs_gpu = pytest.mark.skipif(
    ACCELERATOR is None or ACCELERATOR.platform != "gpu", reason="needs a GPU, whose compilers are tested"
)
