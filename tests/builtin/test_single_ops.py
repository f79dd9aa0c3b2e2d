"""The access by which composed functions call their ops."""

import copy

import pytest

import oplib
from oplib.builtin.public_functions.registry import UPCALLS
from oplib.builtin.single_ops import SingleOps, ops
from tests.threads import run_in_threads


def test_the_function_of_an_op_is_that_of_the_tables():
    assert ops.flip is UPCALLS["flip"]
    assert ops.matmul(oplib.ones(2), oplib.ones(2)).item() == 2.0


def test_an_op_is_looked_up_once():
    asked: list[str] = []

    class Functions(dict):
        def __getitem__(self, name):
            asked.append(name)
            return super().__getitem__(name)

    found = SingleOps()
    found.take_from(Functions(add=oplib.add))
    assert found.add is found.add
    assert asked == ["add"]


def test_an_op_that_is_not_there_is_no_attribute():
    with pytest.raises(AttributeError, match="there is no op 'expp' of oplib"):
        ops.expp  # noqa: B018  looking it up is what raises
    assert type(copy.copy(ops)) is SingleOps


def test_threads_that_ask_at_once_get_one_function():
    class Functions(dict):
        def __getitem__(self, name):
            return lambda: name

    found = SingleOps()
    found.take_from(Functions(add=None))
    assert len(set(run_in_threads(lambda _: found.add))) == 1
