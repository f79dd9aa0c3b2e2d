"""The report of a check of several ops: a table of rules and checks, and a card for each failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from oplib.library.op_objects.description import OpDescription, name_site
from oplib.markup import escape, make_page

Matrix = np.ndarray[Any, Any]

_HEADS = {
    "test_schema": "schema",
    "test_autograd_registration": "autograd registration",
    "test_faketensor": "fake kernel",
    "test_aot_dispatch_dynamic": "compiled",
    "test_gradients": "gradients",
    "test_forward_mode": "forward mode",
    "test_vmap": "vmap",
    "test_second_gradients": "second gradients",
}
_LARGEST = 24
"""A Jacobian with more rows or columns is shown in part."""


@dataclass(slots=True)
class CheckResult:
    """The outcome of one check.

    Attributes:
        seconds: how long it took.
        error: the exception of a failure; None without one.
        skipped: the reason why there was nothing to check; empty if there was.
    """

    seconds: float
    error: Exception | None = None
    skipped: str = ""

    @property
    def outcome(self) -> str:
        """``passed``, ``failed`` or ``skipped``."""
        return "skipped" if self.skipped else "passed" if self.error is None else "failed"


@dataclass(slots=True)
class OpReport:
    """The checks of one op.

    Attributes:
        description: the rules of the op.
        checks: the outcomes, by the name of the check; empty if the op has no samples.
    """

    description: OpDescription
    checks: dict[str, CheckResult] = field(default_factory=dict[str, CheckResult])

    @property
    def seconds(self) -> float:
        """The time of all checks."""
        return sum(check.seconds for check in self.checks.values())

    @property
    def failures(self) -> dict[str, Exception]:
        """The errors, by the name of the check."""
        return {name: check.error for name, check in self.checks.items() if check.error is not None}


def count_outcomes(reports: Iterable[OpReport]) -> Counter[str]:
    """Returns how many checks passed, failed, and had nothing to check."""
    return Counter([check.outcome for report in reports for check in report.checks.values()])


def name_check(check: str) -> str:
    """Returns the readable name of a check."""
    return _HEADS.get(check, check.removeprefix("test_").replace("_", " "))


def make_report(reports: Sequence[OpReport], command: str = "") -> str:
    """Returns the page of a check.

    Args:
        reports: one for each op.
        command: how it was called, for the heading.
    """
    cards = "".join(_render_failure(report, name) for report in reports for name in report.failures)
    where = f"{jax.default_backend().upper()} · JAX {jax.__version__}"
    body = (
        f"<h1><b>oplib</b> check</h1><code class=soft>{escape(command)} · {where}</code>"
        f"<div class=cards>{_render_summary(reports)}</div>"
        f"<div class='card scroll'>{_render_table(reports)}</div><div class=cards>{cards}</div>"
    )
    return make_page("oplib check", body)


def _render_summary(reports: Sequence[OpReport]) -> str:
    counts = count_outcomes(reports)
    passed, failed = counts["passed"], counts["failed"]
    spaces = {report.description.name.partition("::")[0] for report in reports}
    slowest = max(reports, key=lambda report: report.seconds, default=None)
    slow = "" if slowest is None else f"slowest: {slowest.description.name}"
    cards = (
        ("", len(reports), f"ops in {len(spaces)} namespaces"),
        ("good", f"{passed} / {passed + failed}", f"checks passed, {counts['skipped']} had nothing to check"),
        ("bad" if failed else "good", failed, "checks failed"),
        ("", f"{sum(report.seconds for report in reports):.1f} s", slow),
    )
    return "".join(
        f"<div class=card><strong class='{kind}'>{number}</strong><span>{escape(text)}</span></div>"
        for kind, number, text in cards
    )


def _render_table(reports: Sequence[OpReport]) -> str:
    rules = ("cpu", "gpu", "tpu", "fake", "backward", "forward mode", "vmap", "sharding", "autocast")
    heads = "".join(f"<th>{head}</th>" for head in ("op", *rules, *_HEADS.values()))
    rows = "".join(
        f"<tr>{render_name(report.description)}{render_statuses(report.description)}"
        f"{''.join(_render_check(report.checks.get(name)) for name in _HEADS)}"
        f"<td class='mono soft'>{escape(name_site(report.description.where))}</td></tr>"
        for report in reports
    )
    return f"<table><tr>{heads}<th>registered at</th></tr>{rows}</table>"


def render_name(description: OpDescription) -> str:
    """Returns the cell with the name and the schema of an op."""
    namespace, _, name = description.name.partition("::")
    rest = description.schema.removeprefix(description.name)
    return (
        f"<td><span class=soft>{escape(namespace)}::</span><b>{escape(name)}</b>"
        f"<span class='mono soft' title='{escape(rest)}'>{escape(rest)}</span></td>"
    )


def render_statuses(description: OpDescription) -> str:
    """Returns one cell for each rule of an op."""
    return "".join(
        f"<td title='{escape(fact.rule)}: {escape(fact.text)}'>"
        f"<span class={fact.status.name}>{fact.status.value}</span></td>"
        for fact in description.rules
    )


def _render_check(check: CheckResult | None) -> str:
    if check is None or check.skipped:
        return f"<td class=soft title='{escape('' if check is None else check.skipped)}'>–</td>"
    if check.error is not None:
        return "<td><span class=fail>fail</span></td>"
    return f"<td><span class=pass>{check.seconds:.1f}</span></td>"


def _render_failure(report: OpReport, name: str) -> str:
    error = report.failures[name]
    jacobians = getattr(error, "jacobians", None)
    maps = "" if jacobians is None else render_jacobians(*jacobians)
    return (
        f"<div class='card failure'><h2>{escape(report.description.name)} "
        f"<span class=fail>{escape(name_check(name))}</span></h2>{maps}"
        f"<pre class=note>{escape(error)}</pre></div>"
    )


def render_jacobians(numerical: Matrix, analytical: Matrix) -> str:
    """Returns three maps of colours: finite differences, the formula, and their difference.

    Args:
        numerical: the Jacobian by finite differences, inputs by outputs.
        analytical: that of the formula.
    """
    gap = np.nan_to_num(analytical - numerical, nan=0.0, posinf=1.0, neginf=-1.0)
    worst = np.unravel_index(int(np.argmax(np.abs(gap))), gap.shape)
    shown = {"finite differences": numerical, "your formula": analytical, "difference": gap}
    largest = max(float(np.max(np.abs(np.nan_to_num(each)))) for each in shown.values()) or 1.0
    figures = "".join(
        f"<figure><figcaption>{title}</figcaption>{_draw_matrix(matrix, largest, worst)}</figure>"
        for title, matrix in shown.items()
    )
    return f"<div class=maps>{figures}</div>"


def _draw_matrix(matrix: Matrix, largest: float, worst: Sequence[Any]) -> str:
    """Returns a picture: violet for positive, ochre for negative entries; a frame around the worst one."""
    top, left = (
        max(0, min(int(at) - _LARGEST // 2, size - _LARGEST))
        for at, size in zip(worst, matrix.shape, strict=True)
    )
    part = matrix[top : top + _LARGEST, left : left + _LARGEST]
    side = max(5, min(22, 144 // max(part.shape)))
    cells: list[str] = []
    for (row, column), value in np.ndenumerate(part):
        strength = min(1.0, abs(float(np.nan_to_num(value))) / largest)
        color = "var(--main)" if value > 0 else "var(--warm)"
        is_worst = (row + top, column + left) == tuple(map(int, worst))
        frame = " stroke='var(--bad)' stroke-width='2'" if is_worst else ""
        fill = f"fill='{color}' fill-opacity='{strength:.2f}'" if strength > 0.01 else "fill='none'"
        at = f"x='{column * side + 1}' y='{row * side + 1}' width='{side - 1}' height='{side - 1}'"
        cells.append(
            f"<rect {at} rx='2' fill='var(--cell)'/><rect {at} rx='2' {fill}{frame}>"
            f"<title>[{row + top}, {column + left}] {value:.5g}</title></rect>"
        )
    width, height = part.shape[1] * side + 2, part.shape[0] * side + 2
    return f"<svg width='{width}' height='{height}' role='img'>{''.join(cells)}</svg>"
