"""``oplib.jit``: compiles a function over Tensors, together with the Tensors that it captures."""

from __future__ import annotations

import copy
import logging
import threading
import traceback
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

import jax
from jax.core import Tracer
from jax.extend.core import get_opaque_trace_state

from oplib.autograd.array_functions.concreteness import CONCRETIZATION_ERRORS
from oplib.config import config
from oplib.errors import ArgumentTypeError, CompilationWarning, ConcreteValueError, TracingError, describe
from oplib.modes import modes
from oplib.tensor.storage.escape import OUTSIDE, is_inside_trace
from oplib.tensor.storage.fresh import buffers
from oplib.tensor.storage.overlay import overlays
from oplib.torch_names import hand_back, no_compiler
from oplib.tracebacks import entry_point, is_inside, refine_error, warn_user
from oplib.transforms.tracing.candidates import Candidates
from oplib.transforms.tracing.paths import Walk
from oplib.transforms.tracing.program_table import ProgramTable
from oplib.transforms.tracing.unrepeatable import refuse_unrepeatable

from .arguments import ArgumentBinder, CallArguments, find_signature, list_number_options
from .call_lines import MISSED
from .call_program import Program
from .call_trace import Trace, tracing

if TYPE_CHECKING:
    from oplib.library.registration.custom_op_def import CustomOpDef

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
log = logging.getLogger("oplib.jit")
MANY_PROGRAMS = 8
MOST_TRACES = 4  # for one call
_NO_INDEX = "Only integer scalar arrays can be converted"  # begins JAX's TypeError for a traced float


class Programs(ProgramTable[Program]):
    """The programs of one function, or of one method of one instance.

    Attributes:
        compilations: how many have been compiled.
        lock: held by a call from the reading of its operands until their new values are there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.compilations = 0
        self.lock = threading.RLock()


class JitFunction(Generic[P, R]):
    """A function that runs as one compiled program. Make it with :func:`jit`.

    Attributes:
        __wrapped__: the function.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        static_argnames: tuple[str, ...] = (),
        programs: Programs | None = None,
        *,
        donate: bool = True,
    ) -> None:
        self.__wrapped__ = function
        self.__name__: str = getattr(function, "__name__", type(function).__name__)
        self.__qualname__: str = getattr(function, "__qualname__", self.__name__)
        self.__module__: str = getattr(function, "__module__", __name__)
        self.__doc__ = function.__doc__
        self._static = static_argnames
        self._donate = donate
        self._programs = Programs() if programs is None else programs
        self._of_instances: dict[int, Programs] = {}  # by identity: their class may define ``==``
        self._of_methods: ArgumentBinder | None = None
        signature = find_signature(function)
        compiled_in = (*static_argnames, *list_number_options(function, signature))
        self._binder = ArgumentBinder(self.__name__, function, compiled_in)
        for name in static_argnames:
            if name not in signature.parameters:
                raise ArgumentTypeError(
                    f"jit: static_argnames names no argument of {self.__name__}. Got {name!r}; the arguments "
                    f"are {', '.join(signature.parameters)}. Correct the name."
                )

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type | None = None) -> Self: ...

        @overload
        def __get__(
            self: JitFunction[Concatenate[Any, Q], S], instance: object, owner: type | None = None
        ) -> JitFunction[Q, S]: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Binds the function as a method; each instance has programs of its own."""
        if instance is None:
            return self
        wrapped: Any = self.__wrapped__
        method, programs = wrapped.__get__(instance, owner), self._find_programs(instance)
        if self._of_methods is None:  # each of them has the same arguments
            self._of_methods = JitFunction(method, self._static, donate=self._donate)._binder
        bound = object.__new__(JitFunction)
        own = {"__wrapped__": method, "_programs": programs, "_binder": self._of_methods}
        bound.__dict__.update({**self.__dict__, **own})
        return bound

    def _find_programs(self, instance: Any) -> Programs:
        """Returns the programs of an instance, as long as it lives.

        All instances that cannot be referred to weakly, as their class has slots, share theirs.
        """
        held, number = self._of_instances, id(instance)
        if number not in held:
            try:
                weakref.finalize(instance, held.pop, number, None).atexit = False
            except TypeError:
                number = 0
        return held.setdefault(number, Programs())

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> JitFunction[P, R]:
        wrapped = copy.deepcopy(self.__wrapped__, memo)
        return (
            self if wrapped is self.__wrapped__ else JitFunction(wrapped, self._static, donate=self._donate)
        )

    def __reduce__(self) -> Any:
        if isinstance(self.__wrapped__, types.FunctionType):
            return self.__qualname__  # pickled by its name, as any function
        return _make_again, (self.__wrapped__, self._static, self._donate)

    def __repr__(self) -> str:
        return f"<oplib.jit of {self.__qualname__}>"

    @property
    def compilations(self) -> int:
        """How many programs have been compiled."""
        return self._programs.compilations

    def clear(self) -> None:
        """Forgets all programs."""
        with self._programs.lock:
            self._programs.clear()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the program for these arguments, and compiles it if it is new."""
        try:  # as entry_point, which would cost a frame
            state = modes.state
            if (  # the function runs as it is inside a trace, or where kernels run as plain Python
                overlays.current is not None
                or state.map_levels
                or state.dual_level is not None
                or state.anomaly
                or not config.compile_kernels
                or get_opaque_trace_state() != OUTSIDE  # as is_inside_trace, without its frame
            ):
                return self.__wrapped__(*args, **kwargs)
            arguments = self._binder.bind(self.__wrapped__, args, kwargs)
            if arguments.arrays and self._is_traced(arguments.arrays):
                return self.__wrapped__(*args, **kwargs)
            return self._serve(arguments)
        except Exception as error:
            if better := refine_error(error):
                raise better from error
            raise

    def _is_traced(self, arrays: Sequence[Any]) -> bool:
        for array in arrays:
            if isinstance(array, Tracer):
                return True
            if isinstance(array, jax.ShapeDtypeStruct):
                raise ArgumentTypeError(
                    f"{self.__name__}: a call needs values. Got {describe(array)}, a jax.ShapeDtypeStruct. "
                    "Give an array, or ask for the program: function.lower(...)."
                )
        return False

    @entry_point
    def explain(self, *args: Any, **kwargs: Any) -> str:
        """Returns why a call with these arguments would compile a program, or that it would not.

        Nothing runs and nothing is compiled.
        """
        arguments = self._binder.bind(self.__wrapped__, args, kwargs)
        with self._programs.lock, buffers:
            found = self._find(arguments, _use_nothing)
            reason = self._explain_views(arguments) if found is MISSED else ""
        return f"{self.__name__}: {reason or 'a compiled program serves this call'}"

    @entry_point
    def lower(self, *args: Any, **kwargs: Any) -> jax.stages.Lowered:
        """Returns the program for these arguments as JAX lowers it. Nothing runs, and nothing is compiled.

        ``jax.ShapeDtypeStruct``s may stand for arrays, and Tensors that are made of these for Tensors, also
        captured ones. Their shardings may be those of a ``jax.sharding.AbstractMesh``, whose devices are not
        there.

        Returns:
            What ``jax.jit(function).lower(...)`` returns: its ``compile()`` runs the compiler.
        """
        arguments = self._binder.bind(self.__wrapped__, args, kwargs)
        walk = Walk(self.__wrapped__, arguments.leaves, arguments.name_leaf)
        held = [path.value._storage.owner.spec for path in walk.tensors.values()]
        if any(isinstance(array, jax.ShapeDtypeStruct) for array in (*held, *arguments.arrays)):
            with tracing:
                return self._trace_once(arguments, walk).lower(arguments.arrays)
        return self._serve(arguments, Program.lower, compiles=False)

    def _serve(
        self,
        arguments: CallArguments,
        use: Callable[[Program, Sequence[Any], Sequence[Any]], Any] | None = None,
        *,
        compiles: bool = True,
    ) -> Any:
        """Runs or uses the program for a call, compiled if need be.

        Other threads may use fresh buffers while it is traced and compiled.
        """
        with self._programs.lock:
            for _ in range(MOST_TRACES):  # a call in another thread may change what was compiled for
                with buffers:
                    result = self._find(arguments, use, only_compiled=compiles)
                    if result is not MISSED:
                        return result
                for variant in (*arguments.take_apart(), arguments):
                    if self._add_program(variant, compiles=compiles):
                        break
            reason = self._explain_views(arguments)
            found = f"Found that {reason}" if reason else "It may be another thread that changes it"
            raise TracingError(
                f"{self.__name__}: what the function captures changes while it is traced, so its program "
                f"serves no call. {found}. Give what changes as an argument, or keep it in a Tensor."
            )

    def _find(self, arguments: CallArguments, use: Any, *, only_compiled: bool = False) -> Any:
        """Runs or uses the first program that serves a call; without one it returns ``MISSED``.

        Args:
            arguments: of the call.
            use: what is done with the program, its inputs and its operands in place of running it, or None.
            only_compiled: leave out programs that are not compiled.
        """
        table = self._programs
        programs = table.by_key.get(arguments.key, [])
        if programs is not table.latest:
            table.note_use(programs)
        for program in programs:
            if program.is_compiled or not only_compiled:
                result = program.serve(arguments, use and partial(use, program))
                if result is not MISSED:
                    return result
        for variant in arguments.take_apart() if programs else ():
            return self._find(variant, use, only_compiled=only_compiled)
        return MISSED

    def _add_program(self, arguments: CallArguments, *, compiles: bool) -> bool:
        """Makes a program for a call, and returns whether it can serve it.

        Views that were taken apart must share memory with no other Tensor, and only be read.
        """
        with tracing:  # while another thread traces, Tensors may have attributes of that trace
            use = Program.compile if compiles else _use_nothing
            if self._find(arguments, use) is not MISSED:
                return True
            reason = self._explain(arguments)
            trace, program = self._trace(arguments)
            tensors = [path.value for path in trace.candidates.operands]
            if not program.may_take_apart(arguments.apart, tensors):
                trace.snapshot.restore_containers()  # the function is traced again
                return False
            program.reason = reason
            self._programs.add(arguments.key, program)
            self._note_compilation(reason)
        self._find(arguments, use)
        return True

    def _explain_views(self, arguments: CallArguments) -> str:
        """Returns why no program serves a call, which may take its views apart."""
        return next(filter(None, map(self._explain, (*arguments.take_apart(), arguments))), "")

    def _explain(self, arguments: CallArguments) -> str:
        programs = self._programs.by_key.get(arguments.key)
        if programs:
            reasons = [program.explain(arguments) for program in programs]
            return "" if "" in reasons else reasons[0]
        if not self._programs.by_key:
            return "it has not been compiled yet"
        nearest = min(reversed(self._programs.by_key), key=arguments.count_differences)
        return next(arguments.list_differences(nearest), "a program for these arguments was given up")

    def _note_compilation(self, reason: str) -> None:
        self._programs.compilations += 1
        count = self._programs.compilations
        log.info("%s: compiled program %d because %s", self.__name__, count, reason)
        if count == MANY_PROGRAMS:
            warn_user(
                f"{self.__name__}: oplib.jit has compiled {count} programs. The last one because {reason}. "
                "Give what changes as a Tensor, or keep shapes the same.",
                CompilationWarning,
            )

    def _trace(self, arguments: CallArguments) -> tuple[Trace, Program]:
        walk = Walk(self.__wrapped__, arguments.leaves, arguments.name_leaf)
        try:
            trace = self._trace_once(arguments, walk)
            return trace, Program(trace, arguments.leaves, donate=self._donate)
        finally:  # cycles of references would keep the arguments alive
            for path in walk.list_paths():
                path.again.clear()

    def _trace_once(self, arguments: CallArguments, walk: Walk) -> Trace:
        candidates = Candidates(walk)
        try:
            with refuse_unrepeatable(self.__name__, walk.stateful, candidates.names.known):
                return Trace(self.__name__, arguments.call, candidates, arguments.arrays)
        except (ConcreteValueError, *CONCRETIZATION_ERRORS) as error:
            raise self._explain_value(error, arguments) from None
        except TypeError as error:
            if not str(error).startswith(_NO_INDEX) or not arguments.list_floats():
                raise
            raise self._explain_index(error, arguments) from None

    def _explain_value(self, error: Exception, arguments: CallArguments) -> ConcreteValueError:
        """The error for a function that asks for a value, with the line of the user that does."""
        place = _find_place(error)
        first = str(error).partition("\n")[0].removesuffix(".").replace(place, "")
        cures: list[str] = []
        if not isinstance(error, ConcreteValueError):  # the other says it itself
            cures.append(
                " Choose by oplib.where or oplib.cond, return the value, or move the line out of the "
                "function."
            )
        floats = arguments.list_floats()
        if floats:
            cures.append(f" Floats are operands, here {', '.join(floats)}; static_argnames compiles one in.")
        return ConcreteValueError(
            f"{self.__name__}: the value of a Tensor is needed while the function is compiled{place}. "
            f"{first}.{''.join(cures)}"
        )

    def _explain_index(self, error: Exception, arguments: CallArguments) -> ConcreteValueError:
        """The error for a float argument that the function takes as a count or an index."""
        floats = arguments.list_floats()
        reason = f"{', '.join(floats)} are floats, hence operands"
        if len(floats) == 1:
            reason = f"{floats[0]} is a float, hence an operand"
        return ConcreteValueError(
            f"{self.__name__}: an integer is needed while the function is compiled{_find_place(error)}. "
            f"Here {reason} without a value. Pass an int, which is compiled in, or use static_argnames and "
            "int()."
        )


def _use_nothing(*_: Any) -> None:
    """Finds the program of a call only."""


def _find_place(error: Exception) -> str:
    """Returns the innermost line of the user in a traceback, as a part of a message; empty if none is."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not is_inside[frame.filename]]
    return f" at {own[-1].filename}:{own[-1].lineno}: `{own[-1].line}`" if own else ""


@overload  # an op takes Tensors or arrays
def jit(
    function: CustomOpDef[..., Any], *, static_argnames: str | Iterable[str] = (), donate: bool = True
) -> JitFunction[..., Any]: ...


@overload
def jit(
    function: Callable[P, R], *, static_argnames: str | Iterable[str] = (), donate: bool = True
) -> JitFunction[P, R]: ...


@overload
def jit(
    function: None = None, *, static_argnames: str | Iterable[str] = (), donate: bool = True
) -> Callable[[Callable[P, R]], JitFunction[P, R]]: ...


@entry_point
def jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnames: str | Iterable[str] = (),
    donate: bool = True,
) -> Any:
    """Compiles a function over Tensors into one program, with the Tensors that it captures.

    The first call traces the function, and later calls run the program. Tensors that the function finds
    through closures, globals, attributes and items of containers are operands of the program. Writes into
    them, and the gradients that a backward gives them, are there after each call. Other side effects of
    Python happen while the function is traced only.

    Args:
        function: the function or method. If left out, a decorator is returned.
        static_argnames: names of arguments whose floats are compiled in. Other floats are operands.
        donate: whether the program may write into the buffers of the Tensors that it writes.

    Returns:
        A callable with the arguments of the function, with ``compilations``, ``explain``, ``lower`` and
        ``clear``.

    Raises:
        ArgumentTypeError: ``function`` is no function, or ``static_argnames`` names none of its arguments.

    Example:
        >>> import oplib
        >>> weight = oplib.tensor([1.0, 2.0], requires_grad=True)
        >>> @oplib.jit
        ... def step(x):
        ...     loss = (weight * x).sum()
        ...     loss.backward()
        ...     with oplib.no_grad():
        ...         weight.sub_(weight.grad, alpha=0.5)
        ...     weight.grad = None
        ...     return loss.detach()
        >>> step(oplib.ones(2)), step(oplib.ones(2))
        (tensor(3.), tensor(2.))
        >>> weight
        tensor([0., 1.], requires_grad=True)
    """
    names = _list_names(static_argnames)
    if function is None:
        return partial(jit, static_argnames=names, donate=donate)
    if not callable(function):
        raise ArgumentTypeError(
            f"jit: expected a function. Got {describe(function)} of type {type(function).__name__}. Write "
            "oplib.jit(function), or use it as a decorator."
        )
    return JitFunction(function, names, donate=donate)


# torch's path jit has these names too
vars(jit).update(is_tracing=is_inside_trace, is_scripting=no_compiler, ignore=hand_back, unused=hand_back)


def _list_names(value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
    for name in names:
        if not isinstance(name, str):
            raise ArgumentTypeError(
                f"jit: argument 'static_argnames' holds something that is no name. Got {describe(name)} of "
                f"type {type(name).__name__}. Give the names of arguments as strings."
            )
    return names


def _make_again(function: Any, static: tuple[str, ...], donate: bool) -> JitFunction[..., Any]:
    """Makes a pickled function; a method that is compiled in the body of its class is compiled already."""
    return function if isinstance(function, JitFunction) else JitFunction(function, static, donate=donate)
