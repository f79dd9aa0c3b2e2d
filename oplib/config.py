"""Settings of the whole process. Assign to them: ``oplib.config.compile_kernels = False``."""

from __future__ import annotations


class Config:
    """The settings; a misspelt name raises AttributeError.

    Attributes:
        compile_kernels: with False, kernels and rules annotated ``jax.Array`` run as plain Python on every
            call instead of as one cached ``jax.jit``: slow, but a debugger can step through every line.
    """

    __slots__ = ("compile_kernels",)

    def __init__(self) -> None:
        self.compile_kernels: bool = True


config = Config()
