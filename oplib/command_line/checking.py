"""``check``: opcheck of every op that a module registers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree as ET

from oplib.library.op_objects.overload import OpOverload
from oplib.library.opcheck.check import DEFAULT_TEST_UTILS, opcheck
from oplib.library.opcheck.report import CheckResult, OpReport, count_outcomes, make_report, name_check
from oplib.testing.op_lists import SLOW_CHECKS
from oplib.testing.samples import make_samples_error, samples

from .output import load_ops, print_colored, print_json, write_file

_MARKS = {"passed": "✓", "failed": "✗", "skipped": "–"}


def add_check_commands(commands: Any) -> None:
    """Adds the command to the parser."""
    text = "opcheck of every op that a file or module registers"
    check = commands.add_parser("check", help=text, description=f"{text}; the status is 1 if one fails.")
    check.add_argument(
        "modules", nargs="+", metavar="MODULE", help="path of a file.py, or dotted name of a module to import"
    )
    check.add_argument(
        "--quick",
        action="store_true",
        help=f"leave out the slow checks: {' and '.join(map(name_check, SLOW_CHECKS))}",
    )
    check.add_argument(
        "--html",
        metavar="FILE",
        help="write a page: the rules and checks of each op, and the Jacobians of a wrong gradient",
    )
    check.add_argument(
        "--junit", metavar="FILE", help="write JUnit XML, which CI shows: a suite an op, a case a check"
    )
    check.set_defaults(run=check_modules)


def check_modules(options: argparse.Namespace) -> int:
    """Checks all ops of the modules; returns 1 if a check fails."""
    names = [name for name in DEFAULT_TEST_UTILS if not (options.quick and name in SLOW_CHECKS)]
    ops = {op.name(): op for module in options.modules for op in load_ops(module)}
    reports: list[OpReport] = []
    if not options.json:
        print(f"  {', '.join(map(name_check, names))}\n  ✓ passed   ✗ failed   – skipped\n")
    for op in ops.values():
        reports.append(check_op(op, names))
        if not options.json:
            _print_line(reports[-1], max(map(len, ops)))
    if options.html is not None:
        write_file(options.html, make_report(reports, f"oplib check {' '.join(options.modules)}"))
    if options.junit is not None:
        write_file(options.junit, make_junit(reports))
    if options.json:
        print_json([_to_json(report) for report in reports])
    else:
        _print_failures(reports, options.html)
    return int(any(report.failures for report in reports))


def check_op(op: OpOverload, names: Sequence[str]) -> OpReport:
    """Returns the outcomes of checks of one op, on its samples.

    Args:
        op: the op.
        names: of the checks.
    """
    report = OpReport(op.describe())
    calls = samples(op)
    if not calls:
        refusal = make_samples_error(op)
        reason = "" if refusal else "no arguments can be made for its schema"
        report.checks["samples"] = CheckResult(0.0, refusal, reason)
    for call in calls:
        left = [name for name in names if name not in report.failures]
        results = opcheck(op, call.args, call.kwargs, test_utils=left, raise_exception=False)
        for name, check in results.list_checks().items():
            if (before := report.checks.get(name)) is not None:
                check.seconds += before.seconds
                check.skipped = check.skipped and before.skipped
            report.checks[name] = check
    return report


def _print_line(report: OpReport, width: int) -> None:
    marks = " ".join([_MARKS[check.outcome] for check in report.checks.values()])
    if "samples" in report.checks:
        told = report.checks["samples"].skipped or "it accepts no arguments that were tried"
    else:
        told = f"{report.seconds:.1f} s"
    print_colored(f"  {report.description.name:<{width}}   {marks}   {told}", {"✓": "green", "✗": "bold red"})


def _print_failures(reports: Sequence[OpReport], page: str | None) -> None:
    counts = count_outcomes(reports)
    failed = f"{counts['failed']} failed"
    for report in reports:
        for name, error in report.failures.items():
            print_colored(f"\n{report.description.name}: {name_check(name)}", {name_check(name): "bold red"})
            print(f"  {error}")
    details = f" · details: {page}" if page else ""
    summary = f"{failed}, {counts['passed']} passed, {counts['skipped']} skipped{details}"
    print_colored(f"\n  {summary}", {failed: "bold red" if counts["failed"] else "green"})


def _to_json(report: OpReport) -> dict[str, Any]:
    return {
        "op": report.description.name,
        "checks": {
            name: {
                "outcome": check.outcome,
                "seconds": round(check.seconds, 3),
                "message": str(check.error or check.skipped),
            }
            for name, check in report.checks.items()
        },
    }


def make_junit(reports: Sequence[OpReport]) -> str:
    """Returns the results as JUnit XML: a suite for each op, a case for each check."""
    root = ET.Element("testsuites", name="oplib check")
    for report in reports:
        suite = ET.SubElement(
            root,
            "testsuite",
            name=report.description.name,
            tests=str(len(report.checks)),
            failures=str(len(report.failures)),
            skipped=str(count_outcomes([report])["skipped"]),
            time=f"{report.seconds:.3f}",
        )
        for name, check in report.checks.items():
            case = ET.SubElement(
                suite, "testcase", classname=report.description.name, name=name, time=f"{check.seconds:.3f}"
            )
            if check.error is not None:
                ET.SubElement(case, "failure", type=type(check.error).__name__, message=str(check.error))
            elif check.skipped:
                ET.SubElement(case, "skipped", message=check.skipped)
    return ET.tostring(root, encoding="unicode", xml_declaration=True)
