"""Programs with custom derivatives as public libraries have them, beside the same as ops of oplib."""

from __future__ import annotations

import ast
import importlib.util
import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.pytree import tree_map
from tests.documents import ROOT

RULES = Path(__file__).parent / "rules"
PAGE = ROOT / "docs/write_an_op/coming_from_jax.md"
KEY = jax.random.key(14)


def draw(place: int, *shape: int) -> jax.Array:
    return jax.random.normal(jax.random.fold_in(KEY, place), shape, "float64")


def equilibrium(params: Any, x: Any) -> Any:
    return jnp.tanh(params["w"] @ x / 4 + params["b"])


PROGRAMS: dict[str, tuple[str, Callable[[], tuple[Any, ...]]]] = {
    "clip_gradient": ("clip_gradient", lambda: (draw(0, 5), -0.5, 0.5)),
    "quantize": ("quantize", lambda: (2 * draw(1, 6), jnp.full((), 0.4, "float64"), 3)),
    "fixed_point": (
        "fixed_point",
        lambda: (equilibrium, {"w": draw(2, 3, 3), "b": draw(3, 3)}, jnp.zeros(3, "float64")),
    ),
    "safe_norm": ("safe_norm", lambda: (draw(4, 4, 3).at[1].set(0.0),)),
    "sinkhorn": (
        "transport_cost",
        lambda: (draw(5, 4, 3) ** 2, jax.nn.softmax(draw(6, 4)), jax.nn.softmax(draw(7, 3)), 0.5),
    ),
    "reversible": (
        "reversible",
        lambda: ([(draw(i, 2, 2), draw(i + 1, 2, 2)) for i in (8, 10)], draw(12, 3, 2), draw(13, 3, 2)),
    ),
}
"""By the name of its two files: the name of the function in both, and arguments."""

pytestmark = pytest.mark.usefixtures("forget_ops", "with_64_bits")
each_program = pytest.mark.parametrize("program", PROGRAMS)


def load(program: str, library: str) -> Callable[..., Any]:
    """Returns the function of a program. The module is not entered in ``sys.modules``."""
    spec = importlib.util.spec_from_file_location(program, RULES / f"{program}_in_{library}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, PROGRAMS[program][0])


def is_operand(argument: Any) -> bool:
    return not callable(argument) and any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(argument))


def close(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Callable[..., Any], list[Any]]:
    """Returns the function of the operands alone, and these."""
    operands = [argument for argument in arguments if is_operand(argument)]

    def call(*operands: Any) -> Any:
        given = iter(operands)
        return function(*(next(given) if is_operand(argument) else argument for argument in arguments))

    return call, operands


def weigh(results: Any) -> Any:
    """Returns a number that depends on every result in a different way, so that errors do not cancel."""
    leaves = jax.tree.leaves(results, is_leaf=lambda leaf: isinstance(leaf, oplib.Tensor))
    weights = [jnp.cos(jnp.arange(math.prod(leaf.shape))).reshape(leaf.shape) for leaf in leaves]
    return sum(((leaf**3 + leaf) * weight).sum() for leaf, weight in zip(leaves, weights, strict=True))


def differentiate(function: Callable[..., Any], order: int) -> Callable[..., Any]:
    """Returns the function, the gradients of its weighed results, or those of its weighed gradients."""
    if not order:
        return function
    inner = differentiate(function, order - 1)
    return lambda *args: jax.grad(lambda *args: weigh(inner(*args)), tuple(range(len(args))))(*args)


def differentiate_on_the_tape(function: Callable[..., Any], order: int) -> Callable[..., Any]:
    if not order:
        return function
    inner = differentiate_on_the_tape(function, order - 1)

    def run(*args: Any) -> Any:
        leaves = oplib.pytree.tree_leaves(args)
        found = iter(oplib.autograd.grad(weigh(inner(*args)), leaves, create_graph=True))
        return tree_map(lambda _: next(found), args)

    return run


def assert_equal(found: Any, expected: Any) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.matrix(4)
@each_program
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_both_have_the_same_value_and_derivatives(program: str, order: int, wrap: Any) -> None:
    arguments = PROGRAMS[program][1]()
    (in_jax, operands), (in_oplib, _) = (close(load(program, name), arguments) for name in ("jax", "oplib"))
    found = wrap(differentiate(in_oplib, order))(*operands)
    assert_equal(found, differentiate(in_jax, order)(*operands))


@pytest.mark.matrix(3)
@each_program
def test_both_have_the_same_gradients_under_vmap(program: str) -> None:
    arguments = PROGRAMS[program][1]()
    (in_jax, operands), (in_oplib, _) = (close(load(program, name), arguments) for name in ("jax", "oplib"))
    rows = jax.tree.map(lambda leaf: jnp.stack([leaf, 1.1 * leaf, 0.9 * leaf]), operands)
    found, expected = (jax.vmap(differentiate(function, 1))(*rows) for function in (in_oplib, in_jax))
    assert_equal(found, expected)


@pytest.mark.matrix(4)
@each_program
@pytest.mark.parametrize("order", [0, 1, 2])
def test_on_tensors_the_op_has_the_same_value_and_derivatives(program: str, order: int) -> None:
    arguments = PROGRAMS[program][1]()
    (in_jax, operands), (in_oplib, _) = (close(load(program, name), arguments) for name in ("jax", "oplib"))
    tensors = jax.tree.map(partial(oplib.Tensor.from_array, requires_grad=True), operands)
    found = differentiate_on_the_tape(in_oplib, order)(*tensors)
    expected = differentiate(in_jax, order)(*operands)
    assert_equal(tree_map(lambda tensor: tensor.detach().array, found), expected)


def count_lines(path: Path) -> int:
    """Counts the lines of code: no imports, docstrings, comments or empty lines."""
    statements = ast.parse(path.read_text()).body
    left_out = (ast.Import, ast.ImportFrom, ast.Expr)
    code = [one for one in statements if not (isinstance(one, left_out) and not _is_call(one))]
    lines = path.read_text().splitlines()
    first_lines = [min([one.lineno, *(d.lineno for d in getattr(one, "decorator_list", []))]) for one in code]
    spans = [lines[first - 1 : one.end_lineno] for first, one in zip(first_lines, code, strict=True)]
    return sum(bool(line.strip()) and not line.strip().startswith("#") for span in spans for line in span)


def _is_call(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)


def test_the_page_shows_the_lines_of_each_program() -> None:
    rows = re.findall(r"rules/(\w+)_in_jax\.py\).*\| (\d+) \| (\d+) \|", PAGE.read_text())
    counted = {
        program: tuple(count_lines(RULES / f"{program}_in_{library}.py") for library in ("jax", "oplib"))
        for program in PROGRAMS
    }
    assert {program: (int(in_jax), int(in_oplib)) for program, in_jax, in_oplib in rows} == counted
