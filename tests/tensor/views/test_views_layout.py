"""Strides and offsets of views are those of numpy's."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import oplib

SHAPE = (3, 4, 5)
VIEWS = {
    "whole": (lambda x: x.view(3, 4, 5), lambda x: x),
    "select": (lambda x: x[1], lambda x: x[1]),
    "select from the end": (lambda x: x[:, -1], lambda x: x[:, -1]),
    "window": (lambda x: x[1:, 1:3, 2:], lambda x: x[1:, 1:3, 2:]),
    "steps": (lambda x: x[::2, 1::2, ::3], lambda x: x[::2, 1::2, ::3]),
    "transpose": (lambda x: x.transpose(0, 2), lambda x: x.swapaxes(0, 2)),
    "permute": (lambda x: x.permute(2, 0, 1), lambda x: x.transpose(2, 0, 1)),
    "flatten": (lambda x: x.view(12, 5), lambda x: x.reshape(12, 5)),
    "split axis": (lambda x: x.view(3, 2, 2, 5), lambda x: x.reshape(3, 2, 2, 5)),
    "diagonal": (lambda x: x.diagonal(), lambda x: x.diagonal()),
    "diagonal of other axes": (lambda x: x.diagonal(1, 2, 0), lambda x: x.diagonal(1, 2, 0)),
    "diagonal below": (lambda x: x.diagonal(-1, 0, 2), lambda x: x.diagonal(-1, 0, 2)),
    "windows": (
        lambda x: x.unfold(1, 3, 1),
        lambda x: sliding_window_view(x, 3, axis=1),
    ),
    "windows with steps": (
        lambda x: x.unfold(2, 2, 3),
        lambda x: sliding_window_view(x, 2, axis=2)[:, :, ::3],
    ),
    "expand": (lambda x: x[:1].expand(6, 4, 5), lambda x: np.broadcast_to(x[:1], (6, 4, 5))),
    "of a view": (
        lambda x: x[1:].transpose(0, 1)[1:].diagonal(1, 0, 2),
        lambda x: x[1:].swapaxes(0, 1)[1:].diagonal(1, 0, 2),
    ),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_lies_in_its_storage_where_that_of_numpy_does(name):
    ours, theirs = VIEWS[name]
    whole = np.arange(60, dtype=np.float32).reshape(SHAPE)
    got, expected = ours(oplib.tensor(whole)), theirs(whole)
    first = expected.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    assert got.stride() == tuple(stride // 4 for stride in expected.strides)
    assert got.storage_offset() == first // 4
    assert got.tolist() == expected.tolist()
