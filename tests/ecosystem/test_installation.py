"""A package that cannot be installed: it is named, and its tests are skipped with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.ecosystem import installation, packages


def test_what_cannot_be_had_leaves_the_others_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def try_install(*requirements: str) -> str | None:
        return "No matching distribution found for two" if "two" in requirements else None

    monkeypatch.setattr(installation, "try_install", try_install)
    assert installation.install(["one", "two", "three"]) == {"two": "No matching distribution found for two"}
    assert installation.install(["one", "three"]) == {}


def test_pip_gives_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import sys; sys.exit('WARNING: one\\nERROR: No matching distribution found for two.')"
    monkeypatch.setattr(installation, "PIP", [installation.sys.executable, "-c", program])
    assert installation.try_install("two") == "No matching distribution found for two"


def test_a_test_that_needs_a_missing_package_is_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "missing").write_text(json.dumps({"nosuch-package>=1": "there is no wheel"}))
    monkeypatch.setattr(packages, "MISSING", tmp_path / "missing")
    reason = packages.find_reason("nosuch.part", ImportError("none"))
    assert reason.startswith("no nosuch: there is no wheel")
    with pytest.raises(pytest.skip.Exception, match="No module named 'nosuchpackage'"):
        packages.require("nosuchpackage.part")


def test_the_extra_lists_the_packages() -> None:
    names = {requirement.partition(">")[0] for requirement in installation.read_packages()}
    assert {"flax", "equinox", "optax", "diffrax", "numpyro", "blackjax", "orbax-checkpoint"} <= names
