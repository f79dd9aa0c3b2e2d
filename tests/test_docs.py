"""Every piece of code in the documents and docstrings runs, and prints what it is said to print."""

import contextlib
import doctest
import importlib
import importlib.util
import io
import logging
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import jax
import pytest

import oplib
from oplib.autograd.compiled_autograd import counters
from tests.documents import ROOT, find_pages, has_pairs, read_examples, read_pairs
from tests.memory import drop_above_floor

OTHERWISE_LATER = {
    "print_saved_residuals(": "this JAX names the jitted function that a saved value comes from",
}
"""Parts of programs that do something else with a later JAX than the tested one, with the reason."""


def name_page(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


PROGRAMS = [page for page in find_pages() if "```python" in page.read_text()]
QUICK = {"collective", "root", "simulator"}
"""The pages of the gallery that every run tests: their parts of JAX change most. A check takes seconds."""
PAGES = [
    pytest.param(page, marks=pytest.mark.slow)
    if page.parent.name == "gallery" and page.stem not in QUICK
    else page
    for page in PROGRAMS
    if not has_pairs(page.read_text())
]
PAIRS = [
    (page, place)
    for page in PROGRAMS
    if has_pairs(page.read_text())
    for place in range(len(read_pairs(page.read_text())))
]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "oplib").rglob("*.py")
    if path.name == "__init__.py" or ">>>" in path.read_text()
)

CODE = (types.FunctionType, type)
# The functions of ops have a table, docs/use/ops.md.
OF_OPS = {"oplib.fft", "oplib.linalg", "oplib.nn.functional", "oplib.special"}


def run(code: str, name: str, namespace: dict[str, object]) -> str:
    """Runs a piece of code of a page and returns what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, name, "exec"), namespace)
    return printed.getvalue()


def check_page(text: str, name: str) -> None:
    """Runs the examples of a page in one namespace and compares what each prints."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for example in read_examples(text):
        assert run(example.code, name, namespace) == example.output


def run_alone(call: str) -> None:
    """Runs a call of this module in a process of its own: the heap of all tests is large."""
    code = f"from tests import test_docs\n{call}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def skip_without(text: str) -> None:
    """Skips a page that needs what this machine has not."""
    if "import torch" in text and importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    if "ffi.h" in text and not any(map(shutil.which, ("c++", "g++", "clang++"))):
        pytest.skip("needs a C++ compiler")
    if '"sparse.c"' in text and not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("needs a C compiler")
    if jax.__version_info__ >= (0, 11):
        for sign, reason in OTHERWISE_LATER.items():
            if sign in text:
                pytest.skip(reason)


@contextlib.contextmanager
def keeping_log_levels():
    """Gives the loggers of oplib their levels back, which a page may change."""
    loggers = [
        logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith("oplib")
    ]
    levels = [logger.level for logger in loggers]
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_the_code_of_a_page_prints_what_the_page_shows(page):
    skip_without(page.read_text())
    if "visual.memory(" in page.read_text():
        run_alone(f"test_docs.check_page(open({str(page)!r}).read(), {str(page)!r})")
        return
    counters.clear()  # other tests of this process have counted
    with keeping_log_levels():
        check_page(page.read_text(), str(page))


@pytest.mark.slow
def test_the_settings_of_jax_that_pages_name_exist():
    lines = {
        line
        for page in find_pages()
        for line in re.findall(r"jax\.config\.update\([^()]*\)", page.read_text())
    }
    assert any("async_dispatch" in line for line in lines)
    code = "\n".join(["import jax", *sorted(lines)])
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize(
    ("page", "place"), PAIRS, ids=lambda value: str(value) if isinstance(value, int) else name_page(value)
)
def test_two_programs_side_by_side_print_the_same(page, place):
    pair = read_pairs(page.read_text())[place]
    for program in pair.programs:
        skip_without(program)
        assert run(program, str(page), {"__name__": "__main__"}) == pair.output
    assert pair.output


@pytest.mark.parametrize("folder", ["api", "gallery", "notebooks", "use", "write_an_op"])
def test_the_index_of_a_folder_links_to_each_of_its_pages(folder):
    index = (ROOT / "docs" / folder / "index.md").read_text()
    pages = (ROOT / "docs" / folder).glob("*.md")
    assert {page.name for page in pages if f"]({page.name}" not in index} == {"index.md"}


@pytest.mark.parametrize("page", find_pages(), ids=name_page)
def test_each_link_to_a_file_leads_to_one(page):
    links = re.findall(r"\]\(([\w./-]+)(?:#[\w-]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).is_file()] == []


def list_anchors(page: Path) -> set[str]:
    """Returns the names by which links reach the headings of a page, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = [re.sub(r"\]\([^)]*\)", "", one) for one in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("page", find_pages(), ids=name_page)
def test_each_link_to_a_heading_leads_to_one(page):
    links = re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", page.read_text())
    targets = [(page.parent / name if name else page, anchor) for name, anchor in links]
    assert [
        (file.name, anchor)
        for file, anchor in targets
        if file.suffix == ".md" and anchor not in list_anchors(file)
    ] == []


def list_reference_modules() -> list[str]:
    """Returns the modules whose docstrings the pages of the reference show."""
    text = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    return re.findall(r"automodule:: (\S+)", text)


def list_public_modules(name: str) -> list[str]:
    """Returns the modules that a module exports, and those that they export."""
    module = importlib.import_module(name)
    exports = [item for item in getattr(module, "__all__", ()) if f"{name}.{item}" not in OF_OPS]
    names = [f"{name}.{item}" for item in exports if isinstance(getattr(module, item), types.ModuleType)]
    return [*names, *(inner for item in names for inner in list_public_modules(item))]


def find_exports(name: str) -> set[str]:
    """Returns the functions and classes that a module exports, by the paths of their definitions."""
    module = importlib.import_module(name)
    things = [getattr(module, item) for item in getattr(module, "__all__", vars(module))]
    return {f"{thing.__module__}.{thing.__qualname__}" for thing in things if isinstance(thing, CODE)}


def test_the_reference_shows_each_public_function_and_class():
    shown = set().union(*map(find_exports, list_reference_modules()))
    public = set().union(*map(find_exports, list_public_modules("oplib")))
    assert public - shown == set()


def test_a_program_that_prints_something_else_than_its_neighbour_is_found():
    text = "<td>\n```python\nprint(1)\n```\n```python\nprint(2)\n```\n```text\n1\n```\n"
    pair = read_pairs(text)[0]
    assert [run(program, "page", {}) == pair.output for program in pair.programs] == [True, False]


class Finder(doctest.DocTestFinder):
    """Finds the examples of functions that another module has made or wrapped, too."""

    def _from_module(self, module, object):  # noqa: A002  the name of doctest
        return getattr(object, "__module__", None) == module.__name__ or super()._from_module(module, object)


@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("name", MODULES)
def test_the_docstring_examples_of_a_module_are_right(name):
    if name == "oplib.visual.memory":
        run_alone(f"test_docs.check_docstrings({name!r})")
    else:
        check_docstrings(name)


def check_docstrings(name: str) -> None:
    """Runs the examples in the docstrings of a module."""
    module, said = importlib.import_module(name), io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    # The examples of composed functions get their import when the function is written.
    for case in Finder(exclude_empty=True).find(module, extraglobs={"oplib": oplib}):
        runner.run(case, out=said.write)
        drop_above_floor()  # the examples of oplib are some hundred programs
    assert runner.summarize(verbose=False).failed == 0, said.getvalue()


def test_the_readme_shows_code_with_its_output():
    assert any(example.output for example in read_examples((ROOT / "README.md").read_text()))


def test_a_page_that_shows_another_output_fails():
    with pytest.raises(AssertionError):
        check_page("```python\nprint(1)\n```\n\n```text\n2\n```\n", "page")


def test_a_page_that_prints_more_than_it_shows_fails():
    with pytest.raises(AssertionError):
        check_page("```python\nprint(1)\n```\n\nSome words.\n\n```text\n1\n```\n", "page")


def test_the_blocks_of_a_page_share_one_namespace_and_other_blocks_are_left_alone():
    check_page(
        "```python\na = 1\n```\n```sh\nfalse\n```\n```python\nprint(a)\n```\n```text\n1\n```\n", "page"
    )


def test_an_error_in_a_page_names_the_line_of_the_page():
    with pytest.raises(ZeroDivisionError) as caught:
        check_page("# Title\n\n```python\n1 / 0\n```\n", "page.md")
    assert (caught.traceback[-1].path, caught.traceback[-1].lineno + 1) == ("page.md", 4)
