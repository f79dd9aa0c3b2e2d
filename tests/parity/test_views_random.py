"""Random views and writes beside torch."""

import pytest
from hypothesis import given, settings, strategies as st

import oplib

from .conftest import assert_close, plain
from .programs import shaped_leaf

SHAPES = [(3, 4), (2, 2, 3), (6,)]


@st.composite
def steps(draw):
    """A program: each step makes a view of a tensor so far, writes into one, or computes a new one."""
    shape = draw(st.sampled_from(SHAPES))
    return shape, draw(
        st.lists(
            st.tuples(st.integers(0, 9), st.sampled_from([*MOVES, *WRITES, "square"]), st.integers(0, 3)),
            min_size=2,
            max_size=7,
        )
    )


MOVES = {
    "select": lambda t, n: (
        t.select(n % t.ndim, n % t.shape[n % t.ndim]) if t.ndim and 0 not in t.shape else None
    ),
    "slice": lambda t, n: t[n % 2 :: 1 + n % 3] if t.ndim else None,
    "transpose": lambda t, n: t.transpose(0, n % t.ndim) if t.ndim else None,
    "narrow": lambda t, n: t.narrow(-1, n % t.shape[-1], t.shape[-1] - n % t.shape[-1]) if t.ndim else None,
    "reshape": lambda t, n: t.reshape(-1) if n else t.reshape((1, *t.shape)),
    "unsqueeze": lambda t, n: t.unsqueeze(n % (t.ndim + 1)),
    "diagonal": lambda t, n: t.diagonal(n % 2) if t.ndim > 1 else None,
}
WRITES = {
    "scale": lambda t, n: t.mul_(1.5 + n),
    "sine": lambda t, n: t.sin_(),
    "zero": lambda t, n: t.zero_(),
    "shift": lambda t, n: t.add_(n),
    "item": lambda t, n: t.__setitem__(0, 0.25 * n) if t.ndim and t.shape[0] else None,
}


def run_program(lib, shape, program):
    x = shaped_leaf(lib, *shape)
    made = [x * 1]
    for which, name, number in program:
        tensor = made[which % len(made)]
        if name in WRITES:
            WRITES[name](tensor, number)
        else:
            new = tensor * tensor if name == "square" else MOVES[name](tensor, number)
            if new is not None:
                made.append(new)
    loss = sum((one * (place + 1)).sum() for place, one in enumerate(made))
    versions, views = [one._version for one in made], [one._is_view() for one in made]
    try:
        loss.backward()
    except RuntimeError:
        return [one.detach().tolist() for one in made], versions, views, "overwritten"
    return [one.detach().tolist() for one in made], versions, views, x.grad


@settings(max_examples=12, deadline=None)
@given(steps())
def test_random_views_and_writes_are_torchs(assert_both_agree, drawn):
    assert_both_agree(lambda lib: run_program(lib, *drawn))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(steps())
def test_many_random_views_and_writes_are_torchs(assert_both_agree, drawn):
    assert_both_agree(lambda lib: run_program(lib, *drawn))


@pytest.fixture(scope="module")
def assert_both_agree():
    """As ``assert_agrees``, of which Hypothesis must not have one for each example."""
    torch = pytest.importorskip("torch")

    def compare(program):
        assert_close(plain(program(oplib)), plain(program(torch)))

    return compare
