"""The types of ``custom_op`` and of the methods that register rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    overload,
)

import jax
import numpy as np

from oplib.library.objects.overload import Redirecting
from oplib.library.records.platforms import DeviceTypes
from oplib.library.records.record import Derivative
from oplib.library.records.tags import Tags
from oplib.tensor import Tensor

P = ParamSpec("P")
R = TypeVar("R")
Rule = TypeVar("Rule", bound=Callable[..., Any])


class CustomOpOptions(TypedDict, total=False):
    """The options of ``custom_op``, which describes them.

    Its signature lists them again, because a TypedDict can hold no defaults, and ``help`` shows a signature.
    """

    mutates_args: str | Iterable[str]
    device_types: DeviceTypes
    schema: str | None
    tags: Tags
    compile: bool | None
    operand: Iterable[str]
    donates: Iterable[str]
    autograd: Literal["derive"] | Derivative | None


class RuleDecorator(Protocol):
    """A decorator that returns the decorated function."""

    def __call__(self, rule: Rule, /) -> Rule:
        """Registers the function."""
        ...


class TypedOp(Redirecting, Generic[P, R]):
    """A callable with the signature of a kernel, or with a Tensor first and a Tensor as result."""

    if TYPE_CHECKING:  # at run time it is a slot, which needs no frame
        __name__: str

        @overload
        def __call__(self, tensor: Tensor | Sequence[Tensor], /, *args: Any, **kwargs: Any) -> Tensor: ...

        @overload  # a kernel on the host
        def __call__(
            self: TypedOp[Concatenate[np.ndarray[Any, Any], ...], Any],
            array: jax.Array,
            /,
            *args: Any,
            **kwargs: Any,
        ) -> jax.Array: ...

        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """Calls the op."""

        @overload
        def register_autograd(
            self,
            backward: None = None,
            /,
            *,
            setup_context: Callable[..., Any] | None = None,
            forward: Callable[..., Any] | None = None,
            nonlinear: bool = False,
            constant: str | None = None,
            missing: str | None = None,
            lib: Any = None,
        ) -> RuleDecorator: ...

        @overload
        def register_autograd(self, backward: Literal["derive"], /, *, lib: Any = None) -> None: ...

        @overload
        def register_autograd(self, backward: Derivative, /, *, lib: Any = None) -> Any: ...

        @overload
        def register_autograd(
            self,
            backward: Rule,
            /,
            *,
            setup_context: Callable[..., Any] | None = None,
            forward: Callable[..., Any] | None = None,
            nonlinear: bool = False,
            constant: str | None = None,
            missing: str | None = None,
            lib: Any = None,
        ) -> Rule: ...

        def register_autograd(self, backward: Any = None, /, **options: Any) -> Any:
            """Registers how the op differentiates backwards."""

        @overload
        def register_jvp(
            self,
            func: None = None,
            /,
            *,
            symbolic_zeros: bool = False,
            nonlinear: bool = False,
            lib: Any = None,
        ) -> RuleDecorator: ...

        @overload
        def register_jvp(
            self, func: Rule, /, *, symbolic_zeros: bool = False, nonlinear: bool = False, lib: Any = None
        ) -> Rule: ...

        def register_jvp(self, func: Any = None, /, **options: Any) -> Any:
            """Registers how the op differentiates forwards."""

        @overload
        def register_vmap(self, func: None = None, /, *, lib: Any = None) -> RuleDecorator: ...

        @overload
        def register_vmap(self, func: Rule, /, *, lib: Any = None) -> Rule: ...

        def register_vmap(self, func: Any = None, /, *, lib: Any = None) -> Any:
            """Registers a batching rule."""

        @overload
        def register_fake(self, func: None = None, /, *, lib: Any = None) -> RuleDecorator: ...

        @overload
        def register_fake(self, func: Rule, /, *, lib: Any = None) -> Rule: ...

        def register_fake(self, func: Any = None, /, *, lib: Any = None) -> Any:
            """Registers the shapes of the results."""

        @overload
        def register_kernel(
            self, device_types: DeviceTypes, func: None = None, /, *, lib: Any = None
        ) -> RuleDecorator: ...

        @overload
        def register_kernel(self, device_types: DeviceTypes, func: Rule, /, *, lib: Any = None) -> Rule: ...

        def register_kernel(self, device_types: DeviceTypes, func: Any = None, /, *, lib: Any = None) -> Any:
            """Registers a kernel for some platforms."""

        @overload
        def register_sharding(self, rule: None = None, /, *, lib: Any = None) -> RuleDecorator: ...

        @overload
        def register_sharding(self, rule: str, /, *, lib: Any = None) -> str: ...

        @overload
        def register_sharding(self, rule: Rule, /, *, lib: Any = None) -> Rule: ...

        def register_sharding(self, rule: Any = None, /, *, lib: Any = None) -> Any:
            """Registers how the op works on arrays that are spread over devices."""

        def register_autocast(self, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
            """Registers the dtype to which autocast casts the floating arguments."""
