"""The page ``docs/use/ops.md``, generated from the tables; a test compares the two."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from oplib.builtin.public_functions.description import describe_derivative
from oplib.builtin.public_functions.families import FAMILIES
from oplib.builtin.public_functions.registry import REGISTRY, FunctionRegistry
from oplib.builtin.rows.row import Row
from oplib.builtin.shared_kernels.dtype_classes import describe_classes
from oplib.tensor import Tensor

PAGE = Path("docs/use/ops.md")
_SUBMODULES = ("linalg", "fft", "special")
COLUMNS = "| op | calls | result | dtypes | operands | gradient | follows |"
_HEAD = """# The built-in ops

Each line is an overload of an op. On the site, the fields above the tables choose the lines of a name, a
family, a class of dtypes or an origin, and each op has an entry with its arguments and an example. An
overload is registered like an op of a user; its path is `oplib.ops.oplib.<name>.<overload>`. The columns are:

- op: the schema.
- calls: its functions of `oplib`, its method of Tensor and its in-place forms.
- result: what it computes. A result marked *view* shares the memory of its argument: a write into one changes
  the other.
- dtypes: the classes of dtypes of its tensors, after promotion.
- operands: the numbers that may change at every call without a new compilation.
- gradient: *derived* is JAX's own derivative of the kernel.
- follows: the function whose contract it follows.

The parameter `dim` of a function or method may also be called `axis`, and `keepdim` may be called `keepdims`.

The classes of dtypes are bool, int (signed and unsigned), half (float16 and bfloat16), float (float32 and
float64) and complex. A dtype of another class raises an `UnsupportedDtypeError`. If a `dtype` is given, its
class counts.

Dtypes, broadcasting and subgradients are torch's. Without JAX's x64, a result that is int64 in torch is
int32. An eager call raises for an index or class that does not exist; under a trace it is clamped or dropped,
as in JAX. `binary_cross_entropy` refuses numbers that are no probabilities, except under a trace. A matrix
without an inverse raises a `LinAlgError`; under a trace the result is inf or nan
([ADR 16](../adr/0016-value-checks.md)). The division of integers by 0 has JAX's result.

`make generate` writes this page from the tables in `oplib/builtin/tables/`.
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
    """Writes the page; the working directory is the root of the repository."""
    PAGE.write_text(render_page())


def _title(family: ModuleType) -> str:
    return (family.__doc__ or "").splitlines()[0].rstrip(".")


def _link(family: ModuleType) -> str:
    """Returns a link to the file of the rows."""
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
    return re.sub(r"(?<=\s)[*|](?=\s)|\*\*", lambda found: re.sub(r"[*|]", r"\\\g<0>", found[0]), text)
