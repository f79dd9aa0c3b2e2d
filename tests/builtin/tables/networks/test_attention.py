"""scaled_dot_product_attention: the formula for CPUs and that of jax.nn, both spread over devices too."""

from __future__ import annotations

import importlib
import math
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import oplib.nn.functional as F
from oplib.errors import ArgumentError
from tests.library.batching_and_sharding.shards import read_collectives

attention: Any = importlib.import_module(
    "oplib.builtin.tables.networks.attention"
)  # of ``oplib.ops`` it would be a namespace
BY_JAX, BY_FORMULA = attention._attend, attention._attend_by_formula
EINSUM = "BTNH,BSNH->BNTS"  # how jax.nn names its first product in programs
DRAWN = np.random.default_rng(5)
SEEN = DRAWN.random((2, 1, 3, 5)) > 0.5
SEEN[:, :, 1] = False  # a query that sees no key
ADDED = np.where(SEEN[0, 0], DRAWN.standard_normal((3, 5)), -math.inf).astype("float32")
HOW = {"is_causal": False, "scale": 0.4, "enable_gqa": False}
CASES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "plain": ("float32", None, HOW),
    "causal": ("float32", None, {**HOW, "is_causal": True}),
    "shared": ("float32", None, {**HOW, "enable_gqa": True}),
    "bools": ("float32", SEEN, HOW),
    "numbers": ("float32", ADDED, HOW),
    "half": ("bfloat16", ADDED, {**HOW, "enable_gqa": True}),
}


def draw(heads: int, dtype: str = "float32") -> list[jax.Array]:
    shapes = ((2, 4, 3, 8), (2, heads, 5, 8), (2, heads, 5, 8))
    return [
        jnp.asarray(np.random.default_rng(seed).standard_normal(one), dtype)
        for seed, one in enumerate(shapes)
    ]


def run_all(kernel: Any) -> Any:
    """Computes values and gradients of all cases, also of one head and without a batch, in one program."""

    def run(case: str, *arrays: Any) -> Any:
        _, mask, how = CASES[case]
        return kernel(*arrays, None if mask is None else jnp.asarray(mask), **how)

    def differentiate(case: str) -> Any:
        dtype, _, how = CASES[case]
        arrays = draw(2 if how["enable_gqa"] else 4, dtype)
        lose = lambda *given: (run(case, *given).astype("float32") ** 2).sum()  # noqa: E731  shorter
        return run(case, *arrays), jax.grad(lose, (0, 1, 2))(*arrays)

    def run_every() -> dict[str, Any]:
        few = [one[0] for one in draw(4)]
        fewer = [one[0, 0] for one in draw(4)]
        by_rank = {f"rank {given[0].ndim}": kernel(*given, **HOW) for given in (few, fewer)}
        return {**by_rank, **{case: differentiate(case) for case in CASES}}

    return jax.jit(run_every)()


@pytest.mark.slow
def test_the_formula_for_cpus_agrees_with_jax_nn_and_masked_queries_are_zero() -> None:
    mine, its = run_all(BY_FORMULA), run_all(BY_JAX)
    assert not mine["bools"][0][:, :, 1].any()
    for case, found in mine.items():
        close = 2e-2 if case == "half" else 1e-5
        pairs = zip(jax.tree.leaves(found), jax.tree.leaves(its[case]), strict=True)
        for one, other in pairs:
            assert one.dtype == other.dtype
            np.testing.assert_allclose(
                one.astype("float32"), other.astype("float32"), rtol=close, atol=close, err_msg=case
            )


def lower(platform: str, *shapes: tuple[int, ...], dtype: str = "float32", mask: Any = None) -> str:
    """Returns the program of a value and its gradients for a platform, with the names of its sources."""

    def lose(*arrays: Any) -> Any:
        return F.scaled_dot_product_attention(*arrays, mask).sum()

    given = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    traced = jax.jit(jax.value_and_grad(lose, (0, 1, 2))).trace(*given)
    return traced.lower(lowering_platforms=(platform,)).as_text(debug_info=True)


ALIKE = ((2, 4, 3, 8),) * 3


@pytest.mark.parametrize("mask", [None, jax.ShapeDtypeStruct((3, 3), bool)], ids=["plain", "masked"])
def test_accelerators_get_jax_nn_and_cpus_the_formula(mask: Any) -> None:
    given = None if mask is None else np.tril(np.ones(mask.shape, mask.dtype))
    found = {
        platform
        for platform in ("cpu", "cuda", "rocm", "tpu")
        if EINSUM in lower(platform, *ALIKE, mask=given)
    }
    assert found == {"cuda", "rocm", "tpu"}


def test_operands_that_jax_nn_refuses_use_the_formula_on_accelerators_too() -> None:
    assert EINSUM not in lower("cuda", *ALIKE[:2], (2, 4, 3, 5))  # values of another width
    assert EINSUM not in lower("cuda", *[(1, *ALIKE[0])] * 3)  # five axes
    with jax.enable_x64(True):
        assert EINSUM not in lower("cuda", *ALIKE, dtype="float64")  # jax.nn rounds to single precision
    with jax.numpy_dtype_promotion("strict"):
        assert EINSUM not in lower("cuda", *ALIKE, dtype="bfloat16")  # jax.nn mixes dtypes


@pytest.mark.devices(8)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=["auto", "explicit"])
@pytest.mark.parametrize(("length", "heads"), [(6, 8), (6, 4), pytest.param(513, 4, marks=pytest.mark.slow)])
def test_batches_and_heads_are_spread_and_nothing_is_gathered(kind: Any, length: int, heads: int) -> None:
    """Tests short and long sequences, with separate and shared heads; forward and backward."""
    mesh = jax.make_mesh((2, 4), ("batch", "heads"), axis_types=(kind, kind))

    def lose(*arrays: Any) -> Any:
        result = F.scaled_dot_product_attention(*arrays, is_causal=True, enable_gqa=heads != 8)
        return (result**2).sum(), result

    whole = [
        np.random.default_rng(seed).standard_normal((2, count, length, 4), np.float32)
        for seed, count in enumerate((8, heads, heads))
    ]
    run = jax.jit(jax.grad(lose, (0, 1, 2), has_aux=True))
    with jax.set_mesh(mesh):
        parts = [jax.device_put(one, NamedSharding(mesh, P("batch", "heads"))) for one in whole]
        grads, result = run(*parts)
        sent = read_collectives(run, *parts)
    assert {one.sharding.spec[:2] for one in (result, *grads)} == {("batch", "heads")}
    assert sent == set()
    expected = run(*whole)
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-5), (grads, result), expected
    )


def test_a_length_may_be_a_symbol() -> None:
    (length,) = jax.export.symbolic_shape("n", constraints=["n >= 1"])
    shape = jax.ShapeDtypeStruct((2, 4, length, 8), jnp.float32)
    program = jax.export.export(jax.jit(lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True)))(
        shape
    )
    x = draw(4)[0]
    np.testing.assert_allclose(
        program.call(x), F.scaled_dot_product_attention(x, x, x, is_causal=True), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    ("mask", "told"),
    [
        (
            np.zeros((5, 1, 3, 3), bool),
            r"the mask must have a row for each query.*Got .* attn_mask bool\[5,1,3,3\]",
        ),
        (np.zeros((1, 2, 4, 3, 3), bool), "the mask must have a row for each query"),
        (np.zeros((3, 3), np.float16), r"expected a mask of bools.*Got query f32.* attn_mask f16\[3,3\]"),
    ],
)
def test_a_mask_that_torch_refuses_is_refused(mask: np.ndarray, told: str) -> None:
    x = jnp.ones(ALIKE[0])
    with pytest.raises(ArgumentError, match=told):
        F.scaled_dot_product_attention(x, x, x, mask)
