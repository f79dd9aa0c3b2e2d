"""Arrays on meshes, and the collectives of their programs."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

# The type of the result may be a tuple. What is started is counted, and not where it is done.
COLLECTIVE = re.compile(r" (all-gather|all-to-all|collective-permute|all-reduce|reduce-scatter)(?:-start)?\(")
X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
W = np.linspace(0.5, 2, 12, dtype=np.float32).reshape(4, 3)


def make_mesh(kind: AxisType = AxisType.Auto, shape: tuple[int, ...] = (8,)) -> jax.sharding.Mesh:
    return jax.make_mesh(shape, ("i", "k")[: len(shape)], axis_types=(kind,) * len(shape))


def put(value: Any, mesh: jax.sharding.Mesh, *spec: Any) -> jax.Array:
    return jax.device_put(jnp.asarray(value), NamedSharding(mesh, P(*spec)))


def count_collectives(jitted: Any, *args: Any) -> Counter[str]:
    """Counts the collectives of a program of ``jax.jit`` or ``oplib.jit``."""
    return Counter(COLLECTIVE.findall(jitted.lower(*args).compile().as_text()))


def read_collectives(jitted: Any, *args: Any) -> set[str]:
    return set(count_collectives(jitted, *args))
