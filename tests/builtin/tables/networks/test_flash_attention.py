"""Attention without a mask: its kernels for accelerators, run on this machine too."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import AbstractMesh, AxisType, PartitionSpec as P

import oplib
import oplib.nn.functional as F
from oplib.library import register_kernel

attention: Any = importlib.import_module(
    "oplib.builtin.tables.networks.flash_attention"
)  # of ``oplib.ops`` it would be a namespace
FORWARD, BACKWARD = oplib.ops.oplib.flash_attention.default, oplib.ops.oplib.flash_attention_backward.default
SCALE = 0.3
LONG = 513


def draw(*shape: int, seed: int = 0, dtype: Any = "float32") -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def make_operands(heads: int, shared: int, dtype: Any = "float32") -> list[jax.Array]:
    """Returns lengths that fill no block or several, three widths, and numbers of heads that share keys."""
    shapes = ((2, heads, shared, 40, 5), (2, heads, 21, 5), (2, heads, 21, 3))
    return [draw(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes)]


def attend_plainly(query: Any, key: Any, value: Any, *, is_causal: bool) -> tuple[Any, Any]:
    """Computes the textbook formula by JAX's own softmax, without oplib."""
    scores = jnp.einsum("...gle,...se->...gls", query, key).astype("float32") * SCALE
    if is_causal:
        places = [jnp.arange(size) for size in scores.shape[-2:]]
        scores = jnp.where(places[1] <= places[0][:, None], scores, -jnp.inf)
    weights = jax.nn.softmax(scores)
    return jnp.einsum("...gls,...sv->...glv", weights, value), jax.nn.logsumexp(scores, axis=-1)


CASES = [((2, 2), "float32", True), ((2, 1), "float32", False), ((2, 2), "bfloat16", True)]


@pytest.mark.usefixtures("by_rows")
@pytest.mark.parametrize(("heads", "dtype", "is_causal"), CASES)
def test_the_kernels_agree_with_the_textbook_formula(
    heads: tuple[int, int], dtype: str, is_causal: bool
) -> None:
    operands = make_operands(*heads, dtype=dtype)
    grads = draw(2, *heads, 40, 3, seed=7, dtype=dtype), draw(2, *heads, 40, seed=8)
    wide = [one.astype("float32") for one in operands]
    results, pull = jax.vjp(lambda *arrays: FORWARD(*arrays, is_causal, SCALE), *operands)
    expected, pull_by_the_book = jax.vjp(lambda *arrays: attend_plainly(*arrays, is_causal=is_causal), *wide)
    close = 2e-5 if dtype == "float32" else 6e-2
    by_the_book = *expected, *pull_by_the_book((grads[0].astype("float32"), grads[1]))
    for mine, its in zip((*results, *pull(grads)), by_the_book, strict=True):
        np.testing.assert_allclose(mine.astype("float32"), its, rtol=close, atol=close)


@pytest.fixture
def by_rows(forget_ops: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the kernels for TPUs on this machine, with blocks of 16 rows, the last of which is not full."""
    monkeypatch.setattr(attention, "BLOCK", 16)
    register_kernel(FORWARD, "cpu", attention._attend_by_rows)
    register_kernel(BACKWARD, "cpu", attention._differentiate_by_rows)


def attend_by_op(query: Any, key: Any, value: Any) -> Any:
    return FORWARD(query, key, value, True, SCALE)[0]


def attend(query: Any, key: Any, value: Any) -> Any:
    return F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=SCALE, enable_gqa=True)


def lose(attend: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *operands: (attend(*operands) ** 2).sum()


def lose_plainly(*operands: Any) -> Any:
    return (attend_plainly(*operands, is_causal=True)[0] ** 2).sum()


@pytest.mark.usefixtures("by_rows")
def test_the_op_runs_them_under_jit_vmap_and_grad_and_on_the_tape() -> None:
    operands = make_operands(1, 2)
    expected = jax.jit(jax.grad(lose_plainly, (0, 1, 2)))(*operands)
    by_example = jax.jit(jax.vmap(jax.grad(lose(attend_by_op), (0, 1, 2))))(*operands)
    leaves = [oplib.Tensor.from_array(one, requires_grad=True) for one in operands]
    lose(attend_by_op)(*leaves).backward()
    for its, mine, leaf in zip(expected, by_example, leaves, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(leaf.grad.numpy(), its, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("by_rows")
def test_second_and_forward_derivatives_go_through_the_formula_of_the_kernels() -> None:
    operands = make_operands(1, 2)

    def differentiate(loss: Callable[..., Any]) -> Any:
        def once(*arrays: Any) -> Any:
            return sum((grad**2).sum() for grad in jax.grad(loss, (0, 1, 2))(*arrays))

        return jax.jit(
            lambda *arrays: (jax.grad(once, (0, 1, 2))(*arrays), jax.jvp(loss, arrays, arrays)[1])
        )(*operands)

    (twice, tangent), (expected, its_tangent) = map(differentiate, (lose(attend_by_op), lose_plainly))
    for mine, its in zip(twice, expected, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(tangent, its_tangent, rtol=1e-4)


def shape_operands(length: int, dtype: Any = "float32") -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct((1, 2, length, 64), dtype)] * 3


def lower(length: int, platform: str) -> str:
    """Returns the program of forward and backward for a platform that is absent here."""
    step = jax.jit(jax.grad(lose(attend), (0, 1, 2)))
    return step.trace(*shape_operands(length)).lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.parametrize("platform", ["tpu", "cuda"])
@pytest.mark.parametrize("has_x64", [False, True])
def test_a_long_attention_stores_no_scores_on_accelerators(platform: str, has_x64: bool) -> None:
    with jax.enable_x64(has_x64):
        program = lower(LONG, platform)
        assert f"256x{LONG}" in program
        assert f"{LONG}x{LONG}" not in program
        assert f"{LONG}x{LONG}" in lower(LONG, "cpu")  # so the search finds scores where they are


def test_a_program_for_each_platform_holds_the_kernels_of_one_and_the_formula_of_the_other() -> None:
    step = jax.jit(jax.grad(lose(attend), (0, 1, 2)))
    of_tpu, of_cpu = (
        export.export(step, platforms=[platform])(*shape_operands(LONG)).mlir_module()
        for platform in ("tpu", "cpu")
    )
    assert f"{LONG}x{LONG}" not in of_tpu
    assert f"{LONG}x{LONG}" in of_cpu


@pytest.mark.parametrize("has_x64", [False, True])
def test_in_shard_map_each_device_runs_the_kernels_on_its_part(has_x64: bool) -> None:
    mesh = AbstractMesh((2,), ("parts",), axis_types=(AxisType.Auto,))
    step = jax.grad(lose(attend), (0, 1, 2))
    mapped = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=P(None, "parts"), out_specs=P(None, "parts")))
    with jax.enable_x64(has_x64), jax.sharding.use_abstract_mesh(mesh):
        lowered = mapped.trace(*shape_operands(LONG)).lower(lowering_platforms=("tpu",))
    assert f"1x1x256x{LONG}" in lowered.as_text()
    assert f"{LONG}x{LONG}" not in lowered.as_text()


def test_a_map_of_a_long_attention_stores_no_scores() -> None:
    step = jax.jit(jax.vmap(jax.grad(lose(attend), (0, 1, 2))))
    lowered = step.trace(*shape_operands(LONG)).lower(lowering_platforms=("tpu",))
    assert f"{LONG}x{LONG}" not in lowered.as_text()


def test_a_short_attention_has_no_loop() -> None:
    assert "while" in lower(LONG, "tpu")
    assert "while" not in lower(64, "tpu")


@pytest.mark.parametrize(
    ("change", "pays"),
    [
        ({}, True),
        ({"query": (1, 2, 1, 64)}, False),  # one query: its scores are a row
        ({"value": (1, 1, LONG, 64)}, False),  # heads that broadcast
        ({"key": (1, 1, LONG, 64), "value": (1, 1, LONG, 64)}, False),  # the same, and no grouped query
        ({"key": (1, 1, LONG, 64), "value": (1, 1, LONG, 64), "gqa": True}, True),
    ],
)
def test_where_the_kernels_are_for(change: dict[str, Any], pays: bool) -> None:
    shapes = [change.get(name, (1, 2, LONG, 64)) for name in ("query", "key", "value")]
    operands = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    assert attention.pays(*operands, enable_gqa=change.get("gqa", False)) is pays
