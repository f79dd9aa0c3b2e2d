"""The table of differences in ``docs/use/beside_torch.md``: each row, run on both."""

import builtins
import re
import warnings

import numpy as np
import pytest

import oplib
from tests.documents import ROOT

ROW = re.compile(r"^\| `(.+?)` \| `(.+?)` \| `(.+?)` \| .+ \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs" / "use" / "beside_torch.md").read_text())


def answer(code, lib, expected):
    """What a program gives, as the table writes it; an error by the builtin kind that is expected."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's about numpy
        try:
            return repr(eval(code, {"lib": lib, "numpy": np}))
        except Exception as error:  # noqa: BLE001  whatever it is, the table names it
            kind = getattr(builtins, expected, None)
            is_due = isinstance(kind, type) and isinstance(error, kind)
            return expected if is_due else f"{type(error).__name__}: {error}"


def test_the_table_has_rows():
    assert len(ROWS) > 10


@pytest.mark.parametrize(("code", "theirs", "ours"), ROWS, ids=[row[0] for row in ROWS])
def test_a_difference_is_the_one_that_the_page_tells(code, theirs, ours):
    torch = pytest.importorskip("torch")
    assert answer(code, torch, theirs) == theirs
    assert answer(code, oplib, ours) == ours
    assert theirs != ours
