"""The check of what a callable of the user takes, where it is registered or first called."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd import Function
from oplib.autograd.forward_ad import dual_level, make_dual
from oplib.autograd.graph import register_multi_grad_hook, saved_tensors_hooks
from oplib.errors import GradientTypeError

pytestmark = pytest.mark.spec("D.59")

REGISTER = {
    "register_hook: the hook": ("(grad)", lambda y, fn: y.register_hook(fn)),
    "MulBackward0.register_hook: the hook": (
        "(grad_inputs, grad_outputs)",
        lambda y, fn: y.grad_fn.register_hook(fn),
    ),
    "MulBackward0.register_prehook: the hook": (
        "(grad_outputs)",
        lambda y, fn: y.grad_fn.register_prehook(fn),
    ),
    "register_multi_grad_hook: the hook": ("(grads)", lambda y, fn: register_multi_grad_hook([y], fn)),
    "saved_tensors_hooks: the pack hook": (
        "(tensor)",
        lambda y, fn: saved_tensors_hooks(fn, abs).__enter__(),
    ),
    "saved_tensors_hooks: the unpack hook": (
        "(packed)",
        lambda y, fn: saved_tensors_hooks(abs, fn).__enter__(),
    ),
    "register_post_accumulate_grad_hook: the hook": (
        "(tensor)",
        lambda y, fn: oplib.ones(2, requires_grad=True).register_post_accumulate_grad_hook(fn),
    ),
}


@pytest.mark.parametrize("subject", REGISTER)
@pytest.mark.parametrize(
    "hook", [lambda: None, lambda a, b, c: None, 3, None], ids=["none", "three", "number", "None"]
)
def test_a_hook_with_other_parameters_is_refused_where_it_is_registered(subject, hook):
    due, register = REGISTER[subject]
    y = oplib.ones(2, requires_grad=True) * 2.0
    with pytest.raises(GradientTypeError) as caught:
        register(y, hook)
    text = str(caught.value)
    assert text.startswith(subject)
    assert due in text
    assert len(text) <= 400
    y.sum().backward()  # nothing was registered


class Sink:
    def take(self, value):
        pass

    def __call__(self, value, *rest):
        pass


@pytest.mark.parametrize(
    "hook",
    [
        Sink().take,
        Sink(),
        partial(Sink.take, None),
        print,
        [].append,
        lambda *a: None,
        lambda a, b=1: None,
        len,
    ],
    ids=["method", "object", "partial", "print", "append", "any", "default", "len"],
)
def test_every_callable_that_takes_the_arguments_is_accepted(hook):
    x = oplib.ones(2, requires_grad=True)
    handle = x.register_hook(hook)
    assert [*x._backward_hooks.values()] == [hook]
    handle.remove()


def make(**methods):
    base = {"forward": lambda ctx, x: x * 2.0, "backward": lambda ctx, g: g}
    return type("Mine", (Function,), {name: staticmethod(fn) for name, fn in {**base, **methods}.items()})


@pytest.mark.parametrize(
    ("methods", "text"),
    [
        ({"backward": lambda: None}, r"Mine: its backward .* called with \(ctx, grad_0\)"),
        (
            {"backward": lambda ctx: None},
            r"Mine: its backward .*\(ctx\), it will be called with \(ctx, grad_0\)",
        ),
        ({"backward": lambda ctx, g, h: g}, r"Mine: its backward .* missing a required argument: 'h'"),
        (
            {"forward": lambda ctx, x: (x * 1.0, x * 2.0), "backward": lambda ctx, g: g},
            r"called with \(ctx, grad_0, grad_1\)",
        ),
        (
            {"forward": lambda x: x * 1.0, "setup_context": lambda ctx, x: None},
            r"Mine: its setup_context .* called with \(ctx, inputs, output\)",
        ),
    ],
)
def test_a_method_of_a_function_with_other_parameters_is_named(methods, text):
    x = oplib.ones(2, requires_grad=True)

    def run():
        results = make(**methods).apply(x)
        (results[0] if isinstance(results, tuple) else results).sum().backward()

    with pytest.raises(GradientTypeError, match=text):
        run()
    assert x.grad is None


async def later(ctx, g):
    return g


def yields(ctx, g):
    yield g


@pytest.mark.parametrize("name", ["forward", "backward", "vjp", "jvp", "vmap", "setup_context"])
@pytest.mark.parametrize("method", [later, yields])
def test_a_method_that_gives_no_values_yet_is_refused_in_both_worlds(name, method):
    function = make(**{name: method})
    for x in (oplib.ones(2), jnp.ones(2)):
        with pytest.raises(GradientTypeError, match=f"Mine: its {name} is async, or has a yield"):
            function.apply(x)


def test_an_async_method_of_a_function_of_arrays_is_refused():
    class Doubled(Function):
        @staticmethod
        def forward(ctx, x: jax.Array) -> jax.Array:
            return x * 2

        @staticmethod
        async def backward(ctx, g):
            return g * 2

    with pytest.raises(GradientTypeError, match=r"Doubled: its backward is async.*Write a plain def"):
        Doubled.apply(jnp.ones(2))


@pytest.mark.parametrize("subject", REGISTER)
def test_an_async_hook_is_refused_where_it_is_registered(subject):
    due, register = REGISTER[subject]

    async def one(a):
        return a

    async def two(a, b):
        return a

    with pytest.raises(GradientTypeError, match=rf"^{subject} is async"):
        register(oplib.ones(2, requires_grad=True) * 2.0, two if ", " in due else one)


def test_a_backward_with_other_parameters_is_named_under_jax():
    function = make(backward=lambda ctx: None)
    with pytest.raises(GradientTypeError, match=r"Mine: its backward .* with \(ctx, grad_0\)"):
        jax.grad(lambda a: function.apply(a).sum())(jnp.ones(2))


def test_an_error_inside_of_backward_stays_as_it_is():
    def backward(ctx, g):
        raise TypeError("inside")

    with pytest.raises(TypeError, match="inside"):
        make(backward=backward).apply(oplib.ones((), requires_grad=True)).backward()


def test_a_jvp_with_other_parameters_is_named_in_both_worlds():
    function = make(jvp=lambda ctx: None)
    with dual_level(), pytest.raises(GradientTypeError, match=r"Mine: its jvp .* with \(ctx, tangent_0\)"):
        function.apply(make_dual(oplib.ones(2), oplib.ones(2)))
    with pytest.raises(GradientTypeError, match=r"Mine: its jvp .* with \(ctx, tangent_0\)"):
        jax.jvp(function.apply, (jnp.ones(2),), (jnp.ones(2),))
