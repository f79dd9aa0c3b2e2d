"""What hooks of nodes and tensors may change and return: the same programs on torch and oplib."""

import pytest

from .programs import Programs, get_edge, leaf

PROGRAMS = Programs()


@PROGRAMS.add
@pytest.mark.spec("E.3")
def order_of_hooks(lib):
    x = leaf(lib, 0, 0)
    log = []
    y = x * 1
    y.retain_grad()
    y.grad_fn.register_prehook(lambda grads: log.append(("pre", y.grad is not None)))
    y.register_hook(lambda g: log.append(("tensor", y.grad is not None)))
    y.grad_fn.register_hook(lambda results, grads: log.append(("post", len(grads))))
    accumulator = get_edge(lib, x).node
    accumulator.register_prehook(lambda grads: log.append("pre of leaf"))
    accumulator.register_hook(lambda results, grads: log.append(("post of leaf", results, x.grad.tolist())))
    x.register_hook(lambda g: log.append("leaf"))
    x.register_post_accumulate_grad_hook(lambda t: log.append("accumulated"))
    y.sum().backward()
    return log


@PROGRAMS.add
@pytest.mark.spec("000.7", "000.8")
def changes_by_hooks(lib):
    x = leaf(lib, 0, 0)
    y = x * 1
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
    y.grad_fn.register_prehook(lambda grads: (grads[0] + 1,))
    y.grad_fn.register_hook(lambda results, _: (results[0] * 10, *results[1:]))
    y.grad_fn.register_hook(lambda results, _: (results[0] + 5, *results[1:]))
    y.sum().backward()
    return x.grad


@PROGRAMS.add
@pytest.mark.spec("E.3")
def retained_gradients_add_up(lib):
    x = leaf(lib, 1)
    y = x * 1
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return y.grad


@PROGRAMS.add
@pytest.mark.spec("E.3")
def hook_of_a_result_that_its_own_backward_reads(lib):
    x = leaf(lib, 1)
    y = x.tanh()
    y.register_hook(lambda g: g * 10)
    (first,) = lib.autograd.grad(y.sum(), x, create_graph=True)
    return first.detach(), lib.autograd.grad(first.sum(), x)


@PROGRAMS.add
@pytest.mark.spec("E.3")
def hook_removed_while_running(lib):
    x = leaf(lib, 1)
    log = []
    y = x * 1
    y.register_hook(lambda g: second.remove())
    second = y.register_hook(lambda g: log.append("second"))
    y.sum().backward()
    return log


@PROGRAMS.add
@pytest.mark.spec("000.7")
def post_hook_added_while_running(lib):
    x = leaf(lib, 1)
    log = []
    y = x * 1
    y.grad_fn.register_prehook(
        lambda grads: y.grad_fn.register_hook(lambda results, _: log.append("added")) and None
    )
    y.sum().backward()
    return log


@PROGRAMS.add
@pytest.mark.spec("E.3", "D.9")
def captures_and_hooks(lib):
    x = leaf(lib, 1)
    b = x * 2
    b.register_hook(lambda g: g * 100)
    alone = lib.autograd.grad((b * 4).sum(), b, retain_graph=True)
    return alone, lib.autograd.grad((b * 4).sum(), [b, x])


@PROGRAMS.add
@pytest.mark.spec("E.3")
def captured_leaf(lib):
    x = leaf(lib, 1)
    log = []
    x.register_hook(lambda g: g * 3)
    x.register_post_accumulate_grad_hook(lambda t: log.append("accumulated"))
    get_edge(lib, x).node.register_prehook(lambda grads: log.append("pre"))
    return lib.autograd.grad((x * 2).sum(), x), log


RETURNS = {
    "tensor": lambda lib, grads: lib.ones(2),
    "list": lambda lib, grads: list(grads),
    "one more": lambda lib, grads: (*grads, grads[0]),
    "other size": lambda lib, grads: (lib.ones(3), *grads[1:]),
    "other type": lambda lib, grads: (lib.ones(2, dtype=lib.float16), *grads[1:]),
    "number": lambda lib, grads: (1, *grads[1:]),
    "none inside": lambda lib, grads: (None, *grads[1:]),
    "nothing": lambda lib, grads: None,
}


@pytest.mark.spec("000.7", "000.8")
@pytest.mark.parametrize("kind", ["register_hook", "register_prehook"])
@pytest.mark.parametrize("case", RETURNS)
def test_what_a_node_hook_may_return(assert_agrees, case, kind):
    def check(lib):
        x = leaf(lib, 1, 2)
        y = x * 2
        getattr(y.grad_fn, kind)(lambda grads, *_: RETURNS[case](lib, grads))
        y.sum().backward()
        return x.grad

    assert_agrees(check)


TENSOR_RETURNS = {
    "tuple": lambda lib: (),
    "number": lambda lib: 1,
    "other size": lambda lib: lib.ones(3),
    "other type": lambda lib: lib.ones(2, dtype=lib.int32),
    "right": lambda lib: lib.ones(2),
}


@pytest.mark.parametrize("case", TENSOR_RETURNS)
@pytest.mark.parametrize("on", ["leaf", "result"])
def test_what_a_tensor_hook_may_return(assert_agrees, case, on):
    def check(lib):
        x = leaf(lib, 1, 2)
        y = x * 2
        (x if on == "leaf" else y).register_hook(lambda g: TENSOR_RETURNS[case](lib))
        y.sum().backward()
        return x.grad

    assert_agrees(check)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_it_does_on_torch(assert_agrees, name):
    assert_agrees(PROGRAMS[name])
