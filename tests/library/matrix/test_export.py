"""Export: the op is lowered into the exported program, which another process runs and differentiates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import oplib
from oplib.errors import ArgumentTypeError
from tests.documents import ROOT
from tests.library.matrix.marked import COS, SIN, Marked, W, X, by_both, sum_of

ROWS = jnp.stack([X, 2 * X])


def symbolic() -> Any:
    (size,) = export.symbolic_shape("n")
    return jax.ShapeDtypeStruct((size,), "float32"), jax.ShapeDtypeStruct((), "float32")


def test_an_exported_call_is_the_kernel(marked: Marked) -> None:
    exported = export.export(jax.jit(marked.op))(X, W)
    np.testing.assert_allclose(exported.call(X, W), W * SIN, rtol=1e-5)


def test_an_exported_function_has_the_gradient_of_the_rule(marked: Marked) -> None:
    exported = export.export(jax.jit(marked.op))(X, W)
    by_x, by_w = exported.vjp().call(X, W, jnp.ones_like(X))
    np.testing.assert_allclose(by_x, marked.reverse * W * COS, rtol=1e-5)
    np.testing.assert_allclose(by_w, marked.reverse * SIN.sum(), rtol=1e-5)


def test_shapes_may_be_symbolic_in_call_gradient_and_tangent(marked: Marked) -> None:
    def run(x: Any, w: Any) -> Any:
        return marked.op(x, w), by_both(sum_of(marked.op))(x, w), jax.jvp(marked.op, (x, w), (x, w))[1]

    exported = export.export(jax.jit(run))(*symbolic())
    for x in (X, X[:2]):
        value, (by_x, by_w), tangent = exported.call(x, W)
        np.testing.assert_allclose(value, W * np.sin(x), rtol=1e-5)
        np.testing.assert_allclose(by_x, marked.reverse * W * np.cos(x), rtol=1e-5)
        np.testing.assert_allclose(by_w, marked.reverse * np.sin(x).sum(), rtol=1e-5)
        np.testing.assert_allclose(tangent, marked.forward * W * (x * np.cos(x) + np.sin(x)), rtol=1e-5)


def test_a_batch_may_be_symbolic(marked: Marked) -> None:
    run = jax.vmap(by_both(sum_of(marked.op)), (0, None))
    (size,) = export.symbolic_shape("n")
    shapes = jax.ShapeDtypeStruct((size, 4), "float32"), jax.ShapeDtypeStruct((), "float32")
    by_x, by_w = export.export(jax.jit(run))(*shapes).call(ROWS, W)
    np.testing.assert_allclose(by_x, marked.reverse * W * np.cos(ROWS), rtol=1e-5)
    np.testing.assert_allclose(by_w, marked.reverse * np.sin(ROWS).sum(1), rtol=1e-5)


LOADER = """
import sys
import numpy as np, jax
from jax import export
from pathlib import Path
from tests.library.matrix.marked import FACTORS, make_marked

x, w = np.float32([0.3, -0.7]), np.float32(1.5)
for rules, (reverse, _) in FACTORS.items():
    make_marked(rules)
    exported = export.deserialize(bytearray(Path(sys.argv[1], rules).read_bytes()))
    value, by_x = exported.call(x, w)
    np.testing.assert_allclose(value, w * np.sin(x), rtol=1e-5)
    np.testing.assert_allclose(by_x, reverse * w * np.cos(x), rtol=1e-5)
    again = exported.vjp().call(x, w, np.zeros_like(x), np.ones_like(x))[0]
    np.testing.assert_allclose(again, -reverse * w * np.sin(x), rtol=1e-5)
print("loaded", len(FACTORS))
"""


@pytest.mark.slow
def test_a_serialised_program_runs_in_another_process_that_has_the_op(
    tmp_path: Path, marked_ops: dict[str, Marked]
) -> None:
    pytest.importorskip("flatbuffers")
    for rules, marked in marked_ops.items():
        run = lambda x, w, op=marked.op: (op(x, w), jax.grad(sum_of(op))(x, w))  # noqa: E731
        exported = export.export(jax.jit(run))(*symbolic())
        (tmp_path / rules).write_bytes(exported.serialize(vjp_order=1))
    command = [sys.executable, "-c", LOADER, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert done.stdout.strip() == "loaded 4", done.stderr


def make_tile(name: str) -> Any:
    @oplib.custom_op(name)
    def tile(x: jax.Array, counts: list[int], n: int) -> jax.Array:
        return jnp.broadcast_to(x, (*counts, n, *x.shape)).sum(0)

    def backward(ctx: Any, g: Any) -> Any:
        return g.sum(0) * ctx.count, None, None

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.count = inputs[1][0]

    tile.register_autograd(backward, setup_context=save)
    return tile


def test_a_symbolic_dimension_is_a_static_int() -> None:
    tile = make_tile("exported::tile")

    def run(x: Any) -> Any:
        return tile(x, [x.shape[0]], 2 * x.shape[0] + 1)

    exported = export.export(jax.jit(run))(symbolic()[0])
    gradient = export.export(jax.jit(jax.grad(lambda x: run(x).sum())))(symbolic()[0])
    mapped = export.export(jax.jit(jax.vmap(lambda x: tile(x, [2], x.shape[0]))))(
        jax.ShapeDtypeStruct(export.symbolic_shape("b, n"), jnp.float32)
    )
    for size in (1, 3):
        x = jnp.arange(1.0, 1 + size)
        np.testing.assert_allclose(exported.call(x), run(x))
        np.testing.assert_allclose(gradient.call(x), jnp.full(size, size * (2 * size + 1)))
        np.testing.assert_allclose(mapped.call(x[None]), tile(x, [2], size)[None])


def test_an_export_after_an_export_has_symbols_of_its_own() -> None:
    tile = make_tile("exported::tile_again")
    for name in ("n", "m", "n"):
        shape = jax.ShapeDtypeStruct(export.symbolic_shape(name), jnp.float32)
        exported = export.export(jax.jit(lambda x: tile(x, [1], x.shape[0])))(shape)
        assert exported.call(jnp.ones(2)).tolist() == [[1, 1], [1, 1]]


def test_a_dimension_that_is_no_int_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match=r"exported::tile_bad: argument 'n' .* expected .* 'int'"):
        make_tile("exported::tile_bad")(jnp.ones(2), [1], "n")
