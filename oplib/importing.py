"""How the package is imported: without garbage collection, and rarely used modules at their first use."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any


@contextmanager
def collecting_later() -> Generator[None]:
    """Delays garbage collection: a collection through all of JAX takes a quarter of the import time of oplib.

    At the end the new objects are moved to the oldest generation. Otherwise the next new object would start a
    collection through all of them. If the user has frozen objects, this step is omitted, because unfreezing
    would also unfreeze the user's objects.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()
        if was_enabled:
            gc.enable()


class LateImports(Mapping[str, Any]):
    """Names of a package whose modules are imported when a name is first looked up.

    A program that uses none of the names does not wait for the modules.

    Args:
        package: the name of the package.
        modules: the module that defines each name, seen from the package. A name that is its own module
            stands for the module.
    """

    def __init__(self, package: str, modules: Mapping[str, str]) -> None:
        self._package = package
        self._modules = modules

    def __getitem__(self, name: str) -> Any:
        path = self._modules[name]
        module = import_module(f"{self._package}.{path}")
        return module if path == name else getattr(module, name)

    def find(self, name: str) -> Any:
        """Serves as the ``__getattr__`` of the package."""
        if name not in self._modules:
            raise AttributeError(f"module {self._package!r} has no attribute {name!r}")
        return self[name]

    def __contains__(self, name: object) -> bool:  # that of Mapping would import the module
        return name in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)
