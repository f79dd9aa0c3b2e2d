"""The class Node."""

import gc
import inspect
import re

import pytest

import oplib
from oplib.autograd.nodes.accumulate import AccumulateGrad, gradient_edge
from oplib.autograd.nodes.locations import record_locations
from oplib.autograd.nodes.node import Node, TapeNode, builtin_nodes
from oplib.errors import AutogradError, GradientTypeError
from tests.autograd.functions import Double


@pytest.mark.spec("000.2")
def test_node_cannot_be_made_and_names_what_is_abstract():
    with pytest.raises(
        TypeError, match=r"abstract.*metadata.*next_functions.*register_hook.*register_prehook"
    ):
        Node()


@pytest.mark.spec("000.2")
def test_every_kind_of_node_is_an_instance(x):
    for node in ((x * 2).grad_fn, gradient_edge(x)[0], Double.apply(x).grad_fn):
        assert isinstance(node, Node)


@pytest.mark.spec("000.2")
def test_other_things_are_no_nodes(x):
    assert not isinstance(x, Node)
    assert not isinstance(3, Node)
    assert not issubclass(int, Node)
    assert not issubclass(Double, Node)


@pytest.mark.spec("000.2")
def test_a_class_registered_under_its_own_name_counts_without_inheriting(monkeypatch):
    class LonelyBackward0:
        pass

    assert not issubclass(LonelyBackward0, Node)
    monkeypatch.setitem(builtin_nodes, "LonelyBackward1", LonelyBackward0)
    assert not issubclass(type("LonelyBackward1", (), {}), Node)
    found = type("LonelyBackward2", (), {})
    monkeypatch.setitem(builtin_nodes, "LonelyBackward2", found)
    assert issubclass(found, Node)


@pytest.mark.spec("000.2")
def test_builtin_nodes_are_no_instances_of_a_handwritten_subclass(x):
    class Sub(Node):
        pass

    assert issubclass(Sub, Node)
    assert not isinstance((x * 2).grad_fn, Sub)
    assert not isinstance(gradient_edge(x)[0], Sub)


@pytest.mark.spec("000.3", "D.1")
def test_names_and_repr(x):
    node, accumulator = (x * 2).grad_fn, gradient_edge(x)[0]
    assert node.name() == "MulBackward0"
    assert accumulator.name() == "oplib::autograd::AccumulateGrad"
    assert type(accumulator) is AccumulateGrad
    assert type(accumulator).__name__ == "AccumulateGrad"


def test_the_text_of_a_node_tells_its_op_and_line_and_no_address(x):
    node = (x * 2).grad_fn
    line = inspect.currentframe().f_lineno - 1
    assert repr(node) == f"<MulBackward0 of oplib::mul.Scalar at test_node.py:{line}>"
    assert repr(gradient_edge(x)[0]) == "<AccumulateGrad of a leaf f32[2]>"
    with record_locations(False):
        assert repr((x * 2).grad_fn) == "<MulBackward0 of oplib::mul.Scalar>"


def test_the_text_of_a_node_of_a_function_names_its_class(x):
    class Twice(oplib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    assert re.fullmatch(r"<TwiceBackward at test_node.py:\d+>", repr(Twice.apply(x).grad_fn))


@pytest.mark.spec("000.4")
def test_next_functions_are_pairs(x):
    constant = oplib.tensor([1.0, 1.0])
    node = (x * constant).grad_fn
    assert node.next_functions == ((gradient_edge(x)[0], 0), (None, 0))
    assert gradient_edge(x)[0].next_functions == ()


@pytest.mark.spec("000.5")
def test_metadata_is_one_dictionary_for_each_node(x):
    node = (x * 2).grad_fn
    assert node.metadata == {}
    node.metadata["note"] = 1
    assert node.metadata == {"note": 1}
    assert (x * 2).grad_fn.metadata == {}
    with pytest.raises(TypeError, match="not callable"):
        node.metadata()


@pytest.mark.spec("000.5")
def test_an_accumulator_nobody_holds_is_rebuilt_empty():
    leaf = oplib.tensor([1.0], requires_grad=True)
    gradient_edge(leaf)[0].metadata["note"] = 1
    gc.collect()
    assert gradient_edge(leaf)[0].metadata == {}


@pytest.mark.spec("000.9")
def test_sequence_numbers_count_recorded_operations(x):
    first, second = (x * 2).grad_fn, (x * 3).grad_fn
    assert second._sequence_nr() == first._sequence_nr() + 1
    assert gradient_edge(x)[0]._sequence_nr() == 2**64 - 1


@pytest.mark.spec("000.9")
def test_input_metadata_has_shape_and_dtype_of_each_slot(x):
    for node in ((x * 2).grad_fn, gradient_edge(x)[0], Double.apply(x).grad_fn):
        (metadata,) = node._input_metadata
        assert metadata.shape == (2,)
        assert metadata.dtype == x.array.dtype
        assert node.requires_grad


@pytest.mark.spec("000.6", "D.10")
def test_registering_a_hook_dictionary_checks_its_tensor(x):
    node = (x * 2).grad_fn
    with pytest.raises(GradientTypeError, match="Got int"):
        node._register_hook_dict(3)
    with pytest.raises(AutogradError, match="_backward_hooks is None"):
        node._register_hook_dict(oplib.tensor([1.0]))


def test_a_node_without_apply_says_so():
    class Nothing(TapeNode):
        pass

    with pytest.raises(NotImplementedError):
        Nothing().apply([None], None)
