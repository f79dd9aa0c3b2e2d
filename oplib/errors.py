"""Every error oplib raises on purpose, as a tree.

Each class also derives from the builtin that users of the field expect in that place, so that
``except RuntimeError`` written for torch keeps working::

    OplibError
    ├── SchemaError (RuntimeError)            a schema string that does not parse or contradicts itself
    ├── SchemaInferenceError (ValueError)     a function whose hints give no schema
    ├── RegistrationError (RuntimeError)      a registration that conflicts with what is registered
    │   ├── RegistrationValueError (ValueError)
    │   ├── RegistrationTypeError (TypeError)
    │   ├── ExclusiveTagsError (AssertionError)
    │   └── UnsupportedRegistrationError (NotImplementedError)
    ├── LibraryDestroyedError (AssertionError) a call on a library after its destruction
    ├── UnknownOperatorError (AttributeError) a name under which nothing is registered
    ├── ArgumentError (RuntimeError)          arguments that do not fit a schema
    │   ├── DimensionError (IndexError)       a dim or an index that the tensor does not have
    │   ├── LinAlgError                       a matrix that has not what was asked for, such as an inverse
    │   ├── ArgumentTypeError (TypeError)     an argument of a type that no overload takes
    │   ├── ArgumentValueError (ValueError)   an argument of the right type, with a value that it cannot have
    │   ├── ArgumentOverflowError (OverflowError) an integer that no dtype holds
    │   ├── UnsupportedArgumentError (NotImplementedError) a mode or shape for which the op is not defined
    │   └── UnsupportedDtypeError (NotImplementedError, TypeError) a dtype for which the op is not defined
    ├── ResultError (RuntimeError)            a kernel's result that does not fit its schema
    │   └── ResultTypeError (TypeError)
    ├── MissingRuleError (NotImplementedError) no kernel, formula, fake or batching rule for what was asked
    ├── TracingError (RuntimeError)           something that cannot be done while a function is traced
    ├── CompilationWarning (UserWarning)      a static argument that makes an op compile again and again
    ├── AutogradError (RuntimeError)          a graph, or a gradient, that does not allow what was asked
    │   ├── GradientTypeError (TypeError)
    │   ├── GradientValueError (ValueError)
    │   │   └── StrategyError (AssertionError) a way of computing derivatives that does not exist
    │   ├── MisplacedCallError (AssertionError) what belongs into a backward pass or a context, outside of it
    │   └── SavedTensorError                  a saved tensor that was freed, or overwritten after saving
    ├── CheckpointError (RuntimeError)        a recomputation that does not repeat the forward
    ├── CheckError                            a check of derivatives or of an op has failed
    │   ├── GradcheckError (RuntimeError)     derivatives that finite differences contradict
    │   ├── OpCheckError                      an op one of whose rules is wrong
    │   ├── OpMismatchError (AssertionError)  what an op gives in two ways that have to agree
    │   └── CheckOptionError (AssertionError) options of a check that exclude each other
    ├── DataError (ValueError)                data of which no tensor can be made
    │   └── DataTypeError (TypeError)
    ├── DtypeError (TypeError)                a dtype that would lose values, or does not fit
    └── DeviceError (RuntimeError)            a device that does not exist, or is not one device

A message has three beats: where and what; the evidence; what to do. The subject stands first and
values are shown short (``f32[2,3]``, see :func:`describe`).
"""

from __future__ import annotations

import re
from typing import Any


class OplibError(Exception):
    """Root of the tree: catches everything oplib raises on purpose."""


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
    """Nothing is registered under this name."""


class ArgumentError(OplibError, RuntimeError):
    """Arguments that do not fit the schema of the op they were given to."""


class DimensionError(ArgumentError, IndexError):
    """A dim or an index that the tensor does not have."""


class LinAlgError(ArgumentError):
    """A matrix has not what was asked for: an inverse, or a Cholesky factor."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument of a type that no overload takes."""


class ArgumentValueError(ArgumentError, ValueError):
    """An argument of the right type, with a value that it cannot have."""


class ArgumentOverflowError(ArgumentError, OverflowError):
    """An integer that no dtype holds, or none while JAX's 64 bits are off."""


class UnsupportedArgumentError(ArgumentError, NotImplementedError):
    """A mode, or a number of dimensions, for which the op is not defined."""


class UnsupportedDtypeError(ArgumentError, NotImplementedError, TypeError):
    """A dtype for which the op is not defined, such as complex numbers for an order.

    Torch's ops raise NotImplementedError there, and Python's operators on the same tensors TypeError.
    """


class ResultError(OplibError, RuntimeError):
    """A kernel returned what its schema does not allow."""


class ResultTypeError(ResultError, TypeError):
    """A kernel returned a single value where its schema has a tuple."""


class MissingRuleError(OplibError, NotImplementedError):
    """The op has no kernel, formula, fake kernel or batching rule for what was asked of it."""


class TracingError(OplibError, RuntimeError):
    """Something that cannot be done while a kernel, a rule or a user's function is traced."""


class CompilationWarning(UserWarning):
    """An op compiles anew for each value of one of its static arguments."""


class AutogradError(OplibError, RuntimeError):
    """The graph, or a gradient flowing through it, does not allow what was asked."""


class GradientTypeError(AutogradError, TypeError):
    """A gradient, a hook's result or an input of the wrong type."""


class GradientValueError(AutogradError, ValueError):
    """Arguments of ``backward`` or ``grad`` that exclude each other."""


class MisplacedCallError(AutogradError, AssertionError):
    """Something that belongs into a backward pass, or into a context, was called outside of it."""


class StrategyError(GradientValueError, AssertionError):
    """A way of computing derivatives was asked for that does not exist."""


class SavedTensorError(AutogradError):
    """A saved tensor was freed, or written in place after it was saved."""


class CheckpointError(OplibError, RuntimeError):
    """What a checkpoint computes again is not what its forward computed."""


class CheckError(OplibError):
    """A check of derivatives or of an op has failed."""


class GradcheckError(CheckError, RuntimeError):
    """The derivatives of a function are not what finite differences say."""


class OpCheckError(CheckError):
    """One of the rules of an op is wrong."""


class OpMismatchError(CheckError, AssertionError):
    """What an op gives in two ways that have to agree differs."""


class CheckOptionError(CheckError, AssertionError):
    """Options of a check that exclude each other."""


class DataError(OplibError, ValueError):
    """Data of which no tensor can be made, such as nested lists of unequal length."""


class DataTypeError(DataError, TypeError):
    """Data of a type of which no tensor can be made."""


class DtypeError(OplibError, TypeError):
    """A dtype that would lose values silently, or that an operation does not take."""


class DeviceError(OplibError, RuntimeError):
    """A device that does not exist here, or a tensor that is not on exactly one."""


_KIND = re.compile(r"^(bfloat|float|uint|int|complex)(?=\d)")
_SHORT = {"bfloat": "bf", "float": "f", "uint": "u", "int": "i", "complex": "c"}


def describe_dtype(dtype: Any) -> str:
    """Returns a dtype's short name: ``f32``, ``bf16``, ``i64``, ``bool``, ``f8_e4m3fn``.

    Args:
        dtype: anything with a ``name``, such as a numpy dtype.

    Example:
        >>> import numpy as np
        >>> describe_dtype(np.dtype("float32"))
        'f32'
    """
    return _KIND.sub(lambda kind: _SHORT[kind[1]], str(getattr(dtype, "name", dtype)))


def describe(value: object) -> str:
    """Returns a value as error messages show it: arrays as ``f32[2,3]``, the rest as a short ``repr``.

    Args:
        value: anything; whatever has a ``shape`` and a ``dtype`` is shown by these.

    Example:
        >>> import numpy as np
        >>> describe(np.zeros((2, 3), np.float32))
        'f32[2,3]'
        >>> describe([1, None])
        '[1, None]'
    """
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return f"{describe_dtype(dtype)}[{','.join(map(str, shape))}]"
    if isinstance(value, (list, tuple)) and len(value) <= 8:
        inside = ", ".join(describe(item) for item in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
