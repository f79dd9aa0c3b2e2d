"""Dtypes under torch's names. They are numpy's dtype objects, which JAX uses too.

Import the module, not its names: some of them shadow Python's builtins, as in torch.
"""

import jax.numpy as jnp
import numpy as np

dtype = np.dtype  # for `isinstance(x.dtype, oplib.dtype)`

float16 = half = np.dtype(np.float16)
bfloat16 = np.dtype(jnp.bfloat16)
float32 = float = np.dtype(np.float32)  # noqa: A001  torch's name
float64 = double = np.dtype(np.float64)
float8_e4m3fn = np.dtype(jnp.float8_e4m3fn)
float8_e4m3fnuz = np.dtype(jnp.float8_e4m3fnuz)
float8_e5m2 = np.dtype(jnp.float8_e5m2)
float8_e5m2fnuz = np.dtype(jnp.float8_e5m2fnuz)
complex64 = cfloat = np.dtype(np.complex64)
complex128 = cdouble = np.dtype(np.complex128)
uint8 = np.dtype(np.uint8)
uint16 = np.dtype(np.uint16)
uint32 = np.dtype(np.uint32)
uint64 = np.dtype(np.uint64)
int8 = np.dtype(np.int8)
int16 = short = np.dtype(np.int16)
int32 = int = np.dtype(np.int32)  # noqa: A001  torch's name
int64 = np.dtype(np.int64)
bool = np.dtype(np.bool_)  # noqa: A001  torch's name

__all__ = [
    "bfloat16",
    "bool",
    "cdouble",
    "cfloat",
    "complex64",
    "complex128",
    "double",
    "dtype",
    "float",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float16",
    "float32",
    "float64",
    "half",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "short",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
