"""``checkpoint``: a region of the forward saves nothing, and the backward computes it again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import Any

from jax.core import Tracer

from oplib.autograd.saved_tensors.hooks import active_pairs
from oplib.errors import ArgumentTypeError, ArgumentValueError
from oplib.modes import modes
from oplib.tensor import Tensor
from oplib.tensor.storage.escape import is_inside_trace
from oplib.tracebacks import entry_point, warn_user

from .in_body import is_in_body, run_in_body
from .policy import SelectiveContext
from .recompute import CheckpointedCall
from .reentrant import CheckpointFunction, check_backward_validity

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


class _Setting(threading.local):
    """The setting of the checkpoints that a thread makes. None leaves the choice to each call."""

    early_stop: bool | None = None


_setting = _Setting()


def noop_context_fn() -> Contexts:
    """Returns two contexts that do nothing, for the forward and its repetition."""
    return nullcontext(), nullcontext()


@entry_point
def checkpoint(
    function: Callable[..., Any] | None = None,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    respect_saved_tensors_hooks: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Calls a function and saves nothing that it computes: the backward pass calls it again.

    This trades time for memory. With ``use_reentrant=False`` the function may receive Tensors in any way,
    also by keyword, in containers and as closures; checkpoints nest; and ``grad()``, ``inputs=`` and
    ``create_graph`` work. The function must compute the same values each time it is called with the same
    arguments. Its side effects happen again.

    Args:
        function: the function to call. Without it the result is a decorator with these options, for methods
            too.
        *args: its arguments.
        use_reentrant: True runs a backward inside the backward. Then only ``backward()`` without ``inputs``
            works, and gradients flow to direct arguments only. Use False. None warns and means True, as in
            torch.
        context_fn: returns two context managers, for the forward and for its repetition, such as those of
            ``create_selective_checkpoint_contexts``.
        determinism_check: ``"default"`` compares shape, dtype and device of recomputed values; ``"none"``
            does not.
        debug: True is refused: print in the function, which runs as Python in both computations.
        early_stop: stop the repetition as soon as all needed values are computed.
        preserve_rng_state: every Generator that the function draws from gives the same numbers in the
            repetition, and has its earlier state afterwards.
        respect_saved_tensors_hooks: whether results that a policy keeps go through the saved-tensor hooks
            around the call. None means False, as in torch 2.14, where a later release will mean True.
        **kwargs: keyword arguments of the function; only with ``use_reentrant=False``.

    Returns:
        The result of the function, or the decorator.

    Raises:
        ArgumentTypeError: ``function`` is None beside arguments.
        ArgumentValueError: options exclude each other, or ``determinism_check`` is unknown.
        CheckpointError: in the backward pass: the repetition saves other tensors than the forward.
        AutogradError: in the backward pass: a reentrant checkpoint inside ``grad()``.

    Gradient:
        The gradient of the function.

    Source:
        ``torch.utils.checkpoint.checkpoint``. Unlike in torch, a saved tensor may be read twice in one pass,
        a tensor that the function overwrites in place keeps its saved value, and lists and dictionaries
        among the arguments are as they were when the function runs again.

    Example:
        >>> import oplib
        >>> x = oplib.tensor([1.0, 2.0], requires_grad=True)
        >>> checkpoint(lambda x: (x * x * x).sum(), x, use_reentrant=False).backward()
        >>> x.grad
        tensor([ 3., 12.])
    """
    if function is None:
        if args:
            raise ArgumentTypeError("checkpoint: argument 'function' is None. Give a function.")
        options: dict[str, Any] = {
            **kwargs,
            "use_reentrant": use_reentrant,
            "context_fn": context_fn,
            "determinism_check": determinism_check,
            "debug": debug,
            "early_stop": early_stop,
            "preserve_rng_state": preserve_rng_state,
            "respect_saved_tensors_hooks": respect_saved_tensors_hooks,
        }
        return lambda made: wraps(made)(lambda *args, **named: checkpoint(made, *args, **options, **named))
    if use_reentrant is None:
        use_reentrant = _choose_default("checkpoint")
    _check_options(determinism_check, debug=debug)
    if use_reentrant:
        is_plain = context_fn is noop_context_fn and respect_saved_tensors_hooks is None
        _check_reentrant(kwargs, is_plain=is_plain)
        if modes.grad_enabled and modes.state.dual_level is None and not is_inside_trace():
            check_backward_validity(args)
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    if not modes.grad_enabled:
        return function(*args, **kwargs)
    forward, again = context_fn()
    if is_in_body():
        return run_in_body(function, args, kwargs, forward)
    if respect_saved_tensors_hooks and isinstance(forward, SelectiveContext):
        forward.pairs += active_pairs()
    made = CheckpointedCall(
        function,
        args,
        kwargs,
        preserve_rng_state=preserve_rng_state,
        context=again,
        early_stop=early_stop if _setting.early_stop is None else _setting.early_stop,
        metadata=_CHECKS[determinism_check],
    )
    return made.run(args, kwargs, context=forward)


def _choose_default(caller: str) -> bool:
    warn_user(
        f"{caller}: the use_reentrant parameter should be passed explicitly. It is True now, as in torch, "
        "which excludes grad(), inputs= and keyword arguments. Pass use_reentrant=False."
    )
    return True


def _check_reentrant(kwargs: dict[str, Any], *, is_plain: bool) -> None:
    if kwargs:
        raise ArgumentValueError(
            f"checkpoint: Unexpected keyword arguments: {','.join(kwargs)}. With use_reentrant=True the "
            "function gets none. Pass use_reentrant=False."
        )
    if not is_plain:
        raise ArgumentValueError(
            "checkpoint: Passing `context_fn` or `respect_saved_tensors_hooks` is only supported when "
            "use_reentrant=False. It is True. Pass False."
        )


def _check_options(determinism_check: str, *, debug: bool) -> None:
    if debug:
        raise ArgumentValueError(
            "checkpoint: errors do not list the ops of both computations. Got debug=True. Leave it out, and "
            "print in the function: it runs as Python in both."
        )
    if determinism_check not in _CHECKS:
        raise ArgumentValueError(
            f"checkpoint: determinism_check should be one of {list(_CHECKS)}. Got {determinism_check!r}. "
            "Choose one of these."
        )


def _read_metadata(tensor: Tensor) -> dict[str, Any]:
    array = tensor._storage.array
    where = None if isinstance(array, Tracer) else array.sharding
    return {"shape": tuple(array.shape), "dtype": array.dtype, "device": where}


_CHECKS: dict[str, Callable[[Tensor], Any]] = {"default": _read_metadata, "none": lambda _: None}


@entry_point
def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,  # noqa: A002  torch's name
    use_reentrant: bool | None = None,
    *,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Calls functions one after the other in segments. All segments but the last are checkpoints.

    Args:
        functions: a sequence of functions of one argument, or an object whose ``children()`` return one.
        segments: the number of segments.
        input: the argument of the first function.
        use_reentrant: as for :func:`checkpoint`.
        preserve_rng_state: as for :func:`checkpoint`.
        **kwargs: not accepted; the error names them.

    Returns:
        The result of the last function.

    Raises:
        ArgumentValueError: there are keyword arguments.

    Gradient:
        The gradient of the functions.

    Source:
        ``torch.utils.checkpoint.checkpoint_sequential``.

    Example:
        >>> import oplib
        >>> x = oplib.tensor([1.0], requires_grad=True)
        >>> layers = [lambda x: x * 2] * 4
        >>> checkpoint_sequential(layers, 2, x, use_reentrant=False).backward()
        >>> x.grad
        tensor([16.])
    """
    if use_reentrant is None:
        use_reentrant = _choose_default("checkpoint_sequential")
    if kwargs:
        raise ArgumentValueError(
            f"checkpoint_sequential: Unexpected keyword arguments: {','.join(kwargs)}. The functions get one "
            "argument, the result of the one before. Bind others with functools.partial."
        )
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(steps) // segments
    end = size * (segments - 1)
    for start in range(0, end, size):
        input = checkpoint(  # noqa: A001  torch's name
            _chain(steps[start : start + size]),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve_rng_state,
        )
    return _chain(steps[end:])(input)


def _chain(steps: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return run


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Generator[None]:
    """Sets early stopping for all checkpoints that the thread makes in a block, whatever their argument says.

    Args:
        enable: whether they stop early.

    Example:
        >>> with set_checkpoint_early_stop(False):
        ...     pass
    """
    before, _setting.early_stop = _setting.early_stop, enable
    try:
        yield
    finally:
        _setting.early_stop = before
