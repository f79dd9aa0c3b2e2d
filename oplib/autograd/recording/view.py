"""Views of Tensors, with their history.

A view shares the history of its *root*, which is the tensor at the beginning of its chain. After an in-place
write the root gets a new history (:mod:`.rebase`), and its views are marked stale: they look up their
history when it is next read. So a write costs the same for any number of views, and the fast path of a call
never asks whether a tensor is a view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oplib.autograd.array_functions.array_function import ArrayFunction
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.creation import tell_creation
from oplib.autograd.nodes.node import Edge
from oplib.autograd.tangents import find_tangent
from oplib.errors import AutogradError
from oplib.modes import ModeState, modes
from oplib.protocols import Values
from oplib.tensor import Tensor
from oplib.tensor.inference import InferenceTensor
from oplib.tensor.jax_node import register_kind
from oplib.tensor.storage.class_changes import change_class
from oplib.tensor.storage.cut import cut_once, cuts_results
from oplib.tensor.storage.escape import refuse_escape, refuse_outside
from oplib.tensor.storage.fresh import buffers
from oplib.tensor.views import AliasStorage, Chain, Creation, Frame, Starts, make_chain, note_view
from oplib.tensor.views.lineage import take_views
from oplib.tensor.views.view_storage import make_view_storage

from .lazy_edges import link_input
from .origins import enter_node, inherit_origin, number_node
from .view_node import SeveralViewsNode, ViewNode, make_view_node

_new: Any = object.__new__


def make_view(
    tensor: Tensor, frame: Frame | Chain, starts: Starts = (), node_class: type[ViewNode] = ViewNode
) -> Tensor:
    """Makes the view of a tensor through a frame. It computes nothing.

    Args:
        tensor: the tensor to view, which may be a view.
        frame: one frame, or several as a chain.
        starts: the starts of the windows of the frame.
        node_class: the class of the node if the view is recorded. It carries the name of the op.
    """
    state = modes.state
    view = _share(tensor, frame, starts, state)
    if tensor._requires_grad and state.grad_enabled and not state.inference:
        node = _new(node_class)
        node.frame, node.starts = frame, starts
        node.dtype = frame.part_dtype(tensor._storage.spec.dtype)
        link_input(node, tensor)
        enter_node(node, state)
        view._grad_fn = node
        if state.creation_hooks:
            tell_creation(node)
    return view


def _share(
    tensor: Tensor, frame: Frame | Chain, starts: Starts, state: ModeState, *, creation: int = 0
) -> Tensor:
    """Makes a view without a node, and registers it at its root. Without recording it has the root's flag."""
    root: Tensor | None = tensor._root
    storage: Any = tensor._storage
    path = (frame, starts)
    if root is None or isinstance(storage, AliasStorage):  # a view may have got other contents
        root, base = tensor if root is None else root, storage
        chain = frame if isinstance(frame, Chain) else make_chain((frame,))
    else:
        base = storage.base
        chain, starts = storage.chain.extend(frame, storage.starts, starts)
    if state.constant_in is not None and cuts_results(state):
        base = cut_once(base)
    is_inference = tensor.__class__ is not Tensor and isinstance(tensor, InferenceTensor)
    view = _new(InferenceTensor if is_inference else Tensor)
    view._storage = make_view_storage(base, chain, starts)
    view._root = root
    source = tensor
    if not state.grad_enabled or state.inference:
        creation = Creation.INFERENCE if state.inference else Creation.NO_GRAD
        source = root
    elif not creation:
        creation = tensor._creation
    if source._requires_grad:
        view._requires_grad = True
    if creation:
        view._creation = creation
    if tensor._trace is not None:
        view._trace = tensor._trace
    if tensor._scope:
        view._scope = tensor._scope
    if tensor._read_only is not None:
        view._read_only = tensor._read_only
    if tensor._tangent_source is not None:
        origin, before = tensor._tangent_source or (tensor, ())
        view._tangent_source = (origin, (*before, path))
    note_view(root, view, creation)
    return view


def make_views(
    tensor: Tensor, pairs: Sequence[tuple[Frame | Chain, Starts]], join: ArrayFunction, name: str
) -> tuple[Tensor, ...]:
    """Makes several views of one tensor, recorded as one call.

    Args:
        tensor: the tensor to view.
        pairs: the frame and starts of each view.
        join: the inverse of the op: a function from the arrays of all views to the array of the tensor. Each
            op needs one object, because it is compiled.
        name: the name of the node.
    """
    state = modes.state
    views = [_share(tensor, frame, starts, state, creation=Creation.SEVERAL) for frame, starts in pairs]
    if tensor._requires_grad and state.grad_enabled and not state.inference and views:
        node = SeveralViewsNode.make(name, tensor, [frame.shape for frame, _ in pairs], join)
        enter_node(node, state)
        for slot, view in enumerate(views):
            view._grad_fn, view._output_nr = node, slot
        tell_creation(node)
    return tuple(views)


def turn_in_place(
    tensor: Tensor, frame: Frame | Chain, starts: Starts, node_class: type[ViewNode], op: str
) -> Tensor:
    """Adds a frame to the view that a tensor is of its memory, as ``transpose_`` does.

    Args:
        tensor: the tensor to change, which may be written.
        frame: the additional frame. It must show every item once.
        starts: the starts of the windows of the frame.
        node_class: the class of the node if the tensor has a history.
        op: the in-place op, for errors.

    Raises:
        TracingError: the tensor is from outside of a function that is compiled, or the body of control flow
            captures it.
    """
    refuse_outside(tensor, op)
    owner: Any = tensor._storage.owner
    if modes.region is not None:
        refuse_escape(owner.array, tensor, op)
    if owner.is_inference:
        owner.check_mode()
    state = modes.state
    tangent = find_tangent(tensor) if state.watchers else None
    if tangent is not None:
        turn_in_place(tangent, frame, starts, node_class, op)
    constant_in, state.constant_in = state.constant_in, None  # it changes no value, and keeps the derivative
    try:
        looked = make_view(tensor, frame, starts, node_class)
    finally:
        state.constant_in = constant_in
    tensor._storage.version += 1
    tensor._storage = looked._storage
    if tensor._root is None:
        turn_views_back(tensor, frame, [looked])
    if looked._grad_fn is not None:
        tensor._grad_fn, tensor._output_nr = looked._grad_fn, looked._output_nr
        tensor._backward_hooks = None
    elif tensor._requires_grad:
        fit_gradients(tensor)
    return tensor


def fit_gradients(tensor: Tensor) -> None:
    """Makes the engine compare gradients with the node of a tensor that got another shape without history."""
    edge = gradient_edge(tensor)
    if edge is not None:
        node: Any = edge[0]
        node.fits_gradients = node.has_hooks = True
        if tensor._grad_fn is None:
            tensor._accumulator = lambda: node  # it must live, and leaves hold theirs weakly


def turn_views_back(root: Tensor, frame: Frame | Chain, others: Sequence[Tensor]) -> None:
    """Makes the views of a root that got an additional frame show the same items as before.

    Args:
        root: the tensor.
        frame: the additional frame.
        others: views that show the right items already.
    """
    known = {*map(id, others)}
    for view in take_views(root):
        if id(view) not in known:
            known.add(id(view))  # one that was restricted later is in both lists
            _turn_back(view, root, frame)
        note_view(root, view)


def _turn_back(view: Tensor, root: Tensor, frame: Frame | Chain) -> None:
    storage: Any = view._storage
    inverse = None if isinstance(frame, Chain) else frame.invert()
    assert inverse is not None, "a tensor that has views is given no other strides"
    path, others, _ = storage.path
    shaped = make_chain((inverse,)).reshape((), path.in_shape)
    if shaped is None:
        return  # since the root has got other contents, the view shows the former ones
    chain, starts = shaped[0].extend(path, shaped[1], others)
    turned = make_view_storage(root._storage, chain, starts)
    if isinstance(storage, AliasStorage):
        storage.view = turned
    elif storage.owner is root._storage.owner and (
        not isinstance(storage.base, AliasStorage) or storage.base.view is None
    ):
        view._storage = turned  # else it, or the root, has got other contents


def adopt_view(result: Tensor, tensor: Tensor, frame: Frame, *, is_one_of_several: bool) -> None:
    """Makes the result of an op with history share the storage of the tensor that it is a view of.

    Args:
        result: the result of the op. Nothing else holds it.
        tensor: the tensor that it is a view of.
        frame: the frame of the view.
        is_one_of_several: whether the op returns several views.
    """
    state = modes.state
    creation = Creation.SEVERAL if is_one_of_several else Creation.ORDINARY
    view = _share(tensor, frame, (), state, creation=creation)
    view._storage.array = result._storage.array
    result._storage, result._root = view._storage, view._root
    if view._creation:
        result._creation = view._creation
    if view._requires_grad:
        result._requires_grad = True
    note_view(_root_of(result), result)


def view_alike(tensor: Tensor, view: Tensor) -> Tensor:
    """Applies the frames of a view of a tensor to the tangent of that tensor."""
    storage: Any = view._storage
    source = view._tangent_source
    for frame, starts in source[1] if source else storage.path[0].split(storage.path[1]):
        tensor = make_view(tensor, frame, starts)
    return tensor


def _refreshed(name: str) -> property:
    """Returns the property of an attribute that is read and written after its tensor is refreshed."""

    def read(view: Tensor) -> Any:
        refresh_history(view)
        return getattr(view, name)

    def write(view: Tensor, value: Any) -> None:
        refresh_history(view)
        setattr(view, name, value)

    return property(read, write)


def _requires_grad_of_stale(view: Tensor) -> bool:
    return view.__dict__.get("_requires_grad", False) or _root_of(view)._requires_grad


class StaleView(Tensor):
    """A view that must look up its history, because the history of its root has changed.

    It is a class, so that other tensors need no check. Tensors change their class to it and back.
    """

    _requires_grad: Any = property(_requires_grad_of_stale, _refreshed("_requires_grad").fset)
    _grad_fn: Any = _refreshed("_grad_fn")
    _output_nr: Any = _refreshed("_output_nr")

    def __reduce_ex__(self, protocol: Any) -> Values:
        make, (_, *contents), state = super().__reduce_ex__(protocol)
        return make, (Tensor, *contents), state


StaleView.__name__ = StaleView.__qualname__ = "Tensor"
StaleView.__module__ = Tensor.__module__
register_kind(StaleView, "oplib.StaleView")


def share_requires_grad(leaf: Tensor, value: bool) -> None:
    """Makes the views of a leaf follow its new ``requires_grad``.

    They look up their history when it is next read. A view whose history may not be rebased is a leaf too.
    """
    for view in take_views(leaf, restricted_only=not value):
        if view._grad_fn is None and view._creation:
            view._requires_grad = value
        elif not view._requires_grad:
            change_class(view, StaleView)
            continue  # it is registered when it has looked its history up
        note_view(leaf, view)


def refresh_history(view: Tensor) -> None:
    """Gives a stale view the current history of its root.

    Raises:
        AutogradError: the way in which the view was made forbids it.
    """
    root = _root_of(view)
    own: Any = view.__dict__.get("_grad_fn")
    if has_lost_history(view):
        raise refuse_rebase(view, own, is_indirect=True)
    storage: Any = view._storage
    chain, starts, _ = storage.path
    with buffers:  # another thread may write another view of the root
        change_class(view, Tensor)
        note_view(root, view)
        if own is None and not root._requires_grad:
            return
        node = make_view_node(root, chain, starts, storage.spec.dtype)
        number_node(node, modes.state)
        inherit_origin(node, root._grad_fn)  # the place of the write, whoever reads the history
        take_over(view, (node, 0))
    tell_creation(node)


def take_over(tensor: Tensor, edge: Edge) -> None:
    """Gives a tensor another edge.

    Registered hooks stay with the gradient of the old value. A retained gradient belongs to the tensor, and
    so to the new value.
    """
    before: Any = tensor._grad_fn
    node, slot = edge
    if before is not None and tensor._retains_grad:
        before.stop_retaining(tensor._output_nr)
    tensor._requires_grad = True
    tensor._grad_fn = node
    tensor._output_nr = slot
    tensor._backward_hooks = None
    if tensor._retains_grad:
        node.retain_grad(tensor)


def has_lost_history(tensor: Tensor) -> bool:
    """Whether a tensor is a view whose history may not be read, because its memory was written."""
    if not isinstance(tensor, StaleView) or not tensor._creation:
        return False
    return tensor.__dict__.get("_grad_fn") is not None or _root_of(tensor)._requires_grad


def _root_of(view: Tensor) -> Tensor:
    assert view._root is not None
    return view._root


_KINDS = {
    Creation.SEVERAL: (
        "This view is the output of a function that returns multiple views. Such functions do not allow the "
        "output views to be modified inplace. Replace the inplace operation by an out-of-place one."
    ),
    Creation.FUNCTION: (
        "This view was created inside a custom Function (or because an input was returned as-is) and the "
        "autograd logic to handle view+inplace would override the custom backward associated with the custom "
        "Function, leading to incorrect gradients. Clone the output of the custom Function."
    ),
}


def refuse_rebase(view: Tensor, made_by: Any, *, is_indirect: bool) -> AutogradError:
    """Returns the error for a view whose history may not be rebased."""
    creation = view._creation
    modified = "its base or another view of its base has been" if is_indirect else "is being"
    mode = "inference mode" if creation == Creation.INFERENCE else "no_grad mode"
    source = (
        ""
        if made_by is None
        else f"Output {view.__dict__.get('_output_nr', 0)} of {_op_name(made_by)} is a view"
    )
    advice = _KINDS.get(Creation(creation), "")
    if creation in {Creation.NO_GRAD, Creation.INFERENCE} or made_by is None:
        where = "in normal mode" if creation == Creation.INFERENCE else "with grad mode enabled"
        how = f"{source} of a view which" if source else "A view"
        text = f"{how} was created in {mode} and {modified} modified inplace {where}."
        advice = advice or (
            "Given that this use case is ambiguous and error-prone, it is forbidden. Move both the view and "
            f"the write into one block of {mode}, or both out of it."
        )
    else:
        text = f"{source} and {modified} modified inplace."
    return AutogradError(f"{text} {advice}")


def _op_name(node: Any) -> str:
    return node.name().removesuffix("0").removesuffix("Backward")
