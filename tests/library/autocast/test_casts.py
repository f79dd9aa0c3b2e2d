"""Under autocast an op takes and returns the dtypes of torch's, for each policy and mixture of arguments."""

import itertools

import pytest

import oplib

torch = pytest.importorskip("torch")

DTYPES = ("bfloat16", "float32", "float64", "float16", "int32")
CALLS = {
    "cast to the low dtype": ("matmul", lambda lib, x, y: lib.matmul(x, y)),
    "an operator": ("@", lambda lib, x, y: x @ y),
    "a layer": ("linear", lambda lib, x, y: lib.nn.functional.linear(x, y)),
    "a product of batches": ("bmm", lambda lib, x, y: lib.bmm(x[None], y[None])),
    "cast to float32": ("mse_loss", lambda lib, x, y: lib.nn.functional.mse_loss(x, y)),
    "the widest": ("cat", lambda lib, x, y: lib.cat([x, y])),
    "the widest, turned": ("cat", lambda lib, x, y: lib.cat([y, x, y])),
    "the widest of a stack": ("stack", lambda lib, x, y: lib.stack([x, y])),
    "no policy": ("add", lambda lib, x, y: x + y),
    "no policy, of one": ("exp", lambda lib, x, y: lib.exp(x)),
}


@pytest.mark.parametrize("low", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", CALLS)
def test_the_dtypes_are_those_of_torch(name, low, with_64_bits, without_warnings):
    call = CALLS[name][1]

    def find(library, dtypes):
        x, y = (library.ones(2, 2, dtype=getattr(library, dtype)) for dtype in dtypes)
        try:
            with library.autocast("cpu", dtype=getattr(library, low)):
                return str(call(library, x, y).dtype).rpartition(".")[2]
        except (RuntimeError, TypeError):
            return "refused"

    pairs = list(itertools.product(DTYPES, repeat=2))
    assert {pair: find(oplib, pair) for pair in pairs} == {pair: find(torch, pair) for pair in pairs}
