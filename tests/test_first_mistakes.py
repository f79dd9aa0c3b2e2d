"""First mistakes of those who come from torch and from JAX: each gives one short text with a cure.

``first_mistakes/`` has a program and the text of its error in each block. The texts are read by people, so a
change of one is a change of its file.
"""

import itertools
import linecache
import re
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import oplib
import oplib.nn.functional as F
from oplib.library import custom_op

LONGEST = 400
PROGRAM = "program.py"


def read_blocks(name: str) -> list[tuple[str, str]]:
    """Returns the programs of a file, each with its text."""
    found = []
    for block in (Path(__file__).parent / "first_mistakes" / name).read_text().strip().split("\n\n"):
        lines = block.split("\n")
        count = sum(line.startswith((">>> ", "... ")) for line in lines)
        found.append(("\n".join([line[4:] for line in lines[:count]]), "\n".join(lines[count:])))
    return found


OF_TORCH, OF_JAX = read_blocks("from_torch.txt"), read_blocks("from_jax.txt")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("program", "text"), [*OF_TORCH, *OF_JAX], ids=itertools.count())
def test_a_first_mistake_gives_a_short_text(program, text, monkeypatch, forget_ops):
    lines = [f"{line}\n" for line in program.split("\n")]
    monkeypatch.setitem(linecache.cache, PROGRAM, (len(program), None, lines, PROGRAM))
    tensor_of_torch = type("Tensor", (), {"__module__": "torch"})
    names = {"torch": types.SimpleNamespace(Tensor=tensor_of_torch), "op": custom_op, "oplib": oplib, "F": F}
    names |= {"jax": jax, "jnp": jnp, "np": np, "optax": optax}
    code = compile(program, PROGRAM, "exec")
    with pytest.raises((Exception, Warning), match=r".") as caught:
        exec(code, names)
    told = str(caught.value)
    if caught.type is oplib.errors.TracingError:  # by the op, its function or its operator: the path decides
        told = re.sub(r"^(?:oplib::(\w+)\.\w+|__(\w+)__): ", lambda name: f"{name[1] or name[2]}: ", told)
    assert f"{caught.type.__name__}: {told}" == text
    assert len(str(caught.value)) <= LONGEST


def test_eighty_mistakes_of_each_origin_are_known():
    assert min(len(OF_TORCH), len(OF_JAX)) >= 80
    assert len(dict([*OF_TORCH, *OF_JAX])) == len(OF_TORCH) + len(OF_JAX)
