"""The table of the rules that ops have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oplib.frozen import frozen
from oplib.library.op_objects.description import OpDescription, Status, name_site
from oplib.library.op_objects.overload import list_overloads
from oplib.library.opcheck.report import render_name, render_statuses
from oplib.markup import escape, make_page
from oplib.testing.op_lists import list_ops_of
from oplib.tracebacks import entry_point

_HEADS = ("cpu", "gpu", "tpu", "fake", "backward", "forward", "vmap", "sharding", "autocast")


@frozen
class OpsTable:
    """The rules of several ops; it prints as text, and displays as a table in notebooks.

    Attributes:
        descriptions: the ops, one description each.
    """

    descriptions: Sequence[OpDescription]

    def __str__(self) -> str:
        width = max((len(each.name) for each in self.descriptions), default=0)
        lines = [" " * width + "  " + "  ".join(_HEADS)]
        for each in self.descriptions:
            cells = [
                fact.status.value.center(len(head)) for fact, head in zip(each.rules, _HEADS, strict=True)
            ]
            lines.append(f"{each.name:<{width}}  {'  '.join(cells)}  {name_site(each.where)}")
        return "\n".join([*lines, "", "   ".join(f"{status.value} {status.name}" for status in Status)])

    def to_json(self) -> list[dict[str, Any]]:
        """Returns the descriptions as dictionaries, lists and texts."""
        return [each.to_json() for each in self.descriptions]

    def html(self) -> str:
        """Returns the table as a page of HTML, one file without network."""
        count = f"<b>oplib</b> ops <span class=soft>({len(self.descriptions)})</span>"
        return make_page("oplib ops", f"<h1>{count}</h1><br><div class='card scroll'>{self._render()}</div>")

    def _repr_html_(self) -> str:
        return self._render()

    def _render(self) -> str:
        heads = "".join(f"<th>{head}</th>" for head in ("op", *_HEADS, "registered at"))
        rows = "".join(
            f"<tr>{render_name(each)}{render_statuses(each)}"
            f"<td class='mono soft'>{escape(name_site(each.where))}</td></tr>"
            for each in self.descriptions
        )
        return f"<table><tr>{heads}</tr>{rows}</table><p class=soft>&emsp;{_LEGEND}</p>"


_LEGEND = " &emsp; ".join(
    f"<span class={status.name}>{status.value}</span> {status.name}" for status in Status
)


@entry_point
def tabulate_rules(namespace: str | None = None) -> OpsTable:
    """Returns the table of rules: which kernels and rules each op has, derives, or lacks.

    Args:
        namespace: whose ops; None for all, the built-in ops too.

    Returns:
        The table. ``str`` gives text, ``.html()`` a page; a notebook shows a table.

    Raises:
        RegistrationValueError: the namespace has no op.

    Example:
        >>> import jax, oplib
        >>> from oplib.library import custom_op
        >>> @custom_op("visual_doc::twice")
        ... def twice(x: jax.Array) -> jax.Array:
        ...     return 2 * x
        >>> print(oplib.visual.ops("visual_doc"))
                           cpu  gpu  tpu  fake  backward  forward  vmap  sharding  autocast
        visual_doc::twice   ○    ○    ○    ○       –         –      ○       ○         –      ...
    """
    overloads = list_overloads() if namespace is None else list_ops_of(namespace)
    return OpsTable([op.describe() for op in overloads])
