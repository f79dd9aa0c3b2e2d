"""Autograd for ops with eager kernels: kernel and formula are plain Python on Tensors.

:func:`make_autograd_impl` makes the autograd function of one overload. It runs the kernel below autograd and
records a node if a gradient is needed. A formula is looked up in the op's current record when it is needed,
so a formula that is registered later also serves graphs recorded before.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import has_gradient, shape_of
from oplib.autograd.array_functions.masks import pick_true, spread
from oplib.autograd.engine.backward_and_grad import grad as find_gradients
from oplib.autograd.function import Function
from oplib.autograd.grad_mode import enable_grad
from oplib.autograd.tangents import look_up_tangent
from oplib.autograd.user_functions.recording import note_constants
from oplib.autograd.user_functions.tensor_list import (
    flatten,
    not_list_of_optional_tensor,
    not_list_of_tensor,
    spec_t,
    supports_tensorlist,
    unflatten,
)
from oplib.autograd.user_functions.trees import list_values
from oplib.errors import MissingRuleError, ReadValueError
from oplib.modes import modes
from oplib.protocols import Values
from oplib.tensor import Tensor, box, needs_grad
from oplib.tensor.storage.failed_reads import forget_read

from .arguments.recording import refuse_out_gradient
from .arguments.trees import is_tree_leaf
from .derivatives.formula import missing_formula
from .derivatives.formula_context import refuse_nothing_saved
from .derivatives.gradients import is_sole_tuple, refuse_shape
from .kernels.eager import is_carried, run_below_autograd, run_carried, run_composite
from .kernels.tensor_kernel import find_tensors, split_tensor_results
from .kernels.tracing import explain_error
from .op_objects.observers import copy_outcome, run_observed
from .op_objects.overload import OpOverload
from .op_records.record import Derivative, Tag
from .schema import Argument, fill_defaults, split_values

Rule = Callable[..., Any]
__all__ = [
    "Info",
    "InfoProtocol",
    "flatten",
    "make_autograd_impl",
    "make_function",
    "not_list_of_optional_tensor",
    "not_list_of_tensor",
    "spec_t",
    "supports_tensorlist",
    "unflatten",
]


class InfoProtocol(Protocol):
    """An object that gives a formula and its setup, as :class:`Info` does."""

    _backward_fn: Rule | None
    _setup_context_fn: Rule | None


@dataclass
class Info:
    """A formula and its setup, both replaceable at any time."""

    _backward_fn: Rule | None
    _setup_context_fn: Rule | None


class RecordInfo:
    """Reads formula and setup from an overload's current record."""

    _backward_fn = property(attrgetter("overload.record.derivative.backward"))
    _setup_context_fn = property(attrgetter("overload.record.derivative.setup_context"))
    _forward_fn = property(attrgetter("overload.record.derivative.forward"))

    def __init__(self, overload: OpOverload) -> None:
        self.overload = overload


def make_autograd_impl(op: OpOverload, info: Any) -> Rule:
    """Makes the autograd kernel of one overload.

    Args:
        op: the overload; its namespace, name, overload name and schema are read.
        info: formula and setup, read at call time.

    Returns:
        A function of the op's arguments, with one value per schema argument in order; keyword-only ones by
        keyword.

    Example:
        >>> import oplib
        >>> from oplib.library.autograd import Info, make_autograd_impl
        >>> @oplib.custom_op("autograd_doc::double")
        ... def double(x: oplib.Tensor) -> oplib.Tensor:
        ...     return x * 2
        >>> info = Info(lambda ctx, grad: grad * 2, None)
        >>> impl = make_autograd_impl(oplib.ops.autograd_doc.double.default, info)
        >>> x = oplib.tensor([3.0], requires_grad=True)
        >>> impl(x).sum().backward()
        >>> x.grad
        tensor([2.])
    """
    schema = op._schema
    names = [argument.name for argument in schema.arguments if argument.kwarg_only]
    made: list[type[Function]] = []  # made when needed: most ops of a module are never called
    twins: list[OpOverload] = []

    def autograd_impl(*args: Any, **keyword_only_args: Any) -> Any:
        if not op.record.takes_tensors:
            return _find_twin(op, info, twins)(*args, **keyword_only_args)
        if len(args) + len(keyword_only_args) < len(schema.arguments):
            args, keyword_only_args = fill_defaults(schema, args, keyword_only_args)
        values = [*args, *(keyword_only_args[name] for name in names)]
        if modes.grad_enabled and _needs_grad(args):
            if Tag.out in op.record.tags:
                raise refuse_out_gradient(op.name())
            if not made:
                made.append(_generate(op, info))
            result = made[0].apply(*map(_hold, schema.arguments, values))
            return result[-1].arrange(result[:-1]) if schema.has_result_tree else result
        return _run(op, values)

    return autograd_impl


def _find_twin(op: OpOverload, info: Any, twins: list[OpOverload]) -> OpOverload:
    """Returns an overload with the kernels on arrays of an op, and the formula of ``info``."""
    derivative = Derivative(info._backward_fn, info._setup_context_fn, getattr(info, "_forward_fn", None))
    record = replace(op.record, derivative=derivative)
    if not twins or twins[0].record != record:
        twin = OpOverload(op._qualname)
        twin.replace(record, op._build)
        twins[:] = [twin]
    return twins[0]


def make_function(op: OpOverload) -> type[Function]:
    """Makes the ``Function`` of an op whose calls record nodes of their own.

    Args:
        op: the overload.

    Returns:
        A class whose ``apply`` is the op. Its ``forward(ctx, *args)`` and ``backward(ctx, *grads)`` give the
        values and gradients of the op.
    """

    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            inputs = jax.tree_util.tree_map(_detach, args, is_leaf=is_tree_leaf)
            result = op(*inputs, **kwargs)
        ctx._op_call = inputs, result
        return jax.tree_util.tree_map(_cut, result, is_leaf=is_tree_leaf)

    def backward(ctx: Any, *grads: Any) -> Any:
        inputs, result = ctx._op_call
        outputs = jax.tree_util.tree_leaves(result, is_leaf=is_tree_leaf)
        given = [pair for pair in zip(outputs, grads, strict=True) if pair[1] is not None]
        roots, given_grads = zip(*given, strict=True) if given else ((), ())
        leaves, tree = jax.tree_util.tree_flatten(inputs, is_leaf=is_tree_leaf)
        flags = list(map(needs_grad, leaves))
        wanted = pick_true(leaves, flags)
        found = find_gradients(roots, wanted, given_grads, allow_unused=True, retain_graph=True)
        return jax.tree_util.tree_unflatten(tree, spread(found, flags))

    members = {
        "forward": staticmethod(forward),
        "backward": staticmethod(backward),
        "apply": op,
        "__module__": __name__,
        "_is_users": False,
        "_op_name": op.name(),
    }
    return type(op.record.step_name, (Function,), members)


def _cut(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def _detach(value: Any) -> Any:
    return value.detach().requires_grad_(value._requires_grad) if isinstance(value, Tensor) else value


def _generate(op: OpOverload, info: Any) -> type[Function]:
    """Makes the Function subclass of an overload.

    If a result is a tree, the Function returns the Tensors in all results, and then their structure.
    """
    schema = op._schema

    def forward(ctx: Any, *inputs: Any) -> Any:
        result = _run_forward(op, info, ctx, inputs)
        if not schema.has_result_tree:
            return result
        ctx._op_structure, tensors = split_tensor_results(op.record, result)
        return *tensors, ctx._op_structure

    def backward(ctx: Any, *grads: Any) -> Any:
        return _run_backward(op, info, ctx, grads)

    members = {
        "forward": staticmethod(forward),
        "backward": staticmethod(backward),
        "__module__": __name__,
        "_is_users": False,
        "_op_name": op.name(),
        "_surrogates": staticmethod(lambda: (op.name(),) if op.record.derivative.surrogate else ()),
    }
    generated: type[Function] = type(op.record.step_name, (Function,), members)
    generated = supports_tensorlist(generated, or_none=True) if _has_lists(op) else generated
    generated.backward = staticmethod(_drop_constants(generated.backward))
    return generated


def _has_lists(op: OpOverload) -> bool:
    return any(value.is_tensor_list for value in (*op._schema.arguments, *op._schema.returns))


def _drop_keyword_only(op: OpOverload, ctx: Any) -> None:
    """Leaves one flag for each positional argument, as torch does."""
    ctx.needs_input_grad = ctx.needs_input_grad[: op._schema.num_positional]


def _run_forward(op: OpOverload, info: Any, ctx: Any, inputs: Sequence[Any]) -> Any:
    """Runs an op, or the forward that was registered for it, and then the setup of its formula."""
    values = [value.value if isinstance(value, Constant) else value for value in inputs]
    ctx._op_inputs = list(map(_describe_tensors, values))
    if not _has_lists(op):  # the flags of lists are flat until the backward
        _drop_keyword_only(op, ctx)
    run = getattr(info, "_forward_fn", None)
    is_needed = run is None or is_carried(op.record, values)
    result = _run(op, values) if is_needed else None
    if run is not None:
        made = run_below_autograd(op.record, values, forward=partial(run, ctx))
        note_constants(ctx, find_tensors([values, made]), vars(ctx).values())
        if not is_needed:
            return made  # else the result above has the rules of the op in a transformation of JAX
    setup = info._setup_context_fn
    if setup is not None:
        positional, keyword_only = split_values(op._schema, values)
        extra = {"keyword_only_inputs": keyword_only} if keyword_only else {}
        bound = partial(setup, ctx=ctx, inputs=positional, output=result, **extra)
        _run_setup(op, ctx, bound, values, result)
    return result


def _run_setup(op: OpOverload, ctx: Any, setup: Rule, values: Sequence[Any], result: Any) -> None:
    """Runs the setup with recording on: what it computes has its part in second derivatives (ADR 6).

    Meanwhile the results have the history that ``finish_call`` gives them for good.
    """
    state = modes.state
    new: list[tuple[int, Tensor]] = []
    try:
        for slot, output in enumerate(_list_results(op, result)):
            if isinstance(output, Tensor) and has_gradient(output._storage.spec.dtype):
                output._requires_grad, output._grad_fn, output._output_nr = True, ctx, slot
                new.append((slot, output))
        state.grad_enabled = True
        setup()
        if state.dual_level is not None:
            _refuse_tangents(op.name(), ctx, values, new)
    finally:
        state.grad_enabled = False
        for _, output in new:
            output._requires_grad, output._grad_fn, output._output_nr = False, None, 0
    if ctx.non_differentiable:
        marked = set(map(id, ctx.non_differentiable))
        ctx._op_constants = [slot for slot, output in new if id(output) in marked]


def _list_results(op: OpOverload, result: Any) -> list[Any]:
    """Returns the results that get a history; none of an op that writes, since one may be an argument."""
    if op._schema.is_mutable:
        return []
    if op._schema.has_result_tree:
        return find_tensors([result])
    parts = [part if isinstance(part, list) else [part] for part in list_values(result)]
    return [member for part in parts for member in part]


def _refuse_tangents(op: str, ctx: Any, values: Sequence[Any], new: Sequence[tuple[int, Tensor]]) -> None:
    """Raises MissingRuleError if forward mode would find no tangent of a value that the setup computed."""
    inputs = find_tensors(values)
    if all(look_up_tangent(own) is None for own in inputs):
        return
    known = [*inputs, *(output for _, output in new)]
    for value in [*ctx.to_save, *vars(ctx).values()]:
        if needs_grad(value) and not any(value is own for own in known):
            raise MissingRuleError(
                f"{op}: setup_context keeps a value that it computes, which has no tangent. An argument "
                "carries a tangent in forward mode, and requires grad. Keep arguments and results, and "
                "compute the value in the backward formula, or write kernel and rules for jax.Array."
            )


def _drop_constants(backward: Rule) -> Rule:
    """Lets a backward get no gradients of results that were marked: a saved value may depend on them."""

    def run(ctx: Any, *grads: Any) -> Any:
        for slot in vars(ctx).get("_op_constants", ()):
            if (grad := grads[slot]) is not None:
                zero = grad.new_zeros(grad.shape) if ctx.materialize_grads else None
                grads = (*grads[:slot], zero, *grads[slot + 1 :])
        return backward(ctx, *grads)

    return run


def _run_backward(op: OpOverload, info: Any, ctx: Any, grads: Values) -> Any:
    """Runs the backward formula of an op, and checks its gradients."""
    formula = info._backward_fn
    if formula is None:
        raise missing_formula(op)
    if op._schema.has_result_tree:
        grads = tuple(ctx._op_structure.rebuild_grads(grads[:-1]))
    _drop_keyword_only(op, ctx)
    try:
        result = formula(ctx, *grads)
    except Exception as error:
        refuse_nothing_saved(error, ctx, op.name(), op.record.derivative.saver)
        explain_error(error, op.name(), "backward formula")
        raise
    padded = _pad(op._schema, result)
    _check_shapes(op.name(), padded, ctx._op_inputs)
    return padded


def _run(op: OpOverload, values: Sequence[Any]) -> Any:
    """Runs the kernel below autograd, where observers see the call."""
    return run_observed(op, values, partial(_choose_and_run, op, values), copy_outcome)


def _choose_and_run(op: OpOverload, values: Sequence[Any]) -> Any:
    """Runs the kernel in place; through the op's primitive if JAX is to find its rules or its values."""
    record = op.record
    if is_carried(record, values):
        return run_carried(op.functional, record, values)
    try:
        return run_below_autograd(record, values)
    except ReadValueError as error:
        if record.schema.is_mutable:
            raise
        forget_read(error)
    return run_carried(op.functional, record, values)


class Constant:
    """A list argument without tensors: one position for a gradient, whatever the list holds."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _hold(argument: Argument, value: Any) -> Any:
    is_constant = isinstance(value, (list, tuple)) and not argument.has_tensor
    return Constant(value) if is_constant else value


def _pad(schema: Any, result: Any) -> Any:
    """Appends the Nones that a formula may omit, for arguments without tensors at the end.

    Where the code gets a tuple of tensors, the gradients become one.
    """
    are_tuples = [argument.is_tensor_tuple for argument in schema.arguments]
    values = [result] if are_tuples == [True] and is_sole_tuple(result) else list_values(result)
    if any(are_tuples):
        pairs = itertools.zip_longest(values, are_tuples[: len(values)])
        values = result = tuple(
            [tuple(own) if is_tuple and isinstance(own, list) else own for own, is_tuple in pairs]
        )
    rest = schema.arguments[len(values) :]
    if any(argument.has_tensor for argument in rest):
        return result
    return (*values, *([None] * len(rest)))


def _describe_tensors(value: Any) -> Any:
    """Returns the shape and dtype of a Tensor, a list of them for a list, and None for another value."""
    if isinstance(value, (list, tuple)):
        return list(map(_describe_tensors, value))
    return shape_of(value._storage.array) if isinstance(value, Tensor) else None


def _check_shapes(op: str, grads: Any, targets: Sequence[Any]) -> None:
    """Raises if the gradient of a Tensor has another shape than the Tensor.

    Raises:
        AutogradError: it has.
    """
    for index, (value, target) in enumerate(zip(list_values(grads), targets, strict=False)):
        are_lists = isinstance(value, (list, tuple)) and isinstance(target, list)
        pairs: Any = zip(value, target, strict=False) if are_lists else [(value, target)]
        for grad, due in pairs:
            has_shape = isinstance(grad, Tensor) and isinstance(due, jax.ShapeDtypeStruct)
            if has_shape and grad.shape != due.shape:
                raise refuse_shape(op, index, grad._storage.array, due)


def _needs_grad(values: Sequence[Any]) -> bool:
    """Tells whether a tensor among the arguments, or in their tuples and lists, requires grad."""
    return any(
        _needs_grad(value) if isinstance(value, (list, tuple)) else needs_grad(value) for value in values
    )


def run_on_tensors(overload: OpOverload, values: Sequence[Any], impl: Rule) -> Any:
    """Calls an eager or composite op on Tensors; arrays among the values are constants."""
    boxed = [
        _box_constants(argument, value)
        for argument, value in zip(overload._schema.arguments, values, strict=True)
    ]
    record = overload.record
    if record.kind == "composite":
        return run_composite(record, boxed)
    if record.derivative.constant is not None:
        return _run(overload, boxed)
    args, kwargs = split_values(record.schema, boxed)
    return impl(*args, **kwargs)


def _box_constants(argument: Any, value: Any) -> Any:
    if not argument.has_tensor or value is None or isinstance(value, Tensor):
        return value
    if isinstance(value, (list, tuple)):
        return type(value)([_box_constants(argument, member) for member in value])
    return box(jnp.asarray(value))
