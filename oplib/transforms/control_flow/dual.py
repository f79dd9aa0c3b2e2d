"""Forward mode: a body that gets values together with their tangents.

A loop over pairs computes the tangents of a loop. Inside of it the Tensors carry their tangents as they do
anywhere, so the rules of users are found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oplib.autograd.array_functions.array_function import has_gradient
from oplib.autograd.forward_ad import make_dual, unpack_dual
from oplib.autograd.recording.formula_node import keep_tangents
from oplib.autograd.tangents import carries_tangents, find_tangent, set_tangent
from oplib.pytree import tree_flatten, tree_unflatten
from oplib.tensor import Tensor, zeros_like

from .flow_program import Outcome

Pair = tuple[Any, list[Tensor]]


def split_dual(tree: Any) -> Pair:
    """Takes the tangents off a tree: the tree without them, and one for each leaf that can have one."""
    leaves, spec = tree_flatten(tree)
    tangents: list[Tensor] = []
    for place, leaf in enumerate(leaves):
        if _is_floating(leaf):
            value, tangent = unpack_dual(leaf)
            leaves[place] = value
            tangents.append(zeros_like(value) if tangent is None else tangent)
    return tree_unflatten(leaves, spec), tangents


def join_dual(pair: Pair) -> Any:
    """Puts tangents on the leaves of a tree again."""
    tree, tangents = pair
    leaves, spec = tree_flatten(tree)
    rest = iter(tangents)
    return tree_unflatten(
        [make_dual(leaf, next(rest)) if _is_floating(leaf) else leaf for leaf in leaves], spec
    )


def _is_floating(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and has_gradient(leaf.dtype)


class DualFunction:
    """A function of trees as one of pairs of a tree and its tangents.

    Args:
        function: the function.
        several: it returns a tuple of trees, each of which becomes a pair.
    """

    def __init__(self, function: Callable[..., Any], *, several: bool = False) -> None:
        self.function = function
        self.several = several

    def __call__(self, *pairs: Pair) -> Any:
        """Calls the function on duals."""
        results = self.function(*map(join_dual, pairs))
        return tuple(map(split_dual, results)) if self.several else split_dual(results)


def need_tangents(outcome: Outcome, arguments: Sequence[Tensor]) -> bool:
    """Whether a call has tangents among its arguments, or among what its bodies have captured."""
    if not carries_tangents():
        return False
    return any(find_tangent(tensor) is not None for tensor in (*outcome.operands, *arguments))


def attach_tangents(outcome: Outcome, arguments: Sequence[Tensor], tangents: Sequence[Tensor]) -> None:
    """Gives the results of a call their tangents, and lets its node keep the tangents of its operands."""
    rest = iter(tangents)
    for result in outcome.results:
        if _is_floating(result):
            set_tangent(result, next(rest))
    keep_tangents([*outcome.operands, *arguments], outcome.results)
