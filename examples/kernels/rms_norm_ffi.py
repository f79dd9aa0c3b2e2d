"""A function in C++, built by this machine's compiler, as the CPU kernel of an op.

On other platforms the op is a few lines of JAX. Run this file to see both.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.library import custom_op

SOURCE = Path(__file__).with_name("rms_norm.cc")
TARGET = "examples_rms_norm"


def find_compiler() -> str | None:
    """Returns a C++ compiler, or None if there is none."""
    return next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)


@cache
def build() -> None:
    """Compiles the function, loads it and registers it with JAX; once per process."""
    compiler = find_compiler()
    if compiler is None:
        raise RuntimeError("rms_norm_ffi: no C++ compiler is on PATH. Install one, such as g++ or clang.")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "rms_norm.so"
        include = f"-I{jax.ffi.include_dir()}"
        command = [compiler, "-std=c++17", "-O1", "-w", "-fPIC", "-shared", include, str(SOURCE)]
        subprocess.run([*command, "-o", str(library)], check=True)
        loaded = ctypes.CDLL(str(library))  # it stays loaded when the file is deleted
    jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(loaded.rms_norm), platform="cpu")


@custom_op("examples::rms_norm")
def rms_norm(x: jax.Array, weight: jax.Array, eps: float = 1e-6) -> tuple[jax.Array, jax.Array]:
    """Normalises rows.

    Args:
        x: f32[rows, columns].
        weight: f32[columns], the factors of the normalised rows.
        eps: a number to add to the mean square.

    Returns:
        The rows, and f32[rows, 1]: the factor of each row, which the backward needs.
    """
    scale = jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps)
    return x * scale * weight, scale


@rms_norm.register_kernel("cpu")
def _(x: jax.Array, weight: jax.Array, eps: float = 1e-6) -> tuple[jax.Array, jax.Array]:
    build()
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in (x.shape, (*x.shape[:-1], 1))]
    call = jax.ffi.ffi_call(TARGET, shapes, vmap_method="sequential")
    return tuple(call(x, weight, eps=np.float32(eps)))


@rms_norm.register_fake
def _(x: Any, weight: Any, eps: float = 1e-6) -> tuple[Any, Any]:
    return jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((*x.shape[:-1], 1), x.dtype)


def save(ctx: Any, inputs: Any, output: Any) -> None:
    """Saves the inputs and the scale, which the kernel has computed."""
    x, weight, _ = inputs
    ctx.save_for_backward(x, weight, output[1])


@rms_norm.register_autograd(setup_context=save)
def _(ctx: Any, g: jax.Array, g_scale: jax.Array) -> tuple[jax.Array, jax.Array, None]:
    x, weight, scale = ctx.saved_tensors
    g_scale = g_scale + (g * weight * x).sum(-1, keepdims=True)
    of_x = g * weight * scale - g_scale * scale**3 * x / x.shape[-1]
    return of_x, (g * x * scale).sum(0), None


@rms_norm.register_vmap
def _(info: Any, in_dims: Any, x: jax.Array, weight: jax.Array, eps: float = 1e-6) -> tuple[Any, int]:
    """Maps over more rows in one call. If each example has its own weight, it is multiplied afterwards."""
    x = (
        jnp.broadcast_to(x, (info.batch_size, *x.shape))
        if in_dims[0] is None
        else jnp.moveaxis(x, in_dims[0], 0)
    )
    own = in_dims[1] is not None
    rows = x.reshape(-1, x.shape[-1])
    y, scale = rms_norm(rows, jnp.ones(x.shape[-1], x.dtype) if own else weight, eps)
    y = y.reshape(x.shape) * jnp.moveaxis(weight, in_dims[1], 0)[:, None] if own else y.reshape(x.shape)
    return (y, scale.reshape(*x.shape[:-1], 1)), 0


# Rows may be on different devices, but each row is on one device.
rms_norm.register_sharding("i j, j -> i j, i k need_replication={j}")


if __name__ == "__main__":
    x = jax.random.normal(jax.random.key(0), (4, 100))
    weight = jnp.full(100, 2.0)
    ours = rms_norm(x, weight)[0]
    plain = x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * 2
    print("off by at most", float(abs(ours - plain).max()))
    print(jax.jit(lambda x: rms_norm(x, weight)[0]).lower(x).as_text().count(TARGET), "call of C++")
