"""``grad``, alone and batched: the same programs on torch and oplib."""

from collections import OrderedDict

import pytest

from .programs import Programs, leaf

PROGRAMS = Programs()


@PROGRAMS.add
@pytest.mark.spec("001.8")
def grad_stores_nothing(lib):
    a = leaf(lib, 1, 2)
    found = lib.autograd.grad((a * a).sum(), a)
    return found, found[0].requires_grad, a.grad


@PROGRAMS.add
@pytest.mark.spec("001.8")
def grad_materialize_contradiction(lib):
    a = leaf(lib, 1, 2)
    lib.autograd.grad((a * a).sum(), a, allow_unused=False, materialize_grads=True)


@PROGRAMS.add
@pytest.mark.spec("001.8", "004.13")
def grad_unused(lib):
    a, b = leaf(lib, 1, 2), leaf(lib, 3)
    lib.autograd.grad((a * a).sum(), [a, b])


@PROGRAMS.add
@pytest.mark.spec("001.8")
def grad_unused_allowed(lib):
    a, b = leaf(lib, 1, 2), leaf(lib, 3)
    return lib.autograd.grad((a * a).sum(), [a, b], allow_unused=True)


@PROGRAMS.add
@pytest.mark.spec("001.8", "D.6")
def grad_materialized(lib):
    a, b = leaf(lib, 1, 2), leaf(lib, 3)
    loss = (a * a).sum()
    plain = lib.autograd.grad(loss, [a, b], materialize_grads=True, retain_graph=True)
    linked = lib.autograd.grad(loss, [a, b], materialize_grads=True, create_graph=True)
    return plain, plain[1].requires_grad, linked[1].requires_grad


@PROGRAMS.add
@pytest.mark.spec("001.8")
def grad_materialized_edge(lib):
    a, b = leaf(lib, 1, 2), leaf(lib, 3)
    edge = lib.autograd.graph.get_gradient_edge(b)
    lib.autograd.grad((a * a).sum(), [a, edge], materialize_grads=True)


@PROGRAMS.add
@pytest.mark.spec("001.8")
def grad_without_requires_grad(lib):
    a = leaf(lib, 1, 2)
    lib.autograd.grad((a * a).sum(), lib.ones(2), allow_unused=True)


@PROGRAMS.add
@pytest.mark.spec("001.8")
def grad_under_no_grad(lib):
    a = leaf(lib, 1, 2)
    loss = (a * a * a).sum()
    with lib.no_grad():
        (first,) = lib.autograd.grad(loss, a, create_graph=True)
    return first, first.requires_grad, lib.autograd.grad(first.sum(), a)


@PROGRAMS.add
@pytest.mark.spec("001.8")
def grad_repeated(lib):
    a = leaf(lib, 1, 2)
    loss = (a * a).sum()
    return lib.autograd.grad([loss, loss], [a, a])


@PROGRAMS.add
@pytest.mark.spec("001.8")
def grad_of_itself(lib):
    a = leaf(lib, 1, 2)
    loss = (a * a).sum()
    return lib.autograd.grad(loss, loss), lib.autograd.grad(a, a, lib.tensor([5.0, 6.0]))


@PROGRAMS.add
@pytest.mark.spec("001.8")
def grad_casts(lib):
    a = leaf(lib, 1, 2)
    (found,) = lib.autograd.grad(a * 2, a, lib.tensor([1, 2], dtype=lib.int32))
    return found, str(found.dtype).rpartition(".")[2]


@PROGRAMS.add
@pytest.mark.spec("001.8", "D.11")
def grad_empty_inputs(lib):
    lib.autograd.grad(leaf(lib, 1, 2).sum(), [])


@PROGRAMS.add
@pytest.mark.spec("001.8")
def grad_empty_outputs(lib):
    lib.autograd.grad([], leaf(lib, 1))


@PROGRAMS.add
@pytest.mark.spec("001.8")
def grad_empty_outputs_allowed(lib):
    return lib.autograd.grad([], leaf(lib, 1), allow_unused=True)


@PROGRAMS.add
@pytest.mark.spec("001.8", "D.11")
def grad_dictionary(lib):
    a, b = leaf(lib, 1, 2), leaf(lib, 3, 4)
    return lib.autograd.grad((a * b).sum(), {"b": b, "a": a})


@PROGRAMS.add
@pytest.mark.spec("001.8")
def grad_ordered_dictionary(lib):
    a = leaf(lib, 1, 2)
    return lib.autograd.grad((a * a).sum(), OrderedDict(a=a))


@PROGRAMS.add
@pytest.mark.spec("001.8")
def grad_only_inputs(lib):
    a = leaf(lib, 1, 2)
    return lib.autograd.grad((a * a).sum(), a, only_inputs=False)


@PROGRAMS.add
@pytest.mark.spec("001.8", "D.11")
def grad_edges(lib):
    a = leaf(lib, 1, 2)
    b = a * a
    edge = lib.autograd.graph.get_gradient_edge
    first = lib.autograd.grad((b * 2).sum(), [edge(a), edge(b)], retain_graph=True)
    return first, lib.autograd.grad(edge(b), a, lib.ones(2))


@PROGRAMS.add
@pytest.mark.spec("004.12")
def grad_an_edge_of_none(lib):
    b = leaf(lib, 1, 2) * 2
    lib.autograd.grad(b.sum(), lib.autograd.graph.GradientEdge(None, 0))


@PROGRAMS.add
@pytest.mark.spec("004.12")
def grad_an_edge_with_a_string(lib):
    b = leaf(lib, 1, 2) * 2
    lib.autograd.grad(b.sum(), lib.autograd.graph.GradientEdge(b.grad_fn, "x"))


@PROGRAMS.add
@pytest.mark.spec("004.12")
def grad_by_a_number(lib):
    lib.autograd.grad(leaf(lib, 1).sum(), (3,))


@PROGRAMS.add
@pytest.mark.spec("001.5")
def grad_with_a_number_as_gradient(lib):
    a = leaf(lib, 1, 2)
    lib.autograd.grad(a * 2, a, 3)


@PROGRAMS.add
def grad_higher_orders(lib):
    a = leaf(lib, 1, 2)
    y = (a * a * a * a).sum()
    found = []
    for _ in range(4):
        (g,) = lib.autograd.grad(y, a, create_graph=True)
        found.append(g.tolist())
        y = g.sum()
    return found


# Batched gradients


@PROGRAMS.add
@pytest.mark.spec("001.9")
def batched_identity(lib):
    a = leaf(lib, 1, 2)
    return lib.autograd.grad(2 * a, a, lib.eye(2), is_grads_batched=True)


@PROGRAMS.add
@pytest.mark.spec("001.9")
def batched_scalar(lib):
    a = leaf(lib, 1, 2)
    return lib.autograd.grad((a * a).sum(), a, lib.ones(3), is_grads_batched=True)


@PROGRAMS.add
@pytest.mark.spec("001.9")
def batched_unused(lib):
    a, b = leaf(lib, 1, 2), leaf(lib, 3)
    options = {"is_grads_batched": True, "retain_graph": True}
    y = a * a
    first = lib.autograd.grad(y, [a, b], lib.eye(2), allow_unused=True, **options)
    return first, lib.autograd.grad(y, [a, b], lib.eye(2), materialize_grads=True, **options)


@PROGRAMS.add
@pytest.mark.spec("001.9")
def batched_sizes_differ(lib):
    a = leaf(lib, 1, 2)
    lib.autograd.grad([a * 2, a * 3], a, [lib.ones(3, 2), lib.ones(2, 2)], is_grads_batched=True)


@PROGRAMS.add
@pytest.mark.spec("001.9")
def batched_implicit(lib):
    a = leaf(lib, 1, 2)
    lib.autograd.grad((a * a).sum(), a, is_grads_batched=True)


@PROGRAMS.add
@pytest.mark.spec("001.9")
def batched_differentiable(lib):
    a = leaf(lib, 1, 2)
    (jacobian,) = lib.autograd.grad(a * a * a, a, lib.eye(2), is_grads_batched=True, create_graph=True)
    return jacobian, lib.autograd.grad(jacobian.sum(), a)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_it_does_on_torch(assert_agrees, name):
    assert_agrees(PROGRAMS[name])
