"""The settings of the process, changed by assignment: ``oplib.config.compile_kernels = False``."""

from __future__ import annotations

from .errors import ArgumentValueError


class Config:
    """The settings; a misspelt name raises AttributeError. A running program may change them at any time.

    Attributes:
        compile_kernels: False makes kernels and rules annotated ``jax.Array`` run as plain Python on every
            call, instead of as one cached ``jax.jit``. This is slow, but debuggers see every line.
        compiled_autograd: True makes every backward pass run as compiled programs, as an outermost
            ``compiled_autograd.enable(jax.jit)`` would.
        fast_path: False makes every call take the complete path; generated code serves none. A call costs
            several times as much and has the same results. This helps to debug oplib itself.
        uses_fast_path: whether generated code serves calls, because both settings are True. Do not assign it.
        stage_host_scalars: True moves numbers on the host to the accelerator before a compiled backward pass.
        traceback: ``"short"`` (the default) shows one line of oplib for each call into it, and hides the
            frames of JAX; ``"full"`` shows all frames of oplib.
    """

    __slots__ = (
        "_traceback", "compile_kernels", "compiled_autograd", "fast_path", "stage_host_scalars",
        "uses_fast_path",
    )  # fmt: skip

    compile_kernels: bool
    compiled_autograd: bool
    fast_path: bool
    stage_host_scalars: bool
    uses_fast_path: bool

    def __init__(self) -> None:
        object.__setattr__(self, "compile_kernels", True)
        self.fast_path = True
        self.compiled_autograd = False
        self.stage_host_scalars = False
        self._traceback = "short"

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        # Generated code reads one attribute for both settings at every call.
        object.__setattr__(self, "uses_fast_path", self.compile_kernels and self.fast_path)

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
