"""``save`` and ``load``: trees of Tensors and plain values in a file that runs no code when read.

The file is a zip archive of ``structure.json`` and the raw bytes of each array, ``arrays/<n>``, in C order.
In the tree None, bools, numbers, strings and lists are those of Python's ``json``. Any other value is an
object with one key, its type: ``{"tuple": [...]}``, ``{"dict": [[key, ...], [value, ...]]}``,
``{"OrderedDict": ...}``, ``{"complex": [re, im]}``, ``{"bytes": "<hex>"}``, ``{"dtype": "float32"}`` or
``{"array": n}``. ``n`` is an index into ``arrays`` beside the tree, with entries such as ``{"kind": "tensor",
"dtype": "bfloat16", "shape": [2], "requires_grad": true}``. Other kinds are ``jax``, ``numpy`` and ``key``, a
key of ``jax.random``, whose entry describes its data and names its ``impl``.
"""

from __future__ import annotations

import io
import json
import math
import os
import sys
import zipfile
from collections import OrderedDict
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import Sharding

from oplib.errors import DataError, DataTypeError, OplibError, TracingError, describe

from .devices.layout import check_shape, describe_devices, describe_sharding
from .devices.memory import require_memory
from .devices.placement import find_placement
from .dtypes.rules import normalize_dtype
from .random.generator import is_key
from .replaced_file import open_to_replace
from .storage.failed_reads import note_read
from .storage.ingestion import adopt_arrays
from .tensor import Tensor

File = str | os.PathLike[str] | IO[bytes]

_VERSION = 2
_STRUCTURE = "structure.json"
_CHUNK = 2**18  # bytes that are read or written at once, which stay in a cache of the processor
_ALIGNMENT = 64  # of memory that JAX does not copy
_ONLY_NUMPY = "gGmMV"  # the scalars that Python's own lose: long double, times, records
_NUMBERS = "biufcV"  # the kinds of dtypes of numbers; V is that of bfloat16 and its like


def save(obj: Any, f: File) -> None:
    """Writes a tree of Tensors and plain values into a file.

    A Tensor keeps values, dtype and ``requires_grad``, but not history, ``grad``, hooks, attributes or
    sharding. A tensor that occurs several times is one object after loading. Tensors that share a storage
    become separate tensors.

    Args:
        obj: lists, tuples, dicts and OrderedDicts of Tensors, ``jax.Array`` objects, numpy arrays, dtypes,
            numbers, strings, bytes, bools and None. Keys of dictionaries may be any of the plain values.
            Keys of ``jax.random`` are arrays, so the state of a Generator can be saved too.
        f: a path, or a file opened for writing bytes. A file at the path is replaced after everything is
            written; its mode bits stay. A link stays one, and the file that it names is replaced.

    Raises:
        DataError: the tree contains itself, or is nested too deeply, or no process has all of an array.
        DataTypeError: the tree holds a value of another type, such as a subclass of Tensor. The error names
            its path. Or ``f`` is no path and no file of bytes.
        TracingError: the tree holds a traced tensor.

    Example:
        >>> import io
        >>> import oplib
        >>> file = io.BytesIO()
        >>> save({"w": oplib.ones(2, requires_grad=True), "step": 3}, file)
        >>> _ = file.seek(0)
        >>> load(file)
        {'w': tensor([1., 1.], requires_grad=True), 'step': 3}
    """
    _require_file(f, "save", "write")
    writer = _Writer()
    text = writer.render(obj)  # an error here leaves the file as it was
    is_path = isinstance(f, (str, os.PathLike))
    with (
        open_to_replace(Path(f)) if is_path else nullcontext(f) as file,
        zipfile.ZipFile(file, "w") as archive,
    ):
        archive.writestr(zipfile.ZipInfo(_STRUCTURE), text)
        for number, array in enumerate(writer.arrays):
            items = np.ascontiguousarray(array).reshape(-1).view(np.uint8)  # most often without a copy
            with archive.open(zipfile.ZipInfo(_member(number)), "w", force_zip64=True) as member:
                for start in range(0, items.size, _CHUNK):
                    member.write(items[start : start + _CHUNK].data)


def load(f: File, map_location: Any = None, *, weights_only: bool = True) -> Any:  # noqa: ARG001  for torch
    """Reads a tree that :func:`save` has written.

    Args:
        f: a path, or a seekable file opened for reading bytes.
        map_location: the device or sharding for Tensors and ``jax.Array`` objects; by default JAX's.
        weights_only: changes nothing: a file holds no code.

    Returns:
        The tree, with new leaves.

    Raises:
        DataError: the file has another format or an older one, is compressed, or is damaged.
        AllocationError: an array does not fit into memory.
        ArgumentValueError: ``map_location`` is a sharding whose mesh does not divide a dimension.
        DtypeError: the file holds 64-bit numbers while JAX's x64 is off.
        DataTypeError: ``f`` is no path and no file.
        DeviceError: the device does not exist.

    Gradient:
        None: loaded tensors have no history.

    Source:
        torch.load

    Example:
        >>> import io
        >>> import oplib
        >>> file = io.BytesIO()
        >>> oplib.save({"weight": oplib.ones(2)}, file)
        >>> load(file)
        {'weight': tensor([1., 1.])}
    """
    _require_file(f, "load", "read")
    if isinstance(f, (str, os.PathLike)) and Path(f).is_char_device():  # /dev/zero has no end
        raise DataError(f"load: the path is a device, and no file. Got {os.fspath(f)!r}. Give another path.")
    try:
        with zipfile.ZipFile(f) as archive:
            return _Reader(archive, map_location).read()
    except RecursionError:
        raise DataError(
            "load: the tree is nested too deeply. Got more levels than Python's recursion limit, "
            f"{sys.getrecursionlimit()}. Raise it by sys.setrecursionlimit."
        ) from None
    except (OplibError, OSError):  # such as a dtype that JAX lacks now, or a file that cannot be read
        raise
    except Exception as error:  # noqa: BLE001  damaged archives and JSON raise errors of any kind
        raise DataError(
            "load: the file is not one that oplib.save has written, or it is damaged. Got "
            f"{type(error).__name__}: {error}. Save it again; pickled files of other libraries are not read."
        ) from None


def _require_file(f: Any, subject: str, method: str) -> None:
    """Raises DataTypeError for an object that is no path and has no method to read or write bytes."""
    if isinstance(f, (str, os.PathLike)) or (
        callable(getattr(f, method, None)) and not isinstance(f, io.TextIOBase)
    ):
        return
    raise DataTypeError(
        f"{subject}: argument 'f' is no path and no file of bytes. Got {describe(f)}. Give a path, or a "
        "file that is opened in binary mode."
    )


class _Writer:
    """Turns a tree into JSON, and collects its arrays."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray[Any, Any]] = []
        self._entries: list[dict[str, Any]] = []
        self._numbers: dict[int, int] = {}  # array numbers by id, for objects that occur several times

    def render(self, tree: Any) -> str:
        """Returns the text of ``structure.json``."""
        try:
            encoded = self._encode(tree, "the tree")
            return json.dumps({"oplib": _VERSION, "tree": encoded, "arrays": self._entries})
        except RecursionError:
            raise DataError(
                "save: the tree contains itself, or is nested too deeply. Got more levels than "
                f"Python's recursion limit, {sys.getrecursionlimit()}. Save its parts."
            ) from None

    def _encode(self, value: Any, path: str) -> Any:
        """Returns the JSON of a value. ``path`` names its place in errors."""
        kind, result = type(value), value
        if kind is int:
            _check_digits(value, path)
        elif kind in (list, tuple):
            items = [self._encode(item, f"{path}[{index}]") for index, item in enumerate(value)]
            result = items if kind is list else {"tuple": items}
        elif kind in (dict, OrderedDict):
            keys = [self._encode(key, f"a key of {path}") for key in value]
            items = [self._encode(item, f"{path}[{key!r}]") for key, item in value.items()]
            result = {kind.__name__: [keys, items]}
        elif kind is complex:
            result = {"complex": [value.real, value.imag]}
        elif kind is bytes:
            result = {"bytes": value.hex()}
        elif isinstance(value, np.dtype) and value.names is value.subdtype is None and value.kind != "T":
            result = {"dtype": str(value)}
        elif isinstance(value, np.generic) and value.dtype.char not in _ONLY_NUMPY:
            result = self._encode(value.item(), path)
        elif kind is np.ndarray or isinstance(value, (Tensor, jax.Array)):
            number = self._numbers.get(id(value))
            result = {"array": self._add(value, path) if number is None else number}
        elif value is not None and kind not in (bool, float, str):
            raise DataTypeError(
                f"save: {path} is of a type that is not saved. Got {kind.__module__}.{kind.__qualname__}. "
                "Save its parts: Tensors, arrays, numbers, strings, and lists, tuples and dictionaries of "
                "these."
            )
        return result

    def _add(self, value: Any, path: str) -> int:
        """Adds an array and its entry, and returns its number."""
        array = value
        if isinstance(value, Tensor):
            _check_tensor(value, path)
            array = value.array
        if type(value) is np.ndarray:
            entry: dict[str, Any] = {"kind": "numpy"}
        else:
            _check_array(array, path)
            entry = {"kind": "jax"}
            if isinstance(value, Tensor):
                entry = {"kind": "tensor", "requires_grad": value.requires_grad}
            elif is_key(array):
                entry = {"kind": "key", "impl": jax.random.key_impl(array)}
                array = jax.random.key_data(array)
        array = np.asarray(array)
        if array.dtype.kind not in _NUMBERS or array.dtype.names is not None:
            raise DataTypeError(
                f"save: {path} is an array of something else than numbers. Got {describe(value)}. "
                "Save a list."
            )
        number = self._numbers[id(value)] = len(self.arrays)
        self._entries.append({**entry, "dtype": str(array.dtype), "shape": array.shape})
        self.arrays.append(array)
        return number


def _check_tensor(value: Tensor, path: str) -> None:
    """Raises DataTypeError for a Tensor of which a file would lose something."""
    kind = type(value)
    if kind.__module__.partition(".")[0] != "oplib":
        raise DataTypeError(
            f"save: {path} is of a subclass of Tensor, and a file holds no classes and attributes. Got "
            f"{describe(value)} of {kind.__module__}.{kind.__qualname__}. Save tensor.detach() and the "
            "attributes beside it, and assign to tensor.__class__ after loading."
        )
    names = vars(value) if kind is Tensor else ()
    if own := [name for name in names if name != "_storage" and not hasattr(Tensor, name)]:
        raise DataTypeError(
            f"save: {path} has attributes of its own, and a file holds none. Got {', '.join(own)}. Save "
            "tensor.detach() and the attributes beside it."
        )
    if is_key(value.array):
        raise DataTypeError(
            f"save: {path} is a Tensor of keys. Got {describe(value.array)}. Save tensor.array, which is an "
            "array."
        )


def _check_array(array: Any, path: str) -> None:
    """Raises an error for an array whose values, or whose implementation, a file cannot hold."""
    if isinstance(array, Tracer):
        raise note_read(
            TracingError(
                f"save: {path} is traced and has no values yet. Got {describe(array)}. Return it from "
                "the traced function and save it there."
            )
        )
    if not (array.is_fully_addressable or array.is_fully_replicated):
        raise DataError(
            f"save: {path} is spread over the devices of several processes, and none has it whole. Got "
            f"{describe(array)} laid out as {describe_sharding(array.sharding)} on "
            f"{describe_devices(array.sharding.device_set)}. Save it by orbax, see the page 'Saving', or "
            "give each process all of it first: tensor.to(NamedSharding(mesh, PartitionSpec()))."
        )
    if is_key(array) and not isinstance(jax.random.key_impl(array), str):
        raise DataTypeError(
            f"save: {path} is of keys whose implementation has no name. Got {describe(array)}. Save "
            "jax.random.key_data(key), and make the key again by jax.random.wrap_key_data."
        )


def _check_digits(value: int, path: str) -> None:
    try:
        str(value)
    except ValueError:
        raise DataError(
            f"save: {path} has more digits than Python writes. Got an integer of {value.bit_length()} bits. "
            "Save its bytes as an array of uint8."
        ) from None


def _member(number: int) -> str:
    return f"arrays/{number}"


class _Reader:
    """Rebuilds a tree from JSON and arrays."""

    def __init__(self, archive: zipfile.ZipFile, location: Any) -> None:
        self._archive = archive
        self._placement = find_placement(location)
        self._made: dict[int, Any] = {}
        self._waiting: dict[int, Any] = {}
        is_first = "tree.json" in archive.namelist()
        self.page: Any = {"oplib": 1} if is_first else json.loads(bytes(self._read(_STRUCTURE)))
        if self.page["oplib"] != _VERSION:
            raise DataError(
                "load: the file is of another version of the format, which is not read. Got version "
                f"{self.page['oplib']}, this is version {_VERSION}. Load it with the oplib that saved it; "
                "numpy.load reads the arrays of version 1."
            )

    def read(self) -> Any:
        """Returns the tree."""
        tree = self.page["tree"]
        self._decode(tree, "the tree")  # reads the arrays; errors name their paths
        self._put()
        return self._decode(tree, "the tree")

    def _decode(self, value: Any, path: str) -> Any:
        """Returns the value of some JSON. ``path`` names its place in errors."""
        if isinstance(value, list):
            return [self._decode(item, f"{path}[{index}]") for index, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        match kind, content:
            case "array", int():
                if content not in self._made:
                    self._made[content] = self._load(content, path)
                result = self._made[content]
            case "tuple", [*_]:
                result = tuple(self._decode(content, path))
            case "dict" | "OrderedDict", [[*keys], [*items]]:
                keys = self._decode(keys, f"a key of {path}")
                items = [
                    self._decode(item, f"{path}[{key!r}]") for key, item in zip(keys, items, strict=True)
                ]
                result = (dict if kind == "dict" else OrderedDict)(zip(keys, items, strict=True))
            case "complex", [float(), float()]:
                result = complex(*content)
            case "bytes", str():
                result = bytes.fromhex(content)
            case "dtype", str():
                result = np.dtype(content)
            case _:
                raise DataError(f"load: {path} is of an unknown kind. Got {kind!r}. Save it again.")
        return result

    def _load(self, number: int, path: str) -> Any:
        """Reads an array. One for JAX waits for others: one transfer of many takes half the time."""
        entry = self.page["arrays"][number]
        shape, dtype = tuple(entry["shape"]), np.dtype(str(entry["dtype"]))
        require_memory("load", shape, dtype)
        size = math.prod(shape) * dtype.itemsize
        values = self._read(_member(number), size).view(dtype).reshape(shape)
        if entry["kind"] == "numpy":
            return values
        if isinstance(self._placement, Sharding):
            is_data = entry["kind"] == "key"  # whose last dimension is that of one key
            check_shape(f"load: {path}", values[..., 0] if is_data else values, self._placement)
        if dtype.kind != "V":  # such as int4, which arrays have, and Tensors have not
            values = values.astype(normalize_dtype(dtype), copy=False)
        if size > _CHUNK:
            self._put()  # the memory of the host need not hold two large ones
        self._waiting[number] = values
        return None

    def _put(self) -> None:
        """Gives the arrays that wait to JAX."""
        arrays: Any = self._waiting and adopt_arrays([*self._waiting.values()], self._placement)
        for number, made in zip(self._waiting, arrays, strict=True):
            match entry := self.page["arrays"][number]:
                case {"kind": "jax"}:
                    self._made[number] = made
                case {"kind": "key", "impl": str(impl)}:
                    self._made[number] = jax.random.wrap_key_data(made, impl=impl)
                case {"kind": "tensor", "requires_grad": bool(requires_grad)}:
                    self._made[number] = Tensor.from_array(made, requires_grad=requires_grad)
                case _:
                    raise DataError(
                        f"load: array {number} has an entry that save does not write. Got {entry}. "
                        "Save it again."
                    )
        self._waiting.clear()

    def _read(self, name: str, size: int | None = None) -> Any:
        """Reads a member into memory that JAX takes as it is, and that nothing else holds.

        Args:
            name: the name of the member.
            size: the number of bytes that the table states; None if it states none.

        Raises:
            DataError: the member has another size, or is compressed, and could expand without bounds.
        """
        info = self._archive.getinfo(name)
        size = info.file_size if size is None else size
        if info.compress_type != zipfile.ZIP_STORED or not info.compress_size == info.file_size == size:
            raise DataError(
                f"load: the member {name} does not fit the table of the file. Got {info.file_size} bytes, by "
                f"method {info.compress_type} compressed to {info.compress_size}, the table says {size}. The "
                "file is damaged, or written by another program; save it again."
            )
        memory = np.empty(size + _ALIGNMENT, np.uint8)
        items = memory[-memory.ctypes.data % _ALIGNMENT :][:size]
        member: Any = self._archive.open(info)
        with member:
            for start in range(0, size, _CHUNK):
                member.readinto(items[start : start + _CHUNK].data)
        return items
