"""``opcheck``: whether all rules of an op are correct, and the table of its results."""

from __future__ import annotations

import textwrap
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import jax
import numpy as np

from oplib.errors import (
    ArgumentTypeError,
    OpCheckError,
    OplibError,
    RegistrationError,
    RegistrationValueError,
    describe,
)
from oplib.library.op_objects.namespace import OpOverloadPacket
from oplib.library.op_objects.observers import ObservedCall, observing
from oplib.library.op_objects.overload import HasOverload, OpOverload, resolve_op
from oplib.markup import escape
from oplib.protocols import AnyFunction, Values
from oplib.pytree import tree_leaves, tree_map
from oplib.tensor import Tensor
from oplib.tracebacks import entry_point

from .batching_check import check_vmap
from .comparison import Tolerance
from .fake_kernel_check import check_fake
from .forward_mode_check import check_forward_mode
from .gradient_check import check_gradients, check_second_gradients
from .report import CheckResult, OpReport, make_report
from .sample import Sample, is_inexact
from .schema_check import check_registration, check_schema
from .trace_check import check_traced


class OpCheckResults(dict[str, str | Exception]):
    """A dictionary of results that prints as a table: for each test up to three lines of its error.

    Attributes:
        op: the checked op.
        seconds: the time of each test.
    """

    def __init__(self, op: OpOverload) -> None:
        super().__init__()
        self.op = op
        self.seconds: dict[str, float] = {}

    def __str__(self) -> str:
        width = max(map(len, self), default=0) + 2
        rows = {name: f"{name:<{width}}{_tell(result)}" for name, result in self.items()}
        wrapper = textwrap.TextWrapper(110, subsequent_indent=" " * width, max_lines=3, placeholder=" …")
        return "\n".join(
            [row if isinstance(self[name], str) else wrapper.fill(row) for name, row in rows.items()]
        )

    @property
    def details(self) -> str:
        """The whole errors with their tracebacks; empty if no test has failed."""
        errors = [result for result in self.values() if isinstance(result, Exception)]
        return "\n".join(["".join(traceback.format_exception(error)) for error in errors])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002  IPython gives it
        printer.text(str(self))

    def list_checks(self) -> dict[str, CheckResult]:
        """Returns the tests with their times, errors, and reasons why there was nothing to check."""
        return {
            name: CheckResult(self.seconds[name], result)
            if isinstance(result, Exception)
            else CheckResult(self.seconds[name], skipped=result.partition("SKIPPED: ")[2])
            for name, result in self.items()
        }

    def html(self) -> str:
        """Returns a page of HTML: the rules, the tests, and both Jacobians of a wrong gradient."""
        report = OpReport(self.op.describe(), self.list_checks())
        return make_report([report], f"opcheck({self.op.name()}, ...)")

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{name}</td><td style='text-align:left'>{escape(_tell(result))}</td></tr>"
            for name, result in self.items()
        )
        return f"<table>{rows}</table>"


def _tell(result: str | Exception) -> str:
    return result if isinstance(result, str) else f"{type(result).__name__}: {' '.join(str(result).split())}"


Test = Callable[[Sample, Tolerance], str | None]
"""Raises an error if something is wrong; returns the reason if there was nothing to check."""

_TESTS: Mapping[str, Test] = {
    "test_schema": check_schema,
    "test_autograd_registration": check_registration,
    "test_faketensor": check_fake,
    "test_aot_dispatch_static": check_traced,  # XLA's shapes are all static, so the two tests are the same
    "test_aot_dispatch_dynamic": check_traced,
    "test_gradients": check_gradients,
    "test_forward_mode": check_forward_mode,
    "test_vmap": check_vmap,
    "test_second_gradients": check_second_gradients,
}

DEFAULT_TEST_UTILS = tuple(name for name in _TESTS if name != "test_aot_dispatch_static")


@entry_point
def opcheck(
    op: OpOverload | OpOverloadPacket | HasOverload | AnyFunction,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = DEFAULT_TEST_UTILS,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> OpCheckResults:
    """Checks the registrations of an op against each other and against its kernel, for given arguments.

    The tests by name; the first four are torch's, the others check the mathematics:

    * ``test_schema``: the op writes and returns what its schema declares.
    * ``test_autograd_registration``: no derivative is hidden in a kernel, where it would never be used.
    * ``test_faketensor``: the fake kernel returns the shapes and dtypes of the kernel, for other sizes too.
    * ``test_aot_dispatch_dynamic``: outputs and gradients are the same eagerly and under ``jax.jit``.
    * ``test_gradients``: the formula agrees with finite differences.
    * ``test_forward_mode``: tangents agree with the gradients, and a jvp rule with finite differences and
      with the results of the op.
    * ``test_vmap``: outputs and gradients are the same under ``jax.vmap`` and in a loop.
    * ``test_second_gradients``: the derivative of the formula is correct too, also through what it saves.
    * ``test_aot_dispatch_static``, on request: another name of ``test_aot_dispatch_dynamic``.

    Gradients are checked if a Tensor among the arguments requires grad. If all arguments are arrays and the
    op has a derivative, they count as such Tensors. Where there is nothing to check, the result is
    ``"SKIPPED: ..."`` with the reason: an op without a derivative, a batching rule or a second derivative; a
    formula that is declared a surrogate gradient or nonlinear; a kernel on Tensors that reads values, which
    has no compiled run.

    Args:
        op: an overload, the result of ``custom_op``, a packet with one overload, or a function that calls one
            op, such as ``oplib.sin``.
        args: the arguments. Each test gets a copy of them.
        kwargs: the keyword arguments.
        test_utils: names of tests, one name, or ``"ALL"``.
        raise_exception: True raises the first failure; False returns it and continues.
        atol: the absolute tolerance of comparisons; the default depends on the dtype.
        rtol: the relative tolerance. Pass both tolerances or none.

    Returns:
        For each test ``"SUCCESS"``, ``"SKIPPED: ..."`` or its exception. The dictionary prints as a table.

    Raises:
        OpCheckError: a test has failed; its exception is ``failure``.
        ArgumentTypeError: ``args`` is no tuple or list, or ``kwargs`` is no dictionary.
        RegistrationValueError: ``op`` is another object, a test is unknown, or only one tolerance is given.
        RegistrationError: a packet with several overloads.

    Source:
        ``torch.library.opcheck``, which checks no numbers.

    Example:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> from oplib.library import custom_op, opcheck
        >>> @custom_op("opcheck_doc::cube")
        ... def cube(x: jax.Array) -> jax.Array:
        ...     return x**3
        >>> def setup(ctx, inputs, output):
        ...     ctx.save_for_backward(*inputs)
        >>> _ = cube.register_autograd(lambda ctx, g: g * 2 * ctx.saved_tensors[0] ** 2, setup_context=setup)
        >>> opcheck(cube, (jnp.ones(2),))
        Traceback (most recent call last):
        oplib.errors.OpCheckError: opcheck(opcheck_doc.cube.default, ...): test_gradients failed with ...
    """
    __tracebackhide__ = True  # pytest would print this whole function above the message
    names = _list_tests(test_utils)
    tolerance = _make_tolerance(rtol, atol)
    positional, keywords = _take_arguments(op, args), _take_keywords(op, kwargs)
    if isinstance(op, FunctionType) and op.__module__.startswith("oplib"):
        op, positional, keywords = find_called_op(op, positional, keywords)
    sample = Sample(overload := _resolve(op), positional, keywords)
    results = OpCheckResults(overload)
    for name in names:
        start = time.perf_counter()
        try:
            reason = _TESTS[name](sample, tolerance)
            results[name] = "SUCCESS" if reason is None else f"SKIPPED: {reason}"
        except Exception as error:
            if raise_exception:
                failed = OpCheckError(f"opcheck({overload}, ...): {name} failed with {error}")
                failed.failure = error
                if isinstance(error, OplibError):
                    raise failed from None  # its text is in this one
                raise failed from error
            results[name] = error
        results.seconds[name] = time.perf_counter() - start
    return results


def _take_arguments(op: Any, args: Any) -> Values:
    if isinstance(args, (tuple, list)):
        return tuple(args)
    raise ArgumentTypeError(
        f"opcheck({_name(op)}, ...): 'args' is the tuple of the op's arguments. Got {describe(args)}, of "
        f"type {type(args).__name__}. Write opcheck(op, (x,)) for one argument x."
    )


def _take_keywords(op: Any, kwargs: Any) -> dict[str, Any]:
    if kwargs is None or isinstance(kwargs, Mapping):
        return dict(kwargs or {})
    raise ArgumentTypeError(
        f"opcheck({_name(op)}, ...): 'kwargs' is the dictionary of the op's keyword arguments. Got "
        f"{describe(kwargs)}, of type {type(kwargs).__name__}. Write opcheck(op, (x,), {{'name': value}})."
    )


def _name(op: Any) -> str:
    if isinstance(op, HasOverload):
        op = op._opoverload
    return op.__name__ if isinstance(op, FunctionType) else str(op)


def _resolve(op: Any) -> OpOverload:
    if isinstance(op, OpOverloadPacket):
        names = op.overloads()
        if len(names) != 1:
            raise RegistrationError(
                f"opcheck({op}, ...): it can only test operators without overloads. Got the overloads "
                f"{', '.join(names)}. Pass one of them, such as ops.{op}.{names[0]}."
            )
        return getattr(op, names[0])
    if not isinstance(op, (OpOverload, HasOverload)):
        raise RegistrationValueError(
            f"opcheck({describe(op)}, ...): op must be an instance of OpOverload. Got {type(op).__name__}. "
            "Pass ops.ns.f.default, or the result of custom_op."
        )
    return resolve_op(op, subject="opcheck")


def _list_tests(test_utils: Any) -> Sequence[str]:
    if test_utils == "ALL":
        return tuple(_TESTS)
    names = (test_utils,) if isinstance(test_utils, str) else test_utils
    if not isinstance(names, (tuple, list)) or not set(names) <= set(_TESTS):
        raise RegistrationValueError(
            f"opcheck: expected test_utils to be a subset of {tuple(_TESTS)}, as a list or tuple. Got "
            f"{describe(test_utils)}. Name some of these, or pass 'ALL'."
        )
    return names


def _make_tolerance(rtol: float | None, atol: float | None) -> Tolerance:
    if bool(rtol) != bool(atol):  # 0 counts as unset, as in torch
        raise RegistrationValueError(
            f"opcheck: if you specify one of rtol and atol, you must specify both. Got rtol={rtol}, "
            f"atol={atol}. Give the other one too."
        )
    return Tolerance(rtol or None, atol or None)


Arguments = tuple[Values, dict[str, Any]]


def find_called_op(
    function: AnyFunction, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[OpOverload, Values, dict[str, Any]]:
    """Calls a function, and returns the op that it calls, with the positional and keyword arguments.

    Arrays become Tensors, which require grad if no Tensor is among the arguments.

    Raises:
        RegistrationValueError: it calls no op, or several.
    """
    calls: list[tuple[OpOverload, Arguments]] = []

    def note(call: ObservedCall) -> Any:
        calls.append((call.overload, call.arguments))
        return call.run()

    has_tensors = any(isinstance(value, Tensor) for value in tree_leaves((args, kwargs)))

    def to_tensor(value: Any) -> Any:
        if not isinstance(value, (jax.Array, np.ndarray)):
            return value
        return Tensor.from_array(value, requires_grad=not has_tensors and is_inexact(value))

    tensors, keywords = tree_map(to_tensor, (tuple(args), dict(kwargs)))
    with observing(note):
        function(*tensors, **keywords)
    if len(calls) != 1:
        names = ", ".join(str(overload) for overload, _ in calls) or "none"
        raise RegistrationValueError(
            f"opcheck({function.__name__}, ...): it checks one op, and this function does not call one. It "
            f"calls {names}. Check each op by itself, such as ops.ns.f.default; gradcheck takes any function."
        )
    overload, (positional, keyword_only) = calls[0]
    return overload, positional, keyword_only
