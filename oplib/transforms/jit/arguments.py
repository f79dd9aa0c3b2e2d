"""The arguments of a call of a compiled function: operands, and what is compiled in."""

from __future__ import annotations

import contextlib
import inspect
import types
from collections.abc import Iterator, Sequence
from functools import partial
from operator import is_
from typing import Any, NamedTuple
from weakref import ref

import jax
import numpy as np

from oplib.errors import ArgumentTypeError, describe
from oplib.library.op_objects.namespace import OpOverloadPacket
from oplib.library.op_objects.overload import OpOverload
from oplib.protocols import AnyFunction, Values
from oplib.pytree import TreeSpec, tree_flatten_dataclasses, tree_unflatten
from oplib.tensor import Generator, Storage, Tensor, box
from oplib.tensor.devices.device import is_abstract
from oplib.tensor.devices.layout import DeviceLayout, read_layout
from oplib.tensor.storage.ingestion import to_array
from oplib.tensor.views import ViewStorage
from oplib.transforms.tracing.paths import name_package
from oplib.transforms.tracing.program_table import PROGRAM_SETTINGS, read_program_settings

_new: Any = tuple.__new__  # a NamedTuple's own ``__new__`` is a Python function
_NUMBERS = ("float", "complex")
_LEAVES = frozenset([Tensor, Generator, bool, int, float, complex, str, np.ndarray])


class ArrayKind(NamedTuple):
    """The properties of an array argument that a program is compiled for.

    Attributes:
        shape: the shape.
        dtype: the dtype, or the class of a Python number.
        weak_type: as JAX says.
        typed: the sharding in the type of the array, which names the axes of an explicit mesh.
        layout: where its items are.
    """

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool
    typed: Any = None
    layout: DeviceLayout | None = None


class Key(NamedTuple):
    """The properties that calls share which the same programs may serve, beside the captured Tensors.

    Attributes:
        spec: the structure of the arguments.
        kinds: of each leaf: a class, the kind of an array, or type and value of what is compiled in.
        settings: of the thread, see :func:`.program_table.read_program_settings`.
    """

    spec: TreeSpec
    kinds: Values
    settings: Values


class CallArguments(NamedTuple):
    """The arguments of one call.

    Attributes:
        key: see :class:`Key`.
        function: the function.
        leaves: of all arguments.
        arrays: the leaves that are arrays or numbers handed over as such.
        name: of the function.
        parameters: the names of its positional parameters.
        apart: for leaves that were views, their indices and the storages that they showed, see
            :meth:`take_apart`.
    """

    key: Key
    function: AnyFunction
    leaves: list[Any]
    arrays: list[Any]
    name: str
    parameters: tuple[str, ...]
    apart: tuple[tuple[int, Storage], ...] = ()

    def take_apart(self) -> list[CallArguments]:
        """Returns the arguments with views as Tensors of their own, if there are any.

        A batch is often a slice of a larger Tensor. Where the function only reads it, one program serves all
        slices. Views that are differentiated, or whose items do not lie side by side, stay views.
        """
        indices = [index for index, leaf in enumerate(self.leaves) if _is_plain_view(leaf)]
        if not indices or self.apart:
            return []
        views = {id(self.leaves[index]): self.leaves[index] for index in indices}
        own = {name: box(view._storage.array) for name, view in views.items()}
        leaves = [own.get(id(leaf), leaf) for leaf in self.leaves]
        apart = tuple([(index, self.leaves[index]._storage.owner) for index in indices])
        return [self._replace(leaves=leaves, apart=apart)]

    def call(self, *arrays: Any) -> Any:
        """Calls the function with other arrays, in containers of its own."""
        rest = iter(arrays)
        passed = [
            next(rest) if isinstance(kind, ArrayKind) else leaf
            for leaf, kind in zip(self.leaves, self.key.kinds, strict=True)
        ]
        args, kwargs = tree_unflatten(passed, self.key.spec)
        result = self.function(*args, **kwargs)
        self._check_containers((args, kwargs), passed)
        return result

    def _check_containers(self, tree: Any, passed: list[Any]) -> None:
        leaves, spec = tree_flatten_dataclasses(tree)
        if spec != self.key.spec or any(
            leaf is not before for leaf, before in zip(leaves, passed, strict=True)
        ):
            raise ArgumentTypeError(
                f"{self.name}: the function changes a container that is an argument. A compiled function "
                "gets containers of its own, so the caller would not see it. Return the container instead."
            )

    def list_differences(self, other: Key) -> Iterator[str]:
        """Yields how this call differs from one for which a program was compiled."""
        own = self.key
        if own.spec != other.spec:
            yield "the arguments have another structure"
        for name, mine, theirs in zip(PROGRAM_SETTINGS, own.settings, other.settings, strict=True):
            if mine != theirs:
                yield f"{name} is {mine}, and was {theirs}"
        for number, (mine, theirs) in enumerate(zip(own.kinds, other.kinds, strict=False)):
            if mine != theirs:
                shown = _show(mine), _show(theirs)
                if shown[0] == shown[1]:
                    shown = _show_layout(mine), _show_layout(theirs)
                yield f"{self.name_leaf(number)} is {shown[0]}, and was {shown[1]}"

    def count_differences(self, other: Key) -> int:
        """Returns how much this call differs from one that has a program."""
        count = sum(1 for _ in self.list_differences(other))
        return count if self.key.spec == other.spec else count + len(other.kinds) + len(other.settings)

    def list_floats(self) -> list[str]:
        """Returns the names of the floats and complex numbers that are operands."""
        kinds = enumerate(self.key.kinds)
        return [
            self.name_leaf(number)
            for number, kind in kinds
            if isinstance(kind, ArrayKind) and (kind.dtype is float or kind.dtype is complex)
        ]

    def name_leaf(self, number: int) -> str:
        """Returns how errors call a leaf: by its parameter, and the keys on the way."""
        _, first, *rest = self.key.spec.paths()[number]
        if isinstance(first, int) and first < len(self.parameters):
            first = self.parameters[first]
        return f"argument {first!r}" + "".join(f"[{step!r}]" for step in rest)

    def refuse_leaf(self, number: int) -> ArgumentTypeError:
        """Returns the error for a leaf that is no operand, and cannot be compiled in."""
        leaf, where = self.leaves[number], self.name_leaf(number)
        if isinstance(leaf, Iterator):
            return ArgumentTypeError(
                f"{self.name}: {where} is an iterator, which only the trace would read. Got "
                f"{describe(leaf)} of type {type(leaf).__name__}. Give a list or tuple."
            )
        if isinstance(leaf, (set, frozenset)):
            return ArgumentTypeError(
                f"{self.name}: {where} is a set, whose order may differ at the next call. Got "
                f"{describe(leaf)}. Give Tensors as a list or tuple, and constants as a frozenset."
            )
        return ArgumentTypeError(
            f"{self.name}: {where} cannot be compared with that of the next call. Got {describe(leaf)} of "
            f"type {type(leaf).__name__}, which has no hash. Give Tensors, arrays, numbers, containers of "
            "these, or hashable objects."
        )


class ArgumentBinder:
    """Binds the arguments of calls of one function and tells operands from what is compiled in.

    Args:
        name: of the function.
        function: the function; the binder does not keep it.
        static: names of arguments whose floats are compiled in.
    """

    def __init__(self, name: str, function: AnyFunction, static: Sequence[str]) -> None:
        self._name = name
        self._static = static
        self._read(function)

    def _read(self, function: AnyFunction) -> None:
        self._deciding = _list_deciding(function)
        self._signature = signature = find_signature(function)
        parameters = signature.parameters.values()
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self._positional = tuple(parameter.name for parameter in parameters if parameter.kind in positional)
        self._count = len(parameters) if len(self._positional) == len(parameters) else -1
        self._flat = tree_flatten_dataclasses(((0,) * len(parameters), {}))[1]
        defaults = [parameter.default for parameter in parameters if parameter.default is not parameter.empty]
        self._defaults = tree_flatten_dataclasses(defaults)[0]
        self._hashes: dict[int, tuple[Any, int]] = {}  # of static arguments that define one, by identity

    def bind(self, function: AnyFunction, args: Values, kwargs: dict[str, Any]) -> CallArguments:
        """Binds the arguments of one call.

        Raises:
            ArgumentTypeError: the arguments are not those of the function, or a leaf that is no operand has
                no hash, or is an iterator.
        """
        if kwargs or len(args) != self._count:
            deciding = _list_deciding(function)
            if len(deciding) != len(self._deciding) or not all(map(is_, deciding, self._deciding)):
                self._read(function)
            try:
                bound = self._signature.bind(*args, **kwargs)
            except TypeError as error:
                raise ArgumentTypeError(
                    f"{self._name}: {error}. Call it as {self._name}{self._signature}."
                ) from None
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        leaves = [*args]
        kinds: list[Any] = list(map(type, args))
        if len(args) == self._count and _LEAVES.issuperset(kinds):
            spec = self._flat  # costs less, and is the most frequent case
        else:
            leaves, spec = tree_flatten_dataclasses((args, kwargs))
            kinds = list(map(type, leaves))
        arrays: list[Any] = []
        unusual: list[int] = []
        if kinds.count(Tensor) < len(kinds):
            frozen = _find_static(self._signature, self._static, spec, len(leaves)) if self._static else ()
            for number, leaf in enumerate(leaves):
                if leaf.__class__ is not Tensor:
                    kind = kinds[number] = self._classify(leaf, number in frozen, arrays)
                    if kind.__class__ is tuple and kind[0] not in _LEAVES:
                        unusual.append(number)
        key = _new(Key, (spec, tuple(kinds), read_program_settings()))
        arguments = _new(CallArguments, (key, function, leaves, arrays, self._name, self._positional, ()))
        for number in unusual:
            if not _is_constant(kinds[number][1]):
                raise arguments.refuse_leaf(number)
            self._check_hash(kinds[number][1], arguments, number)
        return arguments

    def _check_hash(self, leaf: Any, arguments: CallArguments, number: int) -> None:
        """Raises if an object of the user has another hash than at an earlier call."""
        if type(leaf).__hash__ is object.__hash__:
            return
        refer, before = self._hashes.get(id(leaf), (None, 0))
        if refer is None or refer() is not leaf:
            with contextlib.suppress(TypeError):  # an object that cannot be referred to, such as a tuple
                self._hashes[id(leaf)] = ref(leaf, partial(_forget, self._hashes, id(leaf))), hash(leaf)
        elif before != hash(leaf):
            raise ArgumentTypeError(
                f"{self._name}: the hash of {arguments.name_leaf(number)} has changed since an earlier call. "
                f"Got {describe(leaf)} of type {type(leaf).__name__}, for which a program was compiled. Give "
                "an object that does not change, or what changes as a Tensor."
            )

    def _classify(self, leaf: Any, is_static: bool, arrays: list[Any]) -> Any:
        """Returns what a leaf adds to the key; arrays and numbers that are operands join the arrays."""
        kind = type(leaf)
        if isinstance(leaf, (Tensor, Generator)):
            return Tensor if isinstance(leaf, Tensor) else Generator
        if isinstance(leaf, (jax.Array, np.ndarray, np.generic, jax.ShapeDtypeStruct)):
            array = to_array(leaf, None, None) if isinstance(leaf, (np.ndarray, np.generic)) else leaf
            arrays.append(array)
            aval = jax.typeof(array)
            layout = None if is_abstract(array) else read_layout(array.sharding, aval.ndim)
            return ArrayKind(aval.shape, aval.dtype, aval.weak_type, aval.sharding, layout)
        if kind in (float, complex) and not is_static:
            arrays.append(leaf)
            return ArrayKind((), kind, weak_type=True)
        if kind.__hash__ is None and any(leaf is default for default in self._defaults):
            return kind, id(leaf)  # the signature keeps it
        return kind, leaf.hex() if kind is float else leaf


def _forget(hashes: dict[int, Any], number: int, _: Any) -> None:
    hashes.pop(number, None)


def _is_plain_view(leaf: Any) -> bool:
    return (
        leaf.__class__ is Tensor
        and leaf._storage.__class__ is ViewStorage
        and not leaf.requires_grad
        and leaf._grad is None
        and leaf._backward_hooks is None
        and leaf.is_contiguous()
    )


def find_signature(function: AnyFunction) -> inspect.Signature:
    """Returns the signature of a function.

    Raises:
        ArgumentTypeError: it has none.
    """
    try:
        return inspect.signature(function)
    except ValueError:
        raise ArgumentTypeError(
            f"jit: the arguments of {function!r} are not known. Got a function that is not written in "
            "Python. Wrap it: oplib.jit(lambda x: function(x))."
        ) from None


def _list_deciding(called: Any) -> Values:
    """Returns what decides the signature and the defaults of a callable."""
    if isinstance(called, partial):
        return (called.args, *called.keywords.values(), *_list_deciding(called.func))
    if isinstance(called, types.MethodType):
        called = called.__func__
    if not isinstance(called, types.FunctionType):
        call: Any = type(called).__call__
        return _list_deciding(call) if isinstance(call, types.FunctionType) else ()
    defaults = (called.__kwdefaults__ or {}).values()
    wrapped = called.__dict__.get("__wrapped__")
    return (called.__code__, called.__defaults__, *defaults, *(_list_deciding(wrapped) if wrapped else ()))


def _find_static(
    signature: inspect.Signature, static: Sequence[str], spec: TreeSpec, count: int
) -> frozenset[int]:
    """The numbers of the leaves in the arguments that are static."""
    args, kwargs = tree_unflatten(range(count), spec)
    named = signature.bind(*args, **kwargs).arguments
    leaves = [leaf for name in static for leaf in tree_flatten_dataclasses(named.get(name))[0]]
    return frozenset(leaf for leaf in leaves if isinstance(leaf, int))


def _is_constant(leaf: Any) -> bool:
    """Whether a leaf can be compiled in: it can be compared with that of the next call."""
    if isinstance(leaf, Iterator):
        return False
    if isinstance(leaf, frozenset) and any(isinstance(item, Tensor) for item in leaf):
        return False
    try:
        hash(leaf)
    except TypeError:
        return False
    return True


def _show(kind: Any) -> str:
    if isinstance(kind, ArrayKind):
        return f"{np.dtype(kind.dtype).name}{list(kind.shape)}"
    return kind.__name__ if isinstance(kind, type) else repr(kind[1])


def _show_layout(kind: Any) -> str:
    """Shows a kind where shape and dtype do not tell it from another."""
    if not isinstance(kind, ArrayKind):
        return f"{_show(kind)} of type {kind[0].__name__}" if isinstance(kind, tuple) else _show(kind)
    weak = " of weak type" if kind.weak_type else ""
    return f"{_show(kind)}{weak} laid out as {kind.layout} with the type {kind.typed}"


def list_number_options(function: AnyFunction, signature: inspect.Signature) -> list[str]:
    """Returns the names of the arguments that an op, or another function of oplib, reads as numbers.

    The schema of a registered op tells them. A function of oplib reads those as numbers that have a float as
    default.

    Such a float is an option of a kernel, which reads it as a number. Other floats are operands.
    """
    called: Any = function
    while isinstance(called, partial):
        called = called.func
    op = _find_overload(called)
    if op is not None:
        record = op.record
        options = [
            argument
            for argument in record.schema.arguments
            if str(argument.type).removesuffix("?") in _NUMBERS
        ]
        names = {argument.name for argument in options} - record.operand
    elif name_package(called) == "oplib":
        names = {
            parameter.name
            for parameter in signature.parameters.values()
            if isinstance(parameter.default, float)
        }
    else:
        return []
    return [name for name in signature.parameters if name in names]


def _find_overload(called: Any) -> OpOverload | None:
    """Returns the overload that a call reaches, or the first that it may reach; None for no op."""
    if isinstance(called, OpOverloadPacket):
        return getattr(called, called.overloads()[0])
    overload = getattr(called, "_opoverload", called)  # the op that custom_op returns
    return overload if isinstance(overload, OpOverload) else None
