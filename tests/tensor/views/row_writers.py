"""Ways to add one to a row of a tensor of shape (8, 4), each through a view or a write of a part."""

from __future__ import annotations

from typing import Any

import oplib


def add_to_row(base: Any, row: int) -> None:
    base[row].add_(1)


def add_by_operator(base: Any, row: int) -> None:
    base[row] += 1


def add_at_index(base: Any, row: int) -> None:
    base.index_add_(0, oplib.tensor([row]), oplib.ones(1, 4))


def add_by_alias(base: Any, row: int) -> None:
    base.data[row].add_(1)


def add_by_view_of_view(base: Any, row: int) -> None:
    base[row].view(2, 2).add_(1)


def add_to_half(base: Any, row: int) -> None:
    base.view(4, 8)[row // 2, 4 * (row % 2) : 4 * (row % 2) + 4].add_(1)


def add_with_mask(base: Any, row: int) -> None:
    base[oplib.arange(8) == row] += 1


ROW_WRITERS = [
    add_to_row, add_by_operator, add_at_index, add_by_alias, add_by_view_of_view, add_to_half, add_with_mask
]  # fmt: skip
