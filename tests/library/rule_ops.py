"""Ops for tests of rules, of a kind chosen by the test."""

from __future__ import annotations

from typing import Any

from oplib.library import custom_op


def register_with(name: str, fn: Any, *, hints: dict[str, Any], **options: Any) -> Any:
    """Registers ``fn`` with these annotations."""
    fn.__annotations__ = hints
    return custom_op(name, fn, **options)


def make_scale(hint: Any, name: str = "rule::scale") -> Any:
    def scale(x, k=2.0):
        return x * k

    return register_with(name, scale, hints={"x": hint, "k": float, "return": hint})


def make_sum(hint: Any) -> Any:
    def add(x, y):
        return x + y

    return register_with("rule::add", add, hints={"x": hint, "y": hint, "return": hint})
