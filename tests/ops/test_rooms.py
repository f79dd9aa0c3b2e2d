"""A newcomer finds the file that a line of the built-in ops belongs in."""

import re
from pathlib import Path

import oplib.ops
from oplib.ops._families import FAMILIES


def test_each_file_of_the_ops_is_a_family_or_has_its_place_in_the_table_of_rooms():
    named = set(re.findall(r"``(_\w+\*?)``", oplib.ops.__doc__))
    families = {family.__name__.rpartition(".")[2] for family in FAMILIES}
    files = {path.stem for path in Path(oplib.ops.__file__).parent.glob("_[a-z]*.py")}
    patterns = [name.removesuffix("*") for name in named if name.endswith("*")]
    lost = {name for name in files - families - named if not name.startswith(tuple(patterns))}
    assert not lost
    assert not {name for name in named - files if not name.endswith("*")}
