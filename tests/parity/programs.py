"""What programs that run on torch and on oplib share: tables of them, leaves, edges, Functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Program = Callable[[Any], Any]


class Programs(dict[str, Program]):
    """Programs by name, in the order in which they are written."""

    def add(self, program: Program) -> Program:
        """Decorates a program, which is given torch or oplib."""
        if program.__name__ in self:
            raise ValueError(f"two programs are called {program.__name__}; one would hide the other")
        self[program.__name__] = program
        return program


def leaf(lib: Any, *values: float) -> Any:
    return lib.tensor([float(value) for value in values], requires_grad=True)


def shaped_leaf(lib: Any, *shape: int) -> Any:
    values = np.linspace(0.5, 2.0, math.prod(shape), dtype=np.float32).reshape(shape)
    return lib.tensor(values, requires_grad=True)


def get_edge(lib: Any, tensor: Any) -> Any:
    return lib.autograd.graph.get_gradient_edge(tensor)


def make_function(lib: Any, forward: Any, backward: Any = None, **members: Any) -> Any:
    """Makes a Function named F of its rules."""
    rules = {"forward": forward, "backward": backward, **members}
    static = {name: staticmethod(rule) for name, rule in rules.items() if rule is not None}
    return type("F", (lib.autograd.Function,), static)
