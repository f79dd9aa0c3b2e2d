"""The switches of compiled autograd: ``enable``, ``disable`` and ``reset``."""

from __future__ import annotations

import jax

from oplib.autograd.engine.run import compilation
from oplib.autograd.mode_decorator import Mode
from oplib.config import config
from oplib.modes import modes

from .compilers import check_compiler
from .program_cache import programs
from .state import Compiler


class _Switch(Mode):
    """Installs a compiler, or none, for the process."""

    compiler: Compiler | None = None

    def __enter__(self) -> None:
        state = modes.state
        self._before.append(
            (compilation.is_installed, compilation.compiler, state.capture_suspended, state.multithreading)
        )
        if self.compiler is not None:
            state.multithreading = False
        compilation.compiler, state.capture_suspended = self.compiler, False
        compilation.is_installed = True

    def __exit__(self, *exc_info: object) -> None:
        before, state = self._before[-1], modes.state
        compilation.is_installed, compilation.compiler, state.capture_suspended = before[:3]
        state.multithreading = before[3]
        del self._before[-1]


class enable(_Switch):  # noqa: N801  users call it like a function
    """Runs every backward pass of a block as compiled programs. It is also a decorator.

    A backward pass is captured once for each structure of its graph, and found again by one walk over the
    nodes. Hooks and the backward of a ``Function`` run as Python between the compiled parts. The compiler is
    one for the process: passes of other threads are compiled too.

    Args:
        compiler_fn: gets a pure function of arrays with ``__name__`` and ``jaxpr``, and returns a callable of
            the same arguments. The default is ``jax.jit``; the identity runs the function uncompiled.
        dynamic: accepted for parity with torch and ignored; programs are made for shapes.
        ignore_active_disable_ctx: accepted for parity with torch and ignored.

    Raises:
        AutogradError: the compiler cannot be called.

    Example:
        >>> import oplib
        >>> from oplib.autograd import compiled_autograd
        >>> x = oplib.tensor([1.0, 2.0], requires_grad=True)
        >>> with compiled_autograd.enable():
        ...     (x * x).sum().backward()
        >>> x.grad
        tensor([2., 4.])
    """

    def __init__(
        self,
        compiler_fn: Compiler = jax.jit,
        dynamic: bool = True,
        ignore_active_disable_ctx: bool = True,
    ) -> None:
        super().__init__()
        check_compiler(compiler_fn)
        self.compiler = compiler_fn
        self._options = (dynamic, ignore_active_disable_ctx)

    def clone(self) -> Mode:
        """Returns a new manager with the same compiler."""
        assert self.compiler is not None
        return enable(self.compiler, *self._options)


class disable(_Switch):  # noqa: N801  users call it like a function
    """Runs every backward pass of a block eagerly. It is also a decorator.

    Example:
        >>> import oplib
        >>> from oplib.autograd import compiled_autograd
        >>> with compiled_autograd.enable():
        ...     with compiled_autograd.disable():
        ...         print(compiled_autograd.compiled_autograd_enabled)
        False
    """


def reset() -> None:
    """Puts compiled autograd back into the state of a new process.

    No compiler is installed, ``oplib.config.compiled_autograd`` is False, and no program is known.

    Raises:
        AssertionError: a compiled program is running in this thread.

    Example:
        >>> from oplib.autograd import compiled_autograd
        >>> compiled_autograd.reset()
        >>> compiled_autograd.compiled_autograd_enabled
        False
    """
    if modes.state.in_compiled_region:
        raise AssertionError(
            "compiled_autograd.reset: a compiled backward pass is running in this thread. It was called from "
            "a hook or the backward of a Function. Call it after the pass."
        )
    compilation.is_installed, compilation.compiler = False, None
    config.compiled_autograd = False
    programs.clear()
