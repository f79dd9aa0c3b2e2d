"""Makes the modules of an example importable: an example is a script in the folder of its modules."""

from __future__ import annotations

import sys

from tests.documents import ROOT

sys.path[:0] = [str(ROOT / "examples" / name) for name in ("digits", "kernels", "lm")]
