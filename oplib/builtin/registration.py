"""Entering the rows of the tables: as registrations like any user's, and as functions to call."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from oplib.builtin.rows.row import Function
from oplib.errors import ArgumentError, frame_error
from oplib.library import OpOverload, custom_op
from oplib.library.op_objects.deferral import defer, settle
from oplib.library.registration.rule_registration import add_autocast
from oplib.library.schema import FunctionSchema
from oplib.protocols import Values

from .rows.row import Row
from .shared_kernels.dtype_classes import check_classes

NAMESPACE = "oplib"


def frame(row: Row, kernel: Function) -> Function:
    """Wraps a kernel so that it refuses dtypes, and so that its errors name the call and its arguments."""
    checked = check_classes(kernel, row.dtypes)

    @functools.wraps(kernel)
    def framed(*args: Any, **kwargs: Any) -> Any:
        try:
            return checked(*args, **kwargs)
        except ArgumentError as error:
            frame_error(error, row.public_name, [*zip(row.parameters, args, strict=False), *kwargs.items()])
            raise

    return framed


def register(row: Row) -> OpOverload:
    """Registers a row and returns its overload."""
    derivative = row.derivative
    op = custom_op(
        f"{NAMESPACE}::{row.name}",
        frame(row, row.kernel),
        schema=row.schema[len(row.name) :],
        tags=row.tags,
        operand=row.operand,
        compile=True,
        autograd=derivative if derivative.derive else None,
    )
    if not derivative.derive:
        op.register_autograd(derivative)
    for platform, kernel in row.kernels:
        op.register_kernel(platform, frame(row, kernel))
    if row.jvp is not None:
        op.register_jvp(row.jvp)
    if row.sharding is not None:
        op.register_sharding(row.sharding)
    for device_type, policy in row.autocasts.items():
        add_autocast(op._opoverload, device_type, policy)
    return op._opoverload


class Overloads(Mapping[str, OpOverload]):
    """The overloads of the tables by name. The first use of an op registers it, with all of its rows."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._made: dict[str, OpOverload] = {}
        self._rows: dict[str, list[Row]] = {}
        self._names: list[str] = []
        for row in rows:
            self._rows.setdefault(row.op, []).append(row)
            self._names.append(row.name)
        defer([f"{NAMESPACE}::{op}" for op in self._rows], self._register)

    def _register(self, name: str) -> None:
        for row in self._rows[name.removeprefix(f"{NAMESPACE}::")]:
            self._made[row.name] = register(row)

    def __getitem__(self, name: str) -> OpOverload:
        settle(f"{NAMESPACE}::{name.partition('.')[0]}")
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def rows_of(self, op: str) -> list[Row]:
        """Returns the rows of one op."""
        return self._rows[op]

    def list_ops(self) -> list[str]:
        """Returns the names of all ops, without overloads, in the order of the tables."""
        return list(self._rows)


def make_results(schema: FunctionSchema) -> type[Values] | None:
    """Returns the named tuple of an op with several named results; None for other ops."""
    names = tuple(result.name for result in schema.returns if result.name)
    return _name_results(names) if len(names) == len(schema.returns) > 1 else None


@functools.cache
def _name_results(names: tuple[str, ...]) -> type[Values]:
    """One class for ops whose results have the same names."""
    return namedtuple("_".join(names), names)  # noqa: PYI024  # pyright: ignore[reportUntypedNamedTuple]  from the table
