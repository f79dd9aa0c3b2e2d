"""The docstrings of composed functions: complete, in order, with an example that runs."""

import doctest
import inspect

import pytest

from oplib.builtin.public_functions.families import COMPOSED
from oplib.builtin.public_functions.registry import FFT, FUNCTIONS, LINALG
from oplib.builtin.rows.parameters import takes_further_names

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SECTIONS = ("Args:", "Returns:", "Gradient:", "Source:", "Example:")


ALL = {name: one.function for name, one in COMPOSED.items()}
# Functions that no module has under their names; the examples of the others run with their modules.
MADE = [name for name, one in ALL.items() if one.__globals__.get(one.__code__.co_name) is not one]


def find_function(name: str):
    return next(table[name] for table in (LINALG, FFT, FUNCTIONS) if name in table)


@pytest.fixture(scope="module")
def docs() -> dict[str, str]:
    return {name: inspect.getdoc(find_function(name)) or "" for name in ALL}


def test_the_docstring_of_each_composed_function_has_its_sections_in_order(docs):
    wrong = {
        name: places
        for name, text in docs.items()
        if -1 in (places := [text.find(f"\n{section}\n") for section in SECTIONS]) or places != sorted(places)
    }
    assert len(docs) > 90
    assert not wrong
    assert {text.partition("\nExample:\n")[2].splitlines()[0] for text in docs.values()} == {
        "    >>> import oplib"
    }


def test_each_argument_of_a_composed_function_is_described(docs):
    missing = [
        (name, parameter)
        for name, text in docs.items()
        for parameter, one in inspect.signature(find_function(name)).parameters.items()
        if parameter != "out" and f"\n    {parameter}: " not in text.replace("*", "")
        if not takes_further_names(one)
    ]
    assert not missing


@pytest.mark.parametrize("name", MADE)
def test_the_example_of_a_function_that_is_made_of_a_template_is_right(name):
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    text = inspect.getdoc(find_function(name)) or ""
    case = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    runner.run(case, out=said.append)
    assert case.examples
    assert runner.failures == 0, "".join(said)
