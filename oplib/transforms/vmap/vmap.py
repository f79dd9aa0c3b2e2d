"""``vmap``: a function of one example, called for a whole batch at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

from oplib.errors import ArgumentError, ArgumentValueError, describe
from oplib.pytree import tree_unflatten
from oplib.tensor import Tensor, upcalls
from oplib.tensor.random.draw_log import DrawLog
from oplib.tracebacks import entry_point

from .batch_dims import move_batch, repeat
from .dims import Arguments, place_batch, read_arguments, take_results_apart
from .region import Mapped, Region

Randomness = Literal["error", "different", "same"]


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: Randomness = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Maps a function of Tensors over a dimension of its arguments.

    The function runs once and sees one example, so it can read no values. Inside, ops are recorded as ever:
    ``oplib.autograd.grad`` there is per example, and gradients flow through the map, to its arguments and to
    tensors that the function closes over, to any order. ``backward`` inside raises. A mapped argument may be
    written in place; a tensor that is not mapped may not take in one that is.

    Args:
        func: takes and returns Tensors, in any containers; keyword arguments are passed on as they are.
        in_dims: the place of the batch in each argument: an int for all, or a tuple with an int, None (the
            same for all examples) or a container of these for each.
        out_dims: where the batch is to be in each result; None for one that is the same for all examples.
        randomness: what a draw of random numbers does: ``"error"`` raises, ``"different"`` draws anew for
            each example, ``"same"`` draws once for all.
        chunk_size: maps so many examples at a time, which takes less memory.

    Returns:
        The function of whole batches.

    Raises:
        ArgumentError: an unknown ``randomness``.
        ArgumentValueError: ``chunk_size`` is not positive; when called, dims that do not fit, batches of
            different sizes, or a result that is no Tensor.
        DimensionError: when called, an ``out_dims`` that a result does not have.
        TracingError: when called, ``func`` reads a value, draws random numbers that it may not, or writes a
            mapped value into a tensor that is not.

    Gradient:
        That of ``func`` for each example; for what is not mapped, their sum.

    Source:
        ``torch.vmap`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> rows = oplib.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> oplib.vmap(lambda row: row * row.sum())(rows)
        tensor([[ 3.,  6.],
                [21., 28.]])
    """
    if randomness not in ("error", "different", "same"):
        raise ArgumentError(
            "vmap: Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness!r}. Choose one of them."
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ArgumentValueError(
            f"vmap: chunk_size should be None or greater than 0. Got {chunk_size}. Give the number of "
            "examples to map at a time."
        )

    @entry_point
    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        name = getattr(func, "__name__", repr(func))
        given = read_arguments(name, in_dims, args)
        call = _Call(func, name, out_dims, kwargs)
        if chunk_size is None or chunk_size >= given.size:
            return call.finish(call.run(given, randomness))
        return call.finish(_run_chunks(call, given, randomness, chunk_size))

    return mapped


class _Call:
    """One call of a mapped function: what is known of its results once it has run.

    Args:
        func: the function of one example.
        name: of it, for errors.
        out_dims: as they were given.
        kwargs: keyword arguments.
    """

    def __init__(self, func: Callable[..., Any], name: str, out_dims: Any, kwargs: dict[str, Any]) -> None:
        self.func = func
        self.name = name
        self.out_dims = out_dims
        self.kwargs = kwargs
        self.spec: Any = None
        self.dims: list[int | None] = []

    def run(self, given: Arguments, randomness: Randomness) -> list[Tensor]:
        """Maps it; results have the batch where it is to be."""

        def call(values: list[Any]) -> Sequence[Tensor | None]:
            results = self.func(*tree_unflatten(values, given.spec), **self.kwargs)
            leaves, self.spec, self.dims = take_results_apart(self.name, self.out_dims, results)
            return leaves

        found = Region(given.size, randomness).run(call, given.leaves, given.dims)
        return [self._place(one, dim, given.size) for one, dim in zip(found, self.dims, strict=True)]

    def finish(self, leaves: Sequence[Tensor]) -> Any:
        """Puts results together as the function returned them."""
        return tree_unflatten(leaves, self.spec)

    def _place(self, result: Mapped, dim: int | None, size: int) -> Tensor:
        tensor: Any = result.tensor
        array = tensor._storage.array
        if dim is None:
            if result.is_batched:
                raise ArgumentValueError(
                    f"vmap({self.name}, ...): `{self.name}` can not return a mapped Tensor when out_dim is "
                    f"None. Got {describe(array)} with the batch in front. Give the place where the batch is "
                    "to be."
                )
            return tensor
        if not result.is_batched:
            tensor = repeat(tensor, size)
        place = place_batch(tensor._storage.array.ndim, dim)
        return move_batch(tensor, 0, place) if place else tensor


def _run_chunks(call: _Call, given: Arguments, randomness: Randomness, chunk_size: int) -> list[Tensor]:
    """Maps a few examples at a time; with ``"same"`` each chunk draws what the first one drew."""
    draw_log = DrawLog()
    chunks: list[list[Tensor]] = []
    for start in range(0, given.size, chunk_size):
        if randomness == "same":
            draw_log.rewind()
        with draw_log.noting():
            chunks.append(call.run(_take(given, start, min(start + chunk_size, given.size)), randomness))
    return [
        chunks[0][place] if dim is None else upcalls.cat([chunk[place] for chunk in chunks], dim)
        for place, dim in enumerate(call.dims)
    ]


def _take(given: Arguments, start: int, stop: int) -> Arguments:
    leaves = [
        leaf if dim is None else upcalls.getitem(leaf, (slice(None),) * dim + (slice(start, stop),))
        for leaf, dim in zip(given.leaves, given.dims, strict=True)
    ]
    return Arguments(leaves, given.spec, given.dims, stop - start)


def map_examples(
    call: Callable[[tuple[Tensor, ...]], Sequence[Tensor | None]], tensors: Sequence[Tensor]
) -> tuple[Tensor | None, ...]:
    """Maps a function of several Tensors, with the batch in front, that may return None.

    Results that are the same for all examples are repeated for each. What draws random numbers raises.

    Args:
        call: gets a tuple of Tensors, one example of each.
        tensors: the batches, of one size.

    Returns:
        One result for each that ``call`` returned.
    """
    size = tensors[0]._storage.array.shape[0]
    found = Region(size, "error").run(lambda values: call(tuple(values)), tensors, [0] * len(tensors))
    return tuple(
        one.tensor if one.tensor is None or one.is_batched else repeat(one.tensor, size) for one in found
    )
