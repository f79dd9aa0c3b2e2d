"""Counts how many frames and files of oplib a call goes through: ``python -m tools.hops``.

A reader who follows a call meets so many functions and files. The first call makes what is made once, such as
generated code and traces. A warm call is one of many.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import oplib

PACKAGE = str(Path(oplib.__file__).parent)


class Hops(NamedTuple):
    """What a call goes through.

    Attributes:
        frames: the number of calls of Python functions of oplib.
        files: the number of different files with these functions; generated code counts as one file each.
    """

    frames: int
    files: int


def count_hops(call: Callable[[], Any]) -> Hops:
    """Runs a call, and returns the frames and files of oplib that it entered."""
    files: list[str] = []

    def watch(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith((PACKAGE, "<oplib")):
            files.append(file)

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Hops(len(files), len(set(files)))


def list_calls() -> dict[str, Callable[[], Any]]:
    """Returns the calls that are counted, by what they show."""
    tensor = oplib.ones(2, 3)
    leaf = oplib.ones(2, 3, requires_grad=True)
    array = jnp.ones((2, 3))

    @oplib.jit
    def step(x: oplib.Tensor) -> oplib.Tensor:
        return (x * tensor).sum()

    mapped = oplib.vmap(lambda x: (x * x).sum())
    slope = jax.grad(lambda x: oplib.ops.oplib.sin(x).sum())
    return {
        "oplib.mul": lambda: oplib.mul(tensor, tensor),
        "oplib.mul, recording": lambda: oplib.mul(leaf, leaf),
        "backward of a sum": lambda: (leaf * leaf).sum().backward(),
        "jax.grad of an op": lambda: slope(array),
        "oplib.jit": lambda: step(tensor),
        "oplib.vmap": lambda: mapped(tensor),
    }


def main() -> None:
    """Prints frames and files of a first and of a warm call."""
    print(f"{'call':<24} {'first: frames':>14} {'files':>6} {'warm: frames':>14} {'files':>6}")
    for what, call in list_calls().items():
        first = count_hops(call)
        for _ in range(3):
            call()
        warm = count_hops(call)
        print(f"{what:<24} {first.frames:>14} {first.files:>6} {warm.frames:>14} {warm.files:>6}")


if __name__ == "__main__":
    main()
