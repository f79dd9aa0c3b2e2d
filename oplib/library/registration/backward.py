"""The arguments of ``register_autograd``, checked and converted to a record's derivative."""

from __future__ import annotations

from oplib.errors import RegistrationValueError
from oplib.library.records.record import Derivative, Function

from .rules import require_callable


def make_derivative(
    name: str,
    backward: object,
    setup_context: Function | None = None,
    *,
    forward: Function | None = None,
    nonlinear: bool = False,
    constant: str | None = None,
    missing: str | None = None,
) -> Derivative:
    """Returns the derivative for the arguments of ``register_autograd``.

    Args:
        name: the name of the op, for errors.
        backward: a formula, ``"derive"``, a complete derivative, or None.
        setup_context: saves the values that the formula needs.
        forward: computes the results, and saves these values.
        nonlinear: the formula is not linear in its gradients.
        constant: the reason why the gradient is zero everywhere.
        missing: the reason why there is no derivative.

    Raises:
        RegistrationTypeError: the formula, ``setup_context`` or ``forward`` cannot be called.
        RegistrationValueError: more than one of formula, constant and missing; options of a formula without a
            formula; both ``setup_context`` and ``forward``; an empty reason.
    """
    said = {"a formula": backward, "constant": constant, "missing": missing}
    given = [what for what, value in said.items() if value is not None]
    if len(given) != 1:
        raise RegistrationValueError(
            f"register_autograd({name}): expected one of a formula, constant= and missing=. "
            f"Got {' and '.join(given) or 'none'}. Pass exactly one of them."
        )
    is_complete = isinstance(backward, Derivative)
    is_formula = backward is not None and backward != "derive" and not is_complete
    if not is_formula and (setup_context is not None or forward is not None or nonlinear):
        raise RegistrationValueError(
            f"register_autograd({name}): setup_context, forward and nonlinear belong to a formula. Got "
            f"them with {given[0] if backward is None else repr(backward)}. Pass the formula too, or leave "
            "them out."
        )
    if setup_context is not None and forward is not None:
        raise RegistrationValueError(
            f"register_autograd({name}): setup_context and forward exclude each other. Got both. Save in "
            "forward, which runs instead of the kernel, or in setup_context, which runs after it."
        )
    for option, reason in (("constant", constant), ("missing", missing)):
        if reason is not None and not _is_reason(reason):
            raise RegistrationValueError(
                f"register_autograd({name}): '{option}' is the reason, in words. Got {reason!r}. "
                f'Write {option}="because ...".'
            )
    if is_complete:
        return backward
    if not is_formula:
        return Derivative(derive=backward == "derive", constant=constant, missing=missing)
    require_callable(backward, f"register_autograd({name}): the formula")
    if setup_context is not None:
        require_callable(setup_context, f"register_autograd({name}): setup_context")
    if forward is not None:
        require_callable(forward, f"register_autograd({name}): forward")
    return Derivative(backward, setup_context, forward, nonlinear=nonlinear)  # pyright: ignore[reportArgumentType]  known to be callable


def _is_reason(reason: object) -> bool:
    return isinstance(reason, str) and bool(reason.strip())
