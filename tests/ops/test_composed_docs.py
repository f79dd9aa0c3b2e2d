"""What composed functions say of themselves: all of it, in order, with an example that is right.

Their docstrings are not found from a module, as they are made when somebody asks for them.
"""

import doctest
import inspect

import pytest

from oplib.ops._composed_linalg import LINALG as COMPOSED_LINALG
from oplib.ops._functions import COMPOSED, FUNCTIONS, LINALG
from oplib.ops._parameters import takes_further_names

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SECTIONS = ("Args:", "Returns:", "Gradient:", "Source:", "Example:")


def find_composed() -> dict[str, str]:
    """The docstrings of functions that are written by hand; of the others the tables make them."""
    found = {name: inspect.getdoc(FUNCTIONS[name]) or "" for name in COMPOSED}
    found |= {name: inspect.getdoc(LINALG[name]) or "" for name in COMPOSED_LINALG}
    return {name: text for name, text in found.items() if "\nOverloads:\n" not in text}


def find_function(name: str):
    return LINALG[name] if name in COMPOSED_LINALG else FUNCTIONS[name]


@pytest.fixture(scope="module")
def docs() -> dict[str, str]:
    return find_composed()


def test_each_composed_function_says_what_it_takes_gives_and_follows_in_this_order(docs):
    wrong = {
        name: places
        for name, text in docs.items()
        if -1 in (places := [text.find(f"\n{section}\n") for section in SECTIONS]) or places != sorted(places)
    }
    assert len(docs) > 60
    assert not wrong


def test_each_argument_of_a_composed_function_is_described(docs):
    missing = [
        (name, parameter)
        for name, text in docs.items()
        for parameter, one in inspect.signature(find_function(name)).parameters.items()
        if parameter != "out" and f"\n    {parameter}: " not in text.replace("*", "")
        if not takes_further_names(one)
    ]
    assert not missing


@pytest.mark.parametrize("name", sorted({*COMPOSED, *COMPOSED_LINALG}))
def test_the_example_of_a_composed_function_is_right(name):
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    text = inspect.getdoc(find_function(name)) or ""
    case = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    runner.run(case, out=said.append)
    assert case.examples or "\nOverloads:\n" in text
    assert runner.failures == 0, "".join(said)
