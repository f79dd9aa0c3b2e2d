"""Where views lie, and what a write through one changes: as in numpy."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import oplib
from oplib.errors import OplibError

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


STRIDED = {
    "strides": (lambda x: x, ((2, 3), (7, 2), 4)),
    "strides of a transposed tensor": (lambda x: x.T, ((2, 3), (7, 2), 4)),
    "strides of a window": (lambda x: x[1:, 1:], ((2, 2), (5, 1), 26)),
    "no items": (lambda x: x[1:], ((0, 2), (5, 1), 20)),
    "one item again and again": (lambda x: x, ((3, 2), (0, 1), 3)),
}
NUMBERS = {
    "pairs": (oplib.view_as_real, lambda z: z.view(np.float32).reshape(*z.shape, 2)),
    "pairs of a window": (
        lambda z: oplib.view_as_real(z[1:, ::2]),
        lambda z: z.view(np.float32).reshape(*z.shape, 2)[1:, ::2],
    ),
    "real parts": (lambda z: z.real, lambda z: z.real),
    "imaginary parts": (lambda z: z.T.imag, lambda z: z.T.imag),
    "numbers of pairs": (
        lambda z: oplib.view_as_complex(oplib.view_as_real(z)[:, 1:])[:1],
        lambda z: z[:, 1:][:1],
    ),
}
BITS = {
    "same size": (lambda x: x[1:].view(oplib.int32), lambda x: x[1:].view(np.int32)),
    "halves": (lambda x: x[:, 1:].view(oplib.int16), lambda x: x[:, 1:].view(np.int16)),
    "twice the size": (lambda x: x[1:, :4].view(oplib.complex64), lambda x: x[1:, :4].view(np.complex64)),
}


def check(got, expected, whole):
    first = expected.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    assert got.stride() == tuple(stride // expected.itemsize for stride in expected.strides)
    assert got.storage_offset() == first // expected.itemsize
    assert got.tolist() == expected.tolist()


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_lies_in_its_storage_where_that_of_numpy_does(name):
    ours, theirs = VIEWS[name]
    whole = np.arange(60, dtype=np.float32).reshape(SHAPE)
    check(ours(oplib.tensor(whole)), theirs(whole), whole)


@pytest.mark.parametrize("name", STRIDED)
def test_strides_count_in_the_memory_of_the_whole(name):
    base, (shape, strides, offset) = STRIDED[name]
    whole = np.arange(60, dtype=np.float32).reshape(SHAPE)[0].repeat(2, 0)
    x = oplib.tensor(whole)
    flat = whole.reshape(-1)
    expected = as_strided(flat[offset:], shape, [4 * stride for stride in strides])
    got = base(x).as_strided(shape, strides, offset)
    assert (got.tolist(), got.stride(), got.storage_offset()) == (expected.tolist(), strides, offset)
    if 0 not in strides:
        got.mul_(-1)
        expected *= -1
        assert x.tolist() == whole.tolist()


def test_strides_that_leave_what_a_window_shows_are_refused():
    x = oplib.zeros(8, 5)
    with pytest.raises(OplibError, match="as_strided"):
        x[::2].as_strided((2, 2), (5, 1), 0)


@pytest.mark.parametrize(
    ("name", "kind"), [*((one, np.complex64) for one in NUMBERS), *((one, np.float32) for one in BITS)]
)
def test_a_write_through_other_numbers_changes_those_of_the_whole(name, kind):
    ours, theirs = (NUMBERS | BITS)[name]
    whole = (np.arange(1, 13).reshape(2, 6) * (1 + 2j if kind is np.complex64 else 1)).astype(kind)
    x, expected = oplib.tensor(whole), theirs(whole)
    got = ours(x)
    check(got, expected, whole)
    got.add_(1)
    expected += 1
    assert x.tolist() == whole.tolist()
