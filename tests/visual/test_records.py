"""Records of nodes: what other tools read of a graph."""

from __future__ import annotations

import sys

import oplib
from oplib.autograd.graph import saved_tensors_hooks
from oplib.visual import read_nodes


def test_a_record_has_op_shapes_saved_values_line_and_number():
    w = oplib.ones(2, 3, requires_grad=True)
    x = oplib.ones(2, 3)
    y, line = w * x, sys._getframe().f_lineno
    node, leaf = read_nodes(y, params={"w": w})
    assert (node.op, node.name, node.kind, node.shapes) == ("mul", "MulBackward0", "built-in", ("f32[2, 3]",))
    assert [(value.name, value.shape, value.nbytes) for value in node.saved] == [("other", "f32[2, 3]", 24)]
    assert (node.line, node.place) == (line, f"test_records.py:{line}")
    assert node.code is sys._getframe().f_code
    assert node.sequence_nr == y.grad_fn._sequence_nr()
    assert node.edges == ((1, 0), (None, 0))
    assert (leaf.op, leaf.kind, leaf.is_leaf, leaf.line) == ("w", "parameter", True, None)


def test_a_tensor_that_several_nodes_save_has_one_key():
    x = oplib.ones(5, requires_grad=True)
    _ = x.sin(), x.cos()  # the call that compiles may keep a new array of the same buffer
    first, second = [node for node in read_nodes((x.sin() * 2.0) + x.cos()) if node.op in {"sin", "cos"}]
    assert first.saved[0].key == second.saved[0].key
    (product,) = [node for node in read_nodes(x * x) if node.op == "mul"]
    assert product.nbytes == 20


def test_reading_changes_nothing_and_sees_what_hooks_have_packed():
    x = oplib.ones(5, requires_grad=True)
    y = x.exp()
    before = y.grad_fn.saved
    read_nodes(y)
    assert y.grad_fn.saved is before
    y._backward_hooks  # noqa: B018  a read of hooks makes none
    with saved_tensors_hooks(lambda tensor: tensor, lambda packed: packed):
        y = x.exp()
    assert [value.shape for value in read_nodes(y)[0].saved] == ["packed by hooks"]
    y = x.exp()
    assert y.grad_fn.saved_tensors[0].tolist() == y.tolist()
    assert read_nodes(y)[0].saved[0].nbytes == 20


def test_hooks_of_nodes_and_tensors_are_counted():
    x = oplib.ones(5, requires_grad=True)
    y = x.exp()
    y.register_hook(lambda grad: None)
    y.grad_fn.register_hook(lambda sent, received: None)
    y.grad_fn.register_prehook(lambda received: None)
    assert [node.hooks for node in read_nodes(y)] == [3, 0]


def test_a_function_of_the_user_and_a_compiled_call_show_what_they_save():
    class Square(oplib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 * ctx.saved_tensors[0]

    x = oplib.ones(4, requires_grad=True)
    node = read_nodes(Square.apply(x))[0]
    assert (node.op, node.kind, node.nbytes) == ("Square", "custom", 16)
    compiled = oplib.jit(lambda x: (x.sin() * x).exp())
    node = read_nodes(compiled(x))[0]
    assert node.nbytes >= 16
    assert node.kind == "custom" or node.op


def test_without_recorded_lines_there_is_no_place():
    x = oplib.ones(2, requires_grad=True)
    oplib.config.record_lines = False
    try:
        y = x.exp()
    finally:
        oplib.config.record_lines = True
    node = read_nodes(y)[0]
    assert (node.line, node.place, node.location) == (None, "", None)
    assert "unknown line" not in oplib.visual.graph(y.sum()).svg()
