"""Calls of a public function that stand in its docstring and in the tests beside torch."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import io
import re
import warnings
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any
from unittest.mock import patch

import jax

import oplib
from oplib.errors import describe
from tests.parity.forms import FORMS, draw_data, name_values


def watch_calls(path: str) -> Iterator[str]:
    """Yields the shapes of the arguments and the result of each call that succeeds.

    The example of the docstring runs first, then the forms of calls that name the function. JAX traces
    them, which compiles nothing; a program that reads values runs.

    Args:
        path: of the function, such as ``oplib.linalg.matrix_norm``.
    """
    module, _, name = path.rpartition(".")
    owner = importlib.import_module(module)
    function = getattr(owner, name)
    calls: list[str] = []

    def watch(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        calls.append(show_call(args, kwargs, result))
        return result

    for program, mode in _find_programs(path, function):
        code = compile(program, path, mode)
        with patch.object(owner, name, watch):
            if not (_succeeds(lambda: jax.eval_shape(lambda: _run(code))) or _succeeds(lambda: _run(code))):  # noqa: B023
                calls.clear()  # a form may be one that is refused
        yield from dict.fromkeys(calls)
        calls.clear()


def _succeeds(run: Callable[[], Any]) -> bool:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            run()
        except Exception:  # noqa: BLE001  the caller tries another way
            return False
        return True


def _run(code: CodeType) -> None:
    tensors = {key: oplib.tensor(data.tolist()) for key, data in draw_data().items()}
    exec(code, name_values(oplib, tensors))


def _find_programs(path: str, function: Any) -> Iterator[tuple[str, str]]:
    """Yields the text of programs that call a function, and how each is compiled."""
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(function) or "")
    yield "".join(example.source for example in examples), "exec"
    called = path.replace("oplib.", "lib.", 1).replace("lib.nn.functional.", "F.")
    pattern = re.compile(rf"\b{re.escape(called)}\(")
    yield from ((form, "eval") for form in FORMS if pattern.search(form))


def show_call(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> str:
    """Returns the shapes of arguments and results; of a call without tensors the values."""
    words = [*map(describe, args), *(f"{key}={describe(value)}" for key, value in kwargs.items())]
    return f"{_show_shapes((args, kwargs)) or ', '.join(words)} -> {_show_shapes(result) or describe(result)}"


def _show_shapes(values: Any) -> str:
    leaves = [leaf for leaf in jax.tree.leaves(values) if hasattr(leaf, "shape") and hasattr(leaf, "dtype")]
    return ", ".join(map(describe, leaves))
