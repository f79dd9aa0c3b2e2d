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


def pad(lib: Any, **options: Any) -> Any:
    """Data, which numpy puts together, and sequences of which one is differentiated."""
    shapes = [(2, 2), (4, 2), (1, 2)]
    data = [lib.arange(float(n * m)).reshape(n, m) + 1 for n, m in shapes]
    w = lib.ones(4, 2, requires_grad=True)
    batch = lib.nn.utils.rnn.pad_sequence([data[0], data[1] * w, data[2]], **options)
    (batch * batch).sum().backward()
    return lib.nn.utils.rnn.pad_sequence(data, **options), batch, w.grad


def unpad(lib: Any, batch: Any, lengths: Any, **options: Any) -> Any:
    w = lib.ones(()).requires_grad_()
    found = lib.nn.utils.rnn.unpad_sequence(batch * w, lib.tensor(lengths), **options)
    found[-1].sum().backward()
    return found, w.grad


PADDINGS: dict[str, dict[str, Any]] = {
    "as they are": {},
    "batch first": {"batch_first": True},
    "on the left": {"padding_side": "left", "padding_value": -1.5},
}
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
    **{f"sequences, {name}": lambda lib, how=how: pad(lib, **how) for name, how in PADDINGS.items()},
    "sequences of integers": lambda lib: lib.nn.utils.rnn.pad_sequence([lib.arange(3), lib.ones(2) * 1.5]),
    "sequences of flags": lambda lib: lib.nn.utils.rnn.pad_sequence(
        [lib.tensor([False]), lib.tensor([True, True])], padding_value=2.5
    ),
    "one tensor as sequences": lambda lib: lib.nn.utils.rnn.pad_sequence(lib.ones(3, 2)),
    "an empty sequence": lambda lib: lib.nn.utils.rnn.pad_sequence(iter([lib.ones(0), lib.ones(2)])),
    "no sequences": lambda lib: lib.nn.utils.rnn.pad_sequence([]),
    "no list": lambda lib: lib.nn.utils.rnn.pad_sequence(3),
    "items of several shapes": lambda lib: lib.nn.utils.rnn.pad_sequence([lib.ones(2, 2), lib.ones(2, 3)]),
    "a number as sequence": lambda lib: lib.nn.utils.rnn.pad_sequence([lib.tensor(1.0)]),
    "another side": lambda lib: lib.nn.utils.rnn.pad_sequence([lib.ones(2)], padding_side="middle"),
    "sequences again": lambda lib: unpad(lib, lib.arange(6.0).reshape(2, 3), [1, 3], batch_first=True),
    "lengths that are odd": lambda lib: unpad(
        lib, lib.arange(6.0).reshape(2, 3), [-1.0, 1.5], batch_first=True
    ),
    "time first": lambda lib: unpad(lib, lib.arange(6.0).reshape(3, 2), [1, 9]),
    "too few lengths": lambda lib: unpad(lib, lib.ones(2, 3), [1], batch_first=True),
    "no vector": lambda lib: lib.nn.utils.vector_to_parameters([1.0], make_parameters(lib)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_with_gradients_and_vectors_does_as_on_torch(name: str, assert_agrees: Any) -> None:
    assert_agrees(PROGRAMS[name])
