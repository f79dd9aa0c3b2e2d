"""One entry for each built-in op: its docstring, the shapes of its results, and an example that has run.

The pages are written when the site is built, and are not tracked.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import oplib
from oplib.builtin.public_functions.families import COMPOSED, FAMILIES
from oplib.builtin.public_functions.registry import REGISTRY
from tests.builtin.samples.drawing import Sample
from tests.builtin.samples.random import SAMPLES as OF_RANDOM
from tests.builtin.samples.samples import find_samples

from .watched_calls import show_call, watch_calls

_TITLES = {
    "pointwise": "Pointwise functions",
    "reductions": "Reductions, scans and order",
    "shapes": "Shapes, views and rearrangement",
    "indexing": "Indexing",
    "matrices": "Matrices and Fourier transforms",
    "networks": "Networks",
    "losses": "Losses",
    "creation": "Creation and random numbers",
    "composed": "Functions of several ops",
}
_MODULES = {
    "oplib": REGISTRY.functions,
    "oplib.linalg": REGISTRY.linalg,
    "oplib.fft": REGISTRY.fft,
    "oplib.special": REGISTRY.special,
    "oplib.nn.functional": REGISTRY.networks,
}
_MOST_SHAPES = 4
_HEAD = """# The built-in ops, one by one

Each entry has the signature, the arguments, the gradient, the shapes of results for some shapes of arguments,
and an example. Shapes and examples are computed when the site is built. [The table](../use/ops.md) shows all
ops on one page, with their dtypes and overloads.

"""


def write_ops_pages(folder: Path) -> None:
    """Writes a page for each package of tables, and their index.

    Each program runs once, and most of the time goes into compiling: XLA leaves its optimizations out.
    """
    disabled = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        _write_ops_pages(folder)
    finally:
        jax.config.update("jax_disable_most_optimizations", disabled)


def _write_ops_pages(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    pages: dict[str, list[str]] = {name: [] for name in _TITLES}
    shown: set[Any] = set()
    for family in FAMILIES:
        pages[family.__name__.split(".")[3]] += _write_family(family, shown)
    made = {row.op for family in FAMILIES for row in family.ROWS}
    pages["composed"] += [entry for op in COMPOSED if op not in made for entry in _write_composed(op)]
    for name, entries in pages.items():
        text = "\n".join([f"# {_TITLES[name]}", "", *entries])
        _write(folder / f"{name}.md", text)
    links = "\n".join(f"- [{title}]({name}.md)" for name, title in _TITLES.items())
    _write(folder / "index.md", f"{_HEAD}{links}\n")


def _write(path: Path, text: str) -> None:
    """Writes a page if it has changed, so that Sphinx can skip it."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def _write_family(family: Any, shown: set[Any]) -> Iterator[str]:
    """Yields the title of a family and the entries of its ops, but no entry of a function in ``shown``."""
    yield f"## {(family.__doc__ or '').splitlines()[0].rstrip('.')}\n"
    for op in dict.fromkeys(row.op for row in family.ROWS):
        paths = list(_find_paths(op))
        if paths and _look_up(paths[0]) not in shown:
            shown.add(_look_up(paths[0]))
            yield write_entry(paths[0], op, paths[1:])


def _write_composed(op: str) -> Iterator[str]:
    """Yields the entries of a function of several ops: one for all paths that lead to one function."""
    paths: dict[Any, list[str]] = {}
    for path in _find_paths(op):
        paths.setdefault(_look_up(path), []).append(path)
    for places in paths.values():
        shown = next((path for path in places if path.startswith("oplib.nn.")), places[0])
        yield write_entry(shown, others=[path for path in places if path != shown])


def _find_paths(op: str) -> Iterator[str]:
    """Yields the public functions of an op; ``nn.functional.unfold`` is not that of the op ``unfold``."""
    for module, names in _MODULES.items():
        prefix = f"{module.rpartition('.')[2]}_"
        for name, (form, own) in names.keys_by_name.items():
            if own == op and (name == op or form == "network"):
                yield f"{module}.{name.removeprefix(prefix) if module != 'oplib' else name}"


def write_entry(path: str, op: str = "", others: Iterable[str] = ()) -> str:
    """Returns the entry of a public function.

    Args:
        path: of the function, such as ``oplib.linalg.inv``.
        op: the op that it calls. A function of several ops has none: its shapes are those of calls in its
            docstring and in the tests beside torch, and its docstring has the example.
        others: further paths of the function.
    """
    lines, others = [f".. autofunction:: {path}", ""], list(others)
    names = ", ".join(f"``{other}``" for other in others)
    if names:
        lines += [f"   Also as {names}.", ""]
    function = _look_up(path)
    calls = list(_find_calls(op)) if op else []
    listed = [shape for _, shape in calls] or _find_shapes([path, *others])
    shapes = ", ".join(f"``{shape}``" for shape in dict.fromkeys(listed))
    if shapes:
        lines += [f"   **Shapes**: {shapes}", ""]
    if calls and "Example:" not in (function.__doc__ or ""):
        samples = sorted((sample for sample, _ in calls), key=_rate, reverse=True)
        examples = (_show_example(path, sample) for sample in samples)
        if example := next(filter(None, examples), None):
            lines += ["   .. code-block:: pycon", "", *[f"      {line}" for line in example], ""]
    return "\n".join(["```{eval-rst}", *lines, "```", ""])


def _look_up(path: str) -> Any:
    value: Any = oplib
    for name in path.split(".")[1:]:
        value = getattr(value, name)
    return value


def _find_calls(op: str) -> Iterator[tuple[Sample, str]]:
    """Yields samples of an op that the tests have, with the shapes of arguments and results."""
    packet = getattr(oplib.ops.oplib, op)
    overload = max((getattr(packet, name) for name in packet.overloads()), key=_count_tensors)
    for sample in _find_samples(overload)[:_MOST_SHAPES]:
        args, kwargs = jax.tree.map(_shorten, (tuple(sample.args), dict(sample.kwargs)))
        try:
            result = jax.eval_shape(lambda: overload.functional(*args, **kwargs))  # noqa: B023
        except Exception:  # noqa: BLE001  the shape depends on values
            result = overload(*args, **kwargs)
        yield Sample(args, kwargs), show_call(args, kwargs, result)


def _find_samples(overload: Any) -> list[Sample]:
    """Returns samples of the tests; those of an op that draws numbers stand apart, since values vary."""
    return OF_RANDOM.get(overload.name().partition("::")[2], []) or find_samples(overload)


def _find_shapes(paths: list[str]) -> Iterator[str]:
    """Yields the shapes of arguments and results of some calls of a function."""
    seen: dict[str, None] = {}
    for call in itertools.chain.from_iterable(map(watch_calls, paths)):
        seen[call] = None
        if len(seen) == _MOST_SHAPES:
            break
    yield from seen


def _shorten(value: Any) -> Any:
    """Returns an array of few digits, of the dtype that a call has without 64 bits."""
    if not isinstance(value, np.ndarray):
        return value
    is_inexact = np.issubdtype(value.dtype, np.inexact)
    return jnp.asarray(np.round(value, 2) if is_inexact else value)


def _rate(sample: Sample) -> tuple[bool, int]:
    """Returns a key by which the best example is the largest: arrays of several items, and few of them."""
    sizes = [leaf.size for leaf in jax.tree.leaves((sample.args, sample.kwargs)) if hasattr(leaf, "size")]
    return min(sizes, default=0) > 1, -sum(sizes)


def _count_tensors(overload: Any) -> int:
    return sum(argument.has_tensor for argument in overload.record.schema.arguments)


def _show_example(path: str, sample: Sample) -> list[str]:
    """Returns the lines of a call and its result; none if the function takes other arguments than its op."""
    lines: list[str] = []
    words = [_spell(value, lines) for value in sample.args]
    words += [f"{key}={_spell(value, lines)}" for key, value in sample.kwargs.items()]
    code = f"{path}({', '.join(words)})"
    namespace: dict[str, Any] = {"oplib": oplib}
    try:
        exec("\n".join(lines), namespace)
        result = eval(code, namespace)
    except Exception:  # noqa: BLE001  the function takes other arguments than its op
        return []
    return [*(f">>> {line}" for line in lines), f">>> {code}", *repr(result).splitlines()]


def _spell(value: Any, lines: list[str]) -> str:
    """Returns the text of an argument; for an array a letter, which a new line sets."""
    if isinstance(value, jax.Array):
        numbers = np.asarray(value)
        is_real = np.issubdtype(numbers.dtype, np.floating)
        items = np.round(numbers.astype(float), 2).tolist() if is_real else numbers.tolist()
        lines.append(f"{'xyzabcdef'[len(lines)]} = oplib.tensor({items})")
        return lines[-1][0]
    if isinstance(value, list):
        return f"[{', '.join(_spell(item, lines) for item in value)}]"
    return f"oplib.{value}" if isinstance(value, np.dtype) else repr(value)
