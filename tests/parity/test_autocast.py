"""Autocast beside torch: the dtypes of results and gradients of all ops, nesting, and the cache of casts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oplib
from oplib.builtin.public_functions.families import ROWS
from oplib.builtin.public_functions.registry import OVERLOADS
from oplib.builtin.rows.row import Row
from oplib.library.registration.registry import registry
from tests.builtin.samples.drawing import Sample
from tests.builtin.samples.samples import find_samples
from tests.seed import draw_cases

pytest.importorskip("torch")

import torch

from .test_op_dtypes import list_rows, run

pytestmark = pytest.mark.usefixtures("with_64_bits", "without_warnings")

# Where torch's CPU gives another dtype, and why.
OTHERWISE = {
    "view_as_complex": "a view shares memory, so nothing is cast: half precision is refused as elsewhere",
    **dict.fromkeys(
        ("histogram.bin_ct", "histogram.bins_tensor", "histogram_grid"),
        "half precision is refused, as without autocast",
    ),
    "lu_unpack": "there are no factors in half precision",
}
BOTH = (oplib, torch)


def name_dtypes(results: Any) -> list[str] | None:
    """The dtypes of results; None for an error. Whether an integer is of 32 or 64 bits is another test's."""
    if isinstance(results, Exception):
        return None
    tensors = [one for one in results if isinstance(one, (torch.Tensor, oplib.Tensor))]
    names = [str(one.dtype).removeprefix("torch.") for one in tensors]
    return ["int" if name in ("int32", "int64") else name for name in names]


def autocast(lib: Any, dtype: str, **settings: Any) -> Any:
    return lib.autocast("cpu", dtype=getattr(lib, dtype), **settings)


def list_cases() -> list[tuple[Row, Sample]]:
    return [
        (row, sample)
        for row in list_rows()
        if row.name not in OTHERWISE
        for sample in find_samples(OVERLOADS[row.name])[:1]
    ]


WITH_POLICY = [case for case in list_cases() if "cpu" in case[0].autocasts]
WITHOUT = [case for case in list_cases() if "cpu" not in case[0].autocasts]


def compare_dtypes(row: Row, sample: Sample, given: str, low: str) -> None:
    found = []
    for lib in BOTH:
        with autocast(lib, low):
            found.append(name_dtypes(run(lib, row, sample, given)))
    ours, theirs = found
    assert theirs is None or ours == theirs


@pytest.mark.parametrize("low", ["bfloat16", "float16"])
@pytest.mark.parametrize(("row", "sample"), WITH_POLICY, ids=[row.name for row, _ in WITH_POLICY])
def test_a_cast_op_gives_the_dtype_of_torch(row: Row, sample: Sample, low: str):
    for given in ("float32", low):
        compare_dtypes(row, sample, given, low)


@pytest.mark.parametrize(
    ("row", "sample"), [pytest.param(*case, id=case[0].name) for case in draw_cases(WITHOUT, 40, "autocast")]
)
def test_an_op_without_a_policy_gives_the_dtype_of_torch(row: Row, sample: Sample):
    for given in ("float32", "bfloat16"):
        compare_dtypes(row, sample, given, "bfloat16")


def test_the_ops_that_torch_registers_for_the_cpu_have_a_policy():
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU")
    names = {name.removeprefix("aten::").partition(".")[0] for name in registered}
    assert {row.op for row in ROWS if row.op in names and "cpu" not in row.autocasts} == {"view_as_complex"}


def test_the_ops_that_torch_registers_for_cuda_have_a_policy():
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    names = {name.removeprefix("aten::").partition(".")[0] for name in registered}
    assert {row.op for row in ROWS if row.op in names and "cuda" not in row.autocasts} == set()


@pytest.mark.parametrize("op", ["quantile", "nanquantile"])
def test_a_quantile_of_halves_is_found_in_single_precision(op: str):
    for lib in BOTH:
        x, q = (lib.tensor(one, dtype=lib.bfloat16) for one in ([3.0, 1.0, 2.0], [0.25, 0.5]))
        with autocast(lib, "bfloat16"):
            for part in (0.25, q):
                found = getattr(lib, op)(x, part)
                assert found.dtype == lib.float32
                assert np.ravel(found.tolist())[0] == 1.5


def train(lib: Any, low: str) -> list[Any]:
    w = lib.tensor([[0.5, -1.0], [2.0, 0.25]], dtype=lib.float32).requires_grad_()
    b = lib.tensor([0.5, 1.0], dtype=lib.float32).requires_grad_()
    x = lib.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=lib.float32)
    functional = lib.nn.functional
    with autocast(lib, low):
        hidden = functional.linear(x, w, b)
        again = functional.linear(hidden.relu(), w)
        loss = functional.mse_loss(again, x)
    loss.backward()
    return [hidden, again, loss, w.grad, b.grad]


@pytest.mark.parametrize("low", ["bfloat16", "float16"])
def test_a_training_step_has_the_dtypes_and_values_of_torch(low: str):
    ours, theirs = (train(lib, low) for lib in BOTH)
    assert name_dtypes(ours) == name_dtypes(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        values = torch.tensor(mine.detach().float().tolist())
        torch.testing.assert_close(values, other.detach().float(), rtol=2e-2, atol=2e-2)


def nest(lib: Any) -> list[Any]:
    x = lib.ones(2, 2, dtype=lib.float32)
    results = []
    with autocast(lib, "bfloat16"):
        results.append(x @ x)
        with autocast(lib, "bfloat16", enabled=False):
            results.append(x @ x)
            with autocast(lib, "float16"):
                results.append(x @ x)
        results.append(x @ x)
        results.append(lib.stack([x, x.bfloat16()]))
        results.append(x.double() @ x.double())
    results.append(x @ x)
    return results


def test_regions_nest_as_in_torch():
    assert name_dtypes(nest(oplib)) == name_dtypes(nest(torch))


def read_state(lib: Any) -> list[Any]:
    def look() -> list[Any]:
        return [
            lib.is_autocast_enabled("cpu"),
            lib.is_autocast_enabled("cuda"),
            str(lib.get_autocast_dtype("cpu")).removeprefix("torch."),
            str(lib.get_autocast_dtype("cuda")).removeprefix("torch."),
        ]

    found = [look()]
    with autocast(lib, "float16"):
        found.append(look())
        with lib.autocast("cpu", enabled=False):
            found.append(look())
        with lib.autocast("cpu"):
            found.append(look())
    found.append(look())
    found.append(autocast(lib, "float16")(look)())
    return found


def test_the_state_is_that_of_torch():
    assert read_state(oplib) == read_state(torch)


def mark(lib: Any, **settings: Any) -> list[Any]:
    seen: list[Any] = []

    class Product(lib.autograd.Function):
        @staticmethod
        @lib.amp.custom_fwd(device_type="cpu", **settings)
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            seen.append(lib.is_autocast_enabled("cpu"))
            result = x @ y
            seen.append(str(result.dtype).removeprefix("torch."))
            return result

        @staticmethod
        @lib.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            seen.append(lib.is_autocast_enabled("cpu"))
            return g @ y.mT, x.mT @ g

    x = lib.ones(2, 2, dtype=lib.float32).requires_grad_()
    y = lib.ones(2, 2, dtype=lib.float32)
    with autocast(lib, "bfloat16"):
        result = Product.apply(x, y)
    result.sum().backward()
    Product.apply(x, y)
    return [*seen, *name_dtypes([result, x.grad])]


@pytest.mark.parametrize("cast", [None, "float32", "float16"])
def test_functions_take_part_as_in_torch(cast: str | None):
    ours, theirs = (
        mark(lib, **({} if cast is None else {"cast_inputs": getattr(lib, cast)})) for lib in BOTH
    )
    assert ours == theirs


def register(lib: Any) -> list[str] | None:
    def doubled_sum(x, y):
        return (x @ x) + y

    doubled_sum.__annotations__ = {"x": lib.Tensor, "y": lib.Tensor, "return": lib.Tensor}
    op = lib.library.custom_op("testing::doubled_sum", doubled_sum, mutates_args=())
    op.register_fake(lambda x, y: x.new_empty(x.shape))
    op.register_autocast("cpu", lib.float16)
    x = lib.ones(2, 2, dtype=lib.float32)
    with lib.autocast("cpu"):
        results = [op(x, x.bfloat16()), op(x.double(), x.double())]
    with lib.autocast("cpu", enabled=False):
        results.append(op(x, x))
    return name_dtypes(results)


def test_a_registered_op_is_cast_as_in_torch():
    before = registry.save()
    try:
        assert register(oplib) == register(torch)
    finally:
        registry.restore(before)


def estimate(lib: Any, name: str, shape: tuple[int, ...]) -> Any:
    given = lib.tensor([[1.0, 4.0, 2.0], [3.0, 1.0, 0.5]], dtype=lib.float32)
    given = given if len(shape) == 2 else given[0]
    with autocast(lib, "bfloat16"):
        function = lib.linalg.pinv if name == "pinv" else getattr(lib, name)
        result = function(given)
    return result.dtype, result.float().numpy()


@pytest.mark.parametrize(
    ("name", "shape"),
    [("cov", (2, 3)), ("cov", (3,)), ("corrcoef", (2, 3)), ("pinv", (2, 3)), ("pinverse", (2, 3))],
)
def test_an_op_that_ends_in_a_product_rounds_its_result_alone(name: str, shape: tuple[int, ...]):
    (dtype, value), (torchs, expected) = (estimate(lib, name, shape) for lib in BOTH)
    assert str(dtype) == str(torchs).removeprefix("torch.")
    np.testing.assert_allclose(value, expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize(
    "call",
    [
        "max_pool3d(x, 2)",
        "max_pool3d(x, 2, return_indices=True)[0]",
        "max_pool2d(x[0], 2)",
        "fractional_max_pool2d(x[0], 2, output_size=2)",
        "fractional_max_pool3d(x, 2, output_size=2, return_indices=True)[0]",
        "pinverse(x[0, 0, 0])",
        *(
            f"pad(x{'[0]' * cut}, (1,) * {6 - 2 * cut}, mode='{mode}')"
            for mode in ("constant", "reflect", "replicate", "circular")
            for cut in (0, 1, 2)
        ),
    ],
)
def test_a_function_that_torch_computes_in_float32_gives_that_dtype(call: str, dtype: str):
    found: list[str] = []
    for lib in BOTH:
        x = lib.ones(1, 2, 4, 4, 4).to(getattr(lib, dtype))
        module = lib if call.startswith("pinverse") else lib.nn.functional
        with autocast(lib, "bfloat16"):
            result = eval(f"module.{call}", {"module": module, "x": x})
        found.append(str(result.dtype).removeprefix("torch."))
    assert found[0] == found[1]
