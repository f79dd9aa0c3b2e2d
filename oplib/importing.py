"""How the package is imported: without garbage collection, and rarely used modules at their first use.

A module that serves another package is imported together with that package.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
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


def import_together(foreign: str, own: str) -> None:
    """Imports a module of ours as soon as one of another package is imported, or now if it is.

    Args:
        foreign: the full name of the module of the other package.
        own: the full name of our module.
    """
    if foreign in sys.modules:
        import_module(own)
    else:
        sys.meta_path.insert(0, _Companion(foreign, own))


class _Companion(MetaPathFinder):
    """Waits for the import of a module, and imports another one after it. Other imports cost one comparison.

    It finds nothing itself: it asks the other finders, and takes itself away.
    """

    def __init__(self, foreign: str, own: str) -> None:
        self._foreign, self._own = foreign, own

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002  the signature is Python's
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname != self._foreign:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            execute = loader.exec_module

            def execute_both(module: ModuleType) -> None:
                execute(module)
                import_module(self._own)

            loader.exec_module = execute_both
        return spec
