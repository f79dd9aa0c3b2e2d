"""Templates: their statements for known arguments do what the function does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from oplib.generated_code import define_function, inlined, write_function
from oplib.library.calls.unrolling import Code, Names, expand_template


def write(template: Callable[..., Any], **known: Any) -> str:
    """Returns the statements of a template as text."""
    return "\n".join(expand_template(template, Names({}), **known))


def run(template: Callable[..., Any], parameters: str, *values: Any, **known: Any) -> Any:
    """Calls a function of these parameters that has the statements of a template."""
    names = Names({})
    body = expand_template(template, names, **known)
    source = write_function(f"made({parameters})", body)
    return define_function(source, "made", "<test.made>", names.objects)(*values)


def codes(*names: str) -> list[Code]:
    return list(map(Code, names))


def sum_wanted(values: Sequence[int], wanted: Sequence[bool]) -> int:
    total = 0
    for value, want in zip(values, wanted, strict=True):
        if want:
            total += value
    return total


def test_a_loop_is_unrolled_and_known_branches_are_decided() -> None:
    known = {"values": codes("a", "b", "c"), "wanted": (True, False, True)}
    assert write(sum_wanted, **known) == "__total = 0\n__total += a\n__total += c\nreturn __total"
    assert run(sum_wanted, "a, b, c", 1, 2, 4, **known) == sum_wanted((1, 2, 4), (True, False, True)) == 5


def list_wanted(values: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
    return [value * 2 for value, want in zip(values, wanted, strict=True) if want]


def list_true(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if value]


def test_a_comprehension_leaves_out_what_its_condition_says_if_that_is_known() -> None:
    assert write(list_wanted, values=codes("a", "b"), wanted=(False, True)) == "return (b * 2,)"
    with pytest.raises(ValueError, match="condition 'value' of a comprehension is not known"):
        expand_template(list_true, Names({}), values=codes("a"))


def describe(values: Sequence[Any]) -> Any:
    if all(value is None for value in values):
        return "none"
    return "any" if any(value for value in values) else len(values)


@pytest.mark.parametrize("given", [(None, None), (None, 1), (0, 0), (2, None)])
def test_all_and_any_become_and_and_or(given: tuple[Any, Any]) -> None:
    assert run(describe, "a, b", *given, values=codes("a", "b")) == describe(given)
    assert "a is None and b is None" in write(describe, values=codes("a", "b"))


def test_of_no_values_all_and_any_are_known() -> None:
    assert write(describe, values=[]) == "return 'none'"


def pair(values: Sequence[Any]) -> Any:
    halves = [half_of(value) for value in values]
    return (*halves, len(halves))


@inlined
def half_of(value: Any) -> Any:
    half = value.real
    half += 0.5
    return half


def test_a_marked_function_is_replaced_by_its_statements() -> None:
    text = write(pair, values=codes("a", "b"))
    assert "half_of" not in text
    assert run(pair, "a, b", 1, 2, values=codes("a", "b")) == pair((1, 2)) == (1.5, 2.5, 2)


@inlined
def sign(value: Any) -> str:
    if value < 0:
        return "negative"
    return "positive"


def return_sign(value: Any) -> str:
    return sign(value)


def hold_sign(value: Any) -> str:
    found = sign(value)
    return found + "."


def test_a_marked_function_that_returns_early_is_called_after_return_only() -> None:
    assert [run(return_sign, "a", one, value=codes("a")[0]) for one in (-1, 1)] == ["negative", "positive"]
    with pytest.raises(ValueError, match="sign is called where it must return in its last line"):
        expand_template(hold_sign, Names({}), value=codes("a")[0])


def maybe_half(value: Any) -> Any:
    return half_of(value) if value else None


def test_a_marked_function_with_statements_is_refused_in_a_branch_of_an_expression() -> None:
    with pytest.raises(ValueError, match="needs statements"):
        expand_template(maybe_half, Names({}), value=codes("a")[0])


def count_down(value: int) -> int:
    while value:
        value -= 1
    return value


def test_a_statement_that_no_template_may_contain_is_refused() -> None:
    with pytest.raises(ValueError, match="A template contains While: while value"):
        expand_template(count_down, Names({}), value=codes("a")[0])


def fill(values: Sequence[Any], default: Any) -> Any:
    for value in values:
        if value is None:
            value = default
    return values


def test_assigning_to_a_loop_variable_assigns_to_what_it_stands_for() -> None:
    thing = object()
    assert run(fill, "a, b", 1, None, values=codes("a", "b"), default=thing) == (1, thing)


def go_on(value: Any) -> Any:
    if value:
        return 1
    return None


def test_a_last_return_none_is_left_to_the_statements_that_follow() -> None:
    assert write(go_on, value=codes("a")[0]) == "if a:\n    return 1"


@inlined
def find_or_go_on(value: Any) -> Any:
    if value:
        return value
    return None


def choose(values: Any) -> Any:
    for value in values:
        if value is not None:
            return find_or_go_on(value)
    return None


def test_a_marked_function_that_returns_none_goes_on_with_the_statements_that_follow_the_template() -> None:
    text = "if a is not None:\n    if a:\n        return a\nif b is not None:\n    if b:\n        return b"
    assert write(choose, values=codes("a", "b")) == text


def call_both(first: Any, second: Any, value: Any) -> Any:
    return first(value), second(value)


def test_two_objects_have_two_names_and_no_name_of_a_parameter() -> None:
    known = {"first": abs, "second": float}
    assert run(call_both, "abs", -1, value=codes("abs")[0], **known) == (1, -1.0)
    names = Names({})
    assert [names.refer(one, "one") for one in ([1], [2], None, 3)] == [
        "__one",
        "__one1",
        "None",
        "3",
    ]
