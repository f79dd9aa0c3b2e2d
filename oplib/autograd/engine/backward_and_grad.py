"""``backward`` and ``grad``: the two functions that compute gradients on the tape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import jax.numpy as jnp

from oplib.autograd.array_functions.width import wide_plans, x64
from oplib.autograd.nodes.edges import GradientEdge
from oplib.autograd.nodes.gradient_representation import ARRAYS
from oplib.errors import AutogradError, GradientTypeError, GradientValueError, describe
from oplib.modes import modes
from oplib.protocols import Values
from oplib.tensor import Tensor
from oplib.tensor.storage.cut import cuts_results
from oplib.tracebacks import entry_point, warn_user

from .batched import run_batched
from .engine import run_graph
from .root_gradients import make_root_gradients
from .wide_graph import needs_64_bits

Outputs = Tensor | GradientEdge | Sequence[Tensor | GradientEdge]
Inputs = Tensor | GradientEdge | Sequence[Tensor | GradientEdge] | dict[Any, Tensor | GradientEdge]
Grads = Tensor | Sequence[Tensor | None] | None

_has_warned_of_cycle = False


@entry_point
def backward(
    tensors: Outputs,
    grad_tensors: Grads = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Grads = None,
    inputs: Inputs | None = None,
) -> None:
    """Adds the gradient of the given tensors to the ``grad`` of each leaf.

    Args:
        tensors: the outputs to differentiate: a Tensor or gradient edge, or several.
        grad_tensors: one gradient for each output, of its shape; may be None for a real scalar.
        retain_graph: keeps saved values for another pass. The default is the value of ``create_graph``.
        create_graph: records the pass, so that the gradients can be differentiated.
        grad_variables: deprecated name of ``grad_tensors``.
        inputs: if given, gradients are added to these only, leaves or not. Of a dictionary the values are
            taken.

    Raises:
        AutogradError: a tensor outside the graph, a gradient that does not fit, a graph already freed.
        GradientTypeError: a gradient is not a Tensor.

    Example:
        >>> import oplib
        >>> x = oplib.tensor([1.0, 2.0], requires_grad=True)
        >>> oplib.autograd.backward((x * x).sum())
        >>> x.grad
        tensor([2., 4.])
    """
    if grad_variables is not None:
        grad_tensors = _take_deprecated(grad_tensors, grad_variables)
    wanted = () if inputs is None else _listed_inputs(inputs, "backward")
    if inputs is not None and not wanted:
        raise _no_inputs("backward", "accumulate into, or leave it out for all leaves")
    outputs = _listed(tensors)
    if overrides := find_overrides((*outputs, *wanted)):
        options: dict[str, Any] = {
            "grad_tensors": grad_tensors,
            "retain_graph": retain_graph,
            "create_graph": create_graph,
            "inputs": inputs and wanted,
        }
        hand_over(backward, overrides, (outputs,), options)
    else:
        if create_graph:
            _warn_of_cycle()
        keep_graph = create_graph if retain_graph is None else retain_graph
        grads = tensor_or_tensors_to_tuple(grad_tensors, len(outputs))
        run_graph(outputs, grads, wanted, keep_graph, create_graph, True, accumulate=True)


def run_tensor_backward(
    tensor: Tensor, gradient: Grads, retain_graph: bool | None, create_graph: bool, inputs: Inputs | None
) -> None:
    """Adds the gradient of ``tensor`` to the ``grad`` of each leaf. See ``backward``.

    A function on the way of a call costs more than its lines: XLA has used the processor's caches in between.
    So the calls that most training steps make do not pass through ``backward``.
    """
    is_plain = tensor.__class__ is Tensor and (gradient is None or gradient.__class__ is Tensor)
    if not is_plain or inputs is not None or create_graph is not False:
        backward(tensor, gradient, retain_graph, create_graph, inputs=inputs)
    else:
        keep_graph = False if retain_graph is None else retain_graph
        run_graph((tensor,), (gradient,), (), keep_graph, False, True, accumulate=True)


@entry_point
def grad(  # noqa: PLR0917  torch's order of arguments
    outputs: Outputs,
    inputs: Inputs,
    grad_outputs: Grads = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Returns the gradients of ``outputs`` with respect to ``inputs``. It stores nothing.

    Args:
        outputs: the outputs to differentiate: a Tensor or gradient edge, or several.
        inputs: the inputs to differentiate with respect to: a Tensor or gradient edge, several, or a
            dictionary of them.
        grad_outputs: one gradient for each output, of its shape; may be None for a real scalar.
        retain_graph: keeps saved values for another pass. The default is the value of ``create_graph``.
        create_graph: records the pass, so that the results can be differentiated.
        only_inputs: deprecated and ignored; it is always true.
        allow_unused: gives None for an input that no output depends on, instead of an error.
        is_grads_batched: each gradient in ``grad_outputs`` has an additional first dimension. The backward
            pass is mapped over it.
        materialize_grads: gives zeros for an input that no output depends on.

    Returns:
        A tuple with a gradient for each input, or a dictionary with the keys of ``inputs``.

    Raises:
        AutogradError: no output depends on an input, a tensor is outside the graph, or a gradient does not
            fit.
        GradientTypeError: a gradient or input has the wrong type.
        GradientValueError: two arguments exclude each other.

    Example:
        >>> import oplib
        >>> x = oplib.tensor([1.0, 2.0], requires_grad=True)
        >>> oplib.autograd.grad((x * x * x).sum(), x)
        (tensor([ 3., 12.]),)
    """
    if materialize_grads and allow_unused is False:
        raise GradientValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True. grad: got False. "
            "Zeros are given for unused inputs only where these are allowed. Leave allow_unused out."
        )
    roots = _listed(outputs)
    wanted = _listed_inputs(inputs, "grad")
    if not wanted:
        raise _no_inputs("grad", "differentiate by")
    allow_unused = materialize_grads if allow_unused is None else allow_unused
    overrides = find_overrides((*roots, *wanted))
    if overrides or (wide_plans.any and needs_64_bits(roots)):
        options: dict[str, Any] = {
            "grad_outputs": grad_outputs,
            "retain_graph": retain_graph,
            "create_graph": create_graph,
            "only_inputs": only_inputs,
            "allow_unused": allow_unused,
            "is_grads_batched": is_grads_batched,
            "materialize_grads": materialize_grads,
        }
        if overrides:
            gradients = hand_over(grad, overrides, (roots, wanted), options)
        else:
            with x64(True):
                gradients = grad(roots, wanted, **options)
    else:
        if not only_inputs:
            warn_user("grad: only_inputs is deprecated and ignored; it is always true.", FutureWarning)
        keep_graph = create_graph if retain_graph is None else retain_graph
        grads = tensor_or_tensors_to_tuple(grad_outputs, len(roots))
        find = _find_batched if is_grads_batched else run_graph
        gradients = find(roots, grads, wanted, keep_graph, create_graph, allow_unused)
        if materialize_grads:
            gradients = _materialize(gradients, wanted, create_graph=create_graph)
        if not create_graph and modes.state.constant_in is not None and cuts_results(modes.state):
            gradients = tuple([None if gradient is None else gradient.detach() for gradient in gradients])
    return dict(zip(inputs, gradients, strict=True)) if isinstance(inputs, dict) else gradients


def _find_batched(roots: Values, grads: tuple[Tensor | None, ...], *kinds: Any) -> Any:
    def run(grads: tuple[Tensor | None, ...], **run_class: Any) -> Any:
        return run_graph(roots, grads, *kinds, **run_class)

    return run_batched(run, make_root_gradients(roots, grads, True), create_graph=kinds[2])


def tensor_or_tensors_to_tuple(tensors: Grads, length: int) -> tuple[Tensor | None, ...]:
    """Returns gradients as a tuple: None becomes ``length`` times None, and one Tensor a tuple of one."""
    if tensors is None:
        return (None,) * length
    if isinstance(tensors, Tensor):
        return (tensors,)
    try:
        return tuple(tensors)
    except TypeError:
        raise GradientTypeError(
            "backward: gradients can be either Tensors or None, or a sequence of these. Got "
            f"{describe(tensors)}. Give a Tensor of the output's shape."
        ) from None


def _listed(tensors: Any) -> Values:
    """Returns one or several outputs as a tuple."""
    if tensors.__class__ is list or tensors.__class__ is tuple:
        return tuple(tensors)
    if tensors.__class__ is Tensor or isinstance(tensors, GradientEdge) or is_tensor_like(tensors):
        return (tensors,)
    if not isinstance(tensors, Iterable):
        raise GradientTypeError(
            f"backward: {type(tensors).__name__} object is not iterable. Got neither a Tensor nor several. "
            "Give the outputs to differentiate."
        )
    return tuple(cast("Iterable[Any]", tensors))


def _listed_inputs(inputs: Any, caller: str) -> Values:
    """Returns one or several inputs, or the values of a dictionary, as a tuple."""
    if type(inputs) is dict:
        return tuple(inputs.values())
    if inputs.__class__ not in (Tensor, tuple, list) and isinstance(inputs, Mapping):  # an ABC asks slowly
        raise GradientTypeError(
            f"{caller}: 'inputs' is a {type(inputs).__name__}, and only a plain dict is taken as a mapping. "
            f"Got keys {describe(list(cast('Mapping[Any, Any]', inputs)))}. Give dict(inputs)."
        )
    return _listed(inputs)


def _no_inputs(caller: str, purpose: str) -> AutogradError:
    return AutogradError(
        f"{caller}: `inputs` argument to `{caller}()` cannot be empty. Got no tensor. Name the tensors to "
        f"{purpose}."
    )


def _take_deprecated(grad_tensors: Grads, grad_variables: Grads) -> Grads:
    warn_user("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning)
    if grad_tensors is not None:
        raise AutogradError(
            "backward: `grad_tensors` and `grad_variables` (deprecated) were both given. They are two "
            "names of one argument. Give `grad_tensors` only."
        )
    return grad_variables


def _warn_of_cycle() -> None:
    """Warns once per process: a gradient with history and its leaf hold each other."""
    global _has_warned_of_cycle  # noqa: PLW0603
    if not _has_warned_of_cycle:
        _has_warned_of_cycle = True
        warn_user(
            "backward: create_graph=True makes a reference cycle of each leaf and its grad. Their memory "
            "is freed only when Python collects garbage. Use oplib.autograd.grad, or set grad to None "
            "after use.",
            UserWarning,
        )


def _materialize(
    gradients: tuple[Tensor | None, ...], wanted: Values, *, create_graph: bool
) -> tuple[Tensor, ...]:
    """Replaces None by zeros for inputs that no output depends on."""
    return tuple(
        _zeros_like(wanted[position], position, requires_grad=create_graph) if gradient is None else gradient
        for position, gradient in enumerate(gradients)
    )


def _zeros_like(wanted: Tensor | GradientEdge, position: int, *, requires_grad: bool) -> Tensor:
    if not isinstance(wanted, Tensor):
        raise AutogradError(
            "materialize_grads cannot be used when the given input is a GradientEdge. grad: input "
            f"{position} is one, and no output depends on it. Give the Tensor, or set allow_unused=True."
        )
    zeros = ARRAYS.box(jnp.zeros_like(wanted._storage.array))
    zeros._requires_grad = requires_grad
    return zeros


def is_tensor_like(value: object) -> bool:
    """Returns whether a value is a Tensor, or of a class that takes over calls."""
    return isinstance(value, Tensor) or hasattr(type(value), "__oplib_function__")


def find_overrides(values: Iterable[object]) -> list[type[Any]]:
    """Returns the classes of ``values`` that take over calls, each once, a subclass before its base.

    These have a classmethod ``__oplib_function__(func, types, args, kwargs)``, which receives the whole call.
    The contract is that of ``__torch_function__``.
    """
    classes: list[type[Any]] = []
    for cls in dict.fromkeys(map(type, values)):
        if cls is Tensor or not hasattr(cls, "__oplib_function__"):
            continue
        index = next((at for at, other in enumerate(classes) if issubclass(cls, other)), len(classes))
        classes.insert(index, cls)
    return classes


def hand_over(
    func: Callable[..., Any], overrides: list[type[Any]], args: Values, kwargs: dict[str, Any]
) -> Any:
    """Calls each class's ``__oplib_function__`` until one answers, or raises GradientTypeError."""
    for cls in overrides:
        result = cls.__oplib_function__(func, tuple(overrides), args, kwargs)
        if result is not NotImplemented:
            return result
    names = ", ".join(cls.__name__ for cls in overrides)
    raise GradientTypeError(
        f"{func.__name__}: no implementation for these types. {names}.__oplib_function__ returned "
        "NotImplemented. Handle the function there, or give Tensors."
    )
