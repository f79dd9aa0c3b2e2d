"""``backward``: the same programs on torch and oplib."""

from collections import OrderedDict

import pytest

from .programs import Programs, leaf

PROGRAMS = Programs()


def grads(*tensors):
    return [tensor.grad for tensor in tensors]


@PROGRAMS.add
@pytest.mark.spec("001.7", "E.7")
def backward_adds_up(lib):
    a = leaf(lib, 1, 2)
    (a * a).sum().backward()
    first, version = a.grad, a.grad._version
    (a * a).sum().backward()
    return a.grad, first is a.grad, a.grad._version - version


@PROGRAMS.add
@pytest.mark.spec("001.7")
def backward_twice(lib):
    a = leaf(lib, 1, 2)
    loss = (a * a).sum()
    loss.backward()
    loss.backward()


@PROGRAMS.add
@pytest.mark.spec("001.7")
def backward_of_a_list(lib):
    a = leaf(lib, 1, 2)
    loss = (a * a).sum()
    lib.autograd.backward([loss, 2 * loss], retain_graph=True)
    first = a.grad.tolist()
    lib.autograd.backward([loss, 2 * loss], [None, lib.tensor(5.0)])
    return first, a.grad


@PROGRAMS.add
@pytest.mark.spec("001.7")
def backward_of_nothing(lib):
    return lib.autograd.backward([])


@PROGRAMS.add
@pytest.mark.spec("001.7", "004.10")
def backward_counts_differ(lib):
    a = leaf(lib, 1, 2)
    loss = (a * a).sum()
    lib.autograd.backward([loss, 2 * loss], [None])


@PROGRAMS.add
@pytest.mark.spec("001.5")
def backward_longer_gradients_are_cut(lib):
    a = leaf(lib, 1, 2)
    lib.autograd.backward([(a * a).sum()], [None, None])
    return a.grad


@PROGRAMS.add
@pytest.mark.spec("004.11")
def backward_outside_the_graph(lib):
    lib.ones(1).sum().backward()


@PROGRAMS.add
@pytest.mark.spec("001.7")
def backward_of_a_number(lib):
    lib.autograd.backward(3)


@PROGRAMS.add
@pytest.mark.spec("001.7")
def backward_grad_variables(lib):
    a = leaf(lib, 1, 2)
    lib.autograd.backward(a * a, grad_variables=lib.ones(2))
    return a.grad


@PROGRAMS.add
@pytest.mark.spec("001.7")
def backward_both_names(lib):
    a = leaf(lib, 1, 2)
    lib.autograd.backward(a * a, lib.ones(2), grad_variables=lib.ones(2))


@PROGRAMS.add
@pytest.mark.spec("001.7")
def backward_inputs(lib):
    a, b = leaf(lib, 1, 2), leaf(lib, 3, 4)
    c = a * b
    c.sum().backward(inputs=[a, a])
    return grads(a, b), c.retains_grad


@PROGRAMS.add
@pytest.mark.spec("001.7")
def backward_non_leaf_input(lib):
    a = leaf(lib, 1, 2)
    b = a * 2
    (b * b).sum().backward(inputs=[b])
    return grads(a), b.grad, b.retains_grad


@PROGRAMS.add
@pytest.mark.spec("001.7")
def backward_unreachable_input(lib):
    a, b = leaf(lib, 1, 2), leaf(lib, 3, 4)
    (a * a).sum().backward(inputs=[a, b])
    return grads(a, b)


@PROGRAMS.add
@pytest.mark.spec("001.7")
def backward_zero_dimensional_input(lib):
    a = lib.tensor(2.0, requires_grad=True)
    (a * a).backward(inputs=a)
    return a.grad


@PROGRAMS.add
@pytest.mark.spec("001.7")
def backward_empty_inputs(lib):
    a = leaf(lib, 1, 2)
    lib.autograd.backward((a * a).sum(), inputs=[])


@PROGRAMS.add
@pytest.mark.spec("001.7", "D.11")
def backward_dictionary_of_inputs(lib):
    a, b = leaf(lib, 1, 2), leaf(lib, 3, 4)
    lib.autograd.backward((a * b).sum(), inputs={"a": a})
    return grads(a, b)


@PROGRAMS.add
@pytest.mark.spec("001.7")
def backward_ordered_dictionary_of_inputs(lib):
    a = leaf(lib, 1, 2)
    lib.autograd.backward((a * a).sum(), inputs=OrderedDict(a=a))


@PROGRAMS.add
@pytest.mark.spec("001.7")
def backward_input_without_grad(lib):
    a = leaf(lib, 1, 2)
    lib.autograd.backward((a * a).sum(), inputs=lib.ones(2))


@PROGRAMS.add
@pytest.mark.spec("001.7", "D.11")
def backward_of_an_edge(lib):
    a = leaf(lib, 1, 2)
    edge = lib.autograd.graph.get_gradient_edge((a * a).sum())
    lib.autograd.backward(edge)
    return a.grad


@PROGRAMS.add
@pytest.mark.spec("001.7")
def backward_into_edges(lib):
    a = leaf(lib, 1, 2)
    b = a * 2
    edge = lib.autograd.graph.get_gradient_edge
    (b * b).sum().backward(inputs=[edge(a), edge(b)])
    return a.grad


@PROGRAMS.add
@pytest.mark.spec("001.7")
def backward_frees_despite_create_graph(lib):
    a = leaf(lib, 1, 2)
    loss = (a * a).sum()
    loss.backward(retain_graph=False, create_graph=True)
    loss.backward()


@PROGRAMS.add
@pytest.mark.spec("001.5")
def backward_vector_without_gradient(lib):
    (leaf(lib, 1, 2) * 2).backward()


@PROGRAMS.add
@pytest.mark.spec("E.7")
def backward_on_a_leaf(lib):
    a = leaf(lib, 1, 2)
    given = lib.tensor([3.0, 4.0])
    a.backward(given)
    a.backward(given)
    return a.grad, given, a.grad is given


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_it_does_on_torch(assert_agrees, name):
    assert_agrees(PROGRAMS[name])
