"""Containers that hold themselves: every entry refuses them, says where, and keeps the stack."""

from __future__ import annotations

from typing import Any

import pytest

import oplib
from oplib.errors import ArgumentError
from oplib.pytree import tree_flatten, tree_leaves, tree_map, tree_structure
from oplib.pytree.cycles import explain_depth

HOLDING: list[Any] = [oplib.ones(1)]
HOLDING.append(HOLDING)


class First(oplib.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x[0] * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


def set_hyperparameter() -> None:
    optax = pytest.importorskip("optax")
    transformation = optax.inject_hyperparams(optax.sgd)(learning_rate=0.1)
    optimizer = oplib.optim.Optimizer(transformation, [oplib.ones(1, requires_grad=True)])
    optimizer.hyperparams["learning_rate"] = HOLDING


def make_optimizer() -> None:
    optax = pytest.importorskip("optax")
    oplib.optim.Optimizer(optax.sgd(0.1), HOLDING)


ENTRIES = {
    "jit": lambda: oplib.jit(lambda x: x[0])(HOLDING),
    "the result of jit": lambda: oplib.jit(lambda: HOLDING)(),
    "scan": lambda: oplib.scan(lambda a, b: (a, b), HOLDING, oplib.ones(2)),
    "the result of scan": lambda: oplib.scan(lambda a, b: (a, HOLDING), oplib.ones(1), oplib.ones(2)),
    "cond": lambda: oplib.cond(oplib.tensor(True), lambda x: x[0], lambda x: x[0], HOLDING),
    "while_loop": lambda: oplib.while_loop(lambda x: False, lambda x: x, HOLDING),
    "vmap": lambda: oplib.vmap(lambda x: x[0])(HOLDING),
    "the result of vmap": lambda: oplib.vmap(lambda x: HOLDING)(oplib.ones(2)),
    "Function": lambda: First.apply(HOLDING),
    "Optimizer": make_optimizer,
    "a hyperparameter": set_hyperparameter,
    "tree_map": lambda: tree_map(lambda leaf: leaf, HOLDING),
    "tree_leaves": lambda: tree_leaves(HOLDING),
    "tree_structure": lambda: tree_structure(HOLDING),
}


def measure_depth(depth: int = 0) -> int:
    try:
        return measure_depth(depth + 1)
    except RecursionError:
        return depth


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_container_that_holds_itself_is_refused_and_costs_no_stack(entry: str) -> None:
    before = measure_depth()
    with pytest.raises(ArgumentError, match=r"a container holds itself\. Got a list at tree.*Take it out\."):
        ENTRIES[entry]()
    assert measure_depth() == before


def test_the_error_names_the_place_of_the_cycle() -> None:
    inner: dict[str, Any] = {"b": [1, ()]}
    inner["b"].append({"c": inner})
    with pytest.raises(ArgumentError, match=r"at tree\[0\]\['b'\]\[2\]\['c'\] that is tree\[0\] itself"):
        tree_flatten([inner])


def test_a_tree_without_end_that_is_no_cycle_is_too_deep() -> None:
    tree: Any = 1
    for _ in range(200_000):
        tree = [tree]
    with pytest.raises(ArgumentError, match=r"too deeply to be flattened\. Got 200000 in each other"):
        tree_flatten(tree)
    while isinstance(tree, list):  # the collector of garbage would recurse
        tree = tree.pop()


def test_an_equal_part_in_two_places_is_no_cycle() -> None:
    part = [1, 2]
    assert tree_leaves([part, part]) == [1, 2, 1, 2]


def test_the_recursion_of_a_function_of_the_user_stays_its_own() -> None:
    error = RecursionError("mine")
    assert explain_depth([1, [2]], error) is error

    def recurse(leaf: Any) -> Any:
        return recurse(leaf)

    with pytest.raises(RecursionError):
        tree_map(recurse, [1, 2])
