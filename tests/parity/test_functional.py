"""Jacobians, Hessians and products on torch and on oplib: values, structures, histories and refusals."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest


class Derivatives:
    """Short ways to what a program needs.

    Args:
        lib: torch or oplib.
    """

    def __init__(self, lib: Any) -> None:
        self.lib = lib
        self.of = lib.autograd.functional
        self.x, self.y = lib.tensor([1.0, 2.0]), lib.tensor([3.0, -1.0])

    def leaf(self) -> Any:
        return self.lib.tensor([1.0, 2.0], requires_grad=True)


def check_both(assert_agrees: Any, program: Callable[[Derivatives], Any]) -> None:
    assert_agrees(lambda lib: program(Derivatives(lib)))


def cube(a: Any) -> Any:
    return a * a * a


def volume(a: Any) -> Any:
    return (a * a * a).sum()


def several(a: Any, b: Any) -> Any:
    return a * b, (a * a).sum()


def energy(a: Any, b: Any) -> Any:
    return (a * a * b).sum()


FLAGS = [
    {"create_graph": create_graph, "strict": strict, "vectorize": vectorize}
    for create_graph, strict, vectorize in itertools.product([False, True], repeat=3)
]


def describe_flags(flags: dict[str, bool]) -> str:
    return " ".join(name for name, value in flags.items() if value) or "plain"


@pytest.mark.parametrize("flags", FLAGS, ids=describe_flags)
def test_jacobians_and_hessians_agree_under_all_flags(assert_agrees: Any, flags: dict[str, bool]) -> None:
    def describe(found: Any) -> Any:
        if isinstance(found, tuple):
            return tuple(describe(one) for one in found)
        return found.requires_grad, found.detach()

    check_both(assert_agrees, lambda d: describe(d.of.jacobian(several, (d.leaf(), d.leaf()), **flags)))
    check_both(assert_agrees, lambda d: describe(d.of.hessian(energy, (d.leaf(), d.leaf()), **flags)))


def in_tuples(value: Any) -> Any:
    """Torch gives lists where it documents tuples, in forward mode."""
    return tuple(in_tuples(one) for one in value) if isinstance(value, (list, tuple)) else value.detach()


def test_forward_mode_agrees(assert_agrees: Any) -> None:
    options = {"vectorize": True, "strategy": "forward-mode"}
    check_both(assert_agrees, lambda d: in_tuples(d.of.jacobian(cube, d.x, **options)))
    check_both(assert_agrees, lambda d: in_tuples(d.of.jacobian(several, (d.x, d.y), **options)))


def test_forward_over_reverse_agrees(assert_agrees: Any) -> None:
    options = {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}
    check_both(assert_agrees, lambda d: in_tuples(d.of.hessian(volume, d.x, **options)))
    check_both(assert_agrees, lambda d: in_tuples(d.of.hessian(energy, (d.x, d.y), **options)))


PRODUCTS: dict[str, Callable[[Derivatives], Any]] = {
    "vjp": lambda d: d.of.vjp(cube, d.x, d.y),
    "vjp of a scalar": lambda d: d.of.vjp(volume, d.x),
    "vjp of tuples": lambda d: d.of.vjp(several, (d.x, d.y), (d.x, d.lib.tensor(2.0))),
    "vjp of one in a tuple": lambda d: d.of.vjp(lambda a: (a.sum(),), d.x),
    "jvp": lambda d: d.of.jvp(cube, d.x, d.y),
    "jvp of tuples": lambda d: d.of.jvp(several, (d.x, d.y), (d.y, d.x)),
    "jvp of one item": lambda d: d.of.jvp(cube, d.lib.tensor([2.0])),
    "vhp": lambda d: d.of.vhp(volume, d.x, d.y),
    "vhp of tuples": lambda d: d.of.vhp(energy, (d.x, d.y), (d.y, d.x)),
    "hvp": lambda d: d.of.hvp(volume, d.x, d.y),
    "hvp of tuples": lambda d: d.of.hvp(energy, (d.x, d.y), (d.y, d.x)),
    "vjp of something independent": lambda d: d.of.vjp(lambda a, b: a * 2, (d.x, d.y), d.x),
    "jvp of something independent": lambda d: d.of.jvp(lambda a: d.lib.ones(3), d.x, d.y),
    "vhp of something linear": lambda d: d.of.vhp(lambda a: (a * 2).sum(), d.x, d.y),
    "hvp of something linear": lambda d: d.of.hvp(lambda a: (a * 2).sum(), d.x, d.y),
    "hvp of a constant": lambda d: d.of.hvp(lambda a: d.lib.tensor(1.0), d.x, d.y),
    "vjp of bools": lambda d: d.of.vjp(lambda a: a > 1, d.x, d.y),
    "jacobian of bools": lambda d: d.of.jacobian(lambda a: a > 1, d.x),
    "jacobian of bools at once": lambda d: d.of.jacobian(lambda a: a > 1, d.x, vectorize=True),
    "hessian of one item in a matrix": lambda d: d.of.hessian(lambda a: volume(a).reshape(1, 1), d.x),
    "hessian of a number": lambda d: d.of.hessian(cube, d.lib.tensor(2.0)),
    "a complex jvp": lambda d: d.of.jvp(lambda a: (a * a * (1 + 1j)).abs(), *complex_pair(d)),
    "a complex vjp": lambda d: abs_of(d.of.vjp(lambda a: a * a * (1 + 1j), *complex_pair(d))[1]),
    "complex rows": lambda d: abs_of(
        d.of.jacobian(lambda a: a * a * (1 + 1j), complex_pair(d)[0], vectorize=True)
    ),
    "rows of a complex input": lambda d: abs_of(d.of.jacobian(lambda a: a.abs(), complex_pair(d)[0])),
}


def complex_pair(d: Derivatives) -> Any:
    return d.lib.tensor([1 + 2j, 3 - 1j]), d.lib.tensor([0.5 - 1j, 2j])


def abs_of(found: Any) -> Any:
    """Tells numbers, and their conjugates, apart by moduli."""
    return (found + (1 + 2j)).abs()


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_agree(assert_agrees: Any, name: str) -> None:
    check_both(assert_agrees, PRODUCTS[name])


@pytest.mark.parametrize("name", ["vjp", "jvp", "vhp", "hvp"])
def test_products_are_differentiable_alike(assert_agrees: Any, name: str) -> None:
    def program(d: Derivatives) -> Any:
        x, v = d.leaf(), d.leaf()
        function = volume if name in ("vhp", "hvp") else cube
        output, product = getattr(d.of, name)(function, x, v, create_graph=True)
        return output.requires_grad, product.requires_grad, d.lib.autograd.grad(product.sum(), (x, v))

    check_both(assert_agrees, program)


ERRORS: dict[str, Callable[[Derivatives], Any]] = {
    "inputs in a list": lambda d: d.of.jacobian(cube, [d.x]),
    "outputs in a list": lambda d: d.of.jacobian(lambda a: [a], d.x),
    "a number among inputs": lambda d: d.of.vjp(several, (d.x, 1.0)),
    "v is a number": lambda d: d.of.vjp(cube, d.x, 3.0),
    "no v for several items": lambda d: d.of.vjp(cube, d.x),
    "no v for several inputs": lambda d: d.of.jvp(cube, d.x),
    "v in a tuple": lambda d: d.of.vjp(cube, d.x, (d.x, d.x)),
    "one v for a tuple": lambda d: d.of.vjp(several, (d.x, d.y), d.x),
    "v of another size": lambda d: d.of.hvp(volume, d.x, d.lib.ones(3)),
    "integers": lambda d: d.of.vjp(lambda a: a * 1.0, d.lib.tensor([1])),
    "tangents of bools": lambda d: d.of.jvp(lambda a: a > 1, d.x, d.x),
    "hessian of a tuple": lambda d: d.of.hessian(lambda a: (a.sum(),), d.x),
    "hessian of a vector": lambda d: d.of.hessian(cube, d.x),
    "vhp of a tuple": lambda d: d.of.vhp(lambda a: (a.sum(),), d.x, d.x),
    "strategy": lambda d: d.of.jacobian(cube, d.x, strategy="up"),
    "outer strategy": lambda d: d.of.hessian(volume, d.x, outer_jacobian_strategy="up"),
    "forward without vectorize": lambda d: d.of.jacobian(cube, d.x, strategy="forward-mode"),
    "forward with create_graph": lambda d: d.of.jacobian(
        cube, d.x, create_graph=True, strategy="forward-mode"
    ),
    "strict forward": lambda d: d.of.jacobian(
        cube, d.x, strict=True, vectorize=True, strategy="forward-mode"
    ),
    "strict and independent": lambda d: d.of.vjp(lambda a, b: a * 1, (d.x, d.x), d.x, strict=True),
    "strict and constant": lambda d: d.of.vjp(lambda a: d.lib.ones(2), d.x, d.x, strict=True),
    "strict and linear": lambda d: d.of.hvp(lambda a: (a * 2).sum(), d.x, d.x, strict=True),
    "strict and quadratic": lambda d: d.of.vhp(
        lambda a: (a * a).sum(), d.leaf(), d.x, strict=True, create_graph=True
    ),
    "hessian strict and linear": lambda d: d.of.hessian(lambda a: (a * 2).sum(), d.x, strict=True),
    "jvp strict and independent": lambda d: d.of.jvp(lambda a, b: a * 1, (d.x, d.x), (d.x, d.x), strict=True),
}


@pytest.mark.parametrize("name", ERRORS)
def test_refusals_are_of_the_same_kind(assert_agrees: Any, name: str) -> None:
    check_both(assert_agrees, ERRORS[name])
