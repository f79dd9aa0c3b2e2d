"""Counts of the frames and files of a call."""

import oplib
from tools.hops import Hops, count_hops, list_calls


def test_functions_outside_of_oplib_do_not_count():
    assert count_hops(lambda: [len([1]), sorted([2, 1])]) == Hops(0, 0)


def test_a_call_of_a_plain_function_of_oplib_counts():
    assert count_hops(lambda: oplib.get_default_dtype()) == Hops(1, 1)


def test_each_call_of_the_table_enters_oplib():
    for call in list_calls().values():
        hops = count_hops(call)
        assert 0 < hops.files <= hops.frames
