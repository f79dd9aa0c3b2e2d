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


@pytest.mark.parametrize(
    ("memory_format", "shape", "order"),
    [
        (oplib.contiguous_format, (2, 3, 4, 5), (0, 1, 2, 3)),
        (oplib.channels_last, (2, 4, 5, 3), (0, 3, 1, 2)),
        (oplib.channels_last_3d, (2, 4, 5, 6, 3), (0, 4, 1, 2, 3)),
    ],
)
def test_a_view_with_the_channels_last_is_contiguous_in_that_format(
    memory_format: oplib.memory_format, shape: tuple[int, ...], order: tuple[int, ...]
) -> None:
    whole = oplib.zeros(shape)
    assert whole.permute(order).is_contiguous(memory_format=memory_format)
    for other in (whole, whole.permute(order).mT, whole.permute(order)[:, :2]):
        is_same = other is whole and memory_format is oplib.contiguous_format
        assert other.is_contiguous(memory_format=memory_format) == is_same
