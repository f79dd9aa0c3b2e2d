"""Functions whose size or count is a number: an impossible one raises at once, and traces nothing."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import oplib
import oplib.nn.functional as F
from oplib.errors import AllocationError, ArgumentValueError

POLYNOMIALS = [f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"]
POLYNOMIALS += ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l"]
POLYNOMIALS += ["legendre_polynomial_p"]
CALLS = {
    **{f"{kind}_pool{rank}d": f"F.{kind}_pool{rank}d(oplib.ones({'1, 3' + ', 8' * rank}), N)"
       for kind in ("adaptive_avg", "adaptive_max") for rank in (1, 2, 3)},
    "mvlgamma": "oplib.mvlgamma(oplib.ones(2) * 9, N)",
    "mvlgamma_": "(oplib.ones(2) * 9).mvlgamma_(N)",
    "multigammaln": "oplib.special.multigammaln(oplib.ones(2) * 9, N)",
    **{name: f"oplib.{name}(N)" for name in ("zeros", "ones", "empty", "rand", "randn", "arange", "eye")},
    "randperm": "oplib.randperm(N)",
    "full": "oplib.full((N,), 1.0)",
    "linspace": "oplib.linspace(0, 1, N)",
    "logspace": "oplib.logspace(0, 1, N)",
    "randint": "oplib.randint(3, (N,))",
    "tril_indices": "oplib.tril_indices(N, N)",
    "triu_indices": "oplib.triu_indices(N, N)",
    "vander": "oplib.vander(oplib.ones(3), N)",
    "one_hot": "F.one_hot(oplib.tensor([1]), N)",
    "pad": "F.pad(oplib.ones(3), (0, N))",
    "interpolate": "F.interpolate(oplib.ones(1, 1, 3), size=N)",
    "repeat": "oplib.ones(3).repeat(N)",
    "repeat_interleave": "oplib.repeat_interleave(oplib.ones(3), N)",
    "tile": "oplib.tile(oplib.ones(3), (N,))",
    "fft": "oplib.fft.fft(oplib.ones(3), n=N)",
    "rfft": "oplib.fft.rfft(oplib.ones(3), n=N)",
    "irfft": "oplib.fft.irfft(oplib.ones(3), n=N)",
    "fftfreq": "oplib.fft.fftfreq(N)",
    "bincount": "oplib.bincount(oplib.tensor([1]), minlength=N)",
    "histc": "oplib.histc(oplib.ones(3), bins=N)",
    "hann_window": "oplib.hann_window(N)",
    "kaiser_window": "oplib.kaiser_window(N)",
    "bartlett": "oplib.signal.windows.bartlett(N)",
    "multinomial": "oplib.multinomial(oplib.ones(3), N, replacement=True)",
    "combinations": "oplib.combinations(oplib.ones(3), N)",
    "resize_": "oplib.ones(3).resize_(N)",
    "new_zeros": "oplib.ones(3).new_zeros(N)",
    "Tensor": "oplib.Tensor(N)",
    "diag_embed": "oplib.diag_embed(oplib.ones(3), N)",
    "cartesian_prod": "oplib.cartesian_prod(oplib.ones(3), oplib.ones(1).expand(N))",
    "unfold": "oplib.ones(3).unfold(0, N, 1)",
    "max_pool1d": "F.max_pool1d(oplib.ones(1, 1, 3), N)",
    "avg_pool1d": "F.avg_pool1d(oplib.ones(1, 1, 3), N)",
    "fractional_max_pool2d": "F.fractional_max_pool2d(oplib.ones(1, 1, 8, 8), 2, output_size=N)",
    "affine_grid": "F.affine_grid(oplib.ones(1, 2, 3), (1, 1, N, N))",
    "polygamma": "oplib.polygamma(N, oplib.ones(2))",
    "matrix_power": "oplib.linalg.matrix_power(oplib.eye(2), N)",
    "cholesky tril": "oplib.tril(oplib.ones(2, 2), N)",
    "roll": "oplib.roll(oplib.ones(3), N)",
    "rot90": "oplib.rot90(oplib.ones(3, 3), N)",
    "topk": "oplib.topk(oplib.ones(3), N)",
    "kthvalue": "oplib.kthvalue(oplib.ones(3), N)",
    "chunk": "oplib.chunk(oplib.ones(3), N)",
    "tensor_split": "oplib.tensor_split(oplib.ones(3), N)",
    "diff": "oplib.diff(oplib.ones(3), N)",
    "renorm": "oplib.renorm(oplib.ones(3, 3), 2, 0, N)",
    "pixel_shuffle": "F.pixel_shuffle(oplib.ones(1, 4, 2, 2), N)",
    "embedding_bag": "F.embedding(oplib.tensor([0]), oplib.ones(2, 2), padding_idx=N)",
    "stft": "oplib.stft(oplib.ones(8), N, return_complex=True)",
    **{name: f"oplib.special.{name}(oplib.ones(2) / 2, N)" for name in POLYNOMIALS},
    "degrees in a tensor": "oplib.special.legendre_polynomial_p(oplib.ones(2) / 2, oplib.tensor([3.0, N]))",
    "split": "oplib.split(oplib.ones(3), N)",
    "hsplit": "oplib.hsplit(oplib.ones(3), N)",
    "unflatten": "oplib.ones(3).unflatten(0, (N, -1))",
    "expand": "oplib.ones(1).expand(N).sum()",
    "fold": "F.fold(oplib.ones(1, 4, 4), N, 2)",
    "lp_pool1d": "F.lp_pool1d(oplib.ones(1, 1, 3), 2, N)",
    "local_response_norm": "F.local_response_norm(oplib.ones(1, 3, 3), N)",
    "upsample": "F.upsample(oplib.ones(1, 1, 3), scale_factor=N)",
    "blackman_window": "oplib.blackman_window(N)",
    "broadcast_to": "oplib.broadcast_to(oplib.ones(1), (N, N))",
    "bartlett_window": "oplib.bartlett_window(N)",
    "conv1d": "F.conv1d(oplib.ones(1, 1, 3), oplib.ones(1, 1, 3), padding=N)",
    "conv_transpose1d": "F.conv_transpose1d(oplib.ones(1, 1, 3), oplib.ones(1, 1, 3), stride=N)",
    "dropout of an expanded tensor": "F.dropout(oplib.ones(1).expand(N))",
    "logcumsumexp of an expanded tensor": "oplib.ones(1).expand(N).logcumsumexp(0)",
    "nonzero_static": "oplib.nonzero_static(oplib.ones(3), size=N)",
    "diag": "oplib.diag(oplib.ones(3), N)",
    "diagonal": "oplib.diagonal(oplib.ones(3, 3), N)",
    "narrow": "oplib.narrow(oplib.ones(3), 0, 0, N)",
    "as_strided": "oplib.ones(3).as_strided((N,), (0,)).sum()",
    "round": "oplib.round(oplib.ones(3), decimals=N)",
    "normal": "oplib.normal(0.0, 1.0, (N,))",
    "pixel_unshuffle": "F.pixel_unshuffle(oplib.ones(1, 4, 2, 2), N)",
    "channel_shuffle": "F.channel_shuffle(oplib.ones(1, 4, 2, 2), N)",
    "group_norm": "F.group_norm(oplib.ones(2, 4), N)",
    "istft": "oplib.istft(oplib.ones(5, 4) + 0j, 8, hop_length=N)",
    "index_add": "oplib.zeros(3).index_add(0, oplib.tensor([0]), oplib.ones(1), alpha=N)",
    "scan": "oplib.scan(lambda c, _: (c, c), oplib.ones(1), None, length=N)",
    "chunked vmap": "oplib.vmap(lambda x: x, chunk_size=N)(oplib.ones(3))",
    "base of logspace": "oplib.logspace(0, 1, 3, base=N)",
    "bitwise_left_shift": "oplib.bitwise_left_shift(oplib.tensor([1]), 10**9)",
}  # fmt: skip
PROGRAM = """
import sys, time, warnings
warnings.simplefilter("ignore")
import oplib
F, N = oplib.nn.functional, 10**12
for name, text in {calls!r}.items():
    started = time.perf_counter()
    try:
        {run}
        said = "a result"
    except oplib.errors.OplibError as error:
        said = type(error).__name__
    except Exception as error:
        said = "foreign " + repr(error)
    print(f"{{name}}|{{said}}|{{time.perf_counter() - started:.1f}}", flush=True)
"""


def run(calls: dict[str, str], statement: str) -> dict[str, str]:
    """Runs the calls in a process of their own; returns what each gives, if it took less than a minute."""
    program = PROGRAM.format(calls=calls, run=statement)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=False
    )
    told = [line.split("|") for line in done.stdout.splitlines()]
    assert [name for name, *_ in told] == list(calls), (
        f"after the last of these it ended: {done.stderr[-800:]}"
    )
    assert [(name, seconds) for name, _, seconds in told if float(seconds) > 60] == []
    return {name: said for name, said, _ in told}


def test_a_degree_that_takes_too_many_steps_is_refused_or_gives_nan() -> None:
    x = oplib.tensor([0.5, 0.5])
    with pytest.raises(ArgumentValueError, match=r"special\.legendre_polynomial_p: the degree is too large"):
        oplib.special.legendre_polynomial_p(x, 10**12)
    degrees = oplib.tensor([3.0, 1e12])
    np.testing.assert_allclose(
        oplib.special.legendre_polynomial_p(x, degrees).numpy(), [-0.4375, np.nan], rtol=1e-6
    )


def test_legendre_polynomials_of_a_large_degree_are_exact_at_the_ends() -> None:
    ends = oplib.tensor([-1.0, 1.0], requires_grad=True)
    value = oplib.special.legendre_polynomial_p(ends, 1001)
    value.sum().backward()
    assert value.tolist() == [-1.0, 1.0]
    np.testing.assert_allclose(ends.grad.numpy(), [1001 * 1002 / 2] * 2, rtol=1e-5)


def test_windows_that_a_trace_would_list_are_counted_before_it() -> None:
    with pytest.raises(AllocationError, match="does not fit into memory"):
        oplib.jit(lambda x: F.adaptive_avg_pool1d(x, 10**12))(oplib.ones(1, 3, 8))


@pytest.mark.parametrize("function", [lambda call: call(), lambda call: oplib.jit(call)()])
def test_convolutions_and_norms_of_constants_of_any_size_end_soon(function) -> None:
    with pytest.raises(AllocationError, match="conv_transpose1d: the result does not fit into memory"):
        function(lambda: F.conv_transpose1d(oplib.ones(1, 1, 3), oplib.ones(1, 1, 3), stride=10**12))
    x = oplib.arange(9.0).view(1, 3, 3)
    beyond = function(lambda: F.local_response_norm(x, 10**12, alpha=1e12))
    within = F.local_response_norm(x, 6, alpha=6.0)  # each window has all channels, and alpha / size is 1
    np.testing.assert_allclose(beyond.numpy(), within.numpy(), rtol=1e-6)


def test_a_result_of_a_compiled_function_that_does_not_fit_is_refused() -> None:
    """XLA would return it, and end the process where it is read."""
    step = oplib.jit(lambda: oplib.zeros(10**12))
    for _ in range(2):
        with pytest.raises(AllocationError, match="<lambda>: the result does not fit into memory"):
            step()
    assert oplib.jit(lambda: oplib.zeros(3) + 10**12)().shape == (3,)


def test_interpolation_of_many_items_lists_few_weights() -> None:
    x = oplib.arange(10.0**5).view(1, 1, -1).requires_grad_()
    found = F.interpolate(x, size=10**4, mode="area")
    found.sum().backward()
    np.testing.assert_allclose(found[0, 0].detach().numpy(), np.arange(10**5).reshape(-1, 10).mean(1))
    np.testing.assert_allclose(x.grad.numpy(), 0.1, rtol=1e-6)


@pytest.mark.slow
def test_a_count_of_a_million_millions_ends_soon_for_every_function() -> None:
    told = run(CALLS, "eval(text)")
    assert {name: said for name, said in told.items() if said.startswith("foreign")} == {}
    refused = {name for name, said in told.items() if said == "AllocationError"}
    assert {"mvlgamma", "adaptive_avg_pool1d", "adaptive_max_pool3d", "vander", "zeros", "fft"} <= refused
    assert {told[name] for name in POLYNOMIALS} == {"ArgumentValueError"}


@pytest.mark.slow
def test_it_ends_soon_inside_a_compiled_function() -> None:
    """A program may make an array that does not fit, because XLA may fuse it; XLA then refuses to run it."""
    told = run(CALLS, "oplib.jit(lambda: eval(text))()")
    foreign = {name: said for name, said in told.items() if said.startswith("foreign")}
    assert {name for name, said in foreign.items() if "RESOURCE_EXHAUSTED" not in said} == set()
    refused = {name for name, said in told.items() if said == "AllocationError"}
    assert {"mvlgamma", "adaptive_avg_pool1d", "adaptive_max_pool3d", "tensor_split"} <= refused
    assert {"conv1d", "conv_transpose1d"} <= refused
    assert {told[name] for name in POLYNOMIALS} == {"ArgumentValueError"}
