"""Packages that may be missing: a test that needs one is skipped, with the reason why it is not here."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

MISSING = Path(sys.prefix) / "missing_packages.json"
"""What ``tests.ecosystem.installation`` could not install, with pip's reason."""


def require(name: str) -> Any:
    """Imports a module for the tests of a file, or skips them.

    Args:
        name: the module, such as ``flax.nnx``.

    Returns:
        The module.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the packages, while they are imported
            return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(find_reason(name, error), allow_module_level=True)


def find_reason(name: str, error: ImportError) -> str:
    """Returns why a module cannot be imported."""
    missing = json.loads(MISSING.read_text()) if MISSING.exists() else {}
    package = name.partition(".")[0]
    of_pip = next((why for what, why in missing.items() if what.replace("-", ".").startswith(package)), None)
    return f"no {package}: {of_pip or error}. `make test-ecosystem` installs it where it has a wheel"
