"""``cond``, ``while_loop`` and ``scan``: control flow that is one node on the tape."""

from .cond import cond
from .scan import scan
from .while_loop import while_loop

__all__ = ["cond", "scan", "while_loop"]
