"""Functions made from text: their lines are shown like those of a file."""

import inspect
import linecache
import sys
import traceback

import pytest

from oplib.generated_code import compile_function, define_function, parse, parse_literal
from tests.threads import run_in_threads

SOURCE = "def invert(x):\n    scale = 1\n    return scale / x\n"


def test_a_traceback_shows_the_line_of_a_generated_function():
    invert = define_function(SOURCE, "invert", "<test.invert>", {})
    with pytest.raises(ZeroDivisionError) as caught:
        invert(0)
    linecache.checkcache()  # the traceback module does this before it prints
    assert "return scale / x" in "".join(traceback.format_exception(caught.value))


def test_a_function_whose_code_is_replaced_shows_its_new_lines():
    invert = define_function(SOURCE, "invert", "<test.replaced>", {})
    invert.__code__ = compile_function(SOURCE.replace("scale / x", "scale // x"), "<test.replaced>")
    assert invert(2) == 0
    assert "scale // x" in inspect.getsource(invert)


@pytest.fixture
def switch_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("switch_often")
def test_threads_convert_trees_at_the_same_time():
    def convert(number):
        for _ in range(60):
            assert len(parse(SOURCE * 40).body) == 40
            assert parse_literal(f"[{number}]") == [number]

    run_in_threads(convert, 8)
