"""``backward`` and ``grad``: the same programs on torch and oplib."""

from collections import OrderedDict

import pytest

from .programs import Programs, leaf

PROGRAMS = Programs()


def grads(*tensors):
    return [tensor.grad for tensor in tensors]


# The gradients a pass starts with


def seeds(lib, shape, given, *, dtype=None, batched=False):
    output = lib.ones(shape).requires_grad_() * 1.0
    gradient = None if given is None else lib.ones(given, dtype=dtype) if isinstance(given, tuple) else given
    return lib.autograd._make_grads((output,), (gradient,), batched)


SEEDS = {
    "equal shapes": ((2,), (2,)),
    "no broadcasting": ((2,), (1, 2)),
    "other shape": ((2,), (3,)),
    "implicit scalar": ((), None),
    "implicit one by one": ((1, 1), None),
    "implicit vector": ((2,), None),
    "implicit empty": ((0,), None),
    "a number": ((2,), 3),
    "zero-dimensional": ((), ()),
}
BATCHED = {
    "batch": ((2,), (5, 2)),
    "wrong rest": ((2,), (5, 3)),
    "no rest": ((2,), (2,)),
    "scalar output": ((), (3,)),
    "no batch dimension": ((2,), ()),
    "empty batch": ((2,), (0, 2)),
}


@pytest.mark.spec("001.5")
@pytest.mark.parametrize("case", SEEDS)
def test_seeds_are_those_of_torch(agree, case):
    agree(lambda lib: seeds(lib, *SEEDS[case]))


@pytest.mark.spec("001.5")
@pytest.mark.parametrize("case", BATCHED)
def test_batched_seeds_are_those_of_torch(agree, case):
    agree(lambda lib: seeds(lib, *BATCHED[case], batched=True))


@pytest.mark.spec("001.5")
@pytest.mark.parametrize("dtype", ["complex64", "int32", "float32"])
def test_a_seed_of_each_dtype_is_taken_as_by_torch(agree, dtype):
    agree(lambda lib: len(seeds(lib, (2,), (2,), dtype=getattr(lib, dtype))))


@pytest.mark.spec("001.6")
def test_gradients_become_a_tuple_as_in_torch(agree):
    agree(lambda lib: lib.autograd._tensor_or_tensors_to_tuple(None, 2))
    agree(lambda lib: lib.autograd._tensor_or_tensors_to_tuple(lib.ones(1), 5))
    agree(lambda lib: lib.autograd._tensor_or_tensors_to_tuple([lib.ones(1), None], 7))
    agree(lambda lib: lib.autograd._tensor_or_tensors_to_tuple(3, 1))


@pytest.mark.spec("001.4")
def test_shapes_of_gradients_are_read_as_in_torch(agree):
    agree(
        lambda lib: tuple(map(tuple, lib.autograd._calculate_shape(lib.ones(2, 3), lib.ones(4, 2, 3), True)))
    )
    agree(
        lambda lib: tuple(map(tuple, lib.autograd._calculate_shape(lib.ones(2, 3), lib.ones(4, 2, 3), False)))
    )


# backward


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


# grad


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


# Names kept for parity


@PROGRAMS.add
@pytest.mark.spec("001.11")
def variable_refuses(lib):
    lib.autograd.variable([1.0])


@PROGRAMS.add
@pytest.mark.spec("001.2", "001.11")
def variable_is_every_tensor(lib):
    Variable = lib.autograd.Variable
    marked = Variable(lib.ones(1), requires_grad=True)
    return isinstance(lib.ones(1), Variable), marked.requires_grad, lib.autograd.variable.Variable is Variable


@PROGRAMS.add
@pytest.mark.spec("001.10", "004.15")
def checkpoint_validity(lib):
    a = leaf(lib, 1)
    seen = [lib.autograd._is_checkpoint_valid()]

    def build():
        b = a * 2
        b.register_hook(lambda g: seen.append(lib.autograd._is_checkpoint_valid()))
        return b.sum()

    build().backward()
    build().backward(inputs=[a])
    lib.autograd.grad(build(), a)
    return seen


@PROGRAMS.add
@pytest.mark.spec("001.15", "001.16")
def flags(lib):
    with lib.autograd._force_original_view_tracking(True):
        inside = lib.autograd.is_view_replay_enabled()
    with lib.autograd.set_multithreading_enabled(False):
        threads = lib.autograd.is_multithreading_enabled()
    return inside, lib.autograd.is_view_replay_enabled(), threads, lib.autograd.is_multithreading_enabled()


@PROGRAMS.add
@pytest.mark.spec("001.14")
def a_device_class_that_is_none(lib):
    lib.autograd._register_py_tensor_class_for_device("cpu", 3)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_it_does_on_torch(agree, name):
    agree(PROGRAMS[name])


@pytest.mark.spec("001.2")
def test_every_public_name_of_torch_autograd_is_there():
    torch = pytest.importorskip("torch")
    import oplib

    later = {"enforce_grad_layout_policy"}  # ruling D.12
    assert set(torch.autograd.__all__) - later <= set(oplib.autograd.__all__)
