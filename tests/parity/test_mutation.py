"""Ops that write their arguments, and tags: the same programs on torch and oplib."""

from __future__ import annotations

import pytest

from .programs import Programs
from .worlds import World

pytestmark = pytest.mark.usefixtures("forget_ops")

PROGRAMS = Programs()
FILL = "(Tensor(a!) x, float k) -> ()"
ADD = "(Tensor(a!) x, Tensor y) -> ()"
IN_PLACE = "(Tensor(a!) x, Tensor y) -> Tensor(a!)"
OUT = "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"
OUTS = "(Tensor x, *, Tensor(a!) first, Tensor(b!) second) -> (Tensor(a!), Tensor(b!))"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_it_does_on_torch(assert_agrees, name):
    assert_agrees(lambda lib: PROGRAMS[name](World(lib)))


def multiply(x, k):
    x.mul_(k)


def add(x, y):
    x.add_(y)


def add_and_return(x, y):
    return x.add_(y)


def double_into(x, *, out):
    return out.copy_(x * 2)


def in_place(world, kernel=add_and_return):
    return world.custom(IN_PLACE, kernel, writes=("x",), tags=world.lib.Tag.inplace)


def out(world, kernel=double_into):
    return world.custom(OUT, kernel, writes=("out",), tags=world.lib.Tag.out)


def outs(world, kernel):
    return world.custom(OUTS, kernel, writes=("first", "second"), tags=world.lib.Tag.out)


# Effect and version ---------------------------------------------------------------------------------------


@PROGRAMS.add
def a_write_reaches_the_caller(world):
    x = world.tensor(1, 2)
    version = x._version
    result = world.custom(FILL, multiply, writes=("x",))(x, 3.0)
    return result, x, x._version > version


@PROGRAMS.add
def a_copy_reaches_the_caller(world):
    x = world.tensor(1, 2)
    world.custom(ADD, lambda x, y: (x.copy_(y), None)[1], writes=("x",))(x, world.tensor(5, 6))
    return x


@PROGRAMS.add
def the_version_counts_though_nothing_is_written(world):
    schema = "(Tensor(a!) x, Tensor(b!)? y, Tensor(c!)[] zs) -> ()"
    op = world.custom(schema, lambda x, y, zs: None, writes=("x", "y", "zs"))
    x, y, first, second = (world.tensor(1) for _ in range(4))
    op(x, y, [first, second])
    op(x, None, [])
    return [tensor._version for tensor in (x, y, first, second)]


@PROGRAMS.add
def the_version_counts_before_the_kernel(world):
    seen = []
    op = world.custom("(Tensor(a!) x) -> ()", lambda x: seen.append(x._version), writes=("x",))
    op(world.tensor(1))
    return seen


@PROGRAMS.add
def the_version_counts_though_the_kernel_raises(world):
    def kernel(x):
        raise ValueError("kernel")

    x = world.tensor(1)
    with pytest.raises(ValueError, match="kernel"):
        world.custom("(Tensor(a!) x) -> ()", kernel, writes=("x",))(x)
    return x._version


@PROGRAMS.add
def the_version_counts_for_each_place(world):
    x = world.tensor(1)
    world.custom("(Tensor(a!)[] xs) -> ()", lambda xs: None, writes=("xs",))([x, x])
    return x._version


@PROGRAMS.add
def an_op_of_define_counts_no_version(world):
    x, y = world.tensor(1), world.tensor(1)
    world.low("(Tensor(a!) x) -> ()", lambda x: None)(x)
    world.low(ADD, lambda x, y: (x.add_(y), None)[1])(y, world.tensor(1))
    return x._version, y._version, y


@PROGRAMS.add
def an_absent_argument_is_not_written(world):
    return world.custom("(Tensor(a!)? x) -> ()", lambda x: None, writes=("x",))(None)


@PROGRAMS.add
def a_list_with_none_is_written(world):
    x = world.tensor(2)
    world.custom("(Tensor(a!)?[] xs) -> ()", lambda xs: (xs[0].add_(1), None)[1], writes=("xs",))([x, None])
    return x


@PROGRAMS.add
def results_come_beside_writes(world):
    x = world.tensor(2)
    op = world.custom(
        "(Tensor(a!) x, int n) -> (Tensor, int)", lambda x, n: (x.add_(n) * 2, n), writes=("x",)
    )
    return op(x, 4), x


@PROGRAMS.add
def a_detached_tensor_shares_writes_and_version(world):
    x = world.tensor(1)
    detached = x.detach()
    world.custom(ADD, add, writes=("x",))(detached, world.tensor(1))
    return x, x._version == detached._version, x._version > 0


@PROGRAMS.add
def a_write_into_one_of_two_aliases(world):
    x = world.tensor(1)
    world.custom(ADD, lambda x, y: (x.add_(1), None)[1], writes=("x",))(x, x.detach())
    return x


@PROGRAMS.add
def unknown_is_every_tensor(world):
    tensor = world.lib.Tensor

    def kernel(x, n, y):
        y.add_(n)

    kernel.__annotations__ = {"x": tensor, "n": int, "y": tensor, "return": None}
    op = world.lib.library.custom_op(f"{world.namespace}::all", kernel, mutates_args="unknown")
    x, y = world.tensor(1), world.tensor(1)
    op(x, 3, y)
    return (
        [
            argument.alias_info.is_write
            for argument in op._opoverload._schema.arguments
            if argument.alias_info
        ],
        x._version,
        y,
    )


# Gradients ------------------------------------------------------------------------------------------------


@PROGRAMS.add
@pytest.mark.spec("D.20")
def a_leaf_is_written_under_no_grad(world):
    x = world.tensor(1, grad=True)
    with world.lib.no_grad():
        world.custom(ADD, add, writes=("x",))(x, world.tensor(1))
    return x.detach(), x.requires_grad, x.is_leaf


@PROGRAMS.add
def a_tensor_with_history_is_written_under_no_grad(world):
    x = world.tensor(1, grad=True) * 1
    with world.lib.no_grad():
        world.custom(ADD, add, writes=("x",))(x, world.tensor(1))
    return x.detach(), x.requires_grad


@PROGRAMS.add
def the_written_argument_gets_no_history(world):
    x, y = world.tensor(1), world.tensor(1, grad=True)
    world.custom(ADD, add, writes=("x",))(x, y)
    return x, x.requires_grad


@PROGRAMS.add
def a_result_beside_a_write_has_no_formula(world):
    x, y = world.tensor(1), world.tensor(1, grad=True)
    schema = "(Tensor(a!) x, Tensor y) -> Tensor"
    result = world.custom(schema, lambda x, y: (x.add_(y), y * 2)[1], writes=("x",))(x, y)
    assert result.requires_grad
    assert not x.requires_grad
    result.sum().backward()


@PROGRAMS.add
def what_was_saved_before_the_write_is_found_out(world):
    y = world.tensor(2, grad=True) * 1
    total = (y * y).sum()
    world.custom("(Tensor(a!) x) -> ()", lambda x: None, writes=("x",))(y.detach())
    total.backward()


@PROGRAMS.add
def no_formula_for_an_op_that_writes(world):
    world.custom(ADD, add, writes=("x",)).register_autograd(lambda ctx, grad: grad)


# Returning what was written -------------------------------------------------------------------------------


@PROGRAMS.add
def a_written_argument_is_no_result(world):
    return world.custom("(Tensor(a!) x) -> Tensor", lambda x: x, writes=("x",))(world.tensor(1))


@PROGRAMS.add
def not_even_a_declared_one_without_a_tag(world):
    return world.custom(IN_PLACE, add_and_return, writes=("x",))(world.tensor(1), world.tensor(1))


@PROGRAMS.add
def with_define_it_is(world):
    x = world.tensor(1)
    return world.low(IN_PLACE, add_and_return)(x, world.tensor(1)) is x, x


@PROGRAMS.add
def with_define_all_written_ones_are(world):
    op = world.low(
        "(Tensor(a!) x, Tensor(b!) y) -> (Tensor(a!), Tensor(b!))", lambda x, y: (x.add_(1), y.add_(1))
    )
    x, y = world.tensor(1), world.tensor(2)
    first, second = op(x, y)
    return first is x, second is y, x, y


@PROGRAMS.add
def with_define_out_is(world):
    result = world.tensor(0)
    return world.low(OUT, double_into)(world.tensor(3), out=result) is result, result


@PROGRAMS.add
def in_place_returns_the_very_object(world):
    x = world.tensor(1)
    version = x._version
    return in_place(world)(x, world.tensor(3)) is x, x, x._version > version


@PROGRAMS.add
def in_place_returning_nothing(world):
    in_place(world, add)(world.tensor(1), world.tensor(1))


@PROGRAMS.add
def in_place_returning_another_tensor(world):
    in_place(world, lambda x, y: x + y)(world.tensor(1), world.tensor(1))


@PROGRAMS.add
def in_place_with_a_gradient(world):
    result = in_place(world)(world.tensor(1), world.tensor(1, grad=True))
    assert result.requires_grad
    result.sum().backward()


@PROGRAMS.add
def in_place_takes_no_formula(world):
    in_place(world).register_autograd(lambda ctx, grad: grad)


@PROGRAMS.add
def out_returns_the_very_object(world):
    result = world.tensor(0)
    return out(world)(world.tensor(3), out=result) is result, result


@PROGRAMS.add
def several_outs_are_a_tuple(world):
    first, second = world.tensor(0), world.tensor(0)
    op = outs(world, lambda x, *, first, second: (first.copy_(x), second.copy_(x * 2)))
    results = op(world.tensor(3), first=first, second=second)
    return type(results).__name__, results[0] is first, results[1] is second, first, second


@PROGRAMS.add
def outs_in_another_order(world):
    op = outs(world, lambda x, *, first, second: (second, first))
    op(world.tensor(3), first=world.tensor(0), second=world.tensor(0))


@PROGRAMS.add
def out_returning_another_tensor(world):
    out(world, lambda x, *, out: x * 2)(world.tensor(3), out=world.tensor(0))


@PROGRAMS.add
def out_returning_nothing(world):
    out(world, lambda x, *, out: None)(world.tensor(3), out=world.tensor(0))


@PROGRAMS.add
def out_with_a_gradient(world):
    out(world)(world.tensor(3, grad=True), out=world.tensor(0))


@PROGRAMS.add
def out_into_a_leaf_that_requires_grad(world):
    out(world)(world.tensor(3), out=world.tensor(0, grad=True))


@PROGRAMS.add
def out_under_no_grad(world):
    result = world.tensor(0)
    with world.lib.no_grad():
        returned = out(world)(world.tensor(3, grad=True), out=result)
    return returned is result, returned.requires_grad, result


@PROGRAMS.add
def out_takes_no_formula(world):
    out(world).register_autograd(lambda ctx, grad: grad)
