"""Every piece of code in the documents and docstrings runs, and prints what it is said to print."""

import contextlib
import doctest
import importlib
import io

import pytest

from tests.documents import ROOT, find_pages, read_examples

PAGES = [page for page in find_pages() if "```python" in page.read_text()]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "oplib").rglob("*.py")
    if path.name != "__main__.py"
)


def run_page(text: str, name: str) -> None:
    """Runs the examples of a page in one namespace and compares what each prints."""
    namespace = {"__name__": "__main__"}
    for example in read_examples(text):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example.code, name, "exec"), namespace)
        assert printed.getvalue() == example.output


@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_code_of_a_page_prints_what_the_page_shows(page):
    run_page(page.read_text(), str(page))


@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("name", MODULES)
def test_the_docstring_examples_of_a_module_are_right(name):
    module = importlib.import_module(name)
    said = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for case in doctest.DocTestFinder(exclude_empty=True).find(module):
        runner.run(case, out=said.write)
    assert runner.summarize(verbose=False).failed == 0, said.getvalue()


def test_the_readme_shows_code_with_its_output():
    assert any(example.output for example in read_examples((ROOT / "README.md").read_text()))


def test_a_page_that_shows_another_output_fails():
    with pytest.raises(AssertionError):
        run_page("```python\nprint(1)\n```\n\n```text\n2\n```\n", "page")


def test_a_page_that_prints_more_than_it_shows_fails():
    with pytest.raises(AssertionError):
        run_page("```python\nprint(1)\n```\n\nSome words.\n\n```text\n1\n```\n", "page")


def test_the_blocks_of_a_page_share_one_namespace_and_other_blocks_are_left_alone():
    run_page("```python\na = 1\n```\n```sh\nfalse\n```\n```python\nprint(a)\n```\n```text\n1\n```\n", "page")


def test_an_error_in_a_page_names_the_line_of_the_page():
    with pytest.raises(ZeroDivisionError) as caught:
        run_page("# Title\n\n```python\n1 / 0\n```\n", "page.md")
    assert (caught.traceback[-1].path, caught.traceback[-1].lineno + 1) == ("page.md", 4)
