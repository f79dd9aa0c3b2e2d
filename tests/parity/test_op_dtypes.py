"""The built-in ops beside torch in every dtype: which are taken, what dtype comes out, and with what values.

The classes that a row declares are compared for all ops at each run, since that runs torch only. Of the
values a run takes some cells, drawn by ``OPLIB_TEST_SEED``; ``OPLIB_OPS_SAMPLES=all`` takes them all.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import oplib
from oplib.builtin.public_functions.families import ROWS
from oplib.builtin.public_functions.registry import OVERLOADS
from oplib.builtin.rows.row import Row
from oplib.builtin.shared_kernels.dtype_classes import CLASSES
from tests.builtin.samples.drawing import Sample
from tests.builtin.samples.samples import find_samples
from tests.seed import draw_cases

pytest.importorskip("torch")

import torch

from .counterparts import find_oplib, find_torch

pytestmark = pytest.mark.usefixtures("with_64_bits", "without_warnings")
DTYPES = {
    "b": ["bool"],
    "i": ["uint8", "int8", "int16", "int32", "int64"],
    "h": ["float16", "bfloat16"],
    "f": ["float32", "float64"],
    "c": ["complex64", "complex128"],
}
TOLERANCE = {"float64": 1e-9, "complex128": 1e-9, "float16": 1e-2, "bfloat16": 6e-2}
PLACES = frozenset({"index", "indices", "mask", "condition", "attn_mask", "offsets", "targets"})
PLACES |= {"input_lengths", "target_lengths", "pivots"}
BY_NAME = {row.name: row for row in ROWS}

# Where a row declares more than torch's CPU takes, or less, and why.
MORE = {
    "cdist": ("h", "torch has no CPU kernel"),
    "lp_pool3d": ("h", "torch has no CPU kernel"),
    "avg_pool3d": ("h", "torch has no CPU kernel"),
    **dict.fromkeys(
        ("multi_margin_loss", "multilabel_margin_loss", "ctc_loss", "pdist"), ("h", "torch has no CPU kernel")
    ),
    "einsum": ("b", "torch refuses products of bools, and JAX gives their sums by or"),
    "view.dtype": ("bh", "the items of the sample have another size"),
    "one_hot.classes": ("i", "the numbers of the sample are no classes in another dtype"),
    "linalg_cholesky": ("c", "the sample is not Hermitian with imaginary parts"),
    "linalg_pinv_bounded": ("c", "the bounds of the sample become complex too, and a bound is real"),
}
LESS = {
    **dict.fromkeys(
        ("histogram.bin_ct", "histogram.bins_tensor", "histogram_grid"),
        ("h", "torch takes it only where edges, or their range, are given"),
    ),
    "linalg_cholesky_ex": ("c", "the sample is not Hermitian with imaginary parts"),
    "lu_unpack": ("bh", "there are no such factors"),
    "complex": ("h", "JAX has no complex numbers of half precision"),
    "view_as_complex": ("h", "JAX has no complex numbers of half precision"),
    "im2col": ("b", "bools have to be converted"),
    "col2im": ("b", "bools have to be converted"),
}
NOT_ALIKE = {
    "fmod.Scalar_Tensor": "torch has no such overload",
    "local_response_norm": "torch takes means of squares in integers, and cuts them",
    "embedding.padded": "the function has its arguments the other way round",
    "_index_put": "the schema names dims apart",
    "stored": "torch has it for itself",
    "linalg_matrix_exp": "torch's gives inf in half precision",
}


def list_rows() -> list[Row]:
    return [
        row
        for row in ROWS
        if row.name not in NOT_ALIKE
        and find_torch(row.name) is not None
        and find_samples(OVERLOADS[row.name])
    ]


def cast(array: np.ndarray, dtype: str) -> np.ndarray:
    """The sample in another dtype: no integer is 0, and imaginary parts are in another order."""
    if dtype == "bool":
        return array > 0
    array = np.asarray(array.real if array.dtype.kind == "c" else array, np.float64)
    if dtype.startswith(("int", "uint")):
        whole = np.where(np.rint(3 * array) == 0, 1, np.rint(3 * array))
        return (abs(whole) if dtype == "uint8" else whole).astype(dtype)
    if dtype.startswith("complex"):
        return (array + 0.7j * array.ravel()[::-1].reshape(array.shape)).astype(dtype)
    return array.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def make(lib: Any, value: Any, dtype: str, name: str) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [make(lib, item, dtype, name) for item in value]
    if isinstance(value, np.dtype):
        return getattr(lib, value.name)
    if not isinstance(value, np.ndarray):
        return value
    is_place = name in PLACES or (name == "target" and value.dtype.kind == "i")
    array = value.astype(np.int64) if value.dtype.kind == "i" and is_place else value
    array = array if is_place else cast(array, dtype)
    if lib is oplib:
        return oplib.tensor(array, dtype=array.dtype)
    return (
        torch.tensor(array.astype(np.float32)).bfloat16()
        if dtype == "bfloat16" and not is_place
        else torch.tensor(array)
    )


def run(lib: Any, row: Row, sample: Sample, dtype: str) -> list[Any] | Exception:
    """Returns the results, or the error."""
    function = find_oplib(row.name) if lib is oplib else find_torch(row.name)
    assert function is not None
    names = iter([argument.name for argument in OVERLOADS[row.name]._schema.arguments])
    args = [make(lib, value, dtype, next(names)) for value in sample.args]
    kwargs = {name: make(lib, value, dtype, name) for name, value in sample.kwargs.items()}
    try:
        result = function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001  whatever it is, the other must raise it too
        return error
    return list(result) if isinstance(result, (tuple, list)) else [result]


def takes(row: Row, letter: str) -> bool:
    """Whether torch takes a class: one of its dtypes, in one of the samples."""
    samples = find_samples(OVERLOADS[row.name])[:2]
    return any(
        not isinstance(run(torch, row, sample, dtype), Exception)
        for dtype in DTYPES[letter]
        for sample in samples
    )


def to_numpy(tensor: Any) -> np.ndarray:
    if isinstance(tensor, oplib.Tensor):
        array = np.asarray(tensor.detach().array)
        return array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array
    plain = tensor.detach().resolve_conj()
    return (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()


def name_dtype(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def choose(count: int) -> list[tuple[str, str]]:
    cells = [
        (row.name, dtype)
        for row in list_rows()
        for letter in DTYPES
        for dtype in DTYPES[letter]
        if letter not in LESS.get(row.name, ("", ""))[0]
    ]
    return draw_cases(cells, count, "dtypes")


@pytest.mark.slow
def test_the_classes_of_dtypes_that_a_row_declares_are_those_that_torch_takes():
    wrong: list[str] = []
    for row in list_rows():
        more, less = MORE.get(row.name, ("", ""))[0], LESS.get(row.name, ("", ""))[0]
        for letter in CLASSES:
            if letter in more + less or (row.operand and letter in "bi"):
                continue  # beside a number of the sample bools and integers become what that is
            if takes(row, letter) != (letter in row.dtypes):
                wrong.append(f"{row.name}: {CLASSES[letter]}, declared {row.dtypes}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("name", "dtype"), choose(60))
def test_an_op_does_in_a_dtype_what_torch_does(name: str, dtype: str) -> None:
    row = BY_NAME[name]
    sample = find_samples(OVERLOADS[name])[0]
    theirs, ours = run(torch, row, sample, dtype), run(oplib, row, sample, dtype)
    if isinstance(theirs, Exception):
        if isinstance(ours, Exception):
            assert isinstance(ours, RuntimeError), repr(ours)
        return  # one kernel of torch's less than its class has: what is declared is compared above
    assert not isinstance(ours, Exception), f"torch gave {theirs}, oplib raised {ours!r}"
    for mine, other in zip(ours, theirs, strict=True):
        assert (name_dtype(mine), tuple(mine.shape)) == (name_dtype(other), tuple(other.shape))
        assert not mine.array.weak_type
        tolerance = max(
            TOLERANCE.get(dtype, 1e-4 if dtype not in ("float64", "complex128") else 0),
            TOLERANCE.get(name_dtype(other), 0),
        )
        np.testing.assert_allclose(to_numpy(mine), to_numpy(other), rtol=tolerance, atol=tolerance)
