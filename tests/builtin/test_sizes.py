"""Functions whose size or count is a number: an impossible one raises at once, and traces nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
}  # fmt: skip
PROGRAM = """
import sys, time, warnings
warnings.simplefilter("ignore")
import oplib
F, N = oplib.nn.functional, 10**12
for name, text in {calls!r}.items():
    started = time.perf_counter()
    try:
        eval(text)
        said = "a result"
    except oplib.errors.OplibError as error:
        said = type(error).__name__
    except Exception as error:
        said = "foreign " + repr(error)
    print(f"{{name}}|{{said}}|{{time.perf_counter() - started:.1f}}", flush=True)
"""


@pytest.mark.slow
def test_a_count_of_a_million_millions_ends_soon_for_every_function() -> None:
    program = PROGRAM.format(calls=CALLS)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=150, check=False
    )
    told = [line.split("|") for line in done.stdout.splitlines()]
    assert [name for name, *_ in told] == list(CALLS), (
        f"after the last of these it ended: {done.stderr[-800:]}"
    )
    assert [(name, said) for name, said, _ in told if said.startswith("foreign")] == []
    assert [(name, seconds) for name, _, seconds in told if float(seconds) > 10] == []
    allocations = {name for name, said, _ in told if said == "AllocationError"}
    assert {"mvlgamma", "adaptive_avg_pool1d", "adaptive_max_pool3d", "vander", "zeros", "fft"} <= allocations
