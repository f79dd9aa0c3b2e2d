"""Nodes without mathematics, for tests that are about the engine alone, and hooks that count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.node import TapeNode
from oplib.modes import modes
from oplib.tensor import Tensor

from .counting_hooks import CountingHooks


class PassBackward0(TapeNode):
    """Hands on what it gets, to every edge."""

    results_are_checked = True

    def apply(self, grads, run):
        return grads if len(self.edges) == 1 else list(grads) * len(self.edges)


class Scalar:
    shape = ()
    dtype = jnp.dtype("float32")


SCALAR = (Scalar,)


def make_node(*inputs: tuple[TapeNode, int] | None, cls: type[TapeNode] = PassBackward0) -> TapeNode:
    node = object.__new__(cls)
    node.edges = inputs
    node.input_metadata = SCALAR
    state = modes.state
    node.sequence_nr = state.sequence_nr
    state.sequence_nr += 1
    return node


def make_output(node: TapeNode) -> Tensor:
    tensor = Tensor.from_array(jnp.float32(1.0))
    tensor._requires_grad = True
    tensor._grad_fn = node
    return tensor


def make_chain(length: int) -> tuple[Tensor, Tensor]:
    """Returns a leaf, and the output of ``length`` nodes above it."""
    leaf = Tensor.from_array(jnp.float32(1.0), requires_grad=True)
    edge = gradient_edge(leaf)
    for _ in range(length):
        edge = (make_node(edge), 0)
    return leaf, make_output(edge[0])


@pytest.fixture
def chain() -> Callable[[int], tuple[Tensor, Tensor]]:
    return make_chain


@pytest.fixture
def node() -> Callable[..., TapeNode]:
    return make_node


@pytest.fixture
def output() -> Callable[[TapeNode], Tensor]:
    return make_output


@pytest.fixture
def numbers() -> Callable[[Any], Any]:
    """Reads a Tensor's values as nested Python lists."""

    def read(tensor: Any) -> Any:
        return None if tensor is None else tensor.array.tolist()

    return read


@pytest.fixture
def x() -> Tensor:
    """A leaf of two numbers."""
    return oplib.tensor([1.0, 2.0], requires_grad=True)


@pytest.fixture
def a() -> Tensor:
    """A leaf of one number."""
    return oplib.tensor([2.0], requires_grad=True)


@pytest.fixture
def hooks() -> CountingHooks:
    return CountingHooks()
