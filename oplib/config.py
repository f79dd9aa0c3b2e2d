"""The settings of the process, changed by assignment: ``oplib.config.compile_kernels = False``."""

from __future__ import annotations

from .errors import ArgumentValueError


class Config:
    """The settings; a misspelt name raises AttributeError.

    Attributes:
        compile_kernels: False makes kernels and rules annotated ``jax.Array`` run as plain Python on every
            call, instead of as one cached ``jax.jit``. This is slow, but debuggers see every line.
        traceback: ``"short"`` (the default) shows one line of oplib for each call into it, and hides the
            frames of JAX; ``"full"`` shows all frames of oplib.
    """

    __slots__ = ("_traceback", "compile_kernels")

    def __init__(self) -> None:
        self.compile_kernels: bool = True
        self._traceback = "short"

    @property
    def traceback(self) -> str:
        """Which frames of oplib a traceback shows: ``"short"`` or ``"full"``."""
        return self._traceback

    @traceback.setter
    def traceback(self, setting: str) -> None:
        if setting not in ("short", "full"):
            raise ArgumentValueError(
                f"config.traceback: no such setting. Got {setting!r}. Choose 'short' or 'full'."
            )
        self._traceback = setting


config = Config()
