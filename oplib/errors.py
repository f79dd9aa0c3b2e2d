"""All errors that oplib raises on purpose, as a tree.

Each class also derives from the builtin class that users of the field expect, so ``except RuntimeError``
written for torch still works::

    OplibError
    ├── SchemaError (RuntimeError)            a schema string that does not parse or contradicts itself
    ├── SchemaInferenceError (ValueError)     a function whose annotations give no schema
    ├── RegistrationError (RuntimeError)      a registration that conflicts with what is registered
    │   ├── RegistrationValueError (ValueError)
    │   ├── RegistrationTypeError (TypeError)
    │   ├── ExclusiveTagsError (AssertionError)
    │   └── UnsupportedRegistrationError (NotImplementedError)
    ├── LibraryDestroyedError (AssertionError) a call on a library after its destruction
    ├── UnknownOperatorError (AttributeError) a name that is not registered
    ├── ArgumentError (RuntimeError)          arguments that do not fit a schema
    │   ├── DimensionError (IndexError)       a dim or an index that the tensor does not have
    │   ├── LinAlgError                       a matrix without the requested result, such as an inverse
    │   ├── ArgumentTypeError (TypeError)     an argument of a type that no overload accepts
    │   ├── ArgumentValueError (ValueError)   an argument of the right type with an invalid value
    │   ├── ArgumentOverflowError (OverflowError) an integer that no dtype holds
    │   ├── MissingAttributeError (AttributeError) an attribute that is absent, or cannot be set
    │   ├── UnsupportedArgumentError (NotImplementedError) a mode or shape for which the op is not defined
    │   └── UnsupportedDtypeError (NotImplementedError, TypeError) a dtype for which the op is not defined
    ├── ResultError (RuntimeError)            a kernel's result that does not fit its schema
    │   └── ResultTypeError (TypeError)
    ├── AllocationError (RuntimeError, MemoryError) an array that does not fit into memory
    ├── MissingRuleError (NotImplementedError) no kernel, formula, fake kernel or batching rule for a call
    ├── TracingError (RuntimeError)           an action that is not possible while a function is traced
    │   ├── CapturedTracerError               a kernel or rule that closes over a traced value
    │   ├── ConcreteValueError                the value of a traced Tensor was asked for
    │   └── ReadValueError                    a kernel of plain Python asked for one
    ├── CompilationWarning (UserWarning)      a static argument that makes an op compile again and again
    ├── AutogradError (RuntimeError)          a graph or a gradient that does not allow the request
    │   ├── GradientTypeError (TypeError)
    │   ├── GradientValueError (ValueError)
    │   │   └── StrategyError (AssertionError) a strategy for derivatives that does not exist
    │   ├── MisplacedCallError (AssertionError) a call outside of the backward pass or context that it needs
    │   └── SavedTensorError                  a saved tensor that was freed, or written after it was saved
    ├── CheckpointError (RuntimeError)        a recomputation that does not repeat the forward
    ├── CheckError                            a check of derivatives or of an op has failed
    │   ├── GradcheckError (RuntimeError)     derivatives that disagree with finite differences
    │   ├── OpCheckError                      an op with a wrong rule
    │   ├── OpMismatchError (AssertionError)  two computations of an op that must agree and differ
    │   └── CheckOptionError (AssertionError) options of a check that exclude each other
    ├── DataError (ValueError)                data that cannot be converted to a tensor
    │   └── DataTypeError (TypeError)
    ├── DtypeError (TypeError)                a dtype that would lose values, or does not fit
    └── DeviceError (RuntimeError)            no such device, not one device, or processes that diverge

A message has three parts: where and what; the evidence; what to do. It starts with its subject and shows
values in a short form (``f32[2,3]``, see :func:`describe`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any


class OplibError(Exception):
    """The root of the tree, which catches all errors that oplib raises on purpose."""


class SchemaError(OplibError, RuntimeError):
    """A schema string that does not parse or contradicts itself."""


class SchemaInferenceError(OplibError, ValueError):
    """A function whose annotations, defaults or parameter kinds give no schema."""


class RegistrationError(OplibError, RuntimeError):
    """A registration that conflicts with its op or with another registration."""


class RegistrationValueError(RegistrationError, ValueError):
    """A registration with an impossible value, such as a malformed name."""


class RegistrationTypeError(RegistrationError, TypeError):
    """A registration with an argument of the wrong type, such as a kernel that cannot be called."""


class ExclusiveTagsError(RegistrationError, AssertionError):
    """Two tags of one op that exclude each other."""


class UnsupportedRegistrationError(RegistrationError, NotImplementedError):
    """A registration that has no meaning here, or is not supported for this schema."""


class LibraryDestroyedError(OplibError, AssertionError):
    """A library was used after its destruction."""


class UnknownOperatorError(OplibError, AttributeError):
    """A name that is not registered."""


class ArgumentError(OplibError, RuntimeError):
    """Arguments that do not fit the schema of their op.

    A kernel of a built-in op says what is wrong and the cure, in two arguments. :func:`frame_error` adds the
    name and the arguments of the call.
    """


class DimensionError(ArgumentError, IndexError):
    """A dim or an index that the tensor does not have."""


class LinAlgError(ArgumentError):
    """A matrix without the requested result, such as an inverse or a Cholesky factor."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument of a type that no overload accepts."""


class ArgumentValueError(ArgumentError, ValueError):
    """An argument of the right type with an invalid value."""


class ArgumentOverflowError(ArgumentError, OverflowError):
    """An integer that no available dtype holds."""


class MissingAttributeError(ArgumentError, AttributeError):
    """A method of Tensors that is asked of an array, or an attribute that cannot be set."""


class UnsupportedArgumentError(ArgumentError, NotImplementedError):
    """A mode, or a number of dimensions, for which the op is not defined."""


class UnsupportedDtypeError(ArgumentError, NotImplementedError, TypeError):
    """A dtype for which the op is not defined, such as a complex dtype for a comparison by order.

    Torch's ops raise NotImplementedError in this case, and Python's operators on the same tensors TypeError.
    """


class ResultError(OplibError, RuntimeError):
    """A kernel's result that its schema does not allow."""


class ResultTypeError(ResultError, TypeError):
    """A single result of a kernel whose schema declares a tuple."""


class AllocationError(OplibError, RuntimeError, MemoryError):
    """An array that does not fit into memory; it is not allocated."""


class MissingRuleError(OplibError, NotImplementedError):
    """An op without the kernel, formula, fake kernel or batching rule that a call needs."""


class TracingError(OplibError, RuntimeError):
    """An action that is not possible while a kernel, a rule or a user's function is traced."""


class CapturedTracerError(TracingError):
    """A kernel or rule that closes over a traced value, which its compiled code would outlive."""


class ConcreteValueError(TracingError):
    """The value of a Tensor was asked for while a function was traced, so that there is no value yet."""


class ReadValueError(TracingError):
    """A kernel of plain Python asked for the value of a traced Tensor."""


class CompilationWarning(UserWarning):
    """An op compiles again for each value of one of its static arguments."""


class AutogradError(OplibError, RuntimeError):
    """A graph or a gradient that does not allow the request."""


class GradientTypeError(AutogradError, TypeError):
    """A gradient, a hook's result or an input of the wrong type."""


class GradientValueError(AutogradError, ValueError):
    """Arguments of ``backward`` or ``grad`` that exclude each other."""


class MisplacedCallError(AutogradError, AssertionError):
    """A call outside of the backward pass or context that it needs."""


class StrategyError(GradientValueError, AssertionError):
    """A strategy for derivatives that does not exist."""


class SavedTensorError(AutogradError):
    """A saved tensor that was freed, or written in place after it was saved."""


class CheckpointError(OplibError, RuntimeError):
    """A recomputation of a checkpoint that differs from its forward."""


class CheckError(OplibError):
    """A failed check of derivatives or of an op."""


class GradcheckError(CheckError, RuntimeError):
    """Derivatives of a function that disagree with finite differences.

    Attributes:
        jacobians: the Jacobian of the differences and that of the formulas, inputs by outputs, if both were
            computed whole; else None.
    """

    jacobians: Any = None


class OpCheckError(CheckError):
    """An op with a wrong rule.

    Attributes:
        failure: the error of the test that has failed.
    """

    failure: Exception | None = None


class OpMismatchError(CheckError, AssertionError):
    """Two computations of an op that must agree and differ."""


class CheckOptionError(CheckError, AssertionError):
    """Options of a check that exclude each other."""


class DataError(OplibError, ValueError):
    """Data that cannot be converted to a tensor, such as nested lists of unequal length."""


class DataTypeError(DataError, TypeError):
    """Data of a type that cannot be converted to a tensor."""


class DtypeError(OplibError, TypeError):
    """A dtype that would lose values silently, or that an operation does not accept."""


class DeviceError(OplibError, RuntimeError):
    """A device that does not exist, a tensor that is not on exactly one device, or processes that diverge."""


_KIND = re.compile(r"^(bfloat|float|uint|int|complex)(?=\d)")
_SHORT = {"bfloat": "bf", "float": "f", "uint": "u", "int": "i", "complex": "c"}


def describe_dtype(dtype: Any) -> str:
    """Returns a dtype's short name: ``f32``, ``bf16``, ``i64``, ``bool``, ``f8_e4m3fn``.

    Args:
        dtype: an object with a ``name``, such as a numpy dtype.

    Example:
        >>> import numpy as np
        >>> describe_dtype(np.dtype("float32"))
        'f32'
    """
    return _KIND.sub(lambda kind: _SHORT[kind[1]], str(getattr(dtype, "name", dtype)))


_DEPTH = 4  # of nested sequences


def describe(value: object) -> str:
    """Returns a value as error messages show it: an array as ``f32[2,3]``, others as a short ``repr``.

    Args:
        value: any object; one with a ``shape`` and a ``dtype`` is shown by these.

    Example:
        >>> import numpy as np
        >>> describe(np.zeros((2, 3), np.float32))
        'f32[2,3]'
        >>> describe([1, None])
        '[1, None]'
    """
    return _describe(value, _DEPTH)


def _describe(value: object, depth: int) -> str:
    """Describes sequences down to a depth: a list may contain itself."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return f"{describe_dtype(dtype)}[{','.join(map(str, shape))}]"
    if isinstance(value, (list, tuple)) and len(value) <= 8:
        if not depth:
            return "[...]" if isinstance(value, list) else "(...)"
        inside = ", ".join(_describe(item, depth - 1) for item in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deeply, or an integer of more than 4,300 digits
        text = f"<{type(value).__name__} without a repr>"
    return text if len(text) <= 60 else f"{text[:57]}..."


def frame_error(error: ArgumentError, name: str, arguments: Iterable[tuple[str, object]]) -> None:
    """Gives the error of a call the name and the arguments of the call; one that has these stays as it is."""
    if len(error.args) == 2:
        reason, cure = error.args
        got = ", ".join(f"{own} {describe(value)}" for own, value in arguments if value is not None)
        error.args = (f"{name}: {reason}. Got {got}. {cure}",)
