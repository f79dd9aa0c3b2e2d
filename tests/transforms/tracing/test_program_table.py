"""The state of a thread: each piece is declared with what it does to a program."""

from dataclasses import fields

import pytest

from oplib.modes import ModeState
from oplib.transforms.tracing.program_table import (
    AT_BOUNDARY,
    INLINED,
    KEYED,
    KEYED_BY_PRESENCE,
    PROGRAM_SETTINGS,
    WITHOUT_EFFECT,
    read_program_settings,
)


@pytest.mark.spec("D.52")
def test_each_piece_of_state_is_declared_once_with_what_it_does_to_a_program():
    declared = [*KEYED, *KEYED_BY_PRESENCE, *AT_BOUNDARY, *INLINED, *WITHOUT_EFFECT]
    declared.remove("hook_pairs")  # a program knows that there are some, and sees none of them
    assert sorted(declared) == sorted(field.name for field in fields(ModeState))


def test_each_setting_of_a_program_has_a_name():
    assert len(read_program_settings()) == len(PROGRAM_SETTINGS) == len(set(PROGRAM_SETTINGS))
