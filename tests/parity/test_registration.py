"""The same registrations have the same outcome in torch: the same value, or the same kind of error."""

from __future__ import annotations

import builtins
import gc
import itertools
import re
import types
import warnings

import pytest

import oplib.library
from oplib.tensor import Tensor

torch = pytest.importorskip("torch")

TORCH = types.SimpleNamespace(library=torch.library, ops=torch.ops, Tag=torch.Tag, Tensor=torch.Tensor)
OPLIB = types.SimpleNamespace(
    library=oplib.library, ops=oplib.library.ops, Tag=oplib.library.Tag, Tensor=Tensor
)
NUMBERS = itertools.count()

pytestmark = pytest.mark.usefixtures("forget_ops")


class Program:
    """What both are asked to do, in a namespace of its own, mostly to an op on ints called f."""

    def __init__(self, world, namespace):
        self.library, self.ops, self.Tag, self.Tensor = world.library, world.ops, world.Tag, world.Tensor
        self.ns = namespace
        self.kept = []

    def lib(self, kind="FRAGMENT", key=""):
        library = self.library.Library(self.ns, kind, key)
        self.kept.append(library)
        return library

    def op(self, name="f", add=1):
        library = self.lib()
        library.define(f"{name}(int x) -> int")
        library.impl(name, lambda x: x + add, "CompositeExplicitAutograd")
        return library

    def custom(self, add=1, schema="(int x) -> int", fn=None, **options):
        options.setdefault("mutates_args", ())
        fn = fn or (lambda x: x + add)
        return self.library.custom_op(f"{self.ns}::f", fn, schema=schema, **options)

    def name(self, name="f"):
        return f"{self.ns}::{name}"

    @property
    def namespace(self):
        return getattr(self.ops, self.ns)

    @property
    def f(self):
        return self.namespace.f


def stack(p):
    p.op()
    above = p.lib("IMPL")
    above.impl("f", lambda x: x + 2, "CompositeExplicitAutograd")
    values = [p.f(1)]
    above._destroy()
    return [*values, p.f(1)]


def drop_by_reference(p):
    library = p.library.Library(p.ns, "FRAGMENT")
    library.define("f(int x) -> int")
    before = hasattr(p.namespace, "f")
    del library
    gc.collect()
    return before, hasattr(p.namespace, "f")


def survive(p):
    first = p.lib()
    first.define("f(int x) -> int")
    p.lib("IMPL").impl("f", lambda x: x + 5, "CompositeExplicitAutograd")
    first._destroy()
    second = p.lib()
    second.define("f(int x) -> int")
    return p.f(1)


def use_dead(act):
    def program(p):
        library = p.lib()
        library._destroy()
        return act(library)

    return program


def call_dead(p):
    library = p.op()
    handle = p.f
    library._destroy()
    return handle(1)


def scoped(p):
    with p.library._scoped_library(p.ns, "FRAGMENT") as library:
        library.define("f(int x) -> int")
        inside = hasattr(p.namespace, "f")
    return inside, hasattr(p.namespace, "f")


def impl_first(p):
    p.lib("IMPL").impl("f", lambda x: x + 7, "CompositeExplicitAutograd")
    p.lib().define("f(int x) -> int")
    return p.f(1)


def redefine(p):
    p.custom(1)
    p.custom(2)
    return p.f(1)  # a handle of before calls the new op in oplib; torch may crash


def keep_by_name(p):
    p.custom(3)
    gc.collect()
    return p.f(1)


def shorten(text):
    """Takes the schemas and overloads out of a repr, which torch does not show."""
    return re.sub(r", (overloads|schema)=.*\)>$", ")>", text).replace("(int x) -> int)", ")")


def names(p):
    p.op()
    p.lib().define("f.other(int x, int y) -> int")
    packet, overload = p.f, p.f.other
    texts = [str(packet), repr(packet), str(overload), repr(overload), overload.name(), packet.default.name()]
    return [shorten(text.replace(p.ns, "ns")) for text in texts], packet.overloads(), overload.__name__


def pick(p):
    p.op()
    library = p.lib()
    library.define("f.two(int x, int y) -> int")
    library.impl("f.two", lambda x, y: x * y, "CompositeExplicitAutograd")
    return p.f(3), p.f(3, 4)


def switch(p):
    op = p.custom(1)
    op.register_kernel(None, lambda x: x + 10)
    values = [op(1)]
    with op.set_kernel_enabled(None, False):
        values.append(op(1))
    return [*values, op(1)]


def second_fake(p):
    p.op()
    p.library.register_fake(p.name(), lambda x: x)
    p.library.register_fake(p.name(), lambda x: x, allow_override=False)


def write(p, **options):
    return p.custom(schema="(Tensor(a!) x) -> ()", fn=lambda x: None, **options)


def tagged(schema, written, tag):
    def program(p):
        p.custom(schema=schema, fn=lambda *_, **__: None, mutates_args=written, tags=getattr(p.Tag, tag))

    return program


def do(*steps):
    """Returns what the last of these expressions gave, if it is something to compare."""
    return None if isinstance(steps[-1], (oplib.library.Library, torch.library.Library)) else steps[-1]


PROGRAMS = {
    "another kind": lambda p: p.lib("X"),
    "a reserved namespace": lambda p: p.library.Library("prim", "DEF"),
    "a second def": lambda p: do(p.lib("DEF"), p.lib("DEF")),
    "def after fragment": lambda p: do(p.op(), p.lib("DEF")),
    "define in impl": lambda p: p.lib("IMPL").define("f(int x) -> int"),
    "what define returns": lambda p: [p.lib().define("f(int x) -> int"), p.lib().define("f.o(int x) -> int")],
    "alias analysis": lambda p: p.lib().define("f(int x) -> int", "PURE"),
    "define twice": lambda p: do(p.op(), p.op()),
    "a foreign namespace": lambda p: p.lib().define("zz::f(int x) -> int"),
    "a schema without blanks": lambda p: p.library.define(p.name(), "(int x)->int"),
    "a name without namespace": lambda p: p.library.define("f", "(int x) -> int"),
    "a name that is no text": lambda p: p.library.define(3, "(int x) -> int"),
    "impl what cannot be called": lambda p: p.lib().impl("f", 3),
    "impl for an unknown key": lambda p: p.lib().impl("f", lambda x: x, "Blah"),
    "impl under no name": lambda p: p.lib().impl(3, lambda x: x, "CPU"),
    "impl for an unknown device": lambda p: p.library.impl(p.name(), "blub", lambda x: x),
    "impl without namespace": lambda p: p.library.impl("f", "cpu", lambda x: x),
    "what impl returns": lambda p: do(p.op(), p.library.impl(p.name(), "cpu")(lambda x: x)),
    "no override": lambda p: p.op().impl("f", lambda x: x, "CompositeExplicitAutograd", allow_override=False),
    "a stack of kernels": stack,
    "the last reference": drop_by_reference,
    "a kernel that survives": survive,
    "define on a dead library": use_dead(lambda library: library.define("f(int x) -> int")),
    "impl on a dead library": use_dead(lambda library: library.impl("f", lambda x: x, "CPU")),
    "destroy twice": use_dead(lambda library: library._destroy()),
    "call a dead op": call_dead,
    "a scoped library": scoped,
    "impl before define": impl_first,
    "an unknown op": lambda p: p.f,
    "an unknown overload": lambda p: do(p.op(), p.f.nothing),
    "the texts of an op": names,
    "the first overload that fits": pick,
    "no overload fits": lambda p: do(p.op(), p.lib().define("f.o(int x, int y) -> int"), p.f("text")),
    "register for something else": lambda p: p.library.register_kernel(3, "cpu", lambda x: x),
    "register for a packet": lambda p: do(p.op(), p.library.register_kernel(p.f, "cpu", lambda x: x)),
    "fake for an unknown op": lambda p: p.library.register_fake(p.name(), lambda x: x),
    "formula for an unknown op": lambda p: p.library.register_autograd(p.name(), lambda ctx, g: g),
    "batching for an unknown op": lambda p: p.library.register_vmap(p.name(), lambda *_: None),
    "a second fake": second_fake,
    "a kernel of an unknown op": lambda p: p.library.get_kernel(p.name(), "CPU"),
    "a kernel for an unknown device": lambda p: do(p.op(), p.library.get_kernel(p.name(), "Cx")),
    "custom_op without namespace": lambda p: p.library.custom_op("f", lambda x: x, mutates_args=()),
    "custom_op with two namespaces": lambda p: p.library.custom_op("a::b::c", lambda x: x, mutates_args=()),
    "custom_op in a reserved namespace": lambda p: p.library.custom_op(
        "prim::f", lambda x: x, mutates_args=(), schema="(int x) -> int"
    ),
    "a bad name": lambda p: p.library.custom_op(
        f"{p.ns}::a-b", lambda x: x, mutates_args=(), schema="(int x) -> int"
    ),
    "a name in the schema": lambda p: p.custom(schema="f(int x) -> int"),
    "an unknown device type": lambda p: p.custom(schema="(Tensor x) -> Tensor", device_types="blub"),
    "no device argument": lambda p: p.custom(device_types="cpu"),
    "a tensor by keyword": lambda p: p.custom(schema="(*, Tensor x) -> Tensor"),
    "no iterable of names": lambda p: p.custom(mutates_args=None),
    "another written argument": lambda p: write(p, mutates_args=("y",)),
    "custom_op twice": redefine,
    "custom_op for ever": keep_by_name,
    "custom_op after define": lambda p: do(p.op(), p.custom()),
    "define after custom_op": lambda p: do(p.custom(), p.lib().define("f(int x) -> int")),
    "the text of a custom op": lambda p: shorten(repr(p.custom()).replace(p.ns, "ns")),
    "a tag that is none": lambda p: p.custom(tags="inplace"),
    "inplace that is not written": tagged("(Tensor x) -> Tensor", (), "inplace"),
    "inplace without a result": tagged("(Tensor(a!) x) -> ()", ("x",), "inplace"),
    "out by position": tagged("(Tensor(a!) out) -> Tensor(a!)", ("out",), "out"),
    "out of a list": tagged("(*, Tensor(a!)[] out) -> Tensor", ("out",), "out"),
    "a formula for an op that writes": lambda p: write(p, mutates_args=("x",)).register_autograd(lambda c: 1),
    "a kernel by keyword": lambda p: p.custom().register_kernel("cpu", func=lambda x: x),
    "switching a kernel": switch,
}


def run(world, program):
    """Returns the value of a program, or the builtin kind of its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of overriding once per process, whoever comes first
        try:
            return program(Program(world, f"parity{next(NUMBERS)}"))
        except Exception as error:  # noqa: BLE001  the kind of the error is the outcome
            return error


def find_builtin(error):
    return next(kind for kind in type(error).__mro__ if kind.__module__ == builtins.__name__)


@pytest.mark.parametrize("title", PROGRAMS)
def test_a_registration_has_the_outcome_that_it_has_in_torch(title):
    theirs, ours = run(TORCH, PROGRAMS[title]), run(OPLIB, PROGRAMS[title])
    if isinstance(theirs, Exception):
        assert isinstance(ours, find_builtin(theirs)), (theirs, ours)
    elif isinstance(ours, Exception):
        raise ours
    else:
        assert ours == theirs
