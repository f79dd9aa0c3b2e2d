"""In-place functions at the root and among those of networks: torch's names, and what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import oplib
import oplib.nn.functional  # as torch.nn.functional is there

torch = pytest.importorskip("torch")
Program = Callable[[Any], Any]

NOT_HERE = {
    *("alpha_dropout_", "conj_physical_", "dropout_", "embedding_renorm_"),
    *("feature_alpha_dropout_", "feature_dropout_", "resize_as_", "resize_as_sparse_", "rrelu_"),
}


def list_in_place(module: Any) -> set[str]:
    return {name for name in dir(module) if name[-1] == "_" != name[0] and callable(getattr(module, name))}


def test_torchs_in_place_functions_are_at_the_root_save_a_few() -> None:
    assert list_in_place(torch) - list_in_place(oplib) <= NOT_HERE
    assert list_in_place(oplib) <= list_in_place(torch)


def test_torchs_in_place_functions_of_networks_are_here_save_a_few() -> None:
    assert list_in_place(torch.nn.functional) - list_in_place(oplib.nn.functional) <= NOT_HERE
    assert list_in_place(oplib.nn.functional) <= list_in_place(torch.nn.functional)


def chain(lib: Any) -> Any:
    x = lib.tensor([0.5, 2.0, -1.0], requires_grad=True)
    y = x * 1
    same = lib.sigmoid_(lib.clamp_(lib.exp_(y), 0.1, max=3.0)) is y
    y.sum().backward()
    return y, x.grad, same, y.grad_fn


PROGRAMS: dict[str, Program] = {
    "a chain": chain,
    "by position and name": lambda lib: lib.nan_to_num_(lib.tensor([float("nan"), 1.0]), nan=2.0),
    "of networks": lambda lib: lib.nn.functional.leaky_relu_(lib.tensor([-1.0, 1.0]), 0.1),
    "of networks, by name": lambda lib: lib.nn.functional.elu_(lib.tensor([-1.0, 1.0]), alpha=2.0),
    "places": lambda lib: lib.index_put_(lib.zeros(3), (lib.tensor([0, 2]),), lib.ones(2)),
    "a fill": lambda lib: lib.fill_(lib.zeros(2), 3),
    "zeros": lambda lib: lib.zero_(lib.ones(2)),
    "a leaf that requires grad": lambda lib: lib.sqrt_(lib.ones(2, requires_grad=True)),
    "a leaf, without grad mode": lambda lib: lib.no_grad()(lib.sqrt_)(lib.ones(2, requires_grad=True)),
    "a dtype that does not hold the result": lambda lib: lib.exp_(lib.tensor([1])),
    "a number": lambda lib: lib.exp_(1.0),
    "an argument too many": lambda lib: lib.exp_(lib.ones(1), 2),
    "a detached result": lambda lib: lib.detach_(lib.ones(1, requires_grad=True) * 2).requires_grad,
    "a detached view": lambda lib: lib.detach_(lib.ones(2, requires_grad=True)[0]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_in_place_function_does_what_torchs_does(name: str, assert_agrees: Any) -> None:
    assert_agrees(PROGRAMS[name])
