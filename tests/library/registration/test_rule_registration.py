"""register_jvp, register_vmap and register_sharding; and the names that only raise an error."""

from __future__ import annotations

import functools

import jax
import pytest

from oplib.errors import RegistrationTypeError, RegistrationValueError, UnsupportedRegistrationError
from oplib.library import (
    Library,
    custom_op,
    define,
    fallthrough_kernel,
    load_library,
    ops,
    register_jvp,
    register_sharding,
    register_torch_dispatch,
    register_vmap,
)

REGISTER = {"jvp": register_jvp, "vmap": register_vmap, "sharding": register_sharding}


def double(x: jax.Array) -> jax.Array:
    return 2 * x


def rule(*args, **kwargs):
    return args


RULES = {"jvp": rule, "vmap": rule, "sharding": "... -> ..."}


def find_rule(op, kind):
    """Returns the registered function of a rule."""
    found = getattr(op._opoverload.record, kind)
    return found.function if kind == "jvp" else found


@pytest.fixture
def op():
    return custom_op("rul::f", double)


@pytest.mark.parametrize("kind", RULES)
class TestEveryRule:
    def test_it_stands_in_the_record_and_the_function_is_given_back(self, op, kind):
        assert getattr(op, f"register_{kind}")(RULES[kind]) is RULES[kind]
        assert find_rule(op, kind) is RULES[kind]

    @pytest.mark.parametrize("find", [lambda: "rul::f", lambda: ops.rul.f.default])
    def test_the_op_may_be_named(self, op, kind, find):
        REGISTER[kind](find(), RULES[kind])
        assert find_rule(op, kind) is RULES[kind]

    def test_the_last_one_counts(self, op, kind):
        REGISTER[kind](op, "i -> i" if kind == "sharding" else lambda *args: None)
        REGISTER[kind](op, RULES[kind])
        assert find_rule(op, kind) is RULES[kind]

    def test_it_ends_with_lib(self, op, kind):
        library = Library("rul", "IMPL")
        REGISTER[kind](op, RULES[kind], lib=library)
        library._destroy()
        assert getattr(op._opoverload.record, kind) is None

    def test_an_op_that_does_not_exist_is_an_attribute_error(self, kind):
        with pytest.raises(
            AttributeError, match=f"register_{kind}: the operator rul::nothing does not exist"
        ):
            REGISTER[kind]("rul::nothing", RULES[kind])

    def test_a_packet_is_refused(self, op, kind):
        with pytest.raises(RegistrationValueError, match="got unexpected type for op"):
            REGISTER[kind](ops.rul.f, RULES[kind])


@pytest.mark.parametrize("kind", ["jvp", "vmap"])
def test_as_a_decorator_it_gives_the_function(op, kind):
    assert getattr(op, f"register_{kind}")()(rule) is rule
    assert REGISTER[kind]("rul::f")(rule) is rule


@pytest.mark.parametrize("kind", ["jvp", "vmap"])
def test_a_rule_can_be_called(op, kind):
    with pytest.raises(TypeError, match=rf"register_{kind}\(rul::f\): the rule is required to be a callable"):
        REGISTER[kind](op, 3)


def test_an_op_with_a_tensor_only_by_keyword_has_no_batching_rule():
    define("rul::g", "(*, Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match="rul::g: register_vmap with kwarg-only Tensor args"):
        register_vmap("rul::g", rule)


def test_an_op_that_writes_has_no_forward_derivative():
    op = custom_op("rul::g", lambda x: None, schema="(Tensor(a!) x) -> ()", mutates_args=("x",))
    with pytest.raises(
        RuntimeError, match="rul::g: Cannot register a jvp rule for a non-functional operator"
    ):
        op.register_jvp(rule)


class TestAbsentNames:
    def test_fallthrough_kernel_is_never_called(self):
        with pytest.raises(NotImplementedError, match="fallthrough_kernel: it should never be called"):
            fallthrough_kernel()

    def test_load_library_names_the_alternative(self):
        with pytest.raises(OSError, match=r"Could not load this library: lib\.so.*jax\.ffi"):
            load_library("lib.so")

    def test_dispatch_modes_do_not_exist(self):
        with pytest.raises(
            UnsupportedRegistrationError,
            match=r"register_torch_dispatch\(rul::f\): there are no dispatch modes",
        ):
            register_torch_dispatch("rul::f", object, rule)


async def later(*args, **kwargs):
    return args[0]


def piecewise(*args, **kwargs):
    yield args[0]


class Later:
    async def __call__(self, *args, **kwargs):
        return args[0]


ROLES = {
    "kernel": lambda op, fn: custom_op("rul::later", fn, schema="(Tensor x) -> Tensor"),
    "kernel of a platform": lambda op, fn: op.register_kernel("cpu")(fn),
    "kernel of a library": lambda op, fn: Library("rul", "IMPL").impl("f", fn, "CPU"),
    "fake": lambda op, fn: op.register_fake(fn),
    "formula": lambda op, fn: op.register_autograd(fn),
    "setup": lambda op, fn: op.register_autograd(rule, setup_context=fn),
    "forward": lambda op, fn: op.register_autograd(rule, forward=fn),
    "jvp": lambda op, fn: op.register_jvp(fn),
    "vmap": lambda op, fn: op.register_vmap(fn),
}


@pytest.mark.parametrize(
    "fn",
    [later, piecewise, Later(), functools.partial(later, None)],
    ids=["async", "yield", "object", "partial"],
)
@pytest.mark.parametrize("role", ROLES)
def test_a_part_that_returns_a_coroutine_or_generator_is_refused_at_once(op, role, fn):
    with pytest.raises(RegistrationTypeError, match=r"is async, or has a yield, .* Write a plain def"):
        ROLES[role](op, fn)
