"""Gradients clipped, and parameters as a vector, on torch and on oplib."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")
Program = Callable[[Any], Any]
INF = float("inf")


def make_parameters(lib: Any) -> list[Any]:
    """One of them has no gradient."""
    found = [lib.zeros(2, requires_grad=True), lib.zeros(1, 2, requires_grad=True)]
    for one, gradient in zip(found, ([3.0, -1.0], [[0.5, 4.0]]), strict=True):
        one.grad = lib.tensor(gradient)
    return [*found, lib.zeros(1, requires_grad=True)]


def clip(lib: Any, max_norm: float, *options: Any) -> Any:
    parameters = make_parameters(lib)
    total = lib.nn.utils.clip_grad_norm_(parameters, max_norm, *options)
    return total, [one.grad for one in parameters]


def bound(lib: Any, value: float) -> Any:
    parameters = make_parameters(lib)
    return lib.nn.utils.clip_grad_value_(parameters, value), [one.grad for one in parameters]


def scale(lib: Any) -> Any:
    parameters = make_parameters(lib)
    lib.nn.utils.clip_grads_with_norm_(parameters[0], 2.0, lib.tensor(4.0))
    return [one.grad for one in parameters]


def turn(lib: Any) -> Any:
    parameters = make_parameters(lib)
    vector = lib.nn.utils.parameters_to_vector(parameters) + lib.arange(5)
    lib.nn.utils.vector_to_parameters(vector, parameters)
    return vector.requires_grad, parameters, [one.is_leaf for one in parameters]


PROGRAMS: dict[str, Program] = {
    "a norm above": lambda lib: clip(lib, 1.5),
    "a norm below": lambda lib: clip(lib, 100.0),
    "order 1": lambda lib: clip(lib, 1, 1),
    "the largest": lambda lib: clip(lib, 1.0, "inf"),
    "one that is not finite": lambda lib: lib.nn.utils.get_total_norm(lib.tensor([INF, 1.0]), 2.0, True),
    "one of nothing": lambda lib: lib.nn.utils.get_total_norm([]),
    "complex": lambda lib: lib.nn.utils.get_total_norm([lib.tensor([3 + 4j]), lib.tensor([12.0 + 0j])]),
    "one tensor": scale,
    "values": lambda lib: bound(lib, 0.75),
    "a vector": turn,
    "no parameters": lambda lib: lib.nn.utils.parameters_to_vector([]),
    "a short vector": lambda lib: lib.nn.utils.vector_to_parameters(lib.ones(3), make_parameters(lib)),
    "no vector": lambda lib: lib.nn.utils.vector_to_parameters([1.0], make_parameters(lib)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_with_gradients_and_vectors_does_as_on_torch(name: str, assert_agrees: Any) -> None:
    assert_agrees(PROGRAMS[name])
