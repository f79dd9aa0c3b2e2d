"""Functions at the corners: views without history, marks that meet, views in ``jvp``, recorded refusals."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import oplib

from .programs import make_function

pytest.importorskip("torch")

FORWARDS = {
    "view": lambda ctx, x: x.view(4),
    "input": lambda ctx, x: x,
    "marked view": lambda ctx, x: mark(ctx, x.view(4)),
    "marked input": lambda ctx, x: mark(ctx, x),
}
JVPS = {
    "the same view": lambda ctx, t: t.view(4),
    "a copy": lambda ctx, t: t.view(4) * 1,
    "another view": lambda ctx, t: (t * 1).view(4),
    "the tangent": lambda ctx, t: t,
    "a view of it": lambda ctx, t: t.view_as(t),
    "a product": lambda ctx, t: t * 1,
}


def mark(ctx: Any, result: Any) -> Any:
    ctx.mark_non_differentiable(result)
    return result


def make_inputs(lib: Any) -> dict[str, Any]:
    leaf = lib.ones(2, 2, requires_grad=True)
    return {"leaf": leaf, "result": leaf * 1, "constant": lib.ones(2, 2)}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("kind", ["leaf", "result", "constant"])
@pytest.mark.parametrize("forward", FORWARDS)
@pytest.mark.parametrize("write", [False, True])
def test_a_view_that_a_function_returns_is_written_where_torch_writes_it(
    assert_agrees, forward, kind, grad, write
):
    def program(lib):
        given = make_inputs(lib)[kind]
        function = make_function(lib, FORWARDS[forward], lambda ctx, grad: grad.view(2, 2))
        with lib.set_grad_enabled(grad):
            y = function.apply(given)
        if write:
            y.add_(1)
        return y, given, y.requires_grad, y.is_leaf, y._is_view(), y._base is given

    assert_agrees(program)


@pytest.mark.parametrize("kind", ["leaf", "result", "constant"])
def test_an_input_may_be_written_and_have_no_gradient(assert_agrees, kind):
    def forward(ctx, x, w):
        x.add_(1)
        ctx.mark_dirty(x)
        return mark(ctx, x), w * 2

    def program(lib):
        x, w = make_inputs(lib)[kind], lib.ones(2, requires_grad=True)
        y, z = make_function(lib, forward, lambda ctx, g, h: (None, h * 2)).apply(x, w)
        z.sum().backward()
        return y, x, y is x, y.requires_grad, x.requires_grad, x.is_leaf, w.grad, y._version

    assert_agrees(program)


@pytest.mark.parametrize("jvp", JVPS)
@pytest.mark.parametrize("forward", ["view", "input", "product"])
@pytest.mark.parametrize("grad", [False, True])
def test_the_tangent_of_a_view_must_be_the_view_of_the_tangent(assert_agrees, forward, jvp, grad):
    forwards = {**FORWARDS, "product": lambda ctx, x: x * 2}

    def program(lib):
        forward_ad = importlib.import_module(f"{lib.__name__}.autograd.forward_ad")
        x = lib.ones(2, 2, requires_grad=grad)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, lib.ones(2, 2) * 3)
            function = make_function(lib, forwards[forward], lambda ctx, g: g, jvp=JVPS[jvp])
            tangent = forward_ad.unpack_dual(function.apply(dual)).tangent
            return tangent, tangent._is_view()

    # A tangent of another shape is refused by both, before or after the check of views.
    assert_agrees(program)


@pytest.mark.parametrize("way", ["in place", "a product", "a product of a leaf's", "nothing written"])
def test_the_tangent_of_a_written_input_must_be_written(assert_agrees, way):
    jvps = {
        "in place": lambda ctx, t: t.mul_(2),
        "a product": lambda ctx, t: t * 2,
        "a product of a leaf's": lambda ctx, t: t.mul_(2) * 1,
        "nothing written": lambda ctx, t: t,
    }

    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    def program(lib):
        forward_ad = importlib.import_module(f"{lib.__name__}.autograd.forward_ad")
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(lib.ones(2), lib.ones(2) * 3).clone()
            return forward_ad.unpack_dual(make_function(lib, forward, jvp=jvps[way]).apply(dual)).tangent

    assert_agrees(program)


def describe_graph(node: Any) -> str:
    """Returns a graph as a text, as torch's own tests do."""
    if node is None:
        return "None"
    return f"{type(node).__name__}({', '.join(describe_graph(other) for other, _ in node.next_functions)})"


@pytest.mark.parametrize("twice", [False, True])
def test_the_graph_of_a_backward_that_is_differentiated_once(assert_agrees, twice):
    def program(lib):
        once = importlib.import_module(f"{lib.__name__}.autograd.function").once_differentiable

        def forward(ctx, x, number, y):
            ctx.save_for_backward(x, y)
            return x + number * y + x * y

        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            return grad + grad * y, None, grad * 2 + grad * x

        x, y = (lib.ones(2, 2, requires_grad=True) for _ in range(2))
        start = lib.ones((), requires_grad=True)
        result = make_function(lib, forward, once(backward)).apply(x, 2, y)
        grads = lib.autograd.grad(result.sum(), (x, y), start, create_graph=True)
        if twice:
            grads[0].sum().backward()
        return grads, describe_graph(grads[0].grad_fn), grads[0].grad_fn is grads[1].grad_fn

    assert_agrees(program)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_gradients_of_outputs_that_have_none_need_not_be_made(assert_agrees, kept, dtype):
    def program(lib):
        seen: list[Any] = []

        def forward(ctx, x):
            ctx._materialize_non_diff_grads = kept
            places = mark(ctx, lib.ones(2, dtype=getattr(lib, dtype)))
            return x * 2, x * 3, places

        def backward(ctx, *grads):
            seen.extend(grad is None for grad in grads)
            return grads[0]

        x = lib.ones(2, requires_grad=True)
        make_function(lib, forward, backward).apply(x)[0].sum().backward()
        return seen, x.grad

    assert_agrees(program)


def test_views_keep_the_version_of_a_tensor_that_gets_other_data(assert_agrees):
    def program(lib):
        x = lib.ones(3)
        view, other, seen = x[0:1], lib.zeros(3), []
        for write in (
            lambda: x.add_(1),
            lambda: setattr(x, "data", other),
            lambda: x.add_(1),
            lambda: view.add_(1),
            lambda: setattr(x, "data", lib.ones(3)),
            lambda: x.mul_(2),
        ):
            write()
            seen.append((x._version, view._version, x, view))
        return seen, other, other._version

    assert_agrees(program)


def test_what_a_node_lists_can_be_read(assert_agrees):
    """The traversal is that of torchviz's ``make_dot(show_attrs=True, show_saved=True)``."""

    def program(lib):
        x, w = lib.ones(2, 3, requires_grad=True), lib.ones(3, 2, requires_grad=True)
        joined = lib.cat([(x @ w).relu()[0:1], lib.ones(1, 2)])
        y = lib.nn.functional.softmax(joined, -1).var() * x.topk(2)[0].sum()
        found, seen = [], set()

        def walk(node):
            if node in seen:
                return
            seen.add(node)
            for name in dir(node):
                value = getattr(node, name)
                if name.startswith("_saved_") and isinstance(value, lib.Tensor):
                    assert value.shape is not None
            if hasattr(node, "variable"):
                found.append(tuple(node.variable.size()))
            for other, _ in node.next_functions:
                if other is not None:
                    walk(other)
            for tensor in getattr(node, "saved_tensors", ()):
                assert isinstance(tensor, lib.Tensor)

        walk(y.grad_fn)
        return found

    assert_agrees(program)


@pytest.mark.parametrize("ways", ["grad", "backward", "compiled"])
def test_a_gradient_that_goes_through_unchanged_leads_back_to_its_root(assert_agrees, ways):
    def program(lib):
        straight = make_function(lib, lambda ctx, x: x.round(), lambda ctx, g: g)
        x, root = lib.tensor([0.6, 1.7], requires_grad=True), lib.tensor([2.0, 3.0], requires_grad=True)
        function = oplib.jit(straight.apply) if ways == "compiled" and lib is oplib else straight.apply
        if ways == "compiled":
            (first,) = lib.autograd.grad((function(x) ** 3).sum(), x, create_graph=True)
            return first.requires_grad, lib.autograd.grad((first**2).sum(), x)
        if ways == "grad":
            (first,) = lib.autograd.grad(function(x), x, root, create_graph=True)
        else:
            function(x).backward(root, create_graph=True)
            first = x.grad
        return first.requires_grad, lib.autograd.grad((first**2).sum(), root)

    assert_agrees(program)
