"""Impossible sizes, damaged files, destroyed libraries and wrong states, again and again."""

from __future__ import annotations

import gc
import io
import random
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import AllocationError, ArgumentError, DataError
from oplib.library import Library, ops
from oplib.tensor.random.generator import get_rng_state, set_rng_state
from tests.bad_calls import BAD
from tests.counts import counts
from tests.memory import hide_older
from tests.soak.impossible_calls import CALLS
from tests.soak.rounds import repeat

pytestmark = pytest.mark.slow


def test_impossible_sizes_are_refused_before_anything_is_allocated():
    def run_round(numbers: random.Random) -> None:
        name = numbers.choice(sorted(CALLS))
        with pytest.raises((AllocationError, ArgumentError)):
            pytest.fail(f"{name} gave {CALLS[name](numbers).shape}")
        counts["impossible sizes"] += 1

    repeat("sizes", run_round)


# Files ---------------------------------------------------------------------------------------------


def draw_tree(numbers: random.Random, depth: int = 3) -> Any:
    """Returns a random tree of Tensors and plain values."""
    kind = numbers.randrange(8 if depth else 5)
    if kind == 0:
        return oplib.rand(numbers.randrange(3), numbers.randrange(4))
    if kind == 1:
        return numbers.choice([None, True, -3, 2.5, 1j, "text", b"\x00", 2**70])
    if kind == 2:
        return np.ones(numbers.randrange(5), dtype=numbers.choice(["int8", "float32", "bool"]))
    if kind == 3:
        return oplib.tensor([1, 2], dtype=numbers.choice([oplib.bfloat16, oplib.int32, oplib.complex64]))
    if kind == 4:
        return jnp.ones(numbers.randrange(4))
    items = [draw_tree(numbers, depth - 1) for _ in range(numbers.randrange(4))]
    return [items, tuple(items), {f"key {place}": one for place, one in enumerate(items)}][kind - 5]


def spell(tree: Any) -> str:
    """Returns a text that is the same for equal trees."""
    if isinstance(tree, (list, tuple)):
        return f"{type(tree).__name__}({', '.join(map(spell, tree))})"
    if isinstance(tree, dict):
        return f"dict({', '.join(f'{key!r}: {spell(value)}' for key, value in tree.items())})"
    return repr(tree)


def damage(content: bytes, numbers: random.Random) -> bytes:
    """Returns the content with one thing wrong."""
    start = numbers.randrange(len(content))
    end = min(start + numbers.randrange(1, 40), len(content))
    kind = numbers.randrange(6)
    if kind == 0:
        return content[:start]
    if kind == 1:
        return content[:start] + content[end:]
    if kind == 2:
        return content[:start] + numbers.randbytes(end - start) + content[end:]
    if kind == 3:
        return content[:start] + numbers.randbytes(numbers.randrange(1, 9)) + content[start:]
    if kind == 4:
        return content[:start] + content[start:end] * 2 + content[end:]
    flipped = content[start] ^ (1 << numbers.randrange(8))
    return content[:start] + bytes([flipped]) + content[start + 1 :]


def test_a_damaged_file_gives_what_was_saved_or_a_data_error():
    def run_round(numbers: random.Random) -> None:
        tree = draw_tree(numbers)
        file = io.BytesIO()
        oplib.save(tree, file)
        content = file.getvalue()
        assert spell(oplib.load(io.BytesIO(content))) == spell(tree)
        for _ in range(20):
            try:
                found = oplib.load(io.BytesIO(damage(content, numbers)))
            except (DataError, AllocationError):
                counts["damaged files refused"] += 1
            else:
                assert spell(found) == spell(tree)
                counts["damaged files read rightly"] += 1

    repeat("damaged files", run_round)


# Libraries and states ------------------------------------------------------------------------------


def define_and_destroy(name: str, numbers: random.Random) -> None:
    library = Library("test_soak", "FRAGMENT")
    library.define(f"{name}(Tensor x) -> Tensor")
    library.impl(name, lambda x: x + 1, "cpu")
    op = getattr(ops.test_soak, name)
    x = oplib.ones(1, requires_grad=numbers.random() < 0.5)
    with oplib.no_grad():
        assert op(x).item() == 2
    if numbers.random() < 0.5:
        assert op(jnp.ones(1))[0] == 2
    library._destroy()


def test_a_destroyed_library_keeps_a_bounded_number_of_objects():
    names = (f"name{number}" for number in range(10**9))

    def count_objects(numbers: random.Random) -> int:
        for _ in range(40):
            define_and_destroy(next(names), numbers)
            gc.collect()
        for _ in range(3):
            gc.collect()
        counts["destroyed libraries"] += 40
        return len(gc.get_objects())

    hide_older()  # looks only at what is made from here on, which is quick
    sizes: list[int] = []
    # Two counts for each round: one round alone then shows what its libraries leave behind.
    repeat("destroyed libraries", lambda numbers: sizes.extend(count_objects(numbers) for _ in range(2)))
    assert sizes[-1] - sizes[min(5, len(sizes) - 2)] < 400


def draw_state(numbers: random.Random) -> Any:
    """Returns a state with one thing wrong, or something else altogether."""
    state: list[Any] = list(get_rng_state())
    if numbers.random() < 0.3:
        return numbers.choice(list(BAD.values()))()
    state[numbers.randrange(3)] = numbers.choice(list(BAD.values()))()
    return tuple(state) if numbers.random() < 0.8 else state


def test_set_rng_state_takes_its_states_and_nothing_else():
    def run_round(numbers: random.Random) -> None:
        before = get_rng_state()
        expected = oplib.rand(3).tolist()
        for _ in range(20):
            state = draw_state(numbers)
            with pytest.raises(ArgumentError, match="set_state: expected a state from get_state"):
                pytest.fail(f"{set_rng_state(state)} for {state}")
            counts["wrong states"] += 1
        set_rng_state(before)
        assert oplib.rand(3).tolist() == expected

    before = get_rng_state()
    repeat("wrong states", run_round)
    set_rng_state(before)
