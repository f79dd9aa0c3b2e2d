"""What ``Tensor.backward`` calls: the plain case, which most training steps are, goes straight to a run.

Each function that a call passes through on its way costs it more than the lines that it runs, because XLA has
had the processor's caches in between; so what :func:`.reverse.backward` does for one output is done here.
"""

from __future__ import annotations

from typing import Any

from oplib.autograd.array_functions.width import wide_plans, x64
from oplib.modes import modes
from oplib.tensor import Tensor

from . import fork
from .backward_and_grad import Grads, Inputs, backward
from .node_logging import is_logging
from .plan import RunPlan
from .root_gradients import find_root_gradient
from .run import Run, engine_state
from .wide_graph import needs_64_bits


def run_tensor_backward(
    tensor: Tensor, gradient: Grads, retain_graph: bool | None, create_graph: bool, inputs: Inputs | None
) -> None:
    """Adds to the ``grad`` of each leaf the gradient of ``tensor``.

    Args:
        tensor: what to differentiate.
        gradient: the gradient by it, of its shape; may be None for a real scalar.
        retain_graph: keeps saved values for another pass; by default what ``create_graph`` is.
        create_graph: records the pass, so that the gradients can be differentiated.
        inputs: accumulates into these only.

    Raises:
        AutogradError: as :func:`.reverse.backward`, which takes what is not plain.
    """
    if wide_plans.any and needs_64_bits((tensor,)):
        with x64(True):
            run_tensor_backward(tensor, gradient, retain_graph, create_graph, inputs)
        return
    root_gradient = find_root_gradient(tensor, gradient)
    plain = inputs is None and create_graph is False and retain_graph in (None, False, True)
    is_watched = engine_state.vmap_levels or modes.dual_level is not None or is_logging()
    if root_gradient is None or not plain or is_watched:
        backward(tensor, gradient, retain_graph, create_graph, inputs=inputs)
        return
    fork.check()
    node: Any = tensor._grad_fn
    roots = ((node, tensor._output_nr),)
    run = Run(RunPlan(roots), keep_graph=bool(retain_graph), create_graph=False, undo_log=None)
    run.execute(roots, (root_gradient,))
