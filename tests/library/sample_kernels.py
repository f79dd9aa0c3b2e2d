"""Kernels of each kind, for tests of registration."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.tensor import Tensor

KINDS = {"compiled": jax.Array, "host": np.ndarray, "eager": Tensor}
"""Returns the annotation of the tensors of a kernel, by its kind."""

ILLEGAL_NAMES = {
    "": "expected the name of an op",
    "a-b": "found '-'. The parts of a name are identifiers, of letters, digits and underscores",
    "1x": "found '1x'",
    "x.y.z": r"found '\.'",
    "f.default": "'default' is not a legal overload name",
    "f.__x__": "'__x__' is not a legal overload name",
}
"""The names that no op may have in its namespace, with the text of the error."""

X = jnp.zeros(2)


def add_one(x: jax.Array) -> jax.Array:
    """Adds one."""
    return x + 1


def add_two(x: jax.Array) -> jax.Array:
    return x + 2


def adding(number: float) -> Any:
    def kernel(x: jax.Array) -> jax.Array:
        return x + number

    return kernel


def eager(x: Tensor) -> Tensor:
    return x


def host(x: np.ndarray) -> np.ndarray:
    return x + 1


def schema_of(op: Any) -> str:
    return str(op._schema)
