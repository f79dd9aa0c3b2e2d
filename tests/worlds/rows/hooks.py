"""Rows: hooks of Tensors and nodes, kept gradients, versions."""

from __future__ import annotations

from oplib.autograd import grad
from oplib.autograd.graph import register_multi_grad_hook
from tests.worlds.row import WHILE_TRACED, drop, journal, read_events, row

# JAX does not tell a Tensor that it is differentiated (D.49). So a hook is refused there, with torch's words.
NO_GRAD = "(?i)(doesn't|does not) require grad"
BODY = dict.fromkeys(["oplib scan", "oplib cond"], "the function registers a hook")
INNER = dict.fromkeys(["records nothing", "reentrant"], NO_GRAD)
REFUSED = BODY | INNER | dict.fromkeys(["jax", "forward", "jax jit"], NO_GRAD)
NO_TAPE = dict.fromkeys(["jax", "records nothing", "forward", "jax jit"], drop) | WHILE_TRACED
VMAP = dict.fromkeys(["oplib vmap", "grad of oplib vmap"], "cannot be called inside vmap")


def _double(gradient):
    journal.append("hook")
    return gradient * 2


def _cube(t, square):
    return square(t) * t


def _cube_with_two_hooks(t, square):
    t.register_hook(_double)
    return tensor_hook_of_an_argument(t, square)


@row(after=read_events, effects=WHILE_TRACED, refuses=REFUSED)
def tensor_hook(t, square):
    y = square(t)
    y.register_hook(_double)
    return y * t


@row(
    after=read_events,
    effects=WHILE_TRACED,
    refuses=REFUSED | {"reentrant": None, "program": "register_hook changes a tensor from outside"},
    # As in torch: checkpoint runs the code twice on one argument.
    instead={"checkpoint around": _cube_with_two_hooks, "reentrant": _cube_with_two_hooks},
)
def tensor_hook_of_an_argument(t, square):
    t.register_hook(_double)
    return square(t) * t


OF_NODE = {
    "after": read_events,
    "effects": NO_TAPE,
    "instead": dict.fromkeys(["jax", "records nothing", "forward"], _cube),
    "refuses": BODY,
}


@row(**OF_NODE)
def tensor_hook_where_grad_is_required(t, square):
    y = square(t)
    if y.requires_grad:
        y.register_hook(_double)
    return y * t


@row(**OF_NODE)
def node_hook(t, square):
    y = square(t) * t
    if y.grad_fn is not None:
        y.grad_fn.register_hook(lambda given, _: tuple(None if g is None else _double(g) for g in given))
    return y


@row(**OF_NODE)
def node_prehook(t, square):
    y = square(t) * t
    if y.grad_fn is not None:
        y.grad_fn.register_prehook(lambda given: tuple(map(_double, given)))
    return y


@row(after=read_events, effects=WHILE_TRACED, refuses={"oplib vmap": "registered inside vmap"} | REFUSED)
def multi_grad_hook(t, square):
    y = square(t)
    register_multi_grad_hook([y], lambda grads: journal.append("all"))
    return y * t


@row(refuses=BODY)
def removed_hook(t, square):
    y = square(t) * t
    if y.requires_grad:
        y.register_hook(_double).remove()
    return y


@row(refuses=INNER | VMAP)
def retained_gradient(t, square):
    x = t.detach().requires_grad_()
    y = square(x)
    y.retain_grad()
    (y * y).sum().backward()
    return y.grad * t + x.grad * t


@row(refuses=REFUSED)
def retain_grad(t, square):
    y = square(t)
    y.retain_grad()
    return y * t


@row(after=read_events, effects=WHILE_TRACED, refuses=INNER)
def hooks_of_a_pass_inside(t, square):
    x = t.detach().requires_grad_()
    x.register_hook(_double)
    y = square(x)
    y.register_hook(_double)
    y.grad_fn.register_hook(lambda given, _: tuple(None if g is None else _double(g) for g in given))
    (gradient,) = grad(y.sum(), x)
    return gradient * t


@row(after=read_events, effects=WHILE_TRACED, refuses=INNER | VMAP)
def hook_after_accumulation_inside(t, square):
    x = t.detach().requires_grad_()
    x.register_post_accumulate_grad_hook(lambda leaf: journal.append("accumulated"))
    square(x).sum().backward()
    square(x).sum().backward()
    return x.grad * t


@row()
def version_read(t, square):
    y = square(t)
    start = y._version
    y.mul_(3)
    y.detach().mul_(2)
    return y * t * (y._version - start)


@row()
def version_of_a_view(t, square):
    y = square(t).clone()
    view = y[:1]
    view.mul_(3)
    return y * t * (y._version + view._version)


@row()
def version_after_data(t, square):
    y = square(t).clone()
    y.data.mul_(3)
    return y * t * (y._version + 1)
