"""Functions made from text: their lines are shown like those of a file."""

import inspect
import itertools
import linecache
import sys
import traceback

import pytest

from oplib.generated_code import (
    compile_function,
    define_function,
    fill_template,
    parse,
    parse_literal,
    refer,
    render_parameters,
    render_tuple,
)
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


def test_a_value_of_several_lines_gets_the_indentation_of_its_place():
    template = """
    if {test}:
        {lines}
        return {result}
    """
    filled = fill_template(template, test="a", lines="while b:\n    c = {}", result="(d, {e})")
    assert filled == "    if a:\n        while b:\n            c = {}\n        return (d, {e})"


def test_an_empty_value_that_stands_alone_leaves_no_line():
    assert fill_template("a = 1\n{lines}\nb = 2", lines="") == "a = 1\nb = 2"
    assert fill_template("a = 1\n{lines}", lines="\n\nb = 2\n") == "a = 1\nb = 2"


def test_two_objects_get_two_names_and_one_object_the_same():
    first, second = [1], [1]
    objects = {"__item": first}
    names = [refer(objects, one, "item") for one in (first, second, first)]
    assert names == ["__item", "__item_2", "__item"]
    assert objects == {"__item": first, "__item_2": second}
    assert [refer(objects, one, "item") for one in (None, True, 3, "a")] == ["None", "True", "3", "'a'"]


def test_a_tuple_of_one_item_has_a_comma():
    assert [render_tuple(list("abc")[:count]) for count in range(3)] == ["()", "(a,)", "(a, b)"]


def positional(a, b=2, /): ...
def named(a, b=2): ...
def keyword_only(a, *, b=2): ...
def starred(a, *b, c=3): ...
def with_all(a, /, b=2, *c, d, e=5, **f): ...


@pytest.mark.parametrize("function", [positional, named, keyword_only, starred, with_all])
def test_rendered_parameters_take_and_pass_on_what_those_of_the_function_do(function):
    text = render_parameters(inspect.signature(function).parameters.values())
    source = f"def take{text.declared}:\n    return pass_on({text.passed})"
    given = inspect.signature(function)
    take = define_function(source, "take", "<test.take>", {**text.defaults, "pass_on": given.bind})
    assert str(inspect.signature(take)) == str(given)
    calls = itertools.product([(), (1,), (1, 2), (1, 2, 3)], [{}, {"b": 7}, {"d": 8}, {"d": 8, "z": 9}])
    for args, kwargs in calls:
        try:
            expected = given.bind(*args, **kwargs)
        except TypeError:
            with pytest.raises(TypeError):
                take(*args, **kwargs)
            continue
        bound = take(*args, **kwargs)
        expected.apply_defaults()
        bound.apply_defaults()
        assert bound == expected


def test_the_parameter_for_further_names_stands_last():
    last, other = inspect.Parameter("z", inspect.Parameter.VAR_KEYWORD), inspect.Parameter("a", 3)
    assert render_parameters([last, other]).declared == "(*, a, **z)"


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
