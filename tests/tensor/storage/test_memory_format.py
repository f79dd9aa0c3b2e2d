"""Layouts and memory formats: objects of which there is one each, and the checks of them."""

from __future__ import annotations

import copy
import pickle

import pytest

import oplib
from oplib.errors import ArgumentTypeError, UnsupportedArgumentError

FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d", "strided")


@pytest.mark.parametrize("name", FORMATS)
def test_a_copy_is_the_object_itself(name: str) -> None:
    one = getattr(oplib, name)
    assert copy.deepcopy(one) is pickle.loads(pickle.dumps(one)) is one
    assert repr(one) == f"oplib.{name}"


def test_pinned_memory_is_refused() -> None:
    with pytest.raises(UnsupportedArgumentError, match="full: there is no pinned memory"):
        oplib.full((2,), 1, pin_memory=True)


def test_a_keyword_that_is_no_option_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match=r"zeros_like\(\) got an unexpected keyword argument 'shape'"):
        oplib.zeros_like(oplib.ones(2), shape=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_a_format_changes_neither_values_nor_strides() -> None:
    x = oplib.arange(24.0).reshape(1, 2, 3, 4)
    y = x.transpose(1, 2).contiguous(memory_format=oplib.channels_last)
    assert y.stride() == (24, 8, 4, 1)
    assert y.tolist() == x.transpose(1, 2).tolist()
    assert x.to(memory_format=oplib.channels_last) is x
