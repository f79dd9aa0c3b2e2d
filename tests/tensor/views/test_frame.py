"""Every frame reads, writes and lays out its part as numpy does in the same memory."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from oplib.tensor.views.frame import Frame, Layout, Shape, Starts, contiguous_strides
from oplib.tensor.views.indexed import Diagonal, Sliding
from oplib.tensor.views.parts import AsDtype, Pairs
from oplib.tensor.views.reshape import Reshape, can_view, fit_strides
from oplib.tensor.views.strided import Strided
from oplib.tensor.views.window import Window, make_window

MEMORY = np.arange(4000, dtype=np.float32)  # an item is its own place
Case = tuple[Frame, Starts, Callable[[Any], Any]]
"""A frame, its starts, and the function of numpy that takes the same part as a view."""


def show(shape: Shape, layout: Layout, memory: Any = MEMORY) -> Any:
    strides, offset = layout
    return as_strided(memory[offset:], shape, [stride * memory.itemsize for stride in strides])


def lay_out_twice(shape: Shape) -> list[Layout]:
    """Returns a layout in row-major order, and one with the axes reversed and gaps between the items."""
    turned = [2 * stride for stride in reversed(contiguous_strides(shape[::-1]))]
    return [(contiguous_strides(shape), 0), (tuple(turned), 7)]


def draw_window(random: Random, in_shape: Shape) -> tuple[Window, Starts, Callable[[Any], Any]]:
    sizes, steps, starts, cuts = [], [], [], []
    for length in in_shape:
        size = random.choice([length, random.randint(0, length), 1])
        step = random.randint(1, (length - 1) // (size - 1)) if size > 1 else 1
        start = random.randint(0, length - (size - 1) * step - 1) if 0 < size != length else 0
        sizes.append(size)
        steps.append(step)
        cuts.append(slice(start, start + (size - 1) * step + 1 if size else start, step))
        if size != length:
            starts.append(start)
    kept = [axis for axis in range(len(in_shape)) if sizes[axis] != 1 or random.random() < 0.6]
    random.shuffle(kept)
    axes: list[int | None] = list(kept)
    for _ in range(random.choice([0, 0, 1])):
        axes.insert(random.randint(0, len(axes)), None)
    shown = [1 if axis is None else sizes[axis] for axis in axes]
    shape = tuple([random.choice([1, 1, 3]) if length == 1 else length for length in shown])

    def take(x: Any) -> Any:
        part = x[tuple(cuts)]
        dropped = [axis for axis in range(x.ndim) if axis not in kept]
        part = np.transpose(part, (*kept, *dropped))[(..., *[0 for _ in dropped])]
        return np.broadcast_to(part[tuple([None if axis is None else slice(None) for axis in axes])], shape)

    return make_window(in_shape, tuple(sizes), tuple(steps), tuple(axes), shape), tuple(starts), take


SHAPES: list[Shape] = [(4, 5), (2, 3, 4), (6,), (3, 1, 5), ()]
WINDOWS = {f"window {seed}": draw_window(Random(seed), SHAPES[seed % 5]) for seed in range(40)}
CASES: dict[str, Case] = {
    **WINDOWS,
    **{
        f"diagonal {offset} of {first}, {second}": (
            Diagonal.of((3, 4, 5), offset, first, second), (),
            lambda x, offset=offset, first=first, second=second: np.diagonal(x, offset, first, second),
        )
        for offset in (-2, 0, 1, 3) for first, second in ((0, 1), (2, 0))
    },
    **{
        f"windows of {size} at steps of {step} along {axis}": (
            Sliding.of((5, 6), axis, size, step), (),
            lambda x, axis=axis, size=size, step=step: np.swapaxes(
                np.swapaxes(sliding_window_view(x, size, axis), 0, axis)[::step], 0, axis
            ),
        )
        for axis in (0, 1) for size, step in ((2, 1), (2, 2), (2, 3), (5, 1))
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_frame_reads_writes_and_lays_out_the_part_that_numpy_takes(name: str) -> None:
    frame, starts, take = CASES[name]
    for layout in lay_out_twice(frame.in_shape):
        whole = show(frame.in_shape, layout)
        part = take(whole)
        assert frame.shape == part.shape
        np.testing.assert_array_equal(frame.get(jnp.asarray(whole), starts), part)
        laid = frame.lay_out(layout, starts)
        assert len(laid[0]) == part.ndim
        if part.size:
            np.testing.assert_array_equal(show(frame.shape, laid), part)
        assert not part.size or frame.is_injective == (np.unique(part).size == part.size)
        if frame.is_injective:
            written = frame.put(jnp.asarray(whole), jnp.asarray(-1 - part), starts)
            np.testing.assert_array_equal(written, np.where(np.isin(whole, part), -1 - whole, whole))
    assert pickle.loads(pickle.dumps(frame)) is frame


@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_reads_and_writes_at_starts_that_are_operands(name: str) -> None:
    frame, starts, take = WINDOWS[name]
    whole, moved = show(frame.in_shape, lay_out_twice(frame.in_shape)[0]), list(map(jnp.asarray, starts))
    part = take(whole)
    np.testing.assert_array_equal(frame.get(jnp.asarray(whole), moved), part)
    if frame.is_injective:
        written = frame.put(jnp.asarray(whole), jnp.asarray(-1 - part), moved)
        np.testing.assert_array_equal(written, frame.put(jnp.asarray(whole), jnp.asarray(-1 - part), starts))


@pytest.mark.parametrize("name", WINDOWS)
def test_two_windows_merge_into_one(name: str) -> None:
    frame, starts, take = WINDOWS[name]
    later, others, take_later = draw_window(Random(name), frame.shape)
    merged = frame.merge(later)
    assert merged is not None
    whole = show(frame.in_shape, lay_out_twice(frame.in_shape)[0])
    np.testing.assert_array_equal(
        merged[0].get(jnp.asarray(whole), merged[1](starts, others)), take_later(take(whole))
    )
    assert frame.merge(Reshape.between(frame.shape, frame.shape)) is None


@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_is_inverted_if_it_shows_each_item_once(name: str) -> None:
    frame, _, take = WINDOWS[name]
    whole = show(frame.in_shape, lay_out_twice(frame.in_shape)[0])
    part, inverse = take(whole), frame.invert()
    assert (inverse is not None) == (part.size == whole.size and frame.is_injective)
    if inverse is not None:
        np.testing.assert_array_equal(inverse.get(jnp.asarray(part), ()), whole)
    if 1 not in frame.in_shape:
        assert frame.is_identity == (part.shape == whole.shape and bool((part == whole).all()))


@pytest.mark.parametrize("name", list(WINDOWS)[:10])
def test_a_window_of_a_whole_on_several_devices_is_written_on_each(name: str) -> None:
    frame, starts, take = draw_window(Random(name), (4, 6))
    if frame.is_injective:
        whole = show((4, 6), lay_out_twice((4, 6))[0])
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("i",))
        spread = jax.device_put(whole, NamedSharding(mesh, PartitionSpec("i")))
        part = jnp.asarray(-1 - take(whole))
        np.testing.assert_array_equal(
            frame.put(spread, part, starts), frame.put(jnp.asarray(whole), part, starts)
        )


# Shapes and strides -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_strides_fit_another_shape_where_numpy_needs_no_copy(seed: int) -> None:
    random = Random(seed)
    in_shape = tuple(random.choices([1, 2, 2, 3, 4], k=random.randint(1, 4)))
    layout = lay_out_twice(in_shape)[0]
    strides = random.choice([layout[0], tuple(random.sample(layout[0], len(in_shape))), layout[0][::-1]])
    strides = tuple(
        [0 if random.random() < 0.15 else stride * random.choice([1, 1, 1, 2]) for stride in strides]
    )
    whole = show(in_shape, (strides, 0))
    lengths = [length for length in in_shape if random.random() < 0.9]
    rest = whole.size // max(int(np.prod(lengths)), 1)
    shape = random.choice([(*lengths, rest), (rest, *lengths), (whole.size,), (1, *in_shape, 1)])
    fitted = fit_strides(in_shape, strides, shape)
    try:
        expected = np.reshape(whole, shape, copy=False)
    except ValueError:
        assert fitted is None
        assert not can_view(in_shape, strides, shape)
        assert Reshape.between(in_shape, shape).lay_out((strides, 5), ()) == (contiguous_strides(shape), 5)
    else:
        assert fitted is not None
        assert can_view(in_shape, strides, shape)
        np.testing.assert_array_equal(show(shape, (fitted, 0)), expected)
        assert Reshape.between(in_shape, shape).lay_out((strides, 5), ()) == (fitted, 5)


def test_reshapes_of_nothing_and_of_one_item_always_fit() -> None:
    assert fit_strides((0, 3), (9, 2), (3, 0)) == (1, 1) == contiguous_strides((3, 0))
    assert fit_strides((), (), (1, 1)) == (1, 1)
    assert can_view((1,), (5,), ())


def test_reshapes_merge_into_one() -> None:
    first, later = Reshape.between((2, 6), (3, 4)), Reshape.between((3, 4), (12,))
    merged = first.merge(later)
    assert merged is not None
    assert (merged[0], merged[1]((), ())) == (Reshape.between((2, 6), (12,)), ())
    assert [Reshape.between((2, 6), shape).is_identity for shape in ((2, 6), (6, 2))] == [True, False]
    assert first.merge(make_window((3, 4), (3, 4), (1, 1), (0, 1), (3, 4))) is None


@pytest.mark.parametrize("base", range(2))
@pytest.mark.parametrize(
    ("shape", "new"), [
        ((2, 2), ((5, 1), 8)), ((3,), ((0,), 9)), ((2, 3), ((2, 6), 7)), ((0, 2), ((3, 1), 0)),
        ((), ((), 13)),
    ],
)  # fmt: skip
def test_strides_show_what_the_whole_shows_or_have_no_frame(base: int, shape: Shape, new: Layout) -> None:
    layout = [((5, 1), 7), ((2, 10), 7)][base]
    whole = show((3, 4), layout)
    expected = show(shape, new)
    frame = Strided.of((3, 4), layout, shape, new)
    assert (frame is None) == (not np.isin(expected, whole).all())
    if frame is not None:
        np.testing.assert_array_equal(frame.get(jnp.asarray(whole), ()), expected)
        assert frame.lay_out(layout, ()) == new
        assert pickle.loads(pickle.dumps(frame)) is frame


# Dtypes -----------------------------------------------------------------------------------------------------


def test_complex_numbers_show_as_pairs_in_the_same_memory() -> None:
    numbers = MEMORY.view(np.complex64)
    split, joined = Pairs.of((2, 3), joins=False), Pairs.of((2, 3, 2), joins=True)
    for layout in lay_out_twice((2, 3)):
        whole = show((2, 3), layout, numbers)
        pairs = np.stack([whole.real, whole.imag], -1)
        laid = split.lay_out(layout, ())
        np.testing.assert_array_equal(split.get(jnp.asarray(whole), ()), pairs)
        np.testing.assert_array_equal(split.put(jnp.asarray(whole), jnp.asarray(pairs), ()), whole)
        np.testing.assert_array_equal(show((2, 3, 2), laid), pairs)
        np.testing.assert_array_equal(joined.get(jnp.asarray(pairs), ()), whole)
        np.testing.assert_array_equal(joined.put(jnp.asarray(pairs), jnp.asarray(whole), ()), pairs)
        assert joined.lay_out(laid, ()) == layout
    assert (split.shape, joined.shape) == ((2, 3, 2), (2, 3))
    assert split.part_dtype(np.dtype(np.complex64)) == split.whole_dtype(np.dtype(np.complex64)) == np.float32
    for first, later in ((split, joined), (joined, split)):
        merged = first.merge(later)
        assert merged is not None
        assert merged[0] is Reshape.between(first.in_shape, first.in_shape)
        assert merged[1]((), ()) == ()
        assert first.merge(first) is None
        assert pickle.loads(pickle.dumps(first)) is first


@pytest.mark.parametrize("new", [np.int32, np.int16, np.uint8])
def test_bits_show_as_another_dtype_in_the_same_memory(new: Any) -> None:
    old, new = np.dtype(np.float32), np.dtype(new)
    whole = show((3, 4), ((6, 1), 8))
    frame = AsDtype.of((3, 4), old, new)
    part = np.ascontiguousarray(whole).view(new)
    assert (frame.shape, frame.part_dtype(old), frame.whole_dtype(new)) == (part.shape, new, old)
    np.testing.assert_array_equal(frame.get(jnp.asarray(whole), ()), part)
    np.testing.assert_array_equal(frame.put(jnp.asarray(whole), jnp.asarray(part), ()), whole)
    laid = frame.lay_out(((6, 1), 8), ())
    np.testing.assert_array_equal(show(part.shape, laid, MEMORY.view(new)), part)
    back = AsDtype.of(part.shape, new, old)
    assert (back.shape, back.lay_out(laid, ())) == ((3, 4), ((6, 1), 8))
    assert pickle.loads(pickle.dumps(frame)) is frame
