"""The ops of a namespace, and the checks that are slow."""

from __future__ import annotations

from oplib.errors import RegistrationValueError
from oplib.library.op_objects.overload import OpOverload, list_overloads

SLOW_CHECKS = ("test_vmap", "test_second_gradients")
"""These take over half of the time of all checks; as tests they carry the mark ``oplib_slow``."""


def list_ops_of(namespace: str) -> list[OpOverload]:
    """Returns the ops of a namespace, in the order of their registration.

    Raises:
        RegistrationValueError: there is none.
    """
    known = list_overloads()
    overloads = [op for op in known if op.namespace == namespace]
    if not overloads:
        names = sorted({op.namespace for op in known})
        raise RegistrationValueError(
            f"the namespace {namespace!r} has no op. There are {', '.join(names)}. Correct the name, or "
            "import the module that registers its ops."
        )
    return overloads
