"""The protocols of Python on a Tensor: the same programs on torch and oplib."""

import copy
import math
import pickle

import pytest

GRID = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def ask(lib, question, *data, **options):
    """Returns the answer to a question about a tensor, as plain values."""
    return question(lib.tensor(*data, **options))


QUESTIONS = {
    "len": (len, [1.0, 2.0]),
    "len of a number": (len, 1.0),
    "bool of one": (bool, [[0.5]]),
    "bool of several": (bool, [1.0, 2.0]),
    "bool of none": (bool, []),
    "iter": (list, [[1.0], [2.0]]),
    "iter of a number": (iter, 1.0),
    "unpacking": (lambda t: [*t[0]], GRID),
    "contains": (lambda t: 1.0 in t, [1.0, 2.0]),
    "contains not": (lambda t: 3 in t, [1.0, 2.0]),
    "contains text": (lambda t: "a" in t, [1.0, 2.0]),
    "index": (lambda t: [10, 20, 30][t], 1),
    "index of one item": (lambda t: [10, 20, 30][t], [1]),
    "index of a bool": (lambda t: [10, 20, 30][t], True),
    "index of a float": (lambda t: [10, 20, 30][t], 1.0),
    "index of several": (lambda t: [10, 20, 30][t], [1, 2]),
    "range": (lambda t: list(range(t)), 3),
    "divmod": (lambda t: divmod(t, 3), [5.0, -7.0]),
    "divmod of a number": (lambda t: divmod(7, t), [5.0, 3.0]),
    "math.sqrt": (math.sqrt, 4.0),
    "math.floor": (math.floor, 1.6),
    "format": (lambda t: f"{t:.3f} {t}", 1.5),
    "format of an integer": (lambda t: f"{t:4d}", 3),
    "format of several": (lambda t: f"{t:.3f}", [1.5, 2.0]),
    "percent": (lambda t: "%.2f" % t, 1.5),  # noqa: UP031  it is what is asked
    "compared with None": (lambda t: (t == None, t != None), [1.0]),  # noqa: E711
    "added to text": (lambda t: t + "a", [1.0]),
    "below text": (lambda t: t < "a", [1.0]),
    "matmul with a number": (lambda t: t @ 3, [1.0]),
    "sorted": (lambda t: sorted(t), [3.0, 1.0, 2.0]),
    "max": (max, [3.0, 1.0]),
    "sum": (sum, [[3.0], [1.0]]),
    "T of several dims": (lambda t: t.T, [GRID]),
    "mT of a vector": (lambda t: t.mT, [1.0]),
    "mT of a number": (lambda t: t.mT, 1.0),
    "mH of a vector": (lambda t: t.mH, [1.0]),
    "H of a vector": (lambda t: t.H, [1.0]),
    "requires_grad_ of text": (lambda t: t.requires_grad_("a"), [1.0]),
    "requires_grad_ of 1": (lambda t: t.requires_grad_(1), [1.0]),
    "requires_grad of 1": (lambda t: setattr(t, "requires_grad", 1), [1.0]),
}


@pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")
@pytest.mark.parametrize("name", QUESTIONS)
def test_python_gets_the_same_answer(name, assert_agrees):
    question, data = QUESTIONS[name]
    assert_agrees(lambda lib: ask(lib, question, data))


BOOLS = [
    True, False, (None, True), (True, None), (True, 0), (0, True), (slice(None), True), (True, True),
    (True, False), (..., True), ([0, 1], True), ([0, 1], slice(None), True), (None, True, None),
    (slice(0, 1), True, 1),
]  # fmt: skip


@pytest.mark.parametrize("index", BOOLS, ids=repr)
def test_a_bool_among_subscripts_is_a_dim_of_its_own(index, assert_agrees):
    def program(lib):
        x = lib.tensor(GRID, requires_grad=True)
        found = x[index]
        found.sum().backward()
        written, doubled = lib.tensor(GRID), lib.tensor(GRID)
        written[index] = 7.0
        doubled[index] = found.detach() * 2
        return found, list(found.shape), x.grad, written, doubled

    assert_agrees(program)


def test_a_bool_tensor_without_dims_is_a_bool(assert_agrees):
    assert_agrees(lambda lib: [lib.tensor(GRID)[lib.tensor(flag)] for flag in (True, False)])


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda t: pickle.loads(pickle.dumps(t)),
}


@pytest.mark.parametrize("kind", ["leaf", "result", "constant"])
@pytest.mark.parametrize("name", COPIES)
def test_copies_keep_what_torchs_keep(name, kind, assert_agrees):
    def program(lib):
        x = lib.tensor([1.0, 2.0], requires_grad=kind != "constant")
        x = x * 2 if kind == "result" else x
        made = COPIES[name](x)
        return made, made.requires_grad, made.is_leaf, made is x

    assert_agrees(program)


SHOWN = {
    "leaf": lambda lib: lib.ones(2, 3, requires_grad=True),
    "result": lambda lib: lib.tensor([[1.0, -2.0], [3.5, 400.0]], requires_grad=True).relu(),
    "long result": lambda lib: lib.arange(30.0).requires_grad_() * 1.5,
    "half": lambda lib: lib.ones(2, dtype=lib.bfloat16),
    "bytes": lambda lib: lib.ones(2, dtype=lib.uint8),
    "bools": lambda lib: lib.tensor([True, False]),
    "nothing": lambda lib: lib.zeros(0),
    "nothing, in dims": lambda lib: lib.zeros(2, 0, 3),
    "large": lambda lib: lib.arange(10000.0),
    "large grid": lambda lib: lib.zeros(100, 100),
    "large in three dims": lambda lib: lib.arange(1001.0).reshape(7, 11, 13),
    "far apart": lambda lib: lib.tensor([1e10, 1.0]),
    "tiny": lambda lib: lib.tensor([1e-10, 0.5]),
    "not finite": lambda lib: lib.tensor([float("nan"), float("inf"), -1.0]),
    "complex": lambda lib: lib.tensor([1 + 2j, 3.5]),
    "minus zero": lambda lib: lib.tensor(-0.0),
    "number": lambda lib: lib.tensor(2.5, requires_grad=True),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_tensor_is_shown_as_torchs(name, assert_agrees):
    assert_agrees(lambda lib: repr(SHOWN[name](lib)).replace("torch.", "oplib."))
