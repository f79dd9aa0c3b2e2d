"""Calls of public functions with values of any kind for any parameter; see ``tests/test_bad_input.py``."""

from __future__ import annotations

import inspect
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np

import oplib
from oplib.errors import OplibError

Function = Callable[..., Any]


class Odd:
    """An object of a class that no library knows."""

    def __repr__(self) -> str:
        return "Odd()"


def make_cycle() -> list[Any]:
    """Returns a list that contains itself."""
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


def make_cycle_of_dict() -> dict[str, Any]:
    """Returns a dict that contains itself, and a tuple with it."""
    cycle: dict[str, Any] = {}
    cycle["itself"] = (cycle,)
    return cycle


# Made anew for each call, which may write into them.
GOOD: dict[str, Callable[[], Any]] = {
    "f32[3]": lambda: oplib.ones(3),
    "f32[2,3]": lambda: oplib.ones(2, 3, requires_grad=True) * 0.5,
    "f32[3,3]": lambda: oplib.eye(3),
    "f32[1,2,4,4]": lambda: oplib.ones(1, 2, 4, 4),
    "f32[]": lambda: oplib.tensor(0.5),
    "f32[0]": lambda: oplib.ones(0),
    "i32[3]": lambda: oplib.tensor([0, 1, 2]),
    "bool[3]": lambda: oplib.tensor([True, False, True]),
    "c64[2]": lambda: oplib.ones(2, dtype=oplib.complex64),
    "0": lambda: 0,
    "1": lambda: 1,
    "-1": lambda: -1,
    "2.5": lambda: 2.5,
    "True": lambda: True,
    "None": lambda: None,
    "[1, 2]": lambda: [1, 2],
    "(0,)": lambda: (0,),
    "[f32[3], f32[3]]": lambda: [oplib.ones(3), oplib.ones(3)],
    "dtype": lambda: oplib.float32,
    "mean": lambda: "mean",
    "sum": lambda: "sum",
}
BAD: dict[str, Callable[[], Any]] = {
    "object array": lambda: np.array([1, "a", None], dtype=object),
    "object array of numbers": lambda: np.array([1, 2.5], dtype=object),
    "str array": lambda: np.array(["a", "b"]),
    "bytes array": lambda: np.array([b"a", b"b"]),
    "datetime array": lambda: np.array(["2020-01-01"], dtype="datetime64[D]"),
    "record array": lambda: np.zeros(2, [("a", "f4"), ("b", "i4")]),
    "cycle": make_cycle,
    "cycle of dict": make_cycle_of_dict,
    "object": Odd,
    "class": lambda: Odd,
    "function": lambda: make_cycle,
    "str": lambda: "no such name",
    "empty str": lambda: "",
    "bytes": lambda: b"bytes",
    "dict": lambda: {"a": 1},
    "set": lambda: {1, 2},
    "slice": lambda: slice(1, 2),
    "ellipsis": lambda: ...,
    "complex": lambda: 1j,
    "nan": lambda: float("nan"),
    "inf": lambda: float("-inf"),
    "10**30": lambda: 10**30,
    "-2**63": lambda: -(2**63),
    "ragged": lambda: [[1, 2], [3]],
    "[None]": lambda: [None],
    "[object]": lambda: [Odd()],
    "empty list": list,
    "generator": lambda: (number for number in (1, 2)),
    "range": lambda: range(3),
    "numpy array": lambda: np.ones((2, 3), np.float32),
    "jax array": lambda: jnp.ones(3),
    "numpy number": lambda: np.float32(2.5),
    "str list": lambda: ["a", "b"],
    "deep list": lambda: [[[[[[[[1]]]]]]]],
}

# Registrations stay; modes and states of the process change; the others run functions that they are given.
MODULES_LEFT_OUT = {
    "oplib.amp",
    "oplib.autograd.grad_mode",
    "oplib.library",
    "oplib.random",
    "oplib.utils.checkpoint",
}
# What changes the process, returns contexts and decorators, or runs what it is given.
LEFT_OUT = {
    *("seed", "manual_seed", "set_rng_state", "set_default_dtype", "set_default_device", "set_num_threads"),
    *("set_grad_enabled", "set_printoptions", "compile", "jit", "vmap", "save", "load", "custom_op"),
    *("while_loop", "scan", "cond", "inference_mode", "no_grad", "enable_grad"),
    *("gradcheck", "gradgradcheck"),
}
METHODS_LEFT_OUT = {
    *("apply_", "map_", "map2_", "register_hook", "register_post_accumulate_grad_hook"),
    *(
        "__init__",
        "__setstate__",
        "__dir__",
        "__deepcopy__",
        "__format__",
        "__array__",
        "__dlpack__",
        "__treescope_repr__",
    ),  # Python, or the library of the name, calls them
}


def list_modules() -> list[ModuleType]:
    """Returns the public modules of functions: the root, and what the lists of names lead to."""
    found: dict[str, ModuleType] = {}
    waiting: list[ModuleType] = [oplib]
    while waiting:
        module = waiting.pop()
        if not hasattr(module, "__all__") or module.__name__ in found or module.__name__ in MODULES_LEFT_OUT:
            continue
        found[module.__name__] = module
        members = (getattr(module, name) for name in module.__all__)
        waiting += [one for one in members if isinstance(one, ModuleType)]
    return [found[name] for name in sorted(found)]


def list_functions() -> dict[str, Function]:
    """Returns the public functions and the methods of Tensor, by their paths."""
    found: dict[str, Function] = {}
    seen: set[int] = set()
    for module in list_modules():
        for name in sorted(set(module.__all__) - LEFT_OUT):
            value = getattr(module, name)
            if inspect.isroutine(value) and id(value) not in seen and _read(value) is not None:
                seen.add(id(value))
                found[f"{module.__name__}.{name}"] = value
    for name in sorted(set(dir(oplib.Tensor)) - METHODS_LEFT_OUT):
        value = getattr(oplib.Tensor, name, None)
        is_public = not name.startswith("_") or name.endswith("__")
        if is_public and inspect.isfunction(value):
            found[f"oplib.Tensor.{name}"] = value
    return found


def _read(function: Function) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


@dataclass(frozen=True)
class BadCall:
    """One call.

    Attributes:
        path: of the function.
        args: the names of the values.
        kwargs: the names of the values, by parameter.
    """

    path: str
    args: tuple[str, ...]
    kwargs: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        words = [*self.args, *(f"{name}={value}" for name, value in self.kwargs)]
        return f"{self.path}({', '.join(words)})"

    def run(self, function: Function) -> Exception | None:
        """Returns the error if the call answers with neither a result nor an error of ours."""
        args = [_make(name) for name in self.args]
        kwargs = {name: _make(value) for name, value in self.kwargs}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                result = function(*args, **kwargs)
                if inspect.isgenerator(result):
                    result.close()
            except OplibError:
                return None
            except Exception as error:  # noqa: BLE001  this is what the test looks for
                return error
        return None


def _make(name: str) -> Any:
    return (GOOD.get(name) or BAD[name])()


def draw_calls(path: str, function: Function, numbers: random.Random, count: int) -> Iterator[BadCall]:
    """Yields calls that fit the signature: one bad value for one parameter, and good ones for the others."""
    parameters = [
        one
        for one in inspect.signature(function).parameters.values()
        if one.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    for _ in range(count if parameters else 0):
        worst = numbers.randrange(len(parameters))
        args: list[str] = []
        kwargs: list[tuple[str, str]] = []
        positional = True
        for place, one in enumerate(parameters):
            required = one.default is inspect.Parameter.empty and one.kind is not one.VAR_POSITIONAL
            if not (required or place == worst or numbers.random() < 0.3):
                positional = False
                continue
            value = numbers.choice(list(BAD if place == worst else GOOD))
            if (path.startswith("oplib.Tensor.") and place == 0) or (
                one.name in ("input", "self") and place != worst
            ):
                value = numbers.choice([name for name in GOOD if "[" in name and name[0] not in "[("])
            if one.kind is one.KEYWORD_ONLY or (not positional and one.kind is one.POSITIONAL_OR_KEYWORD):
                kwargs.append((one.name, value))
            elif positional:
                args.append(value)
        yield BadCall(path, tuple(args), tuple(kwargs))
