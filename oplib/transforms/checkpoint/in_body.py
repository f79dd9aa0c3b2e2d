"""A checkpoint in the body of control flow.

JAX differentiates such a body, and reads none of the values that the tape saves. So the function of the
checkpoint becomes a pure function of arrays, which ``jax.checkpoint`` marks. A policy is asked about each op
while the function is traced. JAX then knows the results to keep by their name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import jax
from jax.ad_checkpoint import checkpoint_name

from oplib.autograd.array_functions.array_function import ArrayFunction
from oplib.autograd.tangents import carries_tangents
from oplib.library.op_objects.observers import ObservedCall, map_arrays, observing
from oplib.modes import modes
from oplib.protocols import AnyFunction
from oplib.pytree import tree_flatten, tree_unflatten
from oplib.tensor import Tensor
from oplib.transforms.control_flow.body import BodyFunction
from oplib.transforms.control_flow.body_region import list_captured
from oplib.transforms.control_flow.flow_program import FlowProgram
from oplib.transforms.control_flow.leaves import flatten_leaves
from oplib.transforms.tracing.paths import Walk

from .policy import CheckpointPolicy, Policy, SelectiveContext, decide

_KEPT, _OFFLOADED = "oplib.kept", "oplib.offloaded"
_NAMES = {
    CheckpointPolicy.MUST_SAVE: _KEPT,
    CheckpointPolicy.PREFER_SAVE: _KEPT,
    CheckpointPolicy.MUST_CPU_OFFLOAD: _OFFLOADED,
    CheckpointPolicy.PREFER_CPU_OFFLOAD: _OFFLOADED,
}


def is_in_body() -> bool:
    """Whether JAX differentiates what runs now. Tangents of the tape need nothing that is saved."""
    return modes.region is not None and not carries_tangents()


def run_in_body(
    function: AnyFunction,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    context: AbstractContextManager[Any],
) -> Any:
    """Runs a checkpointed function as one node, whose backward computes it again.

    Args:
        function: the function.
        args: its arguments.
        kwargs: its keyword arguments.
        context: of the forward.
    """
    region = _Region(function, args, kwargs, context)
    tensors, layout = flatten_leaves(region.tensors, "checkpoint: its arguments")
    captured = list_captured(Walk([function, args, kwargs], []))
    types = tuple(jax.typeof(tensor._storage.array) for tensor in tensors)
    traced = BodyFunction(region, "checkpoint: 'function'", (layout,), types, captured)
    body = traced.trace([tensor._requires_grad for tensor in tensors])
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[_KEPT],
        names_which_can_be_offloaded=[_OFFLOADED],
        offload_src="device",
        offload_dst="pinned_host",
    )
    run = body.run
    # Both computations stand in two bodies, so XLA finds no common expressions.
    marked = jax.checkpoint(lambda *arrays: tuple(run(*arrays)), prevent_cse=False, policy=policy)
    program = FlowProgram(ArrayFunction(marked, "Checkpoint"), body.layouts, tuple(body.requires_grad))
    return region.arrange(program.run([*[capture.tensor for capture in body.captured], *tensors]).results)


class _Region:
    """A function of the Tensors among the arguments of a call, which returns those in the result.

    Attributes:
        tensors: the Tensors among the arguments.
    """

    def __init__(
        self,
        function: AnyFunction,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        context: AbstractContextManager[Any],
    ) -> None:
        self._function = function
        self._leaves, self._spec = tree_flatten((tuple(args), dict(kwargs)))
        self.tensors = [leaf for leaf in self._leaves if isinstance(leaf, Tensor)]
        if isinstance(context, SelectiveContext):
            context = observing(partial(_name_kept, context.policy))
        self._context = context
        self._result: tuple[list[Any], Any] = [], None

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        args, kwargs = tree_unflatten(_replace_tensors(self._leaves, tensors), self._spec)
        with self._context:
            self._result = tree_flatten(self._function(*args, **kwargs))
        return [leaf for leaf in self._result[0] if isinstance(leaf, Tensor)]

    def arrange(self, tensors: list[Tensor]) -> Any:
        """Returns the result with other Tensors."""
        leaves, spec = self._result
        return tree_unflatten(_replace_tensors(leaves, tensors), spec)


def _replace_tensors(leaves: Sequence[Any], tensors: Sequence[Tensor]) -> list[Any]:
    rest = iter(tensors)
    return [next(rest) if isinstance(leaf, Tensor) else leaf for leaf in leaves]


def _name_kept(policy: Policy, call: ObservedCall) -> Any:
    """Runs a call, and names the arrays that the policy keeps."""
    outcome = call.run()
    name = _NAMES.get(decide(policy, call, outcome))
    return outcome if name is None else map_arrays(outcome, lambda array: checkpoint_name(array, name))
