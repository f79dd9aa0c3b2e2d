"""The reentrant checkpoint: a Function whose backward runs the forward again, and then a backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, ClassVar

from oplib.autograd import Function, backward, enable_grad
from oplib.autograd.engine.run import is_checkpoint_valid
from oplib.errors import AutogradError, describe
from oplib.library.autocast.settings import AutocastScope
from oplib.modes import modes
from oplib.protocols import Values
from oplib.tensor import Tensor, needs_grad
from oplib.tensor.random.draw_log import DrawLog
from oplib.tracebacks import warn_user

from .region_contexts import copy_containers, run_again, run_and_restore


class CheckpointFunction(Function):
    """The Function that :func:`checkpoint` applies with ``use_reentrant=True``.

    Example:
        >>> import oplib
        >>> x = oplib.tensor([2.0], requires_grad=True)
        >>> CheckpointFunction.apply(lambda x: x * x, True, x).backward()
        >>> x.grad
        tensor([4.])
    """

    _takes_trees: ClassVar[bool] = False  # as in torch, tensors in containers are constants

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """Runs the function without recording, and saves its arguments and the states of its Generators."""
        ctx.run_function = run_function
        ctx.draw_log = DrawLog()
        ctx.autocast = modes.autocast
        ctx.values = [None if isinstance(arg, Tensor) else copy_containers(arg) for arg in args]
        ctx.indices = [index for index, arg in enumerate(args) if isinstance(arg, Tensor)]
        ctx.save_for_backward(*(args[index] for index in ctx.indices))

        def run_forward() -> Any:
            with ctx.draw_log.noting() if preserve_rng_state else nullcontext():
                return run_function(*args)

        return run_and_restore(run_forward)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Values:
        """Runs the function again with recording, and then a backward through it.

        Raises:
            AutogradError: the pass is ``grad()`` or ``backward(inputs=...)``, JAX makes it, or nothing
                requires grad.
        """
        if not is_checkpoint_valid():
            raise AutogradError(
                "checkpoint: When use_reentrant=True, it is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(), and with a backward outside of the oplib.jit that contains it, "
                "which asks for chosen gradients too. Its own backward accumulates into every leaf that it "
                "reaches. Set use_reentrant=False, or call .backward() without `inputs`, inside of the "
                "oplib.jit."
            )
        values = copy_containers(ctx.values)
        for index, tensor in zip(ctx.indices, ctx.saved_tensors, strict=True):
            values[index] = tensor
        inputs = detach_variable(tuple(values))
        if not any(map(needs_grad, inputs)):
            raise AutogradError(
                "checkpoint: with use_reentrant=True only the tape can differentiate it, and JAX does here: "
                f"in jax.grad of arrays, or in the body of a loop or a branch. Got {describe(grads)}. Set "
                "use_reentrant=False."
            )

        def repeat() -> Any:
            with ctx.draw_log.repeating(), enable_grad(), AutocastScope(ctx.autocast):
                return ctx.run_function(*inputs)

        outputs = run_again(repeat)
        _run_backward(outputs if isinstance(outputs, (tuple, list)) else (outputs,), grads)
        return (None, None, *(value.grad if isinstance(value, Tensor) else None for value in inputs))


def _run_backward(outputs: Iterable[Any], grads: Values) -> None:
    pairs = [(output, grad) for output, grad in zip(outputs, grads, strict=False) if needs_grad(output)]
    if not pairs:
        raise AutogradError(
            "checkpoint: none of output has requires_grad=True, this checkpoint() is not necessary. The "
            "function cuts the history of its arguments. Call it without checkpoint()."
        )
    backward([output for output, _ in pairs], [grad for _, grad in pairs])


def detach_variable(inputs: Values) -> Values:
    """Returns Tensors as new leaves with the same ``requires_grad``, and other values unchanged.

    Args:
        inputs: a tuple of any values.

    Raises:
        AutogradError: the argument is not a tuple.
    """
    if not isinstance(inputs, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
        raise AutogradError(
            f"detach_variable: Only tuple of tensors is supported. Got Unsupported input type: "
            f"{type(inputs).__name__}. Give a tuple."
        )
    return tuple(_detach(value) if isinstance(value, Tensor) else value for value in inputs)


def _detach(tensor: Tensor) -> Tensor:
    detached = tensor._share()
    detached.requires_grad = tensor.requires_grad
    return detached


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns if no argument requires grad, because then no argument gets a gradient."""
    values = list(inputs)
    if not any(map(needs_grad, values)):
        warn_user(
            f"checkpoint: None of the inputs have requires_grad=True. Gradients will be None. Got "
            f"{describe(values)}. Give an argument that requires grad, or set use_reentrant=False."
        )
