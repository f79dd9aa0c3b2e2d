"""torch's own samples of its operators, on torch and on oplib; see ``opinfo/``."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="torch's samples need it; it is in the extra parity")

from tests.memory import drop_above_floor  # noqa: E402  below the checks for packages
from tests.seed import TAKE_ALL, draw_cases, make_random  # noqa: E402  below the checks for packages

from .opinfo.checks import check_error, check_history, check_sample  # noqa: E402
from .opinfo.differences import find_difference, is_random  # noqa: E402
from .opinfo.entries import Entry, NotConvertibleError, list_entries  # noqa: E402

pytestmark = [pytest.mark.usefixtures("with_64_bits", "without_warnings"), pytest.mark.slow]
DTYPES = (torch.float64, torch.int64, torch.bool, torch.complex128)
DRAWN = draw_cases(list_entries(), 60, "opinfo", is_steady=True)


@pytest.mark.parametrize("entry", DRAWN, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_operator_does_what_torch_does_on_torchs_samples(entry: Entry, dtype: torch.dtype):
    if dtype not in entry.info.supported_dtypes("cpu"):
        return
    has_gradient = entry.info.supports_autograd and dtype.is_floating_point
    samples = list(entry.draw(dtype, requires_grad=has_gradient))
    numbers = make_random(f"{entry} {dtype}", is_steady=True)
    shapes_only = is_random(str(entry))
    for way in entry.list_ways():
        for place in (
            range(len(samples)) if TAKE_ALL else numbers.sample(range(len(samples)), min(2, len(samples)))
        ):
            if way == "in place" and not isinstance(samples[place].input, torch.Tensor):
                continue
            try:
                found = check_sample(entry, way, samples[place], shapes_only=shapes_only)
            except NotConvertibleError:
                continue
            assert_known(entry, found, f"{way}, sample {place}: {samples[place].summary()}")
            drop_above_floor()  # an operator has up to some hundred samples, each with programs of its own


# Of these some gradients depend on the incoming gradient alone.
OFTEN_FREE = (
    *("addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "baddbmm", "clamp", "clamp_max", "clamp_min"),
    *("copysign", "cummax", "cummin", "cumulative_trapezoid", "diag", "fmod", "index_reduce"),
    *("linalg.householder_product", "linalg.vander", "maximum", "msort", "nan_to_num"),
    *("nanmean", "nansum", "remainder", "scatter_reduce", "nn.functional.embedding_bag"),
    *("nn.functional.group_norm", "nn.functional.hinge_embedding_loss", "nn.functional.linear"),
    *("nn.functional.margin_ranking_loss", "nn.functional.relu"),
)
DIFFERENTIATED = [
    entry
    for entry in list_entries()
    if entry.info.supports_autograd and (entry in DRAWN or entry.name in OFTEN_FREE)
]


@pytest.mark.parametrize("entry", DIFFERENTIATED, ids=str)
def test_a_recorded_gradient_requires_grad_where_torchs_does(entry: Entry):
    samples = list(entry.draw(torch.float64, requires_grad=True))
    numbers = make_random(f"history of {entry}", is_steady=True)
    way = entry.list_ways()[0]
    for place in sorted(numbers.sample(range(len(samples)), min(8 if TAKE_ALL else 2, len(samples)))):
        try:
            found = check_history(entry, way, samples[place])
        except NotConvertibleError:
            continue
        assert_known(entry, found, f"{way}, sample {place}: {samples[place].summary()}")


@pytest.mark.parametrize("entry", [entry for entry in DRAWN if entry.info.error_inputs_func], ids=str)
def test_what_torch_refuses_is_refused_with_an_error_of_the_same_kind(entry: Entry):
    for place, error_input in enumerate(entry.info.error_inputs("cpu")):
        try:
            found = check_error(entry, entry.list_ways()[0], error_input)
        except NotConvertibleError:
            continue
        assert_known(entry, found, f"error input {place}: {error_input.sample_input.summary()}")


def assert_known(entry: Entry, found: str | None, sample: str) -> None:
    assert found is None or find_difference(str(entry), found), f"{entry}, {sample}\n{found}"
