"""The settings of the process, changed by assignment: ``oplib.config.compile_kernels = False``."""

from __future__ import annotations

import os
import threading
from types import NoneType

import jax
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from .errors import ArgumentTypeError, ArgumentValueError, describe

_FOLDER = "jax_compilation_cache_dir"
_LIMITS = {"jax_persistent_cache_min_compile_time_secs": 0.0, "jax_persistent_cache_min_entry_size_bytes": -1}
"""JAX keeps only code that took a second to compile. The kernel of one op takes a twentieth of that."""

_SWITCHES = {"compile_kernels", "compiled_autograd", "fast_path", "record_lines", "stage_host_scalars"}

_counting = threading.RLock()


class Config:
    """The settings; a misspelt name raises AttributeError. A running program may change them at any time.

    A value that does not fit raises ArgumentTypeError or ArgumentValueError, and the setting stays.

    Attributes:
        compile_kernels: False makes kernels and rules annotated ``jax.Array`` run as plain Python on every
            call, instead of as one cached ``jax.jit``. This is slow, but debuggers see every line.
        compiled_autograd: True makes every backward pass run as compiled programs, as an outermost
            ``compiled_autograd.enable(jax.jit)`` would.
        fast_path: False makes every call take the complete path; generated code serves none. A call costs
            several times as much and has the same results. This helps to debug oplib itself.
        record_lines: False stops recorded calls from noting the line of the program that made them, which
            errors of a backward pass and ``oplib.visual`` show. It saves 0.2 µs per call.
        process_timeout: the seconds that a process that compiles a program waits for the others that share
            its mesh, before it raises a DeviceError.
        compilation_cache: the folder in which JAX keeps compiled code for later processes, or None.
        uses_fast_path: whether generated code serves calls: both settings are True, and no thread is in a
            region of autocast. Do not assign it.
        stage_host_scalars: True moves numbers on the host to the accelerator before a compiled backward pass.
        traceback: ``"short"`` (the default) shows one line of oplib for each call into it, and hides the
            frames of JAX; ``"full"`` shows all frames of oplib.
    """

    __slots__ = (
        "_autocasts", "_limits", "_process_timeout", "_traceback", "compile_kernels", "compiled_autograd",
        "fast_path", "record_lines", "stage_host_scalars", "uses_fast_path",
    )  # fmt: skip

    _autocasts: int
    compile_kernels: bool
    compiled_autograd: bool
    fast_path: bool
    record_lines: bool
    stage_host_scalars: bool
    uses_fast_path: bool

    def __init__(self) -> None:
        object.__setattr__(self, "_autocasts", 0)
        object.__setattr__(self, "compile_kernels", True)
        self.fast_path = True
        self.compiled_autograd = False
        self.record_lines = True
        self.stage_host_scalars = False
        self._process_timeout = 600.0
        self._traceback = "short"
        self._limits: dict[str, object] = {}  # those of JAX before compilation_cache was set

    def __setattr__(self, name: str, value: object) -> None:
        if name in _SWITCHES and not isinstance(value, bool):
            raise ArgumentTypeError(f"config.{name}: not a bool. Got {describe(value)}. Give True or False.")
        object.__setattr__(self, name, value)
        # Generated code reads one attribute for all of them at every call.
        is_used = self.compile_kernels and self.fast_path and not self._autocasts
        object.__setattr__(self, "uses_fast_path", is_used)

    def __repr__(self) -> str:
        names = (*sorted(_SWITCHES), "compilation_cache", "process_timeout", "traceback")
        return f"<oplib.config: {', '.join(f'{name}={getattr(self, name)!r}' for name in names)}>"

    def count_autocast(self, change: int) -> None:
        """Counts the regions of autocast that are open in all threads, by 1, 0 or -1.

        The fast path of arrays reads no mode of its thread, so it is off while there are any.
        """
        with _counting:
            self._autocasts += change

    @property
    def compilation_cache(self) -> str | None:
        """The folder in which JAX keeps compiled code for later processes; None if it keeps none.

        Assign a path, before the first call for the best effect. The folder is made when it is needed. It is
        JAX's setting ``jax_compilation_cache_dir``; JAX's lower limits for what is kept are taken away,
        because the kernels of single ops are small. None stops it and puts the limits back.

        Raises:
            ArgumentTypeError: what is assigned is neither a path nor None.
        """
        return getattr(jax.config, _FOLDER)

    @compilation_cache.setter
    def compilation_cache(self, path: str | os.PathLike[str] | None) -> None:
        if not isinstance(path, (str, os.PathLike, NoneType)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(  # callers without types
                f"config.compilation_cache: not a path. Got {type(path).__name__}. Give the path of a "
                "folder, or None to keep nothing."
            )
        if path is not None and not self._limits:
            self._limits = {name: getattr(jax.config, name) for name in _LIMITS}
        for name, limit in self._limits.items():
            jax.config.update(name, limit if path is None else _LIMITS[name])
        if path is None:
            self._limits = {}
        jax.config.update(_FOLDER, None if path is None else os.fspath(path))
        reset_cache()  # JAX looks at the setting at its first compilation only

    @property
    def process_timeout(self) -> float:
        """The seconds that a process waits for the others that compile a program with it: 600."""
        return self._process_timeout

    @process_timeout.setter
    def process_timeout(self, seconds: float) -> None:
        if type(seconds) not in (int, float) or not 0 < seconds <= threading.TIMEOUT_MAX:
            raise ArgumentValueError(
                f"config.process_timeout: not a number of seconds. Got {describe(seconds)}. Give one above "
                f"0, at most {threading.TIMEOUT_MAX:.0f}."
            )
        self._process_timeout = float(seconds)

    @property
    def traceback(self) -> str:
        """The amount of frames of oplib in a traceback: ``"short"`` or ``"full"``."""
        return self._traceback

    @traceback.setter
    def traceback(self, setting: str) -> None:
        is_text = isinstance(setting, str)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not is_text or setting not in ("short", "full"):
            raise ArgumentValueError(
                f"config.traceback: no such setting. Got {describe(setting)}. Choose 'short' or 'full'."
            )
        self._traceback = setting


config = Config()
