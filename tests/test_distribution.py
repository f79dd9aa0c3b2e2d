"""What is checked of the distributions without building them; ``make dist`` builds and installs them."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile

import pytest

import oplib
from tests.distribution import find_faults, list_package_files, read_lowest
from tests.documents import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_is_written_once():
    text = (ROOT / PROJECT["tool"]["hatch"]["version"]["path"]).read_text()
    assert re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE) == [oplib.__version__]
    assert "version" in PROJECT["project"]["dynamic"]


def test_each_dependency_has_a_lowest_version_that_pip_can_install():
    assert {re.sub(r"==\d+(\.\d+)*$", "", item) for item in read_lowest()} == {"jax", "jaxlib", "optree"}


def test_a_distribution_with_the_whole_package_has_no_faults():
    files = [*list_package_files(), "oplib-0.1.dist-info/RECORD"]
    assert find_faults(files, [*files, "tests/conftest.py"]) == []


def test_stubs_and_the_typing_marker_are_missed():
    left = list_package_files() - {"oplib/py.typed", "oplib/__init__.pyi"}
    assert find_faults(left, left) == [
        "the wheel lacks oplib/__init__.pyi",
        "the wheel lacks oplib/py.typed",
        "the sdist lacks oplib/__init__.pyi",
        "the sdist lacks oplib/py.typed",
    ]


def test_tests_and_tools_are_found_in_a_wheel():
    files = list_package_files()
    assert find_faults([*files, "tools/stub.py"], files) == ["the wheel has tools/stub.py"]


FROM_ZIP = """
import oplib
x = oplib.tensor([1.0, 2.0], requires_grad=True)
oplib.jit(lambda x: (x * x).sum())(x).backward()
picture = oplib.visual.graph((x * x).sum()).svg()
print(oplib.__file__, x.grad.tolist(), "import oplib" in oplib.sin.__doc__, picture[:4])
"""


@pytest.mark.slow
def test_the_package_works_from_a_zip_file(tmp_path):
    packed = tmp_path / "oplib.zip"
    with zipfile.ZipFile(packed, "w") as file:
        for name in list_package_files():
            file.write(ROOT / name, name)
    command = [sys.executable, "-c", FROM_ZIP]
    environment = {**os.environ, "PYTHONPATH": str(packed)}
    said = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.split() == [f"{packed}/oplib/__init__.py", "[2.0,", "4.0]", "True", "<svg"]
