"""Compiled autograd: backward passes as compiled programs, found again by the structure of their graph.

Example:
    >>> import oplib
    >>> from oplib.autograd import compiled_autograd
    >>> x = oplib.tensor([3.0], requires_grad=True)
    >>> with compiled_autograd.enable():
    ...     (x * x).sum().backward()
    >>> x.grad
    tensor([6.])
"""

# ruff: noqa: F401  torch's names can be imported from here too
# pyright: reportUnusedImport=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oplib.modes import modes
from oplib.torch_names import make_dir as _make_dir

from .capture import (
    AutogradCompilerInstance,
    BackwardState,
    FakeBackwardCFunction,
    FakeCompiledAutogradEngine,
    call_backward,
    call_hook,
)
from .state import (
    counters,
    cpp_verbose_log_fn,
    current_compiler,
    log,
    log as compiled_autograd_log,
    snapshot_verbose_logging_enabled,
    verbose_log,
)
from .switches import disable, enable, enable as _enable, reset

__all__ = ["AutogradCompilerInstance", "counters", "disable", "enable", "reset"]
__dir__ = _make_dir(globals())

if TYPE_CHECKING:
    compiled_autograd_enabled: bool
    in_compiled_autograd_region: bool
else:

    def __getattr__(name: str) -> Any:
        if name == "compiled_autograd_enabled":
            return current_compiler() is not None
        if name == "in_compiled_autograd_region":
            return modes.state.in_compiled_region
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
