"""The function behind ``Tensor.backward``. Plain calls, which most training steps make, go straight to a run.

A function on the way of a call costs more than its lines: XLA has used the processor's caches in between. So
this module repeats for one output what ``backward`` in ``backward_and_grad.py`` does.
"""

from __future__ import annotations

from typing import Any

from oplib.autograd.array_functions.width import wide_plans
from oplib.autograd.nodes.gradient_representation import ARRAYS
from oplib.modes import modes
from oplib.tensor import Tensor

from . import fork
from .backward_and_grad import Grads, Inputs, backward
from .node_logging import is_logging
from .plan import RunPlan
from .root_gradients import find_root_gradient
from .run import Run
from .wide_graph import needs_64_bits


def run_tensor_backward(
    tensor: Tensor, gradient: Grads, retain_graph: bool | None, create_graph: bool, inputs: Inputs | None
) -> None:
    """Adds the gradient of ``tensor`` to the ``grad`` of each leaf.

    Args:
        tensor: the output to differentiate.
        gradient: the gradient of the output, of its shape; may be None for a real scalar.
        retain_graph: keeps saved values for another pass. The default is the value of ``create_graph``.
        create_graph: records the pass, so that the gradients can be differentiated.
        inputs: if given, gradients are added to these only.

    Raises:
        AutogradError: see ``backward``, which handles all other calls.
    """
    if wide_plans.any and needs_64_bits((tensor,)):
        backward(tensor, gradient, retain_graph, create_graph, inputs=inputs)
        return
    root_gradient = find_root_gradient(tensor, gradient)
    plain = inputs is None and create_graph is False and retain_graph in (None, False, True)
    state = modes.state
    is_watched = state.vmap_levels or state.dual_level is not None or is_logging()
    if root_gradient is None or not plain or is_watched:
        backward(tensor, gradient, retain_graph, create_graph, inputs=inputs)
        return
    fork.check()
    node: Any = tensor._grad_fn
    roots = ((node, tensor._output_nr),)
    run = Run(RunPlan(roots), ARRAYS, keep_graph=bool(retain_graph), create_graph=False)
    run.execute(roots, (root_gradient,))
