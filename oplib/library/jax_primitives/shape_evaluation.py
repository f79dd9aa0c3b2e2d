"""``eval_shape``: the shapes of an op's results without running it."""

from __future__ import annotations

from typing import Any

from oplib.errors import RegistrationValueError
from oplib.library.arguments.binding import Binder
from oplib.library.arguments.keys import hold_keys
from oplib.library.arguments.layout import make_layout
from oplib.library.arguments.recording import unbox
from oplib.library.arguments.results import put_back_returned_arguments
from oplib.library.arguments.structure import pack
from oplib.library.op_objects.namespace import OpOverloadPacket
from oplib.library.op_objects.overload import Op, resolve_op

from .bound_call import BoundCall


def eval_shape(op: Op | OpOverloadPacket, /, *args: Any, **kwargs: Any) -> Any:
    """Returns the shapes and dtypes of an op's results, by its fake kernel or by tracing its kernel.

    Args:
        op: the op, as its qualified name, its overload, its packet, or the result of ``custom_op``.
        *args: the arguments; an object with shape and dtype may replace a tensor.
        **kwargs: the keyword arguments, in the same form.

    Returns:
        The results, with a ``jax.ShapeDtypeStruct`` in place of each tensor.

    Raises:
        RegistrationValueError: ``op`` is another object, or a packet with several overloads.
        UnknownOperatorError: nothing is registered under this name.
        ArgumentError: the arguments do not fit the schema.
        MissingRuleError: a host or eager op has no fake kernel.

    Example:
        >>> import jax
        >>> from oplib.library import custom_op
        >>> @custom_op("docs::outer")
        ... def outer(x: jax.Array, y: jax.Array) -> jax.Array:
        ...     return x[:, None] * y
        >>> eval_shape(outer, jax.ShapeDtypeStruct((2,), "float32"), jax.ShapeDtypeStruct((3,), "float32"))
        ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """
    if isinstance(op, OpOverloadPacket):
        if len(op.overloads()) != 1:
            raise RegistrationValueError(
                f"eval_shape({op}): the op has several overloads. They are {', '.join(op.overloads())}. "
                f"Pass one of them, such as ops.{op}.{op.overloads()[0]}."
            )
        op = getattr(op, op.overloads()[0])
    overload = resolve_op(op, subject="eval_shape")
    record = overload.record
    values = Binder(record.schema, operand=record.operand).bind(args, kwargs, op=record.name)
    layout, flat = make_layout(record.schema, values, record.operand, op=record.name)
    structure, outputs = BoundCall(overload, layout).shapes(list(map(unbox, hold_keys(flat))))
    results = structure.rebuild(outputs)
    written = dict(zip(layout.written_indices, results, strict=False))
    return pack(put_back_returned_arguments(record.schema, results[structure.written :], written))
