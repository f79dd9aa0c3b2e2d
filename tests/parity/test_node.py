"""Nodes, edges and versions: the same programs on torch and oplib."""

import pytest

from .programs import Programs, get_edge, leaf

PROGRAMS = Programs()


@PROGRAMS.add
@pytest.mark.spec("000.2")
def node_is_abstract(lib):
    lib.autograd.graph.Node()


@PROGRAMS.add
@pytest.mark.spec("000.2")
def kinds_of_nodes(lib):
    Node = lib.autograd.graph.Node
    x = leaf(lib, 1)

    class Sub(Node):
        pass

    nodes = [(x * 2).grad_fn, x.exp().grad_fn, get_edge(lib, x).node]
    return (
        [isinstance(node, Node) for node in nodes],
        [isinstance(node, Sub) for node in nodes],
        isinstance(x, Node),
        issubclass(int, Node),
        issubclass(Sub, Node),
    )


@PROGRAMS.add
@pytest.mark.spec("000.3", "D.1")
def names_of_nodes(lib):
    x = leaf(lib, 1)
    y = (x * 2).exp()
    accumulator = get_edge(lib, x).node
    return (
        y.grad_fn,
        y.grad_fn.next_functions,
        accumulator,
        type(accumulator).__name__,
        accumulator.next_functions,
    )


@PROGRAMS.add
@pytest.mark.spec("000.4")
def next_functions_of_constants(lib):
    return (leaf(lib, 1) * lib.ones(1)).grad_fn.next_functions


@PROGRAMS.add
@pytest.mark.spec("000.5")
def metadata(lib):
    node = (leaf(lib, 1) * 2).grad_fn
    node.metadata["key"] = 1
    return node.metadata, node.metadata is node.metadata


@PROGRAMS.add
@pytest.mark.spec("000.5")
def metadata_is_not_called(lib):
    (leaf(lib, 1) * 2).grad_fn.metadata()


@PROGRAMS.add
@pytest.mark.spec("000.9")
def sequence_numbers(lib):
    x = leaf(lib, 1)
    first, second = (x * 2).grad_fn, (x * 3).grad_fn
    return second._sequence_nr() - first._sequence_nr(), get_edge(lib, x).node._sequence_nr()


@PROGRAMS.add
@pytest.mark.spec("000.9")
def input_metadata(lib):
    (one,) = (leaf(lib, 1, 2) * 2).grad_fn._input_metadata
    return list(one.shape)


@PROGRAMS.add
@pytest.mark.spec("000.6")
def hook_dictionary_of_no_tensor(lib):
    (leaf(lib, 1) * 2).grad_fn._register_hook_dict(3)


@PROGRAMS.add
@pytest.mark.spec("000.11", "000.12")
def edges(lib):
    x = leaf(lib, 1)
    y = x * 2
    return (
        get_edge(lib, y).output_nr,
        get_edge(lib, y).node is y.grad_fn,
        get_edge(lib, x) == get_edge(lib, x),
        get_edge(lib, x).node.variable is x,
    )


@PROGRAMS.add
@pytest.mark.spec("000.12")
def edge_of_a_constant(lib):
    get_edge(lib, lib.ones(1))


@PROGRAMS.add
@pytest.mark.spec("000.13")
def versions(lib):
    x = lib.ones(1)
    alias = x.detach()
    lib.autograd.graph.increment_version(x)
    lib.autograd.graph.increment_version([x, alias])
    return x._version, alias._version


@PROGRAMS.add
@pytest.mark.spec("000.13")
def versions_of_a_number(lib):
    lib.autograd.graph.increment_version(3)


@PROGRAMS.add
@pytest.mark.spec("000.13")
def versions_of_numbers(lib):
    lib.autograd.graph.increment_version([3])


@PROGRAMS.add
@pytest.mark.spec("000.13")
def version_of_something_saved(lib):
    x = leaf(lib, 1)
    y = x * x
    lib.autograd.graph.increment_version(x)
    y.backward(lib.ones(1))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_it_does_on_torch(assert_agrees, name):
    assert_agrees(PROGRAMS[name])
