"""An example is a script beside its modules: its folder is where they are imported from."""

from __future__ import annotations

import sys

from tests.documents import ROOT

sys.path[:0] = [str(ROOT / "examples" / name) for name in ("digits", "kernels")]
