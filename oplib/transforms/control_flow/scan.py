"""``scan``: a loop over the slices of Tensors, which carries values on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax

from oplib.autograd.array_functions.residual_function import ResidualFunction
from oplib.errors import ArgumentError, ArgumentValueError, DimensionError, describe
from oplib.protocols import AnyFunction
from oplib.tensor import Tensor
from oplib.tracebacks import entry_point

from .body import Body, BodyFunction, check_carry
from .body_region import Captured
from .effectful_function import EffectfulFunction
from .flow_program import FlowProgram, Outcome, call_dual, run_program, run_with_tangents, split_dual
from .leaves import LeafLayout, flatten_leaves, require_function, type_of_slice
from .stepped_loop import Loop


@entry_point
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Calls a function for each slice of some Tensors, and carries values from call to call.

    The loop is one compiled program and one node on the tape, however long it is. ``f`` is traced: it can
    read no values, and its Python side effects happen only while it is traced. It may capture Tensors, which
    are differentiated too. It may not write into them, nor into its arguments. A call compiles if the shapes,
    dtypes or structures are new, or if something that ``f`` reaches has changed, other than the values of
    Tensors.

    Args:
        f: ``(carry, x) -> (carry, y)``; the new carry has the structure, shapes and dtypes of the old one.
            Carry, ``x`` and ``y`` are Tensors, in any containers. Arrays of JAX, such as keys, and
            None may be among them.
        init: the first carry.
        xs: Tensors, in any containers, with one slice for each call along the first dimension; or None.
        length: the number of calls; needed only without ``xs``.
        reverse: begin with the last slice. The results keep the order of the slices.

    Returns:
        The last carry, and all ``y`` with a new first dimension.

    Raises:
        ArgumentTypeError: an argument or a result holds something that is no Tensor.
        ArgumentValueError: the lengths differ, or there is none.
        DimensionError: a Tensor of ``xs`` has no dimension.
        ResultError: ``f`` returns no pair, or another carry than it gets.
        TracingError: ``f`` reads a value, draws from an outside Generator, or writes a captured Tensor.

    Gradient:
        The gradient of the loop, by ``init``, ``xs`` and captured Tensors; in both modes and to any order.

    Source:
        ``jax.lax.scan``.

    Example:
        >>> import oplib
        >>> total, sums = oplib.scan(lambda c, x: (c + x, c + x), oplib.tensor(0.0), oplib.tensor([1.0, 2.0]))
        >>> total, sums
        (tensor(3.), tensor([1., 3.]))
    """
    require_function("scan: 'f'", f)
    run = partial(_run, length=length, reverse=reverse)
    carry, ys = run_with_tangents(
        lambda: run(f, init, xs),
        lambda: run(partial(call_dual, f, several=True), split_dual(init), split_dual(xs)),
    )
    return carry, ys


def _run(f: AnyFunction, init: Any, xs: Any, *, length: int | None, reverse: bool) -> Outcome:
    carry, carry_layout = flatten_leaves(init, "scan: 'init'")
    slices, slice_layout = flatten_leaves(xs, "scan: 'xs'")
    count = _find_length(slices, length)

    def build(captured: Sequence[Captured]) -> tuple[FlowProgram, Sequence[Body]]:
        types = [jax.typeof(tensor.array) for tensor in carry]
        types += [type_of_slice(tensor.array) for tensor in slices]
        layouts = (carry_layout, slice_layout)
        traced = BodyFunction(f, "scan: 'f'", layouts, tuple(types), captured, results=2)
        needs = [tensor._requires_grad for tensor in (*carry, *slices)]
        body = _settle(traced, carry_layout, needs)
        return _make_program(body, len(carry), count, reverse=reverse), [body]

    static = ("scan", carry_layout, slice_layout, count, bool(reverse))
    return run_program([f], [*carry, *slices], static, build)


def _settle(traced: BodyFunction, carry: LeafLayout, needs: list[bool]) -> Body:
    """Traces the body until it is known which parts of the carry have a history."""
    while True:
        body = traced.trace(needs)
        check_carry(traced.what, carry, traced.types[: carry.count], body)
        grown = [
            before or after for before, after in zip(needs[: carry.count], body.requires_grad, strict=False)
        ]
        if grown == needs[: carry.count]:
            return body
        needs = [*grown, *needs[carry.count :]]


def _make_program(body: Body, carried: int, length: int, *, reverse: bool) -> FlowProgram:
    # the body holds what it has captured
    loop = Loop(body.run, len(body.captured), len(body.types), carried, length, bool(reverse))
    function = ResidualFunction(loop, "Scan")
    if body.has_effects:
        function = EffectfulFunction(loop, "Scan", loop.linearize)
    return FlowProgram(function, body.layouts, tuple(body.requires_grad))


def _find_length(slices: Sequence[Tensor], length: int | None) -> int:
    """Returns how many slices there are.

    Raises:
        DimensionError: a Tensor cannot be sliced.
        ArgumentValueError: the lengths differ, or there is none.
    """
    for tensor in slices:
        if not tensor.ndim:
            raise DimensionError(
                f"scan: 'xs' holds a Tensor without dimensions. Got {describe(tensor)}. Each call gets "
                "a slice along the first dimension. Capture the Tensor in f, or stack the values."
            )
    lengths = {tensor.shape[0] for tensor in slices}
    if length is not None:
        lengths.add(_read_length(length))
    if len(lengths) != 1:
        evidence = (
            f"first dimensions {describe(sorted(tensor.shape[0] for tensor in slices))}, length={length}"
        )
        raise ArgumentValueError(
            f"scan: the number of calls is not clear. Got {evidence}. Give Tensors with one first dimension, "
            "or without xs a length."
        )
    return lengths.pop()


def _read_length(length: Any) -> int:
    if isinstance(length, bool) or not hasattr(length, "__index__"):
        raise ArgumentError(
            f"scan: 'length' is no integer. Got {describe(length)}. Give the number of calls."
        )
    count = int(length)
    if count < 0:
        raise ArgumentValueError(f"scan: 'length' is negative. Got {count}. Give the number of calls.")
    return count
