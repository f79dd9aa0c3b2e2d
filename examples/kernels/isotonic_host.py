"""Isotonic regression on the host: a loop that array libraries do not offer, in Python, numba and C.

Each version is a kernel annotated ``numpy.ndarray``. An eager call runs it directly; under a trace it is a
callback with the shapes of its fake kernel. Run this file to see that all three agree.
"""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.library import CustomOpDef, custom_op

Fit = Callable[[np.ndarray], np.ndarray]


# Three implementations ----------------------------------------------------------------------------------


def fit_in_python(x: np.ndarray) -> np.ndarray:
    """Returns the nearest non-decreasing rows: decreasing neighbours are pooled into their mean."""
    y = np.empty_like(x)
    rows, columns = x.shape
    mean, count = np.empty(columns), np.empty(columns, np.int64)
    for row in range(rows):
        blocks = 0
        for value in x[row]:
            mean[blocks], count[blocks] = value, 1
            blocks += 1
            while blocks > 1 and mean[blocks - 2] > mean[blocks - 1]:
                both = count[blocks - 2] + count[blocks - 1]
                mean[blocks - 2] += (mean[blocks - 1] - mean[blocks - 2]) * count[blocks - 1] / both
                count[blocks - 2] = both
                blocks -= 1
        y[row] = np.repeat(mean[:blocks], count[:blocks])
    return y


def has_numba() -> bool:
    """Tells whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


@cache
def compile_by_numba() -> Fit:
    """Returns the same function, compiled by numba at its first call."""
    import numba  # noqa: PLC0415  optional, and slow to import

    return numba.njit(fit_in_python)


def fit_in_numba(x: np.ndarray) -> np.ndarray:
    """The same, compiled."""
    return compile_by_numba()(x)


def find_compiler() -> str | None:
    """Returns a C compiler, or None if there is none."""
    return next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)


@cache
def build_library() -> Any:
    """Returns the library built from isotonic.c by this machine's compiler."""
    compiler = find_compiler()
    if compiler is None:
        raise RuntimeError("isotonic_host: no C compiler is on PATH. Install one, such as gcc or clang.")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "isotonic.so"
        source = Path(__file__).with_name("isotonic.c")
        subprocess.run([compiler, "-O2", "-fPIC", "-shared", str(source), "-o", str(library)], check=True)
        loaded = ctypes.CDLL(str(library))
    matrix = np.ctypeslib.ndpointer(np.float32, ndim=2, flags="C_CONTIGUOUS")
    loaded.fit_rows.argtypes = [matrix, matrix, ctypes.c_int64, ctypes.c_int64]
    return loaded


def fit_in_c(x: np.ndarray) -> np.ndarray:
    """The same in C, called through ctypes."""
    y = np.empty_like(x)
    if build_library().fit_rows(np.ascontiguousarray(x), y, *x.shape):
        raise MemoryError("isotonic_host: fit_rows found no memory.")
    return y


# The op of an implementation ----------------------------------------------------------------------------


def make_op(name: str, fit: Fit) -> CustomOpDef:
    """Makes an op of one implementation: f32[rows, columns] to the same."""

    @custom_op(name)
    def isotonic(x: np.ndarray) -> np.ndarray:
        return fit(x)

    isotonic.register_fake(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))
    isotonic.register_autograd(average_blocks, setup_context=save_output)

    @isotonic.register_vmap
    def _(info: Any, in_dims: Any, x: jax.Array) -> tuple[jax.Array, int]:
        """Folds a batch of matrices into one matrix with more rows, for one call."""
        x = jnp.moveaxis(x, in_dims[0], 0)
        return isotonic(x.reshape(-1, x.shape[-1])).reshape(x.shape), 0

    return isotonic


def save_output(ctx: Any, inputs: Any, output: jax.Array) -> None:
    """Saves the result: its constant stretches are the pooled blocks."""
    ctx.save_for_backward(output)


def average_blocks(ctx: Any, g: jax.Array) -> jax.Array:
    """Averages gradients over each block, because each value of a block is the mean of its inputs."""
    (y,) = ctx.saved_tensors

    def average(row: jax.Array, g: jax.Array) -> jax.Array:
        is_new = jnp.concatenate([jnp.ones(1, bool), row[1:] != row[:-1]])
        block = jnp.cumsum(is_new) - 1
        total = jnp.zeros_like(g).at[block].add(g)
        count = jnp.zeros_like(g).at[block].add(1.0)
        return total[block] / count[block]

    return jax.vmap(average)(y, g)


isotonic = make_op("examples::isotonic", fit_in_numba if has_numba() else fit_in_python)


if __name__ == "__main__":
    x = jax.random.normal(jax.random.key(0), (2, 8)) + jnp.arange(8)
    print(isotonic(x))
    print(jax.jit(jax.grad(lambda x: (isotonic(x) ** 2).sum()))(x))
    for fit in (fit_in_c, *[fit_in_numba] * has_numba()):
        print(fit.__name__, "off by at most", abs(fit(np.asarray(x)) - fit_in_python(np.asarray(x))).max())
