"""The check of what a callable of the user takes, where it is registered or first called."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd import Function
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


class Wrong:
    def none(self):
        pass

    def two(self, first, second):
        pass

    def later(self, value):
        yield value

    def named(self, value, *, scale):
        pass

    @classmethod
    def of_class(cls, first, second):
        pass


@pytest.mark.parametrize(
    "hook",
    [Wrong().none, Wrong().two, Wrong().later, Wrong().named, Wrong.of_class, lambda value, *, scale: None],
    ids=["none", "two", "later", "by name", "of a class", "a function, by name"],
)
def test_a_hook_with_other_parameters_is_refused(hook):
    x = oplib.ones(2, requires_grad=True)
    with pytest.raises(GradientTypeError, match="register_hook"):
        x.register_hook(hook)


def make(**methods):
    base = {"forward": lambda ctx, x: x * 2.0, "backward": lambda ctx, g: g}
    return type("Mine", (Function,), {name: staticmethod(fn) for name, fn in {**base, **methods}.items()})


def forward_of_arrays(ctx, x: jax.Array):
    return x * 2.0


METHODS = [
    ({"backward": lambda: None}, "backward", "(ctx, grad_0)"),
    ({"backward": lambda ctx: None}, "backward", "(ctx, grad_0)"),
    ({"backward": lambda ctx, g, h: g}, "backward", "missing a required argument: 'h'"),
    ({"forward": lambda ctx, x: (x, 2.0 * x)}, "backward", "(ctx, grad_0, grad_1)"),
    (
        {"forward": lambda x: x * 1.0, "setup_context": lambda ctx, x: None},
        "setup_context",
        "(ctx, inputs, output)",
    ),
    ({"jvp": lambda ctx: None}, "jvp", "(ctx, tangent_0)"),
    ({"vmap": lambda info, in_dims: None}, "vmap", "(info, in_dims, x)"),
    ({"forward": forward_of_arrays, "backward": lambda ctx: None}, "backward", "(ctx, grad_0)"),
    ({"forward": forward_of_arrays, "jvp": lambda ctx: None}, "jvp", "(ctx, tangent_0)"),
]
FIRST = {
    "apply": lambda function: function.apply(oplib.ones(2, requires_grad=True)),
    "without grad": lambda function: function.apply(oplib.ones(2)),
    "arrays": lambda function: function.apply(jnp.ones(2)),
    "jit": lambda function: jax.jit(function.apply)(jnp.ones(2)),
    "program": lambda function: oplib.jit(function.apply)(oplib.ones(2)),
    "grad": lambda function: jax.grad(lambda x: jnp.sum(function.apply(x)[0]))(jnp.ones(2)),
}


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize(("methods", "name", "due"), METHODS)
def test_a_method_of_a_function_with_other_parameters_is_named_at_each_first_call(methods, name, due, first):
    function = make(**methods)
    for _ in range(2):
        with pytest.raises(GradientTypeError) as told:
            FIRST[first](function)
        text = str(told.value)
        assert text.startswith(f"Mine: its {name} does not accept its arguments. Got ")
        assert due in text
        assert len(text) <= 400


@pytest.mark.parametrize("map_rows", [oplib.vmap, jax.vmap])
def test_a_vmap_rule_with_other_parameters_is_named_where_it_is_called_first(map_rows):
    function = make(
        forward=lambda x, y: x * y,
        setup_context=lambda ctx, inputs, output: None,
        backward=lambda ctx, g: (g, g),
        vmap=lambda info, in_dims, x: (x, 0),
    )
    x = oplib.ones(2) if map_rows is oplib.vmap else jnp.ones(2)
    with pytest.raises(GradientTypeError, match=r"Mine: its vmap .* with \(info, in_dims, x, y\)"):
        map_rows(function.apply)(x, x)


def test_a_function_whose_calls_differ_in_length_is_checked_where_a_method_runs():
    function = make(forward=lambda ctx, x, factor=2.0: x * factor, jvp=lambda ctx, t: t * 2.0)
    x = oplib.ones(2, requires_grad=True)
    function.apply(x).sum().backward()
    assert jax.jvp(function.apply, (jnp.ones(2),), (jnp.ones(2),))[1].tolist() == [2.0, 2.0]
    with pytest.raises(GradientTypeError, match=r"Mine: its jvp .* with \(ctx, tangent_0, tangent_1\)"):
        jax.jvp(lambda x: function.apply(x, 3.0), (jnp.ones(2),), (jnp.ones(2),))
    several = make(forward=lambda ctx, x, count: tuple(x * n for n in range(count)))
    several.apply(x, 1)
    with pytest.raises(GradientTypeError, match=r"Mine: its backward .* with \(ctx, grad_0, grad_1\)"):
        several.apply(x, 2)[1].sum().backward()


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


def test_an_error_inside_of_backward_stays_as_it_is():
    def backward(ctx, g):
        raise TypeError("inside")

    with pytest.raises(TypeError, match="inside"):
        make(backward=backward).apply(oplib.ones((), requires_grad=True)).backward()
