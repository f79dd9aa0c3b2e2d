"""A check: a rule about one op, tested on one of its samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.builtin.samples.drawing import Sample, list_arrays

from .calls import OPS, ROW_OF, Call
from .complex_ops import ACCEPT_COMPLEX, DIFFERENTIATE_COMPLEX


@dataclass(frozen=True)
class Check:
    """A check of the grid.

    Attributes:
        name: its name in results and in the table of expected failures.
        run: raises if a call breaks the rule.
        applies: whether the check applies to a sample of an op; cheap, and calls nothing.
        share: the part of the ops that a seeded run draws.
        is_complex: whether complex numbers replace the real ones.
        once: whether one sample suffices.
    """

    name: str
    run: Callable[[Call], None]
    applies: Callable[[str, Sample], bool]
    share: float = 0.05
    is_complex: bool = False
    once: bool = False


def always(name: str, sample: Sample) -> bool:
    return True


def has_floats(name: str, sample: Sample) -> bool:
    return any(array.dtype.kind in "fc" for array in list_arrays(sample))


def may_differentiate(name: str, sample: Sample) -> bool:
    """Tells whether there is something to differentiate by, and a derivative."""
    return has_floats(name, sample) and OPS[name].record.derivative.missing is None


def is_smooth(name: str, sample: Sample) -> bool:
    """Tells the same, and that the derivative is not zero everywhere."""
    return may_differentiate(name, sample) and OPS[name].record.derivative.constant is None


def lacks_derivative(name: str, sample: Sample) -> bool:
    return has_floats(name, sample) and OPS[name].record.derivative.missing is not None


def is_all_real(sample: Sample) -> bool:
    """Tells whether there are real floating arrays, and no complex ones."""
    arrays = list(list_arrays(sample))
    return not any(array.dtype.kind == "c" for array in arrays) and any(
        array.dtype.kind == "f" for array in arrays
    )


def accepts_complex(name: str, sample: Sample) -> bool:
    """Tells whether there are real numbers to make complex, and torch accepts these too."""
    return is_all_real(sample) and name in ACCEPT_COMPLEX


def is_smooth_when_complex(name: str, sample: Sample) -> bool:
    return accepts_complex(name, sample) and name in DIFFERENTIATE_COMPLEX and is_smooth(name, sample)


def starts_with_tensor(sample: Sample) -> bool:
    return bool(sample.args) and hasattr(sample.args[0], "dtype")


def has_in_place_form(name: str, sample: Sample) -> bool:
    return ROW_OF[name].has_in_place_form and starts_with_tensor(sample)


def is_smooth_in_place(name: str, sample: Sample) -> bool:
    return (
        has_in_place_form(name, sample)
        and is_smooth(name, sample)
        and has_floats(name, Sample(sample.args[:1]))
    )
