"""The page ``docs/use/ops.md``, made from the tables; a test compares the two."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from oplib.builtin.functions.description import describe_derivative
from oplib.builtin.functions.families import FAMILIES
from oplib.builtin.functions.registry import REGISTRY, FunctionRegistry
from oplib.builtin.kernels.dtype_classes import describe_classes
from oplib.builtin.rows.row import Row
from oplib.tensor import Tensor

PAGE = Path("docs/use/ops.md")
_SUBMODULES = ("linalg", "fft", "special")
COLUMNS = "| op | calls | what | dtypes | operands | gradient | follows |"
_HEAD = """# The built-in ops

`make generate` makes this page from the tables in `oplib/builtin/tables/`.

Each line is an overload, registered as any user's op and found as `oplib.ops.oplib.<name>.<overload>`. Then:
how it is called, as a function of `oplib`, as a method of Tensor and in place; what it gives; in which dtypes
its tensors may meet; its operands, the numbers that may change at every call without compiling anew; its
gradient, derived by JAX from the kernel unless told; and whose contract it follows. The result of an op
marked *view* shares the memory of its argument, and writing into either is seen in both.

A parameter `dim` of a function or method may also be called `axis`, and `keepdim` `keepdims`.

The classes of dtypes are bool; int, with a sign or without; half, which is float16 and bfloat16; float,
which is float32 and float64; and complex. What is of another class is refused with an
`UnsupportedDtypeError`. Where a `dtype` is given, it is that which counts.

Dtypes, broadcasting and subgradients are torch's; without JAX's x64 an integer result that torch makes int64
is int32. Eagerly a place or class that is not there raises; a traced one is clamped or dropped, as JAX does.
What is no probability is refused by `binary_cross_entropy`, and counted as it stands under a trace. A matrix
without an inverse raises a `LinAlgError`, and gives inf or nan when it is traced
([ADR 16](../adr/0016-value-checks.md)). A division of integers by 0 gives what
JAX gives.
"""


def render_page() -> str:
    """Returns the text of the page."""
    parts = [_HEAD]
    for family in FAMILIES:
        parts += [
            f"\n## {_title(family)}\n",
            f"{_link(family)}\n",
            COLUMNS,
            "|---" * COLUMNS.count(" | ") + "|---|",
            *list_lines(family.ROWS, REGISTRY),
        ]
    return "\n".join(parts) + "\n"


def list_lines(rows: Iterable[Row], registry: FunctionRegistry) -> list[str]:
    """Returns the lines of rows, one for each overload."""
    return [_line(row, registry) for row in rows]


def write_page() -> None:
    """Writes the page, from the root of the repository."""
    PAGE.write_text(render_page())


def _title(family: ModuleType) -> str:
    return (family.__doc__ or "").splitlines()[0].rstrip(".")


def _link(family: ModuleType) -> str:
    """The file in which the rows stand."""
    path = f"{family.__name__.replace('.', '/')}.py"
    return f"Source: [`{path}`](../../{path})"


def _line(row: Row, registry: FunctionRegistry) -> str:
    what = f"{row.doc}; *view*" if row.is_view else row.doc
    operands = ", ".join(f"`{name}`" for name in row.operand)
    gradient = "derived" if row.derivative.derive else describe_derivative(row).rstrip(".").lower()
    cells = [
        f"`{row.schema}`",
        ", ".join(_calls(row.op, registry)),
        _escape(what),
        describe_classes(row.dtypes),
        operands,
        gradient,
        f"`{row.origin}`",
    ]
    return f"| {' | '.join(cells)} |"


def _calls(op: str, registry: FunctionRegistry) -> Iterator[str]:
    submodule, _, name = op.partition("_")
    if submodule in _SUBMODULES and op in getattr(registry, submodule):
        yield f"`oplib.{submodule}.{name}`"
    if op in registry.functions:
        yield f"`oplib.{op}`"
    if op in registry.methods or hasattr(Tensor, op):
        yield f"`.{op}`"
    if f"{op}_" in registry.functions:
        yield f"`oplib.{op}_`"
    if f"{op}_" in registry.in_place:
        yield f"`.{op}_`"


def _escape(text: str) -> str:
    return re.sub(r"(?<=\s)\*(?=\s)|\*\*", lambda found: found[0].replace("*", "\\*"), text)
