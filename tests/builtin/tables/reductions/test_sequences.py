"""Slopes and integrals in both widths of JAX, and arrays that modules keep."""

import importlib
import pkgutil

import jax
import numpy as np
import pytest

import oplib
from oplib import builtin


@pytest.mark.parametrize("first", [False, True])
def test_slopes_are_found_in_programs_before_and_after_x64_is_switched(first: bool):
    """JAX keeps what it made of a NumPy array of int64 in a trace, also when its setting changes."""
    items = np.array([[1.0, 4.0, 9.0, 16.0]], np.float32)
    positions = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    find = jax.jit(lambda x, at: oplib.gradient(x, spacing=(at,), dim=1, edge_order=2)[0])
    for x64 in (first, not first, first):
        with jax.enable_x64(x64):
            np.testing.assert_allclose(find(items, positions), [[2.0, 4.0, 6.0, 8.0]], rtol=1e-6)


def test_no_module_of_ops_keeps_an_array_of_64_bits():
    modules = [name for _, name, _ in pkgutil.walk_packages(builtin.__path__, "oplib.builtin.")]
    assert len(modules) > 100
    wide = [
        f"{module}.{name}"
        for module in modules
        for name, value in vars(importlib.import_module(module)).items()
        if isinstance(value, np.ndarray) and value.dtype.itemsize == 8
    ]
    assert not wide, wide
