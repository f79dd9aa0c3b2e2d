"""A world is torch or oplib, with a namespace for one program and short ways to register and make tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import oplib

_numbers = itertools.count()


class World:
    """What a program is written against.

    Args:
        lib: torch or oplib.
        kind: how ``custom`` registers: ``custom`` (custom_op), ``low`` (define and impl), or ``compiled``
            (custom_op, in oplib with a kernel on arrays).

    Attributes:
        lib: torch or oplib.
        namespace: of this program alone.
    """

    def __init__(self, lib: Any, kind: str = "custom") -> None:
        self.lib = lib
        self.kind = kind
        self.namespace = f"world{next(_numbers)}"
        self._libraries: list[Any] = []
        self._names = (f"op{number}" for number in itertools.count())

    @property
    def is_oplib(self) -> bool:
        return self.lib is oplib

    def tensor(self, *values: float, grad: bool = False) -> Any:
        return self.lib.tensor([float(value) for value in values], requires_grad=grad)

    def library(self, kind: str = "FRAGMENT") -> Any:
        self._libraries.append(self.lib.library.Library(self.namespace, kind))
        return self._libraries[-1]

    def destroy(self) -> None:
        """Destroys the libraries of this world; what custom_op has made stays."""
        for library in self._libraries:
            library._destroy()

    def low(
        self, schema: str, kernel: Any = None, *, name: str = "", key: str = "CompositeExplicitAutograd"
    ) -> Any:
        """Defines an op, gives it a kernel if there is one, and returns its packet."""
        name = name or next(self._names)
        library = self.library()
        library.define(name + schema)
        if kernel is not None:
            library.impl(name, kernel, key)
        return getattr(getattr(self.lib.ops, self.namespace), name.partition(".")[0])

    def custom(
        self, schema: str, kernel: Any, *, name: str = "", writes: tuple[str, ...] = (), **options: Any
    ) -> Any:
        name = f"{self.namespace}::{name or next(self._names)}"
        return self.lib.library.custom_op(name, kernel, schema=schema, mutates_args=writes, **options)

    def op(
        self,
        schema: str,
        kernel: Any,
        backward: Callable[..., Any] | None = None,
        setup: Any = None,
        **options: Any,
    ) -> Any:
        """Registers in this world's way, with a formula if one is given."""
        if self.kind == "low":
            made = self.low(schema, kernel)
        else:
            compiled = {"compile": True} if self.kind == "compiled" and self.is_oplib else {}
            made = self.custom(schema, kernel, **compiled, **options)
        if backward is not None:
            self.formula(made, backward, setup)
        return made

    def formula(self, made: Any, backward: Callable[..., Any], setup: Any = None) -> None:
        overload = made.default if self.kind == "low" else made._opoverload
        self.lib.library.register_autograd(overload, backward, setup_context=setup)
