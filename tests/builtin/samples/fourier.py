"""Samples of Fourier transforms."""

from __future__ import annotations

from .drawing import Sample, X, draw

CUBE = draw(2, 3, 4)

FOURIER: dict[str, list[Sample]] = {
    **{f"fft_{op}": [Sample((X,)), Sample((CUBE, 5, 1, "ortho"))] for op in ("fft", "irfft")},
    **{f"fft_{op}": [Sample((X, 2)), Sample((CUBE, 4, 0, "forward"))] for op in ("ifft", "rfft")},
    **{f"fft_{op}": [Sample((X,)), Sample((draw(4), 3, -1, "ortho"))] for op in ("hfft", "ihfft")},
    **{
        f"fft_{op}": [Sample((X,)), Sample((CUBE, [3, -1], [0, 2], "ortho"))]
        for op in ("fftn", "irfftn", "ihfftn")
    },
    **{
        f"fft_{op}": [Sample((X, [2])), Sample((CUBE, None, [2, 0], "forward"))]
        for op in ("ifftn", "rfftn", "hfftn")
    },
    **{
        f"fft_{op}": [Sample((X,)), Sample((CUBE, [3, -1], [0, 2], "ortho"))]
        for op in ("fft2", "irfft2", "ihfft2")
    },
    **{
        f"fft_{op}": [Sample((X, [2, 3])), Sample((CUBE, None, [2, 0], "forward"))]
        for op in ("ifft2", "rfft2", "hfft2")
    },
    **{f"fft_{op}": [Sample((X,)), Sample((CUBE, [-1, 1]))] for op in ("fftshift", "ifftshift")},
}
