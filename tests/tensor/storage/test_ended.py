"""Tensors that were made while a function was traced, and are used when that trace is over."""

import functools
import itertools

import pytest

import oplib
from oplib.errors import ConcreteValueError, TracingError

pytestmark = pytest.mark.spec("J.9")
WORDS = "made inside a traced function is used outside of it"


class Recorder:
    """Keeps a Tensor of each call of a compiled method."""

    def __init__(self):
        self.weight = oplib.full((3,), 2.0)
        self.history = []
        self.last = None

    @oplib.jit
    def keep(self, x):
        self.history.append(x * self.weight)
        return self.weight.sum()

    @oplib.jit
    def multiply(self, x):
        return (x * self.weight).sum()

    @oplib.jit
    def add_history(self, x):
        return x + self.history[0]


@pytest.fixture
def recorder():
    made = Recorder()
    made.keep(oplib.ones(3))
    return made


def test_other_methods_of_the_object_go_on(recorder):
    assert recorder.multiply(oplib.ones(3)).item() == 6
    assert recorder.keep(oplib.ones(3)).item() == 6


def test_the_error_names_the_function_and_the_place(recorder):
    with pytest.raises(TracingError, match=r"Got one of keep, which kept it in self\.history\[0\]"):
        recorder.history[0] + 1
    with pytest.raises(TracingError, match=r"Got one of keep, which kept it in self\.history\[0\]"):
        recorder.add_history(oplib.ones(3))


def test_it_can_be_printed(recorder):
    assert repr(recorder.history[0]) == "tensor(made inside keep, whose trace has ended)"


sizes = itertools.count(2)  # a program of an earlier test would not call the function


def keep_of_scan(kept):
    def body(carry, x):
        kept.append(carry * x)
        return kept[-1], x

    oplib.scan(body, oplib.ones(next(sizes)), oplib.ones(3))


def keep_of_while_loop(kept):
    def body(carry):
        kept.append(carry * 2)
        return kept[-1]

    oplib.while_loop(lambda carry: carry.sum() < 99, body, oplib.ones(next(sizes)))


def keep_of_cond(kept):
    def branch(x):
        kept.append(x * 2)
        return kept[-1]

    oplib.cond(oplib.tensor(True), branch, branch, oplib.ones(next(sizes)))


BODIES = [keep_of_scan, keep_of_while_loop, keep_of_cond]


@pytest.mark.parametrize("keep", BODIES)
@pytest.mark.parametrize(
    "use", [lambda t: t + 1, lambda t: t.sin(), lambda t: oplib.stack([t, t]), lambda t: t.add_(1).sum()]
)
def test_one_of_a_body_raises_where_it_is_used(keep, use):
    kept = []
    keep(kept)
    with pytest.raises(
        TracingError, match=rf"{WORDS}\. Got float32\[\d+\], made at .*test_ended\.py:\d+ in "
    ):
        use(kept[0])


@pytest.mark.parametrize("keep", BODIES)
def test_one_of_a_body_has_no_values(keep):
    kept = []
    keep(kept)
    with pytest.raises(ConcreteValueError, match=r"tolist\(\): the tensor was made inside a traced function"):
        kept[0].tolist()


def test_a_backward_from_one_of_a_body_raises():
    weight, kept = oplib.ones((), requires_grad=True), []

    def body(carry, x):
        kept.append(carry * x * weight)
        return kept[-1], x

    oplib.scan(body, oplib.ones(()), oplib.ones(3))
    with pytest.raises(TracingError, match=rf"backward: .*{WORDS}"):
        kept[0].backward()


@pytest.fixture
def make_mask():
    return functools.cache(lambda: oplib.ones(3) * 7)


def test_one_that_a_cache_keeps_is_refused_by_another_function(make_mask):
    assert oplib.jit(lambda x: x * make_mask())(oplib.ones(3)).tolist() == [7, 7, 7]

    def add(x, y):
        return make_mask() * x + y

    for _ in range(2):
        with pytest.raises(TracingError, match=r"add: the function reads a Tensor .* Got f32\[3\]"):
            oplib.jit(add)(oplib.ones(3), oplib.ones(3))
    with pytest.raises(TracingError, match=rf"add.*: .*{WORDS}"):  # the op's name where the fast path is off
        make_mask() + 1


def test_constants_of_the_function_are_listed_too(make_mask):
    oplib.jit(lambda x: x * make_mask())(oplib.ones(3))
    constant = oplib.ones(5).array
    with pytest.raises(TracingError, match=r"Got one of f32\[\d\], f32\[\d\]\. Its value"):
        oplib.jit(lambda x: (x * make_mask()).sum() + constant.copy())(oplib.ones(3))


def test_one_that_a_cache_keeps_serves_the_trace_in_which_it_was_made(make_mask):
    @oplib.jit
    def outer(x):
        return oplib.jit(lambda y: y * make_mask())(x) + make_mask()

    assert outer(oplib.ones(3)).tolist() == [14, 14, 14]
