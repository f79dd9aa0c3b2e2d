"""Built-in ops at the sizes of real programs, beside torch and beside plain JAX: ``make bench-sizes``.

Small calls are measured by the group ``pointwise``: there dispatch decides, here the kernel. Every case runs
at a tenth of its size too. Growth by more than ``GROWTH`` times that of the items and of
torch's op is missed, whatever the op takes; so is more memory than ``MEMORY`` times that of plain JAX.
``REASONS`` says why a row is above its bound.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import oplib

from .rounds import Case, Comparison, Effort, compare, time_call
from .table import Row

TITLE = "built-in ops at the sizes of real programs, over torch and over the best known plain JAX"
OVER_TORCH, OVER_JAX, GROWTH, MEMORY = 3.0, 1.4, 1.5, 1.3
MILLION, WORDS = 1_000_000, 50_257


@dataclass(frozen=True)
class Sized:
    """One op at a size.

    Attributes:
        what: the call, for the table.
        size: the number that ``make`` takes.
        make: makes the operands, of a size.
        call: calls the op in the module ``oplib`` or ``torch``.
        plain: the same in JAX, in the best form that is known; None if there is only ours.
        leaves: the number of operands that are differentiated, the first ones; 0 for the forward alone.
    """

    what: str
    size: int
    make: Callable[[int], tuple[Any, ...]]
    call: Callable[..., Any]
    plain: Callable[..., Any] | None = None
    leaves: int = 0

    def make_case(self, module: Any, convert: Callable[[Any], Any], size: int) -> Case:
        """Returns the call in a module, with the gradients if there are leaves."""
        operands = [convert(array) for array in self.make(size)]
        leaves = operands[: self.leaves]
        for leaf in leaves:
            leaf.requires_grad_()

        def run(*given: Any) -> Any:
            found = _first(self.call(module, *given))
            return list(module.autograd.grad(found.sum(), leaves)) if leaves else found

        return Case(run, *operands)

    def make_plain(self) -> Case:
        """Returns the same in plain JAX, compiled."""
        assert self.plain is not None
        return Case(self._compile(self.plain), *map(jnp.asarray, self.make(self.size)))

    def find_memory(self) -> float | None:
        """Returns the bytes of temporaries and results over those of plain JAX; None if values decide."""
        assert self.plain is not None
        operands = [jnp.asarray(array) for array in self.make(self.size)]
        try:
            mine, its = (
                self._compile(function).lower(*operands).compile().memory_analysis()
                for function in (partial(self.call, oplib), self.plain)
            )
        except oplib.errors.TracingError:
            return None
        mine, its = (found.temp_size_in_bytes + found.output_size_in_bytes for found in (mine, its))
        return mine / its

    def _compile(self, function: Callable[..., Any]) -> Any:
        if not self.leaves:
            return jax.jit(lambda *given: _first(function(*given)))
        # With the value, so that the forward is not removed: a user needs both.
        both = jax.value_and_grad(lambda *given: _first(function(*given)).sum(), tuple(range(self.leaves)))
        return jax.jit(lambda *given: list(jax.tree.leaves(both(*given))))


def measure(effort: Effort) -> Iterator[Row]:
    """Yields a row over torch and one over plain JAX for each case, and the mean over torch."""
    found = importlib.util.find_spec("torch") is not None
    torch = importlib.import_module("torch") if found else None  # optional, and slow to import
    brief = replace(effort, seconds=effort.seconds / 4, least_rounds=3)
    ratios: list[float] = []
    for one in CASES:
        mine = one.make_case(oplib, oplib.tensor, one.size)
        if torch is not None:
            its = one.make_case(torch, torch.tensor, one.size)
            measured = compare(mine, its, brief)
            ratios.append(measured.ratio)
            mine_grows, its_grows = (
                seconds / _time_tenth(one, module, brief)
                for module, seconds in zip((oplib, torch), _list_minima(measured), strict=True)
            )
            note = f"grows {mine_grows:.1f} times from a tenth, torch {its_grows:.1f}"
            slow = mine_grows > GROWTH * max(its_grows, 10)
            yield _explain(Row(one.what, "torch", OVER_TORCH, measured, note=note, exact=not slow))
        if one.plain is not None:
            measured, memory = compare(mine, one.make_plain(), brief), one.find_memory()
            note = "values decide its size" if memory is None else f"memory {memory:.2f} of plain JAX"
            fits = memory is None or memory <= MEMORY
            yield _explain(Row(one.what, "plain JAX", OVER_JAX, measured, note=note, exact=fits))
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        counts = ", ".join(f"{sum(ratio > bound for ratio in ratios)} above {bound}" for bound in (3, 10))
        yield Row("geometric mean over torch", "torch", note=f"{mean:.2f} of {len(ratios)} cases, {counts}")


def _explain(row: Row) -> Row:
    """Adds the reason to a row above its bound."""
    if row.verdict == "reached":
        return row
    reasons = REASONS if row.control == "torch" else REASONS_BESIDE_JAX
    known = (reason for start, reason in reasons.items() if row.what.startswith(start))
    return replace(row, note=f"{row.note}; because: {next(known, 'no reason is known')}")


def _time_tenth(one: Sized, module: Any, effort: Effort) -> float:
    """Returns the seconds of a call at a tenth of the size."""
    return time_call(one.make_case(module, module.tensor, max(1, one.size // 10)), effort)


def _list_minima(measured: Comparison) -> tuple[float, float]:
    return min(measured.subject), min(measured.control)


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, (tuple, list)) else result


# Operands and formulations ----------------------------------------------------------------------------------


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def _whole(below: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(8).integers(0, below, shape).astype(np.int32)


def _scan(function: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    return lambda x: lax.associative_scan(function, x)


def _find_mode(x: Any) -> Any:
    ordered, places = jnp.sort(x), jnp.arange(x.size)
    is_new = jnp.concatenate([jnp.ones(1, bool), ordered[1:] != ordered[:-1]])
    return ordered[jnp.argmax(places - lax.cummax(jnp.where(is_new, places, 0)))]


def _argmax(x: Any) -> Any:
    places = lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - 1)
    return jnp.min(jnp.where(x == x.max(-1, keepdims=True), places, x.shape[-1]), -1)


def _pool(x: Any) -> Any:
    pieces = [x[..., i::2, j::2] for i in (0, 1) for j in (0, 1)]
    return jnp.maximum(jnp.maximum(pieces[0], pieces[1]), jnp.maximum(pieces[2], pieces[3]))


def _shifted(x: Any, w: Any) -> Any:
    wide = jnp.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    parts = (wide[..., i : i + x.shape[2], j : j + x.shape[3]] * w[:, 0, i, j, None, None]
             for i in range(3) for j in range(3))  # fmt: skip
    return sum(parts)


def _distances(x: Any) -> Any:
    squares = jnp.sum(x * x, 1)
    return jnp.sqrt(jnp.maximum(squares[:, None] + squares - 2 * x @ x.T, 0))


def _image(n: int) -> tuple[np.ndarray]:
    return (_normal(n, 32, 56, 56),)


def _vector(n: int) -> tuple[np.ndarray]:
    return (_normal(n),)


def _logits(n: int) -> tuple[np.ndarray]:
    return (_normal(64, n),)


CASES = (
    Sized("mode(30,000)", 30_000, lambda n: (_whole(999, n),), lambda m, x: m.mode(x), _find_mode),
    Sized("isin(30,000 in 30,000)", 30_000, lambda n: (_whole(n, n), _whole(n, n)[::-1].copy()),
          lambda m, x, y: m.isin(x, y),
          lambda x, y: jnp.isin(x, y, method="sort")),
    Sized("embedding(5,000 of 50,000 x 64) by frequency, backward", 5_000,
          lambda n: (_normal(10 * n, 64), _whole(10 * n, n)),
          lambda m, w, i: m.nn.functional.embedding(i, w, scale_grad_by_freq=True),
          None, 1),
    Sized("topk(8 x 50,257, 50)", WORDS, lambda n: (_normal(8, n),), lambda m, x: m.topk(x, 50),
          lambda x: lax.top_k(x, 50)),
    Sized("kthvalue(30,000, 99)", 30_000, _vector, lambda m, x: m.kthvalue(x, 99), lambda x: jnp.sort(x)[98]),
    Sized("sort(1e6)", MILLION, _vector, lambda m, x: m.sort(x)),
    Sized("median(1e6)", MILLION, _vector, lambda m, x: m.median(x), jnp.median),
    Sized("quantile(1e6)", MILLION, _vector, lambda m, x: m.quantile(x, 0.3), lambda x: jnp.quantile(x, 0.3)),
    Sized("quantile(64 x 5,000)", 5_000, _logits, lambda m, x: m.quantile(x, 0.3, dim=1),
          lambda x: jnp.quantile(x, 0.3, axis=1)),
    Sized("unique(1e6)", MILLION, lambda n: (_whole(n // 9, n),), lambda m, x: m.unique(x)),
    Sized("unique_consecutive(1e6)", MILLION, lambda n: (_whole(9, n),),
          lambda m, x: m.unique_consecutive(x)),
    Sized("argmax(1e6)", MILLION, _vector, lambda m, x: m.argmax(x), _argmax),
    Sized("argmax(64 x 50,257)", WORDS, _logits, lambda m, x: m.argmax(x, 1), _argmax),
    Sized("max(64 x 50,257) with indices", WORDS, _logits, lambda m, x: m.max(x, 1), _argmax),
    Sized("max(64 x 50,257) with indices, backward", WORDS, _logits, lambda m, x: m.max(x, 1),
          lambda x: jnp.take_along_axis(x, _argmax(x)[:, None], 1), 1),
    Sized("logsumexp(64 x 50,257), backward", WORDS, _logits, lambda m, x: m.logsumexp(x, 1),
          lambda x: jax.nn.logsumexp(x, 1), 1),
    Sized("max_pool2d(16 x 32 x 56 x 56, 2)", 16, _image,
          lambda m, x: m.nn.functional.max_pool2d(x, 2), _pool),
    Sized("max_pool2d(16 x 32 x 56 x 56, 2), backward", 16, _image,
          lambda m, x: m.nn.functional.max_pool2d(x, 2), _pool, 1),
    Sized("max_pool2d(16 x 32 x 56 x 56, 3, 2, 1)", 16, _image,
          lambda m, x: m.nn.functional.max_pool2d(x, 3, 2, 1),
          lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2),
                                      ((0, 0), (0, 0), (1, 1), (1, 1)))),
    Sized("max_pool2d(16 x 32 x 56 x 56, 3, 2, 1), backward", 16, _image,
          lambda m, x: m.nn.functional.max_pool2d(x, 3, 2, 1),
          lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2),
                                      ((0, 0), (0, 0), (1, 1), (1, 1))), 1),
    Sized("avg_pool2d(16 x 32 x 56 x 56, 3, 2, 1), backward", 16, _image,
          lambda m, x: m.nn.functional.avg_pool2d(x, 3, 2, 1),
          lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 1, 3, 3), (1, 1, 2, 2),
                                      ((0, 0), (0, 0), (1, 1), (1, 1))) / 9, 1),
    Sized("adaptive_max_pool2d(16 x 32 x 56 x 56, 7)", 16, _image,
          lambda m, x: m.nn.functional.adaptive_max_pool2d(x, 7),
          lambda x: x.reshape(*x.shape[:2], 7, 8, 7, 8).max((3, 5))),
    Sized("adaptive_avg_pool2d(16 x 32 x 56 x 56, 7), backward", 16, _image,
          lambda m, x: m.nn.functional.adaptive_avg_pool2d(x, 7),
          lambda x: x.reshape(*x.shape[:2], 7, 8, 7, 8).mean((3, 5)), 1),
    Sized("depthwise conv2d(4 x 32 x 56 x 56, 3 x 3)", 4, lambda n: (*_image(n), _normal(32, 1, 3, 3)),
          lambda m, x, w: m.nn.functional.conv2d(x, w, padding=1, groups=32), _shifted),
    Sized("depthwise conv2d(4 x 32 x 56 x 56, 3 x 3), backward", 4,
          lambda n: (*_image(n), _normal(32, 1, 3, 3)),
          lambda m, x, w: m.nn.functional.conv2d(x, w, padding=1, groups=32), _shifted, 2),
    Sized("conv2d(4 x 32 x 56 x 56, 32 of 3 x 3), backward", 4, lambda n: (*_image(n), _normal(32, 32, 3, 3)),
          lambda m, x, w: m.nn.functional.conv2d(x, w, padding=1),
          lambda x, w: lax.conv(x, w, (1, 1), "SAME"), 2),
    Sized("conv_transpose2d(4 x 32 x 28 x 28, 16 of 2 x 2, 2), backward", 4,
          lambda n: (_normal(n, 32, 28, 28), _normal(32, 16, 2, 2)),
          lambda m, x, w: m.nn.functional.conv_transpose2d(x, w, stride=2), None, 2),
    Sized("logcumsumexp(1e6)", MILLION, _vector, lambda m, x: m.logcumsumexp(x, 0), _scan(jnp.logaddexp)),
    Sized("cumsum(1e6)", MILLION, _vector, lambda m, x: m.cumsum(x, 0), _scan(jnp.add)),
    Sized("cumsum(1e6), backward", MILLION, _vector, lambda m, x: m.cumsum(x, 0), _scan(jnp.add), 1),
    Sized("cumsum(1,000 x 1,000)", 1_000, lambda n: (_normal(1_000, n),), lambda m, x: m.cumsum(x, 1),
          lambda x: lax.associative_scan(jnp.add, x, axis=1)),
    Sized("cumprod(1e6)", MILLION, _vector, lambda m, x: m.cumprod(x, 0), _scan(jnp.multiply)),
    Sized("cumprod(1e6), backward", MILLION, lambda n: (_normal(n) / 1e6 + 1,), lambda m, x: m.cumprod(x, 0),
          None, 1),
    Sized("cummax(1e6)", MILLION, _vector, lambda m, x: m.cummax(x, 0), lax.cummax),
    Sized("cdist(500 x 32)", 500, lambda n: (_normal(n, 32),), lambda m, x: m.cdist(x, x), _distances),
    Sized("cdist(500 x 32), backward", 500, lambda n: (_normal(n, 32), _normal(n, 32) + 1),
          lambda m, x, y: m.cdist(x, y), None, 2),
    Sized("pdist(500 x 32), backward", 500, lambda n: (_normal(n, 32),),
          lambda m, x: m.nn.functional.pdist(x), None, 1),
    Sized("combinations(500)", 500, _vector, lambda m, x: m.combinations(x)),
    Sized("randperm(100,000)", 100_000, lambda n: (_whole(9, n),), lambda m, x: m.randperm(x.shape[0]),
          lambda x: jax.random.permutation(jax.random.key(0), x.size)),
    Sized("trapezoid(100,000)", 100_000, _vector, lambda m, x: m.trapezoid(x), jnp.trapezoid),
    Sized("diff(100,000)", 100_000, _vector, lambda m, x: m.diff(x), jnp.diff),
    Sized("gradient(100,000)", 100_000, _vector, lambda m, x: m.gradient(x), jnp.gradient),
    Sized("eye(1,000)", 1_000, lambda n: (_whole(9, n),), lambda m, x: m.eye(x.shape[0]),
          lambda x: jnp.eye(x.size)),
    Sized("tril_indices(500, 500)", 500, lambda n: (_whole(9, n),),
          lambda m, x: m.tril_indices(x.shape[0], x.shape[0])),
    Sized("bincount(100,000)", 100_000, lambda n: (_whole(999, n),), lambda m, x: m.bincount(x),
          lambda x: jnp.bincount(x, length=999)),
    Sized("histc(1e6)", MILLION, _vector, lambda m, x: m.histc(x, 100)),
    Sized("searchsorted(100,000 in 100,000)", 100_000,
          lambda n: (np.sort(_normal(n)), _normal(n)[::-1].copy()),
          lambda m, x, y: m.searchsorted(x, y), lambda x, y: jnp.searchsorted(x, y, method="scan_unrolled")),
    Sized("scatter_add(100,000 into 10,000)", 100_000,
          lambda n: (_normal(n), _whole(n // 10, n).astype(np.int64)),
          lambda m, x, i: m.scatter_add(x[: len(x) // 10], 0, i, x),
          lambda x, i: x[: x.size // 10].at[i].add(x)),
    Sized("index_add(10,000 x 64)", 10_000, lambda n: (_normal(n, 64), _whole(n // 10, n)),
          lambda m, x, i: m.index_add(x[: len(x) // 10], 0, i, x),
          lambda x, i: x[: len(x) // 10].at[i].add(x)),
    Sized("scatter_reduce(100,000 into 10,000, amax)", 100_000,
          lambda n: (_normal(n), _whole(n // 10, n).astype(np.int64)),
          lambda m, x, i: m.scatter_reduce(x[: len(x) // 10], 0, i, x, "amax"),
          lambda x, i: x[: x.size // 10].at[i].max(x)),
    Sized("gather(64 x 50,257)", WORDS, lambda n: (_normal(64, n), _whole(n, 64, n).astype(np.int64)),
          lambda m, x, i: m.gather(x, 1, i), lambda x, i: jnp.take_along_axis(x, i, 1)),
    Sized("embedding_bag(10,000 x 64 in 1,000 bags)", 10_000,
          lambda n: (_normal(n, 64), _whole(n, n), np.arange(0, n, 10, dtype=np.int32)),
          lambda m, w, i, o: m.nn.functional.embedding_bag(i, w, o)),
    Sized("interpolate(16 x 32 x 28 x 28, 2, bilinear)", 16, lambda n: (_normal(n, 32, 28, 28),),
          lambda m, x: m.nn.functional.interpolate(x, scale_factor=2, mode="bilinear"),
          lambda x: jax.image.resize(x, (*x.shape[:2], 56, 56), "bilinear")),
    Sized("layer_norm(4,096 x 768), backward", 4_096, lambda n: (_normal(n, 768),),
          lambda m, x: m.nn.functional.layer_norm(x, (768,)) ** 2, None, 1),
    Sized("group_norm(16 x 32 x 56 x 56, 8), backward", 16, _image,
          lambda m, x: m.nn.functional.group_norm(x, 8) ** 2, None, 1),
    Sized("cross_entropy(64 x 50,257), backward", WORDS,
          lambda n: (_normal(64, n), _whole(n, 64).astype(np.int64)),
          lambda m, x, y: m.nn.functional.cross_entropy(x, y),
          lambda x, y: -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean(), 1),
    Sized("inv(256 x 8 x 8)", 256, lambda n: (_normal(n, 8, 8),), lambda m, x: m.linalg.inv(x)),
    Sized("det(256 x 8 x 8)", 256, lambda n: (_normal(n, 8, 8),), lambda m, x: m.linalg.det(x)),
    Sized("lstsq(200 x 50)", 200, lambda n: (_normal(n, 50), _normal(n, 1)),
          lambda m, x, y: m.linalg.lstsq(x, y)),
    *(Sized(f"{name}(1e6)", MILLION, lambda n: (_normal(n), _normal(n)[::-1] + 3),
            lambda m, x, y, name=name: getattr(m, name)(x, y), getattr(jnp, name))
      for name in ("fmod", "remainder", "atan2")),
    *(Sized(f"{name}(1e6)", MILLION, _vector, lambda m, x, name=name: getattr(m, name)(x), getattr(jnp, name))
      for name in ("tan", "sin", "cos", "exp2", "std", "var", "nansum", "nanmean")),
    Sized("norm(1e6), backward", MILLION, _vector, lambda m, x: m.linalg.vector_norm(x), jnp.linalg.norm, 1),
    Sized("where(1e6), backward", MILLION, _vector, lambda m, x: m.where(x > 0, x, 0.1 * x),
          lambda x: jnp.where(x > 0, x, 0.1 * x), 1),
    Sized("pad(16 x 32 x 56 x 56, reflect), backward", 16, _image,
          lambda m, x: m.nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"),
          lambda x: jnp.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="reflect"), 1),
    Sized("unfold(16 x 32 x 56 x 56, 3), backward", 4, _image,
          lambda m, x: m.nn.functional.unfold(x, 3), None, 1),
    Sized("roll(1e6)", MILLION, _vector, lambda m, x: m.roll(x, 7), lambda x: jnp.roll(x, 7)),
    Sized("nonzero(1e6)", MILLION, lambda n: (_whole(2, n),), lambda m, x: m.nonzero(x)),
    Sized("masked_select(1e6)", MILLION, _vector, lambda m, x: m.masked_select(x, x > 0)),
    Sized("multinomial(64 x 50,257)", WORDS, lambda n: (abs(_normal(64, n)),),
          lambda m, x: m.multinomial(x, 1)),
)  # fmt: skip

SORTS = "XLA's sort; torch selects without sorting"
BITS = "the keys are read once for each of their bits; torch partitions in place"
SCANS = "XLA has no scan: a tree of additions reads and writes the array several times"
PAGES = "pages that the allocator gives back to the system at each call; see docs/use/speed.md"
SCALAR = "XLA's own code for the function is not vectorised"
MAKES = "torch writes into memory that it reuses; XLA's result is new memory"
REASONS = {
    "mode": "XLA's sort is slower than torch's for integers",
    "topk": SORTS,
    "kthvalue": BITS,
    "median": BITS,
    "depthwise conv2d": "the gradient of the weights is a reduction of nine products",
    "cumsum": SCANS,
    "cumprod": SCANS + "; the backward is right at zeros, where torch's division needs a second form",
    "cummax": SCANS + ": of integers of 64 bits, a key and its position",
    "logcumsumexp": SCANS,
    "cdist": "XLA sums squares in scalar code where a row is short",
    "pdist": "row by row, and again for the backward, so that no array of all differences is stored",
    "combinations": "XLA's gather",
    "randperm": "XLA's sort of one integer of 64 bits for each item; torch shuffles in place",
    "trapezoid": "XLA stores the slice without both ends before it sums it",
    "diff": "XLA's slices are copies",
    "gradient": "several calls: the inside, both ends, and their concatenation",
    "eye": MAKES,
    "tril_indices": "numpy makes the indices on the host, and they are copied into an array",
    "bincount": "numpy counts on the host: the size of the result is a value",
    "scatter": "XLA's scatter is a scalar loop",
    "index_add": "XLA's scatter is a scalar loop",
    "gather": "XLA's gather checks each index",
    "embedding_bag": "XLA's loop over rows",
    "nansum": "XLA stores the items without nan before it sums them; a plain sum reads the operand",
    "exp2": "the scale of the whole part in two steps, so that whole numbers are exact",
    **dict.fromkeys(("pad", "multinomial"), PAGES),
    "group_norm": "XLA's reductions over short axes are scalar",
    "inv": "XLA calls LAPACK for each matrix",
    "det": "XLA calls LAPACK for each matrix",
    "lstsq": "QR, and the singular values of its factor for the rank, which torch's driver finds by pivots",
    **dict.fromkeys(("fmod", "remainder", "atan2", "tan", "sin", "cos"), SCALAR),
}
KEYS = "keys of the size of the operand, which order nan as torch does"
CALLS = "calls on the tape, where plain JAX compiles all into one program"
REASONS_BESIDE_JAX = {
    **dict.fromkeys(("topk", "kthvalue", "median"), KEYS),
    "quantile": KEYS + "; once for each of two ranks",
    "logsumexp": CALLS,
    "max_pool2d": "the strided slices of a padded copy, which take less time than XLA's windows",
    "avg_pool2d": CALLS,
    "adaptive_max_pool2d": "positions, which the backward needs: the largest of one axis at a time is stored",
    "logcumsumexp": "the largest item of each prefix beside its sum: exact weights of equal items",
    "cummax": "positions, which torch returns and plain JAX here does not",
    "cdist": "the choice of the form of short matrices",
    "trapezoid": "the ends are left out of the sum; plain JAX subtracts them: nan at an infinite end",
    "gradient": "several calls, where plain JAX compiles all into one program",
    "eye": "plain JAX makes a constant of it when it compiles",
    "bincount": "numpy counts on the host: torch's result has as many items as the largest value asks for",
    "index_add": "checks each index, where plain JAX drops those outside",
    "scatter": "checks each index, where plain JAX drops those outside",
    "gather": "checks each index",
    "cross_entropy": CALLS,
    "exp2": "exact at whole numbers, where XLA's is up to 68 units in the last place off",
    "nan": "a count of the numbers beside their sum",
    "norm": CALLS,
    "std": "the form with a scale, which runs where a variance leaves the range, counts as memory",
    "where": CALLS,
    "pad": CALLS,
}
