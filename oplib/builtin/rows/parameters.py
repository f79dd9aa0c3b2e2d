"""The further names that some parameters of generated functions have.

Torch takes numpy's names for some of its parameters: ``axis`` for ``dim`` and ``keepdims`` for ``keepdim``.
So does every function here that has one of these.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oplib.builtin.rows.row import Function, name_publicly
from oplib.errors import ArgumentTypeError, describe
from oplib.tracebacks import warn_user

_NAMES = {"axis": "dim", "keepdims": "keepdim", "dtype": "dtype", "ddof": "correction"}
_REDUCTIONS = frozenset(("all", "any", "max", "mean", "min", "prod", "std", "sum", "var"))


def is_of_numpy(op: str, named: Mapping[str, Any]) -> bool:
    """Whether numpy has called a method of a Tensor: it always passes ``out``, which no method has."""
    return "out" in named and op in _REDUCTIONS


def answer_numpy(op: str, function: Function, tensor: Any, named: Mapping[str, Any]) -> Any:
    """Returns what numpy's function of this name would, as a Tensor that is recorded.

    ``max`` and ``min`` return values without indices, and ``std`` and ``var`` do not correct their bias.

    Args:
        op: the name of the function.
        function: the one of oplib with the same name.
        tensor: the first argument.
        named: the keywords of numpy's call.

    Raises:
        ArgumentTypeError: ``out`` is given, or an option that the function of oplib does not have.
    """
    chosen = {name: value for name, value in named.items() if value is not None}
    if unknown := chosen.keys() - _NAMES:
        name = min(unknown)
        raise ArgumentTypeError(
            f"numpy.{op}: of a Tensor it takes no {name!r}. Got {describe(chosen[name])}. Give "
            f"numpy.asarray(tensor) to numpy, or call oplib.{op}."
        )
    options = {_NAMES[name]: value for name, value in chosen.items()}
    if "dtype" in options:
        options["dtype"] = np.dtype(options["dtype"])
    if op in ("max", "min"):
        return getattr(tensor, f"a{op}")(**{"dim": (), **options})
    if op in ("std", "var") and "dtype" in options:
        tensor = tensor.to(options.pop("dtype"))
    return function(tensor, **options)


FURTHER_NAMES = {"axis": "dim", "keepdims": "keepdim"}
_CHOOSE_DIM = frozenset(("softmax", "log_softmax", "softmin"))
NUMBERS_INSIDE = {
    **dict.fromkeys(("add", "sub"), ("alpha",)),
    **dict.fromkeys(("addcmul", "addcdiv"), ("value",)),
    **dict.fromkeys(("addmm", "addmv", "addr", "addbmm", "baddbmm"), ("beta", "alpha")),
}
"""The keywords of ops whose numbers may stand among the tensors: torch's deprecated ``add(x, 2, y)``."""
_KINDS = inspect.Parameter
MORE = inspect.Parameter("more", _KINDS.VAR_POSITIONAL)
NAMES = inspect.Parameter("names", _KINDS.VAR_KEYWORD)


def sort_numbers(op: str, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Returns the tensors of a call with numbers among them, and the numbers by their keywords.

    Args:
        op: the name of the function.
        args: the positional arguments.
        named: the keywords of the numbers, with their values.

    Raises:
        ArgumentTypeError: there are not as many numbers and tensors as the op takes.

    Warns:
        UserWarning: always.
    """
    numbers = [value for value in args if isinstance(value, (int, float, complex))]
    tensors = [value for value in args if not isinstance(value, (int, float, complex))]
    keywords = list(NUMBERS_INSIDE[op.rstrip("_")])
    count = 2 if keywords == ["alpha"] else 3
    is_first = keywords[0] != "beta" and args[0] is numbers[0] if numbers else True
    if is_first or len(numbers) > len(keywords) or len(tensors) != count or set(named.values()) != {1}:
        raise ArgumentTypeError(
            f"{op}() takes {count} positional arguments, and its numbers by keyword. Got "
            f"{', '.join(map(describe, args))}. Write {op}(..., {keywords[-1]}=...)."
        )
    warn_user(
        f"{op}: this overload is deprecated. Write {op}(..., "
        f"{', '.join(f'{key}={number!r}' for key, number in zip(keywords, numbers, strict=False))})."
    )
    return tensors, dict(zip(keywords, numbers, strict=False))


class _Absent:
    """Stands for an argument that must be given, by one name or another."""

    def __repr__(self) -> str:
        return "<required>"


ABSENT: Any = _Absent()


def takes_further_names(parameter: inspect.Parameter) -> bool:
    """Whether a parameter takes the further names."""
    return parameter.kind is _KINDS.VAR_KEYWORD and parameter.name == NAMES.name


def has_further_names(parameters: Sequence[inspect.Parameter]) -> bool:
    """Whether a parameter has a further name, and all can be handed on by name."""
    kinds = {parameter.kind for parameter in parameters}
    named = {parameter.name for parameter in parameters} & set(FURTHER_NAMES.values())
    return bool(named) and kinds <= {_KINDS.POSITIONAL_OR_KEYWORD, _KINDS.KEYWORD_ONLY}


def loosen(
    parameters: Sequence[inspect.Parameter], name: str, *, more: str
) -> tuple[list[inspect.Parameter], str, dict[str, Any]]:
    """Returns parameters, the line that reads the further names in ``NAMES``, and what it refers to.

    The line calls ``__again`` with the arguments by their own names. The fast path of an op stands before it
    and serves calls by own names. A required parameter that has a further name may be left out, and so may
    those after it, as Python wants it.

    Args:
        parameters: of a function.
        name: of its op, for errors.
        more: further arguments of ``__again``, as text.
    """
    loose: list[inspect.Parameter] = []
    absent: list[str] = []
    for parameter in parameters:
        is_required = parameter.default is _KINDS.empty and parameter.kind is _KINDS.POSITIONAL_OR_KEYWORD
        if is_required and (absent or parameter.name in FURTHER_NAMES.values()):
            absent.append(parameter.name)
            parameter = parameter.replace(default=ABSENT)
        loose.append(parameter)
    tests = "".join(f" or {key} is __absent" for key in absent)
    values = ", ".join(f"{parameter.name!r}: {parameter.name}" for parameter in parameters)
    line = f"    if names{tests}: return __respell(__again, {{{values}}}, names{more})"
    respell = _Respelling(name, {parameter.name: parameter.default for parameter in loose})
    return loose, line, {"__absent": ABSENT, "__respell": respell}


class _Respelling:
    """Calls a function with arguments that stand under further names."""

    def __init__(self, name: str, defaults: Mapping[str, Any]) -> None:
        self._name = name_publicly(name)
        self._defaults = defaults
        self._meant = {further: own for further, own in FURTHER_NAMES.items() if own in defaults}

    def __call__(
        self, function: Function, values: dict[str, Any], named: Mapping[str, Any], **more: Any
    ) -> Any:
        if is_of_numpy(self._name, named):
            tensor, options = values["input"], {"keepdims": values["keepdim"], "dtype": values.get("dtype")}
            return answer_numpy(self._name, function, tensor, options | dict(named))
        return function(**self._rename(values, named), **more)

    def _rename(self, values: dict[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments by their own names.

        Raises:
            ArgumentTypeError: there is no such name, or one argument is given by both, or one is missing.
        """
        for further, value in named.items():
            own = self._meant.get(further)
            if own is None:
                raise ArgumentTypeError(
                    f"{self._name}() got an unexpected keyword argument '{further}'. Got {describe(value)}. "
                    f"There are {', '.join([*self._defaults, *self._meant])}."
                )
            if values[own] is not self._defaults[own]:
                raise ArgumentTypeError(
                    f"{self._name}: '{own}' and '{further}' are one argument. Got {describe(values[own])} "
                    f"and {describe(value)}. Give it once."
                )
            values[own] = value
        missing = [f"'{name}'" for name, value in values.items() if value is ABSENT]
        if missing == ["'dim'"] and self._name in _CHOOSE_DIM:
            warn_user(
                f"Implicit dimension choice for {self._name} has been deprecated. Change the call to include "
                "dim=X as an argument."
            )
            values["dim"] = 0 if values["input"].ndim in (0, 1, 3) else 1
        elif missing:
            cure = ", ".join(f"{name}=..." for name, value in values.items() if value is ABSENT)
            raise ArgumentTypeError(
                f"{self._name}() missing {len(missing)} required positional "
                f"argument{'s' if len(missing) > 1 else ''}: {' and '.join(missing)}. Got "
                f"{self._describe_given(values)}. Give {'them' if len(missing) > 1 else 'it'}: "
                f"{self._name}(..., {cure})."
            )
        return values

    def _describe_given(self, values: dict[str, Any]) -> str:
        passed = {name: value for name, value in values.items() if value is not self._defaults[name]}
        return ", ".join(f"{name}={describe(value)}" for name, value in passed.items()) or "none"
