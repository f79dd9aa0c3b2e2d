"""Saved tensors, their hooks, and writing into them: the same programs on torch and oplib."""

import pytest

from .programs import Programs, leaf

PROGRAMS = Programs()


def graph(lib):
    return lib.autograd.graph


# Saved tensors


def count_packs(lib, call):
    packed, unpacked = [], []
    a = leaf(lib, 2)
    with graph(lib).saved_tensors_hooks(
        lambda t: (packed.append((t is a, t.requires_grad, t.is_leaf)), t.detach())[1],
        lambda t: (unpacked.append(1), t)[1],
    ):
        y = call(lib, a)
    if y.requires_grad:
        y.sum().backward()
    return packed, len(unpacked), a.grad


CALLS = {
    "a*a": lambda lib, a: a * a,
    "a*constant": lambda lib, a: a * lib.tensor([5.0]),
    "a*3": lambda lib, a: a * 3,
    "3*a": lambda lib, a: 3 * a,
    "a/3": lambda lib, a: a / 3,
    "a**2": lambda lib, a: a**2,
    "a**3": lambda lib, a: a**3,
    "exp": lambda lib, a: a.exp(),
    "log": lambda lib, a: a.log(),
    "sin": lambda lib, a: a.sin(),
    "sqrt": lambda lib, a: a.sqrt(),
    "tanh": lambda lib, a: a.tanh(),
    "sigmoid": lambda lib, a: a.sigmoid(),
    "relu": lambda lib, a: a.relu(),
    "sum": lambda lib, a: a.sum(),
    "a+a": lambda lib, a: a + a,
    "a-1": lambda lib, a: a - 1,
    "no gradient": lambda lib, a: a.detach() * a.detach(),
}


@pytest.mark.spec("000.14")
@pytest.mark.parametrize("call", CALLS)
def test_ops_pack_as_torch_does(assert_agrees, call):
    assert_agrees(lambda lib: count_packs(lib, CALLS[call]))


IN_PLACE = {
    "mul_": lambda lib, y, x: y.mul_(x),
    "sin_": lambda lib, y, x: y.sin_(),
    "div_": lambda lib, y, x: y.div_(x),
    "pow_": lambda lib, y, x: y.pow_(3),
    "log_": lambda lib, y, x: y.log_(),
    "lerp_": lambda lib, y, x: y.lerp_(x * 2, x),
    "clamp_": lambda lib, y, x: y.clamp_(1.5),
    "addcmul_": lambda lib, y, x: y.addcmul_(y, x),
    "an operator": lambda lib, y, x: y.__imul__(x),
    "a view": lambda lib, y, x: y[:1].mul_(x[:1]),
    "silu": lambda lib, y, x: lib.nn.functional.silu(y, inplace=True),
    "elu": lambda lib, y, x: lib.nn.functional.elu(y, inplace=True),
    "an item": lambda lib, y, x: y.__setitem__(0, x[1] * y[0]),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_hook_may_keep_the_old_value_of_an_in_place_op(assert_agrees, name):
    def run(lib):
        x = leaf(lib, 1, 2)
        with graph(lib).saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor):
            y = x * 1
            IN_PLACE[name](lib, y, x)
        y.sum().backward()
        return y, y._version, x.grad

    assert_agrees(run)


@pytest.mark.parametrize("name", ["mul_", "sin_", "div_", "pow_", "lerp_", "a view"])
def test_an_in_place_op_below_hooks_keeps_its_tangent(assert_agrees, name):
    def run(lib):
        forward_ad = lib.autograd.forward_ad
        with forward_ad.dual_level():
            x = forward_ad.make_dual(leaf(lib, 1, 2), lib.tensor([3.0, 5.0]))
            with graph(lib).saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor):
                y = x * 1
                IN_PLACE[name](lib, y, x)
            return forward_ad.unpack_dual(y).tangent.detach()

    assert_agrees(run)


def order_of_packing(lib, inside):
    a = leaf(lib, 2)
    with graph(lib).saved_tensors_hooks(lambda t: 2 * t, lambda t: t):
        y = (a**3).sum()
        if inside:
            (first,) = lib.autograd.grad(y, a, create_graph=True)
        if inside == 2:
            first.sum().backward()
    if not inside:
        (first,) = lib.autograd.grad(y, a, create_graph=True)
    if inside < 2:
        first.sum().backward()
    return a.grad


@pytest.mark.spec("000.14")
@pytest.mark.parametrize("inside", [0, 1, 2])
def test_orders_pack_as_in_torch(assert_agrees, inside):
    assert_agrees(lambda lib: order_of_packing(lib, inside))


def hook(t):
    return t


@PROGRAMS.add
@pytest.mark.spec("000.14")
def raw_saved(lib):
    a = leaf(lib, 2)
    y = a * a
    seen = []
    y.grad_fn._raw_saved_self.register_hooks(
        lambda t: (seen.append((t is a, t.requires_grad, t.grad_fn)), 10 * t)[1], hook
    )
    saved = y.grad_fn._saved_self
    facts = saved is a, saved.requires_grad, saved.is_leaf, y.grad_fn._saved_other is a
    y.backward()
    return seen, facts, a.grad


@PROGRAMS.add
@pytest.mark.spec("000.14")
def saved_result(lib):
    a = leaf(lib, 2)
    y = a.exp()
    saved = y.grad_fn._saved_result
    return saved is y, saved, saved.grad_fn is y.grad_fn


@PROGRAMS.add
@pytest.mark.spec("000.14")
def raw_saved_twice(lib):
    y = leaf(lib, 2) * leaf(lib, 2)
    y.grad_fn._raw_saved_self.register_hooks(hook, hook)
    y.grad_fn._raw_saved_self.register_hooks(hook, hook)


@PROGRAMS.add
@pytest.mark.spec("000.14")
def raw_saved_after_default_hooks(lib):
    with graph(lib).saved_tensors_hooks(hook, hook):
        y = leaf(lib, 2) * leaf(lib, 2)
    y.grad_fn._raw_saved_self.register_hooks(hook, hook)


@PROGRAMS.add
@pytest.mark.spec("000.14")
def raw_saved_freed(lib):
    y = leaf(lib, 2) * leaf(lib, 2)
    y.backward()
    y.grad_fn._raw_saved_self.register_hooks(hook, hook)


@PROGRAMS.add
@pytest.mark.spec("000.14")
def saved_freed(lib):
    y = leaf(lib, 2) * leaf(lib, 2)
    y.backward()
    return y.grad_fn._saved_self


@PROGRAMS.add
@pytest.mark.spec("000.14")
def raw_saved_not_callable(lib):
    y = leaf(lib, 2) * leaf(lib, 2)
    y.grad_fn._raw_saved_self.register_hooks(1, 2)


@PROGRAMS.add
@pytest.mark.spec("000.14")
def second_pass_with_hooks(lib):
    with graph(lib).saved_tensors_hooks(hook, hook):
        y = leaf(lib, 2) * leaf(lib, 2)
    y.backward()
    y.backward()


def error_program(lib, pack, unpack):
    a = leaf(lib, 2)
    with graph(lib).saved_tensors_hooks(pack, unpack):
        y = (a * 1).exp()
    y.backward()


ERRORS = {
    "pack writes": (lambda t: t.detach().mul_(2), hook),
    "unpack gives a number": (hook, lambda t: 3),
    "unpack gives None": (hook, lambda t: None),
    "pack fails": (lambda t: {}[t], hook),
    "unpack fails": (hook, lambda t: {}[t]),
    "no function": (3, hook),
    "wrong arity": (lambda: 3, hook),
}


@pytest.mark.spec("000.14")
@pytest.mark.parametrize("case", ERRORS)
def test_bad_hooks_raise_as_in_torch(assert_agrees, case):
    assert_agrees(lambda lib: error_program(lib, *ERRORS[case]))


@PROGRAMS.add
@pytest.mark.spec("000.14")
def mutation_after_packing(lib):
    a = leaf(lib, 2)
    b = a * 1
    with graph(lib).saved_tensors_hooks(hook, hook):
        y = b * b
    with lib.no_grad():
        b.mul_(5)
    y.backward()
    return a.grad


@PROGRAMS.add
@pytest.mark.spec("000.16")
def disabled(lib):
    with graph(lib).disable_saved_tensors_hooks("no"), graph(lib).saved_tensors_hooks(hook, hook):
        pass


@PROGRAMS.add
@pytest.mark.spec("000.16")
def disabled_while_active(lib):
    found = []
    try:
        with graph(lib).saved_tensors_hooks(hook, hook), graph(lib).disable_saved_tensors_hooks("no"):
            pass
    except RuntimeError as error:
        found.append(str(error))
    with graph(lib).saved_tensors_hooks(hook, hook):
        found.append("enabled")
    return found


@PROGRAMS.add
@pytest.mark.spec("000.16")
def disabled_with_a_number(lib):
    with graph(lib).disable_saved_tensors_hooks(3):
        pass


@PROGRAMS.add
@pytest.mark.spec("001.13")
def pop_of_nothing(lib):
    owner = lib._C._autograd if hasattr(lib, "_C") else lib.autograd
    owner._pop_saved_tensors_default_hooks()


@PROGRAMS.add
@pytest.mark.spec("000.15")
def saved_on_cpu(lib):
    a = leaf(lib, 1, 2)
    with graph(lib).save_on_cpu(device_type="nonexistent"):
        y = a * a
        with graph(lib).save_on_cpu(pin_memory=True):
            z = y.exp()
    z.sum().backward()
    return a.grad


@PROGRAMS.add
@pytest.mark.spec("000.14")
def function_that_reads_twice(lib):
    seen = []

    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save_for_backward(x, y, None)
            return y

        @staticmethod
        def backward(ctx, grad):
            assert ctx.saved_tensors[2] is None
            return grad * 2 * ctx.saved_tensors[0]

    a = leaf(lib, 3)
    b = a * 1
    with graph(lib).saved_tensors_hooks(
        lambda t: (seen.append(("pack", t is b, t.grad_fn)), t.detach())[1],
        lambda t: (seen.append("unpack"), t)[1],
    ):
        y = Square.apply(b)
    y.backward()
    return seen, a.grad


# Writing into what was saved


def sizes(ctx):
    return len(ctx.original), len(ctx.cloned), len(ctx.tid_to_weakhandle), len(ctx.sid_to_tid)


@PROGRAMS.add
@pytest.mark.spec("000.26")
def mutation_allowed(lib):
    x = leaf(lib, 2, 2)
    with graph(lib).allow_mutation_on_saved_tensors() as ctx:
        y = x.clone()
        loss = (y**3).sum()
        found = [sizes(ctx)]
        y.add_(1)
        found.append(sizes(ctx))
        loss.backward()
        del loss
        found.append(sizes(ctx))
    found.append(sizes(ctx))
    return found, y, x.grad


@PROGRAMS.add
@pytest.mark.spec("000.27")
def mutation_not_allowed(lib):
    x = leaf(lib, 2)
    y = x.clone()
    loss = (y**3).sum()
    y.add_(1)
    loss.backward()


@PROGRAMS.add
@pytest.mark.spec("000.27")
def mutation_of_second_order(lib):
    b = leaf(lib, 2)
    with graph(lib).allow_mutation_on_saved_tensors():
        c = b.clone()
        y = c**3
        c.mul_(5)
        (first,) = lib.autograd.grad(y, b, create_graph=True)
        (second,) = lib.autograd.grad(first, b)
    return first, second


def write_a_view_twice(lib, mode, write):
    """Nothing is recorded, so nothing is saved, and the history of the view is not looked up."""
    x = leaf(lib, 1.0, 2.0)
    with mode(lib), graph(lib).saved_tensors_hooks(lambda t: t, lambda t: t):
        view = x.view(-1)
        write(view)
        write(view)
    return x.detach() * 1, view.detach() * 1, view.requires_grad


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
@pytest.mark.parametrize(
    "write",
    [
        lambda view: view.exp_(),
        lambda view: view.mul_(2),
        lambda view: view.clamp_(max=2.0),
        lambda view: view.__setitem__(0, 3.0),
        lambda view: view.copy_(view + 1),
        lambda view: view.index_fill_(0, type(view)([0]).long(), 2.0),
        lambda view: view.addcmul_(view.detach().clone(), view.detach().clone()),
    ],
)
def test_a_view_is_written_twice_where_nothing_is_recorded(assert_agrees, mode, write):
    assert_agrees(lambda lib: write_a_view_twice(lib, lambda lib: getattr(lib, mode)(), write))


@PROGRAMS.add
@pytest.mark.spec("000.24")
def mutation_outside(lib):
    a = leaf(lib, 2)
    with graph(lib).allow_mutation_on_saved_tensors():
        y = a * a
    y.backward()


@PROGRAMS.add
@pytest.mark.spec("000.27")
def mutation_nested(lib):
    with graph(lib).allow_mutation_on_saved_tensors(), graph(lib).allow_mutation_on_saved_tensors():
        pass


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_as_in_torch(assert_agrees, name):
    assert_agrees(PROGRAMS[name])
