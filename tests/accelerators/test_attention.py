"""Long attention on an accelerator: compiled kernels against the textbook formula in double precision."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib.nn.functional as F
from oplib import Tensor
from tests.accelerators.device import ACCELERATOR, IS_CPU, REFERENCE, needs_accelerator

pytestmark = [needs_accelerator, pytest.mark.slow]
LENGTH = 640  # over the least length of the kernels
WIDTH = 64
CASES = [
    pytest.param("float32", 2e-3, id="float32"),
    pytest.param("bfloat16", 5e-2, id="bfloat16"),
    pytest.param("float16", 1e-2, id="float16"),
]


def draw(heads: int, number: int, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(number)
    return rng.standard_normal((2, heads, LENGTH, WIDTH)).astype(np.float32).astype(jnp.dtype(dtype))


def attend(query: Any, key: Any, value: Any, *, is_causal: bool) -> Any:
    return F.scaled_dot_product_attention(query, key, value, is_causal=is_causal, enable_gqa=True)


def attend_plainly(query: Any, key: Any, value: Any, *, is_causal: bool) -> Any:
    """Computes the textbook formula; the heads of the keys serve several heads of queries each."""
    repeats = query.shape[1] // key.shape[1]
    key, value = (jnp.repeat(each, repeats, axis=1) for each in (key, value))
    scores = jnp.einsum("bhqd,bhkd->bhqk", query, key) / WIDTH**0.5
    if is_causal:
        scores = jnp.where(jnp.tri(LENGTH, dtype=bool), scores, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), value)


def lose(function: Any, is_causal: bool) -> Any:
    def loss(*operands: Any) -> tuple[Any, Any]:
        result = function(*operands, is_causal=is_causal)
        return (result.astype(jnp.float32) ** 2).sum(), result

    return jax.value_and_grad(loss, (0, 1, 2), has_aux=True)


def find_expected(operands: list[np.ndarray], *, is_causal: bool) -> list[np.ndarray]:
    with jax.enable_x64(True), jax.default_device(REFERENCE):
        wide = [jnp.asarray(np.asarray(each, np.float64)) for each in operands]
        (_, result), gradients = jax.jit(lose(attend_plainly, is_causal))(*wide)
        return [np.asarray(each) for each in (result, *gradients)]


def assert_near(found: list[Any], expected: list[np.ndarray], tolerance: float) -> None:
    for mine, its in zip(found, expected, strict=True):
        scale = float(np.abs(its).max())
        np.testing.assert_allclose(np.asarray(mine, np.float64), its, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize(("dtype", "tolerance"), CASES)
@pytest.mark.parametrize("is_causal", [True, False], ids=["causal", "whole"])
@pytest.mark.parametrize("shared", [1, 2], ids=["heads of their own", "grouped heads"])
def test_it_agrees_with_the_textbook_formula(
    dtype: str, tolerance: float, is_causal: bool, shared: int
) -> None:
    arrays = [draw(2 if number == 0 else 2 // shared, number, dtype) for number in range(3)]
    with jax.default_device(ACCELERATOR):
        operands = list(map(jnp.asarray, arrays))
        run = jax.jit(lose(attend, is_causal))
        text = run.lower(*operands).as_text()
        (_, result), gradients = run(*operands)
    assert IS_CPU or f"{LENGTH}x{LENGTH}" not in text
    assert_near([result, *gradients], find_expected(arrays, is_causal=is_causal), tolerance)


def test_on_the_tape_its_gradients_are_those_of_the_formula() -> None:
    arrays = [draw(2, number, "float32") for number in range(3)]
    with jax.default_device(ACCELERATOR):
        leaves = [Tensor.from_array(jnp.asarray(array), requires_grad=True) for array in arrays]
        result = attend(*leaves, is_causal=True)
        (result**2).sum().backward()
    found = [result.detach().array, *(leaf.grad.array for leaf in leaves)]
    assert_near(found, find_expected(arrays, is_causal=True), 2e-3)
