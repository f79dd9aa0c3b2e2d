"""The list of the checks of the grid. Those beside torch are in ``tests/parity/op_checks.py``."""

from __future__ import annotations

from .check import Check
from .checks_derivatives import DERIVATIVES
from .checks_forms import FORMS
from .checks_results import RESULTS

CHECKS: tuple[Check, ...] = (*RESULTS, *DERIVATIVES, *FORMS)
