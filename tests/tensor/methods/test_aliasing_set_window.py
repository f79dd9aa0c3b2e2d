"""``Tensor.set_`` of a window of another Tensor. The values are torch's."""

from __future__ import annotations

import pytest

from oplib.tensor import arange, zeros


@pytest.mark.parametrize(
    ("window", "values", "strides"),
    [
        ((1, (2, 3), (1, 4)), [[1.0, 5.0, 9.0], [2.0, 6.0, 10.0]], (1, 4)),
        (
            (2, (2, 2, 3)),
            [[[2.0, 3.0, 4.0], [5.0, 6.0, 7.0]], [[8.0, 9.0, 10.0], [11.0, 12.0, 13.0]]],
            (6, 3, 1),
        ),
        ((3, 2), [3.0, 4.0], (1,)),
        ((0, (3,), (0,)), [0.0, 0.0, 0.0], (0,)),
    ],
    ids=["strides", "contiguous", "one_number", "repeated"],
)
def test_set_takes_a_window_of_another_tensor(window, values, strides) -> None:
    x = zeros(2, 3).set_(arange(14.0), *window)
    assert (x.tolist(), x.stride(), x.storage_offset(), x._version) == (values, strides, window[0], 1)


def test_a_write_of_a_window_that_was_set_reaches_the_source() -> None:
    x, source = zeros(1), arange(4.0)
    x.set_(source, 1, (2,))[0] = 9.0
    assert source.tolist() == [0.0, 9.0, 2.0, 3.0]
