"""The lines of the function that serves the calls of one program, and the objects that they refer to.

Such a function is written once for each program (:class:`.call_program.Program`). It finds the operands and
tests whether they are what the program was compiled for. Then it runs the program, and does to Tensors what
the function of the user does. It has only the lines that its program needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.autograd.recording.lazy_edges import find_links
from oplib.tensor import Storage, Tensor
from oplib.tensor.random.draw_log import note_draw
from oplib.tensor.storage.fresh import FreshStorage, get_array, reads, set_array

from .call_backward import Recipe
from .operands import PLAIN

MISSED = object()
"""What the function returns for a call that its program does not serve."""
CALL = """
def read(arguments, use):
    _, function, leaves, values, _, _, apart = arguments
    try:
        {find}
        tensors = {tensors}
        rest = {rest}
    except errors:
        return {gone}
    {fit}
    if apart and not may_take_apart(apart, tensors):
        return MISSED
    {draw}
    inputs = [{inputs}]
    if use is not None:
        return use(inputs, arrays)
    {read_out}
    returned = node = None
    {body}
"""  # another program must not use again the buffers that are read out
BODY = """
{clear}
{compute}
{record}
{write}
{link}
{make}
{complete}
{fill}
result = {result}
{advance}
return result
"""
WRITING = """
try:
    {body}
except BaseException:
    if returned is not None and (node is not None or backward is None):
        write_back.write(owners, returned, again=True)
    raise
"""
REUSE = """
global has_run
while returned is None:
    seen = reads[0]
    if not has_run or not FRESH.issuperset(map(type, take_donated(owners))):
        copy_read(inputs, owners, has_run)
    calls = starmap(run, (inputs,))
    if reads[0] == seen:
        (returned,) = calls
has_run = True
"""  # no interrupt and no signal handler comes between the comparison and the assignment
CLEAR = """
for tensor in take_cleared(tensors):
    tensor._grad = None
"""  # the program may use its memory
RECORD = """
before = turned and [(index, tensors[index]._storage) for index in turned]
recipe = new_tuple(Recipe, (arguments, tensors, rest, (*arrays, *values), before))
node = backward.start_node(recipe, returned)
"""  # hooks may raise
WRITE = """
write_back.write(owners, returned)
write_back.note(tensors)
"""
LINK = "links = {find}(take_linked(tensors))"
COMPLETE = """
links += collecting and write_back.list_edges(values)
backward.complete_node(node, recipe, links, returned)
"""


def copy_read(
    donated: Sequence[tuple[int, int]], inputs: list[Any], owners: Sequence[Storage], has_run: bool
) -> None:
    """Copies the inputs to donate whose buffers were read, so that the buffers stay valid.

    Args:
        donated: the indices of these inputs, and of their operands.
        inputs: the inputs.
        owners: the storages of the operands.
        has_run: whether the program has run. JAX runs the first call in Python code, where an interrupt would
            lose the results.
    """
    read = [n for n, index in donated if not has_run or owners[index].__class__ is not FreshStorage]
    copy = _copy_arrays if has_run else _transfer
    for position, array in zip(read, copy([inputs[n] for n in read]), strict=True):
        inputs[position] = array


@jax.jit
def _copy_arrays(arrays: Sequence[Any]) -> list[Any]:
    """Copies arrays in one call. It is compiled for their shapes, and so for those who copy at each call."""
    return list(map(jnp.copy, arrays))


def _transfer(arrays: Sequence[Any]) -> Sequence[Any]:
    """Copies arrays without compiling anything.

    Arrays of several processes need a sharding as a destination. Any destination commits an array to its
    devices, and JAX would compile another program for it.
    """
    destinations = [array.sharding if array.committed else None for array in arrays]
    return jax.device_put([*arrays], destinations, may_alias=False)


def _advance(generator: Any, change: Any) -> None:
    before = seed, key, count = generator.get_state()
    note_draw(generator, generator._birth, before)
    generator.set_state((seed, key, count + change) if isinstance(change, int) else change)


OBJECTS: dict[str, Any] = {
    "FRESH": frozenset([FreshStorage]),
    "MISSED": MISSED,
    "PLAIN": PLAIN,
    "Recipe": Recipe,
    "Tensor": Tensor,
    "advance": _advance,
    "find_links": find_links,
    "get_array": get_array,
    "get_aval": attrgetter("aval"),
    "get_storage": attrgetter("_storage"),
    "has_run": False,
    "new": object.__new__,
    "new_tuple": tuple.__new__,  # a NamedTuple's own ``__new__`` is a Python function
    "read_array": attrgetter("array"),
    "reads": reads,
    "set_array": set_array,
    "starmap": itertools.starmap,
    "uint32": np.uint32,
}
"""The objects that the lines of any program may refer to."""
