"""Selective checkpoints: a policy decides for each op whether its results are kept or computed again."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, cast

import jax
from jax.core import Tracer

from oplib.autograd.saved_tensors.hooks import HookPair, pack_through, unpack_through
from oplib.errors import ArgumentValueError, CheckpointError, RegistrationTypeError, describe
from oplib.library.op_objects.observers import ObservedCall, map_arrays, observing
from oplib.library.op_objects.overload import OpOverload
from oplib.tensor import box

from .region_contexts import RepeatedContext

SAC_IGNORED_OPS: set[OpOverload] = set()
"""Ops that run again without asking the policy. It is empty, because oplib has none of torch's."""


class CheckpointPolicy(enum.Enum):
    """The decision about the results of an op in a checkpointed region. ``MUST`` and ``PREFER`` are equal.

    Attributes:
        MUST_SAVE: the results are kept, and the op does not run again.
        PREFER_SAVE: likewise.
        MUST_RECOMPUTE: the results are dropped, and the op runs again.
        PREFER_RECOMPUTE: likewise.
        MUST_CPU_OFFLOAD: the results are kept in host memory.
        PREFER_CPU_OFFLOAD: likewise.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_SAVE = frozenset((CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE))
_OFFLOAD = frozenset((CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD))

Policy = Callable[..., CheckpointPolicy | bool]


class SelectiveCheckpointContext:
    """The facts about a call that a policy receives, besides the op and its arguments.

    Attributes:
        is_recompute: always False, because policies are asked in the forward only.
        op_output: the result of the op, with new Tensors without history.
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


Kept = Any
"""The outcome of a call, with a function in place of each array; None if the op runs again."""
Storage = defaultdict[OpOverload, list[Kept]]


class SelectiveContext(RepeatedContext):
    """The context of the forward.

    Attributes:
        policy: of the user.
        pairs: the hooks for saved tensors through which kept results go.
    """

    def __init__(self, policy: Policy, storage: Storage) -> None:
        pairs: list[HookPair] = []
        super().__init__(lambda: observing(partial(_keep, policy, storage, pairs)))
        self.policy = policy
        self.pairs = pairs


def _keep(policy: Policy, storage: Storage, pairs: Sequence[HookPair], call: ObservedCall) -> Any:
    """Runs a call of the forward, asks the policy about it, and keeps the result if it is selected."""
    outcome = call.run()
    if call.overload not in SAC_IGNORED_OPS:
        decision = decide(policy, call, outcome)
        hold = partial(_pack, pairs) if pairs else _hold
        if decision in _OFFLOAD:
            hold = _offload
        is_kept = decision in _SAVE or decision in _OFFLOAD
        storage[call.overload].append(map_arrays(outcome, hold) if is_kept else None)
    return outcome


def decide(ask: Policy, call: ObservedCall, outcome: Any) -> CheckpointPolicy:
    """Asks a policy about a call that has run.

    Raises:
        RegistrationTypeError: the policy returns none.
    """
    args, kwargs = call.arguments
    context = SelectiveCheckpointContext(is_recompute=False, op_output=call.read(outcome))
    policy = ask(context, call.overload, *args, **kwargs)
    if isinstance(policy, bool):
        policy = CheckpointPolicy.MUST_SAVE if policy else CheckpointPolicy.PREFER_RECOMPUTE
    if not isinstance(policy, CheckpointPolicy):  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
        raise RegistrationTypeError(
            f"create_selective_checkpoint_contexts: the policy returned {describe(policy)} for "
            f"{call.overload}. It is no CheckpointPolicy. Return one, such as MUST_SAVE."
        )
    record = call.overload.record
    if record.takes_tensors and record.schema.is_mutable:
        return CheckpointPolicy.MUST_RECOMPUTE  # an eager kernel writes its arguments, and has to do so again
    return policy


def _replay(storage: Storage, counts: defaultdict[OpOverload, int], call: ObservedCall) -> Any:
    """Returns the kept result of a call of the repetition. ``counts`` holds the calls of each op so far."""
    if call.overload in SAC_IGNORED_OPS:
        return call.run()
    index = counts[call.overload]
    counts[call.overload] = index + 1
    kept = storage.get(call.overload, [])
    if index >= len(kept):
        raise CheckpointError(
            f"checkpoint: {call.overload} was called {index + 1} times in the repetition and {len(kept)} "
            "times in the forward. The function does not do the same each time. Make it depend on its "
            "arguments alone."
        )
    return call.run() if kept[index] is None else map_arrays(kept[index], _restore, kind=partial)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Policy | list[OpOverload], allow_cache_entry_mutation: bool = False
) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Makes the contexts of a checkpoint that keeps the results of some ops.

    A kept result is saved in addition to the values that formulas read. Ops that save little should run
    again.

    Args:
        policy_fn_or_list: ``policy(ctx, op, *args, **kwargs)``, which is called after each op of the forward
            with a :class:`SelectiveCheckpointContext`, the overload and its arguments, and returns a
            :class:`CheckpointPolicy`, or True to save. Or a list of the overloads to save.
        allow_cache_entry_mutation: ignored. Arrays are immutable, so in-place writes do not change kept
            results.

    Returns:
        The contexts of the forward and of its repetition, for one call of a checkpoint.

    Raises:
        ArgumentValueError: an item of the list is not an overload.
        RegistrationTypeError: the argument is neither a function nor a list.

    Source:
        ``torch.utils.checkpoint.create_selective_checkpoint_contexts``. Unlike in torch, a region may run
        backward again with ``retain_graph``.

    Example:
        >>> import functools
        >>> import oplib
        >>> from oplib.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
        >>> save_tanh = functools.partial(
        ...     create_selective_checkpoint_contexts, [oplib.ops.oplib.tanh.default]
        ... )
        >>> x = oplib.tensor([0.0], requires_grad=True)
        >>> y = checkpoint(lambda x: x.tanh().exp(), x, use_reentrant=False, context_fn=save_tanh)
        >>> y.backward()
        >>> x.grad
        tensor([1.])
    """
    del allow_cache_entry_mutation
    if isinstance(policy_fn_or_list, list):
        policy = _policy_from_list(policy_fn_or_list)
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise RegistrationTypeError(
            "create_selective_checkpoint_contexts: policy_fn_or_list must be either a function or a list of "
            f"ops. Got {type(cast('object', policy_fn_or_list)).__name__}. Give one of the two."
        )
    storage: Storage = defaultdict(list)
    return (
        SelectiveContext(policy, storage),
        RepeatedContext(lambda: observing(partial(_replay, storage, defaultdict(int)))),
    )


def _policy_from_list(ops: Sequence[Any]) -> Policy:
    for op in ops:
        if not isinstance(op, OpOverload):
            raise ArgumentValueError(
                f"create_selective_checkpoint_contexts: Expected op in the list to be an OpOverload. Got "
                f"{op!r}, of type {type(op).__name__}. Give an overload, such as "
                "oplib.ops.oplib.matmul.default."
            )
    saved = frozenset(ops)

    def save_listed(_ctx: SelectiveCheckpointContext, op: OpOverload, *_args: Any, **_kwargs: Any) -> bool:
        return op in saved

    return save_listed


def _offload(array: Any) -> partial[Any]:
    sharding = None if isinstance(array, Tracer) else array.sharding
    return partial(_move, _move(array, sharding and sharding.with_memory_kind("pinned_host")), sharding)


def _pack(pairs: Sequence[HookPair], array: Any) -> partial[Any]:
    packed = pack_through(pairs, box(array))
    return partial(lambda: unpack_through(pairs, packed)._storage.array)


def _hold(array: Any) -> partial[Any]:
    return partial(_move, array, None)


def _restore(hold: partial[Any]) -> Any:
    return hold()


def _move(array: Any, sharding: Any) -> Any:
    return array if sharding is None else jax.device_put(array, sharding)
