"""Examples of functions and methods: a name, its call and the result, as ``examples.txt`` has them."""

from __future__ import annotations

from functools import cache
from inspect import cleandoc
from pkgutil import get_data


@cache
def read_examples() -> dict[str, str]:
    """Returns the examples by name, each as the lines that a docstring shows."""
    text = (get_data(__name__, "examples.txt") or b"").decode()
    return dict(block.split("\n", 1) for block in text.rstrip("\n").split("\n\n"))


def add_example(name: str, doc: str | None) -> str | None:
    """Returns the docstring of a function with its example, if there is one and it has none."""
    example = read_examples().get(name)
    if example is None or doc is None or ">>>" in doc:
        return doc
    lines = [">>> import oplib", *example.split("\n")]
    return "\n".join([cleandoc(doc), "", "Example:", *(f"    {line}" for line in lines), ""])
