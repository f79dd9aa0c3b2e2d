"""The rows of the matrix, by what they show. See the docstring of the package ``tests.worlds``."""

from importlib import import_module

FILES = ["values", "modes", "hooks", "calls", "state"]


def load() -> None:
    """Adds all rows."""
    for name in FILES:
        import_module(f"{__name__}.{name}")
