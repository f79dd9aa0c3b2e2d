"""The frequencies of Fourier transforms; the short-time transform of a signal, and its inverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.builtin.values import make_zeros, read_known
from oplib.errors import ArgumentError, UnsupportedArgumentError
from oplib.protocols import AnyFunction
from oplib.tensor import get_default_dtype
from oplib.tensor.factories.from_data import tensor
from oplib.tracebacks import warn_user

_LEAST = 1e-11  # torch's bound: below it the windows together omit an item


def stft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:
    """Computes the short-time Fourier transform: transforms segments of a signal, weighted by a window.

    Args:
        input: ``[time]`` or ``[batch, time]``, floating or complex.
        n_fft: the number of items of a segment.
        hop_length: the step between segments; by default a quarter of ``n_fft``.
        win_length: the length of the window, which is centered in the segment; by default ``n_fft``.
        window: the weights, a vector; by default ones.
        center: whether the signal is padded, so that segments are centered at multiples of the hop.
        pad_mode: the padding mode of ``nn.functional.pad``.
        normalized: whether the result is divided by the root of ``n_fft``.
        onesided: whether to return the half that suffices for real input; the default for real input and
            window.
        return_complex: whether the result is complex; otherwise its parts are in a last dim. Required for a
            real input.
        align_to_window: accepted for parity; only None is supported.

    Returns:
        ``[batch, frequencies, segments]``, without the batch for a vector.

    Raises:
        ArgumentError: shapes, sizes or dtypes do not fit, or ``return_complex`` is missing.
        UnsupportedArgumentError: ``align_to_window`` is given.

    Gradient:
        With respect to the signal and the window.

    Example:
        >>> wave = oplib.tensor([1.0, 0.0, -1.0, 0.0, 1.0, 0.0, -1.0, 0.0])
        >>> oplib.stft(wave, 4, hop_length=4, center=False, return_complex=True).abs()
        tensor([[0., 0.],
                [2., 2.],
                [0., 0.]])
    """
    hop, length = hop_length if hop_length is not None else n_fft // 4, win_length or n_fft
    has_complex = _is_complex(input) or (window is not None and _is_complex(window))
    is_half = not has_complex if onesided is None else onesided
    _check_flags(has_complex=has_complex, onesided=is_half, whole=return_complex, align=align_to_window)
    batch = ops.unsqueeze(input, 0) if input.ndim == 1 else input
    if center and batch.ndim == 2:
        half = n_fft // 2
        batch = ops.squeeze(ops.pad(ops.unsqueeze(batch, 0), (half, half), pad_mode), 0)
    _check_pieces(batch, n_fft, hop, length)
    frames = ops.unfold(batch, -1, n_fft, hop)
    weights = _find_window(window, frames, n_fft, length)
    frames = frames if weights is None else ops.mul(frames, weights)
    transform = ops.fft_rfft if is_half else ops.fft_fft
    spectra = ops.transpose(transform(frames, None, -1, "ortho" if normalized else None), -1, -2)
    spectra = ops.squeeze(spectra, 0) if input.ndim == 1 else spectra
    is_complex = has_complex if return_complex is None else return_complex
    return spectra if is_complex else ops.view_as_real(spectra)


def _is_complex(tensor: Any) -> bool:
    return np.dtype(tensor.dtype).kind == "c"


def _check_flags(*, has_complex: bool, onesided: bool, whole: bool | None, align: bool | None) -> None:
    if align is not None:
        raise UnsupportedArgumentError(
            "argument 'align_to_window' is not supported", "Pad the signal first: oplib.nn.functional.pad."
        )
    if whole is None and not has_complex:
        raise ArgumentError(
            "it requires return_complex to be given for real inputs",
            "Pass return_complex=True, and use view_as_real for parts.",
        )
    if has_complex and onesided:
        raise ArgumentError("cannot have onesided output if window or input is complex", "Leave it out.")


def _check_pieces(signal: Any, n_fft: int, hop: int, length: int) -> None:
    kind = np.dtype(signal.dtype).kind
    if signal.ndim != 2 or kind in "biu":
        raise ArgumentError(
            "expected a 1D or 2D tensor of floating point or complex values", "Convert or reshape it."
        )
    if not 0 < n_fft <= signal.shape[1] or hop < 1 or not 0 < length <= n_fft:
        raise ArgumentError(
            "expected 0 < win_length <= n_fft, n_fft at most the length of the signal, and hop_length > 0",
            "Change them, or pad the signal.",
        )


def _find_window(window: Any, like: Any, n_fft: int, length: int) -> Any:
    """Returns the weights, padded with zeros on both sides; None for ones."""
    if window is None:
        if length == n_fft:
            return None
        window = ops.ones_like(ops.abs(make_zeros(like, (length,))))
    elif window.ndim != 1 or window.shape[0] != length:
        raise ArgumentError(
            f"expected a 1D window tensor of size equal to win_length={length}",
            "Pass its length as win_length.",
        )
    left = (n_fft - length) // 2
    return ops.pad(window, (left, n_fft - length - left)) if length < n_fft else window


def istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    """Finds the signal whose ``stft`` is nearest to the input: adds segments and divides by their weights.

    Args:
        input: ``[frequencies, segments]`` or ``[batch, frequencies, segments]``, complex.
        n_fft: the number of items of a segment.
        hop_length: as for ``stft``, like the three arguments that follow.
        win_length: the length of the window.
        window: the weights.
        center: whether the signal was padded.
        normalized: whether the result of ``stft`` was divided by the root of ``n_fft``.
        onesided: whether the input has one half of the frequencies; by default inferred from their number.
        length: the length of the signal; by default the length that the segments cover.
        return_complex: whether the signal is complex.

    Returns:
        ``[batch, time]``, or ``[time]``.

    Raises:
        ArgumentError: shapes, sizes or dtypes do not fit, or the known windows omit items.

    Gradient:
        With respect to the input and the window.

    Example:
        >>> wave, window = oplib.tensor([1.0, 3.0, -1.0, 2.0, 0.0, 5.0]), oplib.hann_window(4)
        >>> spectra = oplib.stft(wave, 4, window=window, return_complex=True)
        >>> oplib.allclose(oplib.istft(spectra, 4, window=window, length=6), wave, atol=1e-5)
        True
    """
    hop, size = hop_length if hop_length is not None else n_fft // 4, win_length or n_fft
    rows = input.shape[-2] if input.ndim > 1 else 0
    is_half = rows != n_fft if onesided is None else onesided
    has_rows = rows == (n_fft // 2 + 1 if is_half else n_fft)
    _check_spectra(input, n_fft, hop, size, has_rows=has_rows)
    if return_complex and is_half:
        raise ArgumentError("cannot have onesided input if the result is complex", "Give both halves.")
    frames = ops.transpose(input if input.ndim == 3 else ops.unsqueeze(input, 0), -1, -2)
    norm = "ortho" if normalized else None
    # A real result reads one half of the frequencies, and takes the other for its conjugate, as in torch.
    parts = ops.fft_ifft(frames, None, -1, norm) if return_complex else ops.fft_irfft(frames, n_fft, -1, norm)
    weights = _find_window(window, parts, n_fft, size)
    if weights is None:
        weights = ops.ones_like(ops.abs(make_zeros(parts, (n_fft,))))
    whole = n_fft + hop * (parts.shape[1] - 1)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else whole - start
    square = ops.expand(ops.square(weights), (1, *parts.shape[1:]))
    signal, total = (
        ops.narrow(_add_up(pieces, whole, hop), 1, start, min(end, whole) - start)
        for pieces in (ops.mul(parts, weights), square)
    )
    _check_total(total)
    signals = _lengthen(ops.div(signal, total), end - whole)
    return signals if input.ndim == 3 else ops.squeeze(signals, 0)


def _check_spectra(input: Any, n_fft: int, hop: int, length: int, *, has_rows: bool) -> None:
    if not _is_complex(input) or input.ndim not in (2, 3) or 0 in input.shape or not has_rows:
        raise ArgumentError(
            "it requires a complex-valued input tensor [batch, frequencies, pieces], of n_fft // 2 + 1 "
            "frequencies, or n_fft where they are not onesided",
            "Pass a result of stft.",
        )
    if not 0 < hop <= length <= n_fft:
        raise ArgumentError("expected 0 < hop_length <= win_length <= n_fft", "Pass those of stft.")


def _add_up(parts: Any, whole: int, hop: int) -> Any:
    """Returns the segments at their positions, summed, ``[batch, whole]``."""
    columns = ops.transpose(parts, -1, -2)
    total = ops.col2im(columns, (1, whole), (1, parts.shape[-1]), 1, 0, (1, hop))
    return ops.reshape(total, (parts.shape[0], whole))


def _check_total(total: Any) -> None:
    known = read_known(ops.detach(total))
    if known is not None and known.size and np.abs(known).min() < _LEAST:
        raise ArgumentError(
            "window overlap add min is 0: the windows together omit items",
            "Use the window of stft, center=True, and a hop below its length.",
        )


def _lengthen(signal: Any, missing: int) -> Any:
    if missing <= 0:
        return signal
    warn_user(
        f"istft: the length of signal is shorter than the length parameter, and {missing} zeros are added. "
        "Leave it out, or check n_fft and hop_length."
    )
    return ops.pad(signal, (0, missing))


def _make_frequencies(name: str, shown: Sequence[float], some: str = "") -> AnyFunction:
    """Makes the function of one order. ``numpy.fft`` is imported when it is called."""

    def frequencies(
        n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Any:
        if n < 1 or not d:
            raise ArgumentError(
                "the length must be positive, and the distance not 0", "Pass those of the signal."
            )
        kind = get_default_dtype() if dtype is None else dtype
        values = tensor(getattr(np.fft, name)(n, d).tolist(), dtype=kind, device=device)
        return values.requires_grad_(requires_grad)

    frequencies.__name__ = f"fft_{name}"
    frequencies.__doc__ = _FREQUENCIES.format(name=name, some=some, shown=shown)
    return frequencies


_FREQUENCIES = """Returns the frequencies of a transform{some}, in its order.

Args:
    n: the number of items of the signal.
    d: the distance between items.
    dtype: a floating dtype; by default the default dtype.
    device: the device of the result.
    requires_grad: whether the result requires grad.

Returns:
    A vector.

Raises:
    ArgumentError: the signal has no items, or the distance is 0.

Gradient:
    None: no argument is differentiable.

Example:
    >>> oplib.fft.{name}(4).tolist()
    {shown}
"""


COMPOSED = (
    Composed(istft, is_method=True),
    Composed(stft, is_method=True),
    Composed(_make_frequencies("fftfreq", [0.0, 0.25, -0.5, -0.25]), makes=True),
    Composed(_make_frequencies("rfftfreq", [0.0, 0.25, 0.5], ", except the negative ones"), makes=True),
)
