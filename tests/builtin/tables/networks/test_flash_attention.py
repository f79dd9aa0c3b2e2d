"""Attention without a mask: its kernels for accelerators in Pallas's interpreter."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import AbstractDevice, AbstractMesh, AxisType, PartitionSpec as P

import oplib
import oplib.nn.functional as F
from oplib.errors import TracingError
from oplib.library import register_kernel

attention: Any = importlib.import_module(
    "oplib.builtin.tables.networks.flash_attention"
)  # of ``oplib.ops`` it would be a namespace
kernels: Any = importlib.import_module("oplib.builtin.kernels.flash_kernels")
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


def interpret(platform: str) -> Any:
    """Returns a platform with small blocks, so that small operands have several."""
    found = kernels.interpret(kernels.PLATFORMS[platform])
    return kernels.Platform(found.run, 16, found.find_width)


CASES = [
    pytest.param("tpu", True, (2, 2), "float32", marks=pytest.mark.slow),
    pytest.param("gpu", True, (2, 2), "float32", marks=pytest.mark.slow),
    pytest.param("gpu", False, (2, 1), "bfloat16", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("platform", "is_causal", "heads", "dtype"), CASES)
def test_the_kernels_agree_with_the_textbook_formula(
    platform: str, is_causal: bool, heads: tuple[int, int], dtype: str
) -> None:
    operands = make_operands(*heads, dtype=dtype)
    grads = draw(2, *heads, 40, 3, seed=7), draw(2, *heads, 40, seed=8)

    @jax.jit
    def run_by_the_book(*arrays: jax.Array) -> Any:
        results, pull = jax.vjp(partial(attend_plainly, is_causal=is_causal), *arrays)
        return *results, *pull(grads)

    def run(*arrays: jax.Array) -> Any:
        how = {"is_causal": is_causal, "scale": SCALE}
        mine, logs = kernels.attend(interpret(platform), *arrays, **how)
        delta = (grads[0] * mine).sum(-1) - grads[1]
        given = (*arrays, logs, delta, grads[0].astype(mine.dtype))
        return mine, logs, *kernels.differentiate(interpret(platform), given, **how)

    close = 2e-5 if dtype == "float32" else 6e-2
    expected = run_by_the_book(*[one.astype("float32") for one in operands])
    for mine, its in zip(jax.jit(run)(*operands), expected, strict=True):
        np.testing.assert_allclose(mine.astype("float32"), its, rtol=close, atol=close)


@pytest.mark.slow
def test_the_forward_kernel_agrees_with_the_textbook_formula() -> None:
    operands = make_operands(1, 2)
    run = jax.jit(partial(kernels.attend, interpret("tpu"), is_causal=True, scale=SCALE))
    by_the_book = jax.jit(partial(attend_plainly, is_causal=True))
    for mine, its in zip(run(*operands), by_the_book(*operands), strict=True):
        np.testing.assert_allclose(mine, its, rtol=2e-5, atol=2e-5)


@pytest.fixture
def interpreted(forget_ops: None) -> None:
    """Runs the kernels for TPUs on this machine, for operands of any length."""
    platform = interpret("tpu")

    def attend(query: Any, key: Any, value: Any, is_causal: bool, scale: float) -> Any:
        return kernels.attend(platform, query, key, value, is_causal=is_causal, scale=scale)

    def differentiate(*operands: Any) -> Any:
        *arrays, is_causal, scale = operands
        return kernels.differentiate(platform, tuple(arrays), is_causal=is_causal, scale=scale)

    register_kernel(FORWARD, "cpu", attend)
    register_kernel(BACKWARD, "cpu", differentiate)


def attend_by_op(query: Any, key: Any, value: Any) -> Any:
    return FORWARD(query, key, value, True, SCALE)[0]


def attend(query: Any, key: Any, value: Any) -> Any:
    return F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=SCALE, enable_gqa=True)


def lose(attend: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *operands: (attend(*operands) ** 2).sum()


def lose_plainly(*operands: Any) -> Any:
    return (attend_plainly(*operands, is_causal=True)[0] ** 2).sum()


@pytest.mark.slow
@pytest.mark.usefixtures("interpreted")
def test_the_op_runs_them_under_jit_vmap_and_grad_and_on_the_tape() -> None:
    operands = make_operands(1, 2)
    expected = jax.jit(jax.grad(lose_plainly, (0, 1, 2)))(*operands)
    by_example = jax.jit(jax.vmap(jax.grad(lose(attend_by_op), (0, 1, 2))))(*operands)
    leaves = [oplib.Tensor.from_array(one, requires_grad=True) for one in operands]
    lose(attend_by_op)(*leaves).backward()
    for its, mine, leaf in zip(expected, by_example, leaves, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(leaf.grad.numpy(), its, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("interpreted")
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


def test_a_long_attention_is_three_kernels_on_a_tpu_and_stores_no_scores() -> None:
    program = lower(LONG, "tpu")
    assert program.count("@tpu_custom_call") == 3
    assert f"{LONG}x{LONG}" not in program
    assert f"{LONG}x{LONG}" in lower(LONG, "cpu")  # so the search finds scores where they are


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning")  # in 0.12
@pytest.mark.parametrize("has_x64", [False, True])
def test_a_long_attention_is_three_kernels_in_triton_on_cuda(has_x64: bool) -> None:
    device = AbstractDevice(device_kind="NVIDIA H100", num_cores=132, platform="gpu")
    mesh = AbstractMesh((1,), ("x",), abstract_device=device)
    with jax.enable_x64(has_x64), jax.sharding.use_abstract_mesh(mesh):
        program = lower(LONG, "cuda")
    assert program.count("xla.gpu.triton") == 3


def test_a_program_for_each_platform_holds_the_kernels_of_one_and_the_formula_of_the_other() -> None:
    step = jax.jit(jax.grad(lose(attend), (0, 1, 2)))
    with pytest.raises(TracingError, match="Export one program for each platform"):
        export.export(step, platforms=["cpu", "tpu"])(*shape_operands(LONG))
    of_tpu, of_cpu = (
        export.export(step, platforms=[platform])(*shape_operands(LONG)).mlir_module()
        for platform in ("tpu", "cpu")
    )
    assert of_tpu.count("@tpu_custom_call") == 3
    assert f"{LONG}x{LONG}" in of_cpu


@pytest.mark.parametrize("has_x64", [False, True])
def test_in_shard_map_each_device_runs_the_kernels_on_its_part(has_x64: bool) -> None:
    mesh = AbstractMesh((2,), ("parts",), axis_types=(AxisType.Auto,))
    step = jax.grad(lose(attend), (0, 1, 2))
    mapped = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=P(None, "parts"), out_specs=P(None, "parts")))
    with jax.enable_x64(has_x64), jax.sharding.use_abstract_mesh(mesh):
        lowered = mapped.trace(*shape_operands(LONG)).lower(lowering_platforms=("tpu",))
    assert lowered.as_text().count("@tpu_custom_call") == 3


def test_a_map_of_a_long_attention_is_the_same_kernels_over_more_heads() -> None:
    step = jax.jit(jax.vmap(jax.grad(lose(attend), (0, 1, 2))))
    lowered = step.trace(*shape_operands(LONG)).lower(lowering_platforms=("tpu",))
    assert lowered.as_text().count("@tpu_custom_call") == 3


def test_a_short_attention_is_no_kernel() -> None:
    assert "@tpu_custom_call" not in lower(64, "tpu")


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


def test_the_kernels_take_no_doubles() -> None:
    with jax.enable_x64(True):
        step = jax.jit(jax.grad(lose(attend), (0, 1, 2)))
        program = step.trace(*shape_operands(LONG, "float64")).lower(lowering_platforms=("tpu",)).as_text()
    assert "@tpu_custom_call" not in program
