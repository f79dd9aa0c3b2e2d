"""Names of torch that have no meaning in JAX; each raises an error that names the alternative."""

from __future__ import annotations

from typing import Any, NoReturn

from oplib.errors import UnsupportedRegistrationError


def fallthrough_kernel(*_args: Any, **_kwargs: Any) -> NoReturn:
    """Raises UnsupportedRegistrationError: there are no dispatch keys that a call could fall through."""
    raise UnsupportedRegistrationError(
        "fallthrough_kernel: it should never be called. There is no dispatcher with keys to fall through. "
        "Leave the registration out."
    )


def load_library(path: object) -> NoReturn:
    """Raises: ops compiled against torch cannot be loaded.

    Args:
        path: the path of the shared library.

    Raises:
        OSError: always.
    """
    raise OSError(
        f"load_library: Could not load this library: {path}. Ops compiled against torch do not run on JAX. "
        f"Bind the compiled code with jax.ffi, and call it in a kernel annotated jax.Array."
    )


def register_torch_dispatch(op: object, *_args: Any, **_kwargs: Any) -> NoReturn:
    """Raises: there are no dispatch modes and no tensor subclasses with rules.

    Args:
        op: the op of the call.

    Raises:
        UnsupportedRegistrationError: always.
    """
    raise UnsupportedRegistrationError(
        f"register_torch_dispatch({op}): there are no dispatch modes here. Use a kernel, a rule, or a JAX "
        f"transformation."
    )


class FakeContext:
    """The result of :func:`get_ctx`; in torch it makes sizes that depend on data."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> NoReturn:  # noqa: A002  torch's names
        """Raises UnsupportedRegistrationError: sizes that depend on data do not exist here."""
        raise UnsupportedRegistrationError(
            f"new_dynamic_size(min={min}, max={max}): the shape of a result cannot depend on data, because "
            "XLA's shapes are static. Pad the result to a size known from the arguments, or annotate the "
            "op's tensors numpy.ndarray and call it outside of jax.jit."
        )

    create_unbacked_symint = new_dynamic_size


def get_ctx() -> FakeContext:
    """Returns the context of a fake kernel; all of its methods raise."""
    return FakeContext()
