"""Errors of Python, numpy or JAX about the arguments of a call, as errors of oplib.

A call binds and checks its arguments, and its errors say what does not fit. A value that no check knows makes
Python, numpy or JAX raise. Such an error does not say which call it is about.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection
from pathlib import Path
from types import FrameType

from jax.errors import JaxRuntimeError, UnexpectedTracerError
from jax.extend.core import Primitive

from .errors import (
    AllocationError,
    ArgumentError,
    ArgumentOverflowError,
    ArgumentTypeError,
    ArgumentValueError,
    AutogradError,
    DimensionError,
    MissingAttributeError,
    MissingRuleError,
    TracingError,
    UnsupportedArgumentError,
    describe,
)

# The first class that fits decides. Other errors, such as those of tracing or of a device, stay as they are.
_KINDS: tuple[tuple[type[Exception], type[ArgumentError | AllocationError]], ...] = (
    (MemoryError, AllocationError),  # of numpy; XLA's own end the process, and sizes are checked before it
    (NotImplementedError, UnsupportedArgumentError),
    (OverflowError, ArgumentOverflowError),
    (IndexError, DimensionError),
    (TypeError, ArgumentTypeError),
    (AttributeError, ArgumentTypeError),
    (ValueError, ArgumentValueError),
    (KeyError, ArgumentValueError),
    (ZeroDivisionError, ArgumentValueError),
)
_ADVICE: dict[type[Exception], str] = {AllocationError: "Check the sizes, or compute it in parts."}
_OTHER_ADVICE = (
    "Pass values of the kinds that its docstring lists; if these are, it is a defect of oplib: report it."
)
_MISSING_METHOD = (  # of a hijax primitive in the code of an op, in the words of JAX
    re.compile("(NotImplementedError: )?for .* support, subclass "),
    "Define that method in the class of this hijax primitive.",
)
# The words of Python for arguments that do not fit, and those of JAX for arrays on several devices.
_ADVICE_FOR_TEXTS = (
    _MISSING_METHOD,
    (
        re.compile(r"jit\(\) got .*'static_argnums'"),
        "Name the arguments: static_argnames='n'.",
    ),
    (
        re.compile(r"jit\(\) got .*'donate_argn"),
        "Leave it out: oplib.jit donates the memory that its function writes.",
    ),
    (
        re.compile(r"\S+\(\) (missing|takes|got) "),
        "Correct the call: help() of the function shows its arguments.",
    ),
    (
        re.compile("Received incompatible devices "),
        "Move them to one device by Tensor.to, before a program. On a mesh, that is tensor.to(sharding).",
    ),
    (
        re.compile(
            "Length of device assignment .*jax.set_mesh|Passing lowering_platforms .* only AbstractMesh "
        ),
        "Write 'with jax.set_mesh(mesh):' around the call, with the mesh of the array.",
    ),
    (
        re.compile("memory_space of all inputs "),
        "Bring them from the memory of the host: tensor.to(tensor.sharding.with_memory_kind('device')).",
    ),
    (
        re.compile("One of .* is incompatible with its sharding annotation "),
        "Name at most as many dimensions in the PartitionSpec as the value has.",
    ),
)
_ADVICE_FOR_LINES = (  # torch's habits in a kernel on arrays
    _MISSING_METHOD,
    (
        re.compile(r"array\.view\(\)|as a data type"),
        "Use x.reshape(shape): view of an array changes its dtype.",
    ),
    (re.compile("unexpected keyword argument '(dim|keepdim)'"), "Write axis= and keepdims=, as numpy does."),
    (re.compile("__format__"), "Print by jax.debug.print, which has the values."),
    (re.compile("read-only"), "Copy it first, or name the argument in mutates_args."),
    (re.compile(""), "Correct that line, or what it is given."),
)
_OWN_CURE = re.compile(r"\b([Pp]lease|[Uu]se|[Tt]ry|[Cc]onsider|[Ss]et)\b")  # of JAX and numpy
_INDIVISIBLE = re.compile(
    r"NamedSharding\(mesh=\w*Mesh\((?P<mesh>.*?)(?:, axis_types=.*?)?\), spec=(?P<spec>.*?), memory_kind=.*?"
    r"\) implies that array axis (?P<axis>\d+) is partitioned (?P<parts>\d+) times, "
    r"but the dimension size is (?P<size>\d+)(?: \(full shape: (?P<shape>\(.*?\)))?"
)
_PACKAGES = frozenset({"builtins", "numpy"})
_STATUS = re.compile("[A-Z_]+: ")  # of XLA; the text may hold an error of the user's host kernel
_OF_CALLBACK = "error calling callback: "  # of XLA, before the traceback of a host kernel
_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)\n(?:    .*\n)*', re.MULTILINE)
_OWN = str(Path(__file__).parent)
_CALL_OF = "<call of "  # begins the file name of the generated code of an op
_OF_DERIVATIVES = re.compile(
    "autodiff|[Dd]ifferentiation rule|[Rr]everse-mode|[Ff]orward-mode|JVP|Transpose rule"
)
_NO_REVERSE = "Linearization failed to produce known values"  # of JAX, which names no function
_LONGEST = 300
_LEAKED_TYPE = re.compile(r"intermediate value with type (\S+)")
_LEAKED_FROM = re.compile(
    r"leaked intermediate value was created on line (.+?:\d+)(?::\d+)?(?: \((.+?)\))?\.? *\n"
)


def explain_raw(error: Exception, frame: FrameType, name: str | None = None) -> Exception | None:
    """Returns an error of oplib that says which call a raw one is about; None for an error of another kind.

    That of a host kernel in a compiled program stays one of JAX, with a short text.

    Args:
        error: raised by Python, numpy or JAX, not by the user's code.
        frame: of the call, with its arguments.
        name: of the called function; by default that of the frame.
    """
    if isinstance(error, UnexpectedTracerError):
        return _explain_leak(error, _name_call(frame, name))
    if isinstance(error, JaxRuntimeError):
        return _explain_callback(error, _name_call(frame, name)) if _OF_CALLBACK in str(error) else None
    if _NO_REVERSE in str(error):
        return AutogradError(
            f"{_name_call(frame, name)}: JAX cannot differentiate this call in reverse mode. It runs "
            "an operation that has forward mode only, such as a Pallas kernel. Use forward mode "
            "outside (jax.hessian, jax.jvp of jax.grad), or make the operation an op with rules of its own."
        )
    if isinstance(error, KeyError) and isinstance(error.args[0], Primitive):
        return _explain_table(error, _name_call(frame, name))
    if isinstance(error, ValueError) and (found := _INDIVISIBLE.search(str(error))) is not None:
        axes = re.sub(r"'(\w+)': ", r"\1=", found["mesh"])
        return ArgumentValueError(
            f"{_name_call(frame, name)}: the mesh does not divide dimension {found['axis']}. Got shape "
            f"{found['shape']} for {found['spec']} over ({axes}); {found['size']} is no multiple of "
            f"{found['parts']}. Spread another dimension, or pad this one."
        )
    kind = _find_kind(error)
    if kind is None:
        return None
    text = str(error).partition("\n")[0]
    if _STATUS.match(text) or _OF_DERIVATIVES.search(text):
        return None
    name = _name_call(frame, name)
    advices = (advice for words, advice in _ADVICE_FOR_TEXTS if words.match(text))
    other = "Follow that advice." if _OWN_CURE.search(text[:_LONGEST]) else _OTHER_ADVICE
    advice = next(advices, _ADVICE.get(kind, other))
    got = _describe_arguments(frame, name)
    return kind(f"{name}: cannot use these arguments. Got {got or 'none'}; {_show_raw(error)}. {advice}")


def explain_mistake(
    error: Exception, op: str, part: str, frame: FrameType, location: str, *, cure: str
) -> ArgumentError | AllocationError | None:
    """Returns an error of oplib that says in which line of the user's code what it calls raised a raw one.

    Args:
        error: raised by Python, numpy, JAX or an op, below a line of a kernel or rule.
        op: the name of the op.
        part: the part of it that ran: ``kernel``, ``backward formula``.
        frame: of the function of the user that oplib called, with its arguments.
        location: the line.
        cure: what to write in place of an attribute that an array lacks.
    """
    if cure:
        kind, shown = MissingAttributeError, cure
    elif isinstance(error, ArgumentError):  # one that has a cause tells its own line
        kind, shown = None if error.__cause__ else type(error), str(error)
    else:
        raw = _show_raw(error)
        advice = next(advice for words, advice in _ADVICE_FOR_LINES if words.search(raw))
        kind, shown = _find_kind(error), f"{raw}. {advice}"
    if kind is None or (isinstance(error, (AttributeError, KeyError, ZeroDivisionError)) and not cure):
        return None  # oplib has no such
    got = _describe_arguments(frame, "", skipped={"ctx", "self"})
    return kind(f"{op}: the {part} fails at {location}. Got {got or 'no arguments'}; {shown}")


def _find_kind(error: Exception) -> type[ArgumentError | AllocationError] | None:
    """Returns the class of oplib for a raw error of Python or numpy; None for one of another kind."""
    if type(error).__module__.partition(".")[0] not in _PACKAGES:
        return None
    return next((own for raw, own in _KINDS if isinstance(error, raw)), None)


def _show_raw(error: Exception) -> str:
    text = str(error).partition("\n")[0].partition(". Did you mean '")[0]  # a guess of new Pythons
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return f"{type(error).__name__}: {shown.removesuffix('.')}"


def _name_call(frame: FrameType, name: str | None) -> str:
    """Returns how errors name a call: by its op or function."""
    file = frame.f_code.co_filename
    if file.startswith(_CALL_OF):
        return file.removeprefix(_CALL_OF).rstrip(">").partition(" ")[0]  # code written again has a number
    name = name or frame.f_code.co_name
    if name == "__call__" and (args := frame.f_locals.get("args")):
        return str(getattr(args[0], "__name__", name))
    return name


def _explain_table(error: KeyError, name: str) -> MissingRuleError:
    """Explains that a transformation has looked up a primitive in a table of its own."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
    return MissingRuleError(
        f"{name}: {where or 'a transformation of JAX'} knows only the primitives of JAX. Got "
        f"{error.args[0]}, and there is no public way to add one. Nest jax.jvp for derivatives of higher "
        "order, or give this transformation the function without the op."
    )


def _explain_callback(error: Exception, name: str) -> Exception:
    """Returns the error of a host kernel whose exception XLA shows as text, behind all frames of the call."""
    text = str(error)
    frames = [*_FRAME.finditer(text)]
    below = itertools.takewhile(
        lambda found: not found[1].startswith((_OWN, _CALL_OF, "<oplib.")), reversed(frames)
    )
    user = next((found for found in below if "site-packages" not in found[1]), None)
    place = ""  # an error of oplib says it itself
    if user:
        place = f" at {user[1]}:{user[2]}, in {user[3]}. Call the op outside of it to get its own exception"
    return JaxRuntimeError(
        f"{name}: a host kernel failed in a compiled program{place}:\n"
        f"{text[frames[-1].end() if frames else 0 :].strip()}"
    )


def _explain_leak(error: UnexpectedTracerError, name: str) -> TracingError:
    """Returns the error for a Tensor or array that outlives the trace in which it was made."""
    text = str(error)
    kind, origin = _LEAKED_TYPE.search(text), _LEAKED_FROM.search(text)
    shown = "a value" if kind is None else kind[1]
    if origin is not None:
        shown += f", made at {origin[1]}" + (f" in {origin[2]}" if origin[2] else "")
    return TracingError(
        f"{name}: a Tensor or array that was made inside a traced function is used outside of it. Got "
        f"{shown}. Its value existed only while the function was traced. Return it from the function, or "
        "make it outside."
    )


def _describe_arguments(frame: FrameType, name: str, skipped: Collection[str] = ()) -> str:
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    names = [*code.co_varnames[:count]]
    names += code.co_varnames[count : count + bool(code.co_flags & 4) + bool(code.co_flags & 8)]
    values = frame.f_locals
    arguments = [(own, values[own]) for own in names if own in values and own not in skipped]
    if arguments and arguments[0][0] == "args":
        arguments[0] = ("args", _drop_unmade(arguments[0][1], name))
    # The generated code of an op has *__rest and **__named for what does not fit its signature.
    named = [(own, value) for own, value in arguments if not own.startswith("__") or len(value)]
    return ", ".join(
        describe(value) if own.startswith("__") else f"{own} {describe(value)}" for own, value in named
    )


def _drop_unmade(args: tuple[object, ...], name: str) -> tuple[object, ...]:
    """Drops the unfinished object of a constructor: its repr reads attributes that are not set yet."""
    is_unmade = bool(args) and any(base.__name__ == name for base in type(args[0]).__mro__)
    return args[1:] if is_unmade else args
