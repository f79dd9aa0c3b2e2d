"""What type checkers know of ``custom_op``, beside its signature."""

from __future__ import annotations

import inspect
import typing

from oplib.library import custom_op
from oplib.library.registration.custom_op import CustomOpOptions


def test_the_options_for_type_checkers_are_those_of_the_signature() -> None:
    function = inspect.unwrap(custom_op)
    parameters = inspect.signature(function).parameters.values()
    names = [one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]
    hints = typing.get_type_hints(function)
    assert {name: hints[name] for name in names} == typing.get_type_hints(CustomOpOptions)


def test_every_option_may_be_left_out() -> None:
    parameters = inspect.signature(inspect.unwrap(custom_op)).parameters.values()
    assert all(
        one.default is not inspect.Parameter.empty
        for one in parameters
        if one.name in CustomOpOptions.__annotations__
    )
    assert CustomOpOptions.__required_keys__ == frozenset()
