"""``opcheck`` as tests of pytest: one test for each op, sample and check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from oplib.errors import RegistrationValueError
from oplib.frozen import frozen
from oplib.library.op_objects.overload import OpOverload
from oplib.library.opcheck.check import DEFAULT_TEST_UTILS, opcheck

from .op_lists import SLOW_CHECKS, list_ops_of
from .samples import Call, make_samples_error, samples


@frozen
class OpCase:
    """One check of one op; calling it runs the check.

    Attributes:
        op: the op.
        sample: the arguments; None if there are none.
        check: the name of the check, one of ``opcheck``'s.
    """

    op: OpOverload
    sample: Call | None
    check: str

    def __call__(self) -> None:
        """Runs the check.

        Raises:
            OpCheckError: it fails, or the op raises for all arguments that fit its schema.
            pytest.skip.Exception: there was nothing to check, or no arguments can be made.
        """
        __tracebackhide__ = True  # pytest shows the user's line and the message
        if self.sample is None:
            if (refusal := make_samples_error(self.op)) is not None:
                raise refusal
            pytest.skip(
                f"{self.op.name()}: no arguments can be made for its schema. Give it some with "
                f"oplib.testing.add_samples({self.op.name()!r})."
            )
        result = opcheck(self.op, self.sample.args, self.sample.kwargs, test_utils=self.check)[self.check]
        if result != "SUCCESS":
            pytest.skip(f"{self.op.name()}: {str(result).removeprefix('SKIPPED: ')}")


def parametrize_ops(namespace: str, *, checks: Sequence[str] = DEFAULT_TEST_UTILS) -> pytest.MarkDecorator:
    """Returns a decorator that turns a test into one for each op of a namespace, sample and check.

    The test gets an :class:`OpCase` as its argument ``case``, and calls it. The id of each test is the name
    of the op, the number of the sample, and the check. Slow checks carry the mark ``oplib_slow``, so that
    ``-m "not oplib_slow"`` leaves them out.

    Args:
        namespace: the namespace; the module that registers its ops must be imported before.
        checks: names of ``opcheck``'s tests.

    Raises:
        RegistrationValueError: the namespace has no op, or a check does not exist.

    Example:
        >>> import oplib.testing
        >>> @oplib.testing.ops("oplib", checks=())
        ... def test_op(case):
        ...     case()
    """
    unknown = sorted(set(checks) - set(DEFAULT_TEST_UTILS))
    if unknown:
        raise RegistrationValueError(
            f"ops({namespace!r}): there is no check {unknown[0]!r}. The checks are "
            f"{', '.join(DEFAULT_TEST_UTILS)}. Name some of these."
        )
    cases = [
        pytest.param(case, id=name, marks=[pytest.mark.oplib_slow] if case.check in SLOW_CHECKS else [])
        for name, case in _list_cases(list_ops_of(namespace), checks)
    ]
    return pytest.mark.parametrize("case", cases)


def _list_cases(ops_: Sequence[OpOverload], checks: Sequence[str]) -> Iterator[tuple[str, OpCase]]:
    for op in ops_ if checks else ():
        for number, call in enumerate(samples(op) or [None]):
            for check in checks if call is not None else checks[:1]:
                yield f"{op.name()}-{number}-{check.removeprefix('test_')}", OpCase(op, call, check)
