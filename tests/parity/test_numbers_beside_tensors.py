"""Python numbers that a result cannot hold are refused where torch refuses them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oplib

torch = pytest.importorskip("torch")

CALLS = """
m.addcmul(t([1.]), t([1.]), t([1.]), value=1j)
t([1.]).addcmul_(t([1.]), t([1.]), value=1j)
m.addcdiv(t([1.]), t([1.]), t([1.]), value=1j)
m.add(t([1.]), t([1.]), alpha=1j)
m.add(t([1.]), 2., alpha=1j)
m.sub(t([1.]), t([1.]), alpha=1j)
m.rsub(t([1.]), t([1.]), alpha=1j)
t([1.]).add_(t([1.]), alpha=1j)
m.addmm(t([[1.]]), t([[1.]]), t([[1.]]), alpha=1j)
m.addmm(t([[1.]]), t([[1.]]), t([[1.]]), beta=1j)
m.addmv(t([1.]), t([[1.]]), t([1.]), alpha=1j)
m.addr(t([[1.]]), t([1.]), t([1.]), alpha=1j)
m.baddbmm(t([[[1.]]]), t([[[1.]]]), t([[[1.]]]), alpha=1j)
m.addbmm(t([[1.]]), t([[[1.]]]), t([[[1.]]]), beta=1j)
m.lerp(t([1.]), t([1.]), 1j)
m.lerp(t([1.]), t([3.]), m.tensor([1]))
m.lerp(t([1.]), t([3.]), m.tensor([True]))
m.lerp(t([1.]), t([3.]), t([.5], "float16"))
m.lerp(t([1.]), t([3.]), t(.5, "float16"))
m.where(m.tensor([False]), m.ones(1, dtype=m.int8), 300)
m.where(m.tensor([True]), m.ones(1, dtype=m.int8), 300)
m.where(m.tensor([True]), 300, m.ones(1, dtype=m.int8))
m.where(m.tensor([True]), 1e40, m.ones(1))
m.clamp(m.ones(1, dtype=m.int8), min=300)
m.clamp(m.ones(1, dtype=m.int8), max=300)
m.clamp(m.ones(1, dtype=m.uint8), min=-1)
m.clip(m.ones(1, dtype=m.int8), max=300)
m.clamp_min(m.ones(1, dtype=m.int8), 300)
m.clamp_max(m.ones(1, dtype=m.int8), 300)
m.clamp(m.ones(1, dtype=m.float16), max=1e6)
m.clamp(m.ones(1), max=1e40)
m.clamp(m.ones(1), max=1j)
m.add(m.ones(1, dtype=m.int8), 300)
m.mul(m.ones(1, dtype=m.int8), 300)
m.add(m.ones(1, dtype=m.uint8), -1)
m.eq(m.ones(1, dtype=m.int8), 300)
m.lt(m.ones(1, dtype=m.int8), 300)
m.maximum(m.ones(1, dtype=m.int8), m.tensor(300))
m.bitwise_and(m.ones(1, dtype=m.int8), 300)
m.bitwise_or(300, m.ones(1, dtype=m.int8))
m.remainder(m.ones(1, dtype=m.int8), 300)
m.fmod(m.ones(1, dtype=m.int8), 300)
m.floor_divide(m.ones(1, dtype=m.int8), 300)
m.pow(m.ones(1, dtype=m.int8), 300)
m.pow(300, m.ones(1, dtype=m.int8))
m.masked_fill(m.ones(1, dtype=m.int8), m.tensor([True]), 300)
m.index_fill(m.ones(1, dtype=m.int8), 0, m.tensor([0]), 300)
m.nn.functional.threshold(m.ones(1, dtype=m.int8), 2, 300)
m.nn.functional.pad(m.ones(1, dtype=m.int8), (1, 1), value=300)
m.nn.functional.hardtanh(m.ones(1, dtype=m.int8), -300, 300)
m.bucketize(m.ones(1, dtype=m.int8), m.tensor([1, 2]))
m.nn.functional.pad(m.ones(1), (1, 1), value=1j)
m.nn.functional.leaky_relu(m.ones(1), 1j)
m.nn.functional.elu(m.ones(1), 1j)
m.nn.functional.threshold(m.ones(1), 1j, 2)
m.nn.functional.softplus(m.ones(1), 1j)
m.add(m.ones(1, dtype=m.int8), m.ones(1, dtype=m.int8), alpha=1.5)
m.rsub(m.ones(1, dtype=m.int8), 3, alpha=1.5)
m.scatter(m.ones(1, dtype=m.int8), 0, m.tensor([0]), 300)
m.index_add(m.ones(1), 0, m.tensor([0]), m.ones(1), alpha=1j)
m.index_add(m.ones(1, dtype=m.int8), 0, m.tensor([0]), m.ones(1, dtype=m.int8), alpha=1.5)
m.fill(m.ones(1, dtype=m.int8), 300)
m.full((1, ), 300, dtype=m.int8)
m.full_like(m.ones(1, dtype=m.int8), 300)
m.nan_to_num(m.ones(1), nan=1j)
m.logit(m.tensor([.5]), eps=1j)
m.heaviside(m.ones(1), m.tensor(1j))
m.xlogy(m.ones(1), 1j)
m.dist(m.ones(1), m.ones(1), 1j)
m.renorm(m.ones(1, 1), 2, 0, 1j)
m.clamp(m.ones(1, dtype=m.int8), 0.5, 300)
m.clamp(m.ones(1, dtype=m.bool), max=300)
m.clamp(m.ones(1, dtype=m.float16), max=float("inf"))
m.where(m.tensor([False]), m.ones(1, dtype=m.uint8), -1)
m.where(m.tensor([False]), m.ones(1, dtype=m.uint8), -300)
m.where(m.tensor([False]), m.ones(1), 300)
m.where(m.tensor([False]), m.ones(1, dtype=m.int8), 1.5)
m.where(m.tensor([False]), m.ones(1), 1j)
m.pow(m.ones(1, dtype=m.float16), 1e6)
m.pow(m.ones(1, dtype=m.int8), 1e6)
m.lerp(t([1.]), t([3.]), m.tensor(1))
m.lerp(t([1.], "complex64"), t([3.], "complex64"), 1j)
m.addcmul(t([1.], "complex64"), t([1.]), t([1.]), value=1j)
m.add(t([1.], "complex64"), t([1.]), alpha=1j)
m.add(t([1.]), 1j, alpha=1j)
m.addmm(t([[1.]], "complex64"), t([[1.]], "complex64"), t([[1.]], "complex64"), alpha=1j)
t([1.]).lerp_(t([2.]), 1j)
m.ones(1, dtype=m.int8).clamp_(max=300)
m.ones(1, dtype=m.int8).clamp(7, 127)
m.ones(1, dtype=m.int8).clamp(-300)
m.rsub(t([1.]), 3, alpha=2)
m.rsub(m.ones(1, dtype=m.int8), 3, alpha=2)""".strip().splitlines()


def run(library: Any, call: str) -> Any:
    """Returns the items and dtype of a call's result; None if it is refused."""

    def t(items: Any, dtype: str = "float32") -> Any:
        return library.tensor(items, dtype=getattr(library, dtype))

    try:
        result = eval(call, {"m": library, "t": t})
    except (RuntimeError, TypeError, ValueError):
        return None
    return np.asarray(result)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.usefixtures("with_64_bits", "without_warnings")
def test_a_number_that_does_not_fit_is_refused_where_torch_refuses_it(call: str):
    found, expected = run(oplib, call), run(torch, call)
    assert (found is None) == (expected is None)
    if expected is not None:
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)
