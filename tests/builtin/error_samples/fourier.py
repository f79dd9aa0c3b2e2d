"""Calls that torch refuses: bad inputs of Fourier transforms."""

from __future__ import annotations

from .refusals import Refusal, X, real

FOURIER = [
    *(Refusal(f"fft.{op}", "dimension out of range", X, None, 2) for op in ("fft", "irfft", "rfft")),
    *(Refusal(f"fft.{op}", "invalid normalization mode", X, norm="no") for op in ("ifft", "hfft", "fftn")),
    *(Refusal(f"fft.{op}", "invalid number of data points", X, 0) for op in ("fft", "irfft", "ihfft")),
    *(
        Refusal(f"fft.{op}", "not implemented for complex", real(3, dtype="complex64"))
        for op in ("rfft", "ihfft")
    ),
    Refusal("fft.fft", "without dims", real()),
    Refusal("fft.fft", "not implemented for half", real(3, dtype="float16")),
    Refusal("fft.fftn", "must have the same length", X, (2, 2), (0,)),
    Refusal("fft.fftn", "no more than the dims", X, (2, 2, 2)),
    Refusal("fft.fftn", "appears multiple times", X, None, (0, 0)),
    Refusal("fft.fft2", "dimension out of range", real(3)),
    *(
        Refusal(f"fft.{op}", f"fft.{op}: a tensor without dims has no", real(), None, (-1,))
        for op in ("fft2", "rfft2", "hfft2", "ihfftn")
    ),
    *(
        Refusal(f"fft.{op}", f"fft.{op}: not implemented for half", X.astype("float16"))
        for op in ("fft2", "ihfft2")
    ),
    Refusal("fft.irfftn", "at least one axis", X, None, ()),
    Refusal("fft.hfft2", "fft.hfft2: must transform at least one axis", X, None, ()),
    Refusal("fft.fftshift", "dimension out of range", X, 2),
]
