"""``save`` and ``load``: trees of Tensors and plain values in a file that runs no code when read.

The file is a zip archive that ``numpy.load`` can read. It holds ``tree.json``, and one ``arrays/<n>.npy`` for
each array. In the tree None, bools, integers, finite floats and strings are written directly. Any other value
is an object with one key, its type: ``{"list": [...]}``, ``{"tuple": [...]}``, ``{"dict": [[key, value],
...]}``, ``{"OrderedDict": [...]}``, ``{"float": "nan"}``, ``{"complex": [re, im]}``, ``{"bytes": "<hex>"}``,
``{"dtype": "float32"}``, ``{"tensor": n}``, ``{"numpy": n}``, ``{"jax": n}`` or ``{"key": n}``, a key of
``jax.random``. ``n`` is an index into ``arrays`` beside the tree, with entries such as ``{"dtype":
"bfloat16", "shape": [2], "requires_grad": true}``. The entry of a key describes its data and names its
``impl``. Dtypes that numpy does not have are stored as unsigned integers of their width. The size of a member
is compared with its entry before it is expanded.
"""

from __future__ import annotations

import io
import json
import math
import os
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import Sharding

from oplib.errors import DataError, DataTypeError, OplibError, TracingError, describe
from oplib.generated_code import converting

from .devices.layout import check_shape, describe_devices, describe_sharding
from .devices.memory import require_memory
from .devices.placement import find_placement
from .dtypes.rules import normalize_dtype
from .random.generator import is_key
from .replaced_file import open_to_replace
from .storage.failed_reads import note_read
from .storage.ingestion import adopt_array
from .tensor import Tensor

File = str | os.PathLike[str] | IO[bytes]

_VERSION = 1
_TREE = "tree.json"
_HEADER = 2**16  # bytes that a member may have beside its items
_CHUNK = 2**18  # bytes that are read or written at once, which stay in a cache of the processor
_ALIGNMENT = 64  # of memory that JAX does not copy
_NATIVE = "biufc"  # the kinds of dtypes that a .npy file describes


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
    if not isinstance(f, (str, os.PathLike)):
        writer.write(text, f)
        return
    with open_to_replace(Path(f)) as file:
        writer.write(text, file)


def load(f: File, map_location: Any = None, *, weights_only: bool = True) -> Any:  # noqa: ARG001  for torch
    """Reads a tree that :func:`save` has written.

    Args:
        f: a path, or a seekable file opened for reading bytes.
        map_location: the device or sharding for Tensors and ``jax.Array`` objects; by default JAX's.
        weights_only: changes nothing: a file holds no code.

    Returns:
        The tree, with new leaves.

    Raises:
        DataError: the file has another format, is damaged, or expands to more than its table says.
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
    except (OplibError, OSError):  # such as a dtype that JAX lacks now, or a file that cannot be read
        raise
    except Exception as error:  # noqa: BLE001  damaged archives, JSON and headers raise errors of any kind
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
        self._arrays: list[np.ndarray[Any, Any]] = []
        self._entries: list[dict[str, Any]] = []
        self._numbers: dict[int, int] = {}  # array numbers by id, for objects that occur several times

    def render(self, tree: Any) -> str:
        """Returns the text of ``tree.json``."""
        try:
            encoded = self.encode(tree, "the tree")
            return json.dumps({"oplib": _VERSION, "tree": encoded, "arrays": self._entries})
        except RecursionError:
            raise DataError(
                "save: the tree contains itself, or is nested too deeply. Got more levels than "
                f"Python's recursion limit, {sys.getrecursionlimit()}. Save its parts."
            ) from None

    def encode(self, value: Any, path: str) -> Any:
        """Returns the JSON of a value. ``path`` names its place in errors."""
        if value is None or type(value) in (bool, str):
            return value
        if type(value) is int:
            return _check_digits(value, path)
        encode = _ENCODERS.get(type(value))
        if encode is not None:
            return encode(self, value, path)
        if isinstance(value, (Tensor, jax.Array)):
            return self._encode_array(value, path)
        if isinstance(value, np.dtype):
            return {"dtype": str(value)}
        if isinstance(value, np.generic):
            return self.encode(value.item(), path)
        raise DataTypeError(
            f"save: {path} is of a type that is not saved. Got {type(value).__module__}."
            f"{type(value).__qualname__}. Save its parts: Tensors, arrays, numbers, strings, and lists, "
            "tuples and dictionaries of these."
        )

    def encode_items(self, items: Any, path: str) -> list[Any]:
        """Encodes the members of a list or tuple."""
        return [self.encode(item, f"{path}[{index}]") for index, item in enumerate(items)]

    def encode_pairs(self, pairs: Any, path: str) -> list[Any]:
        """Encodes the items of a dictionary, in their order."""
        return [
            [self.encode(key, f"a key of {path}"), self.encode(item, f"{path}[{key!r}]")]
            for key, item in pairs.items()
        ]

    def _encode_array(self, value: Any, path: str) -> dict[str, int]:
        kind = type(value)
        if isinstance(value, Tensor) and kind.__module__.partition(".")[0] != "oplib":
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
        array = value.array if isinstance(value, Tensor) else value
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
        word = _find_kind(value, array, path)
        number = self._numbers.get(id(value))
        if number is None and word == "key":
            data = np.asarray(jax.random.key_data(array))
            number = self._numbers[id(value)] = self.add(data, impl=jax.random.key_impl(array))
        elif number is None:
            requires_grad = isinstance(value, Tensor) and value.requires_grad
            number = self._numbers[id(value)] = self.add(np.asarray(array), requires_grad=requires_grad)
        return {word: number}

    def add(self, array: np.ndarray[Any, Any], *, requires_grad: bool = False, **more: Any) -> int:
        """Adds an array with the further facts of its entry, and returns its number."""
        entry = {"dtype": str(array.dtype), "shape": array.shape, "requires_grad": requires_grad, **more}
        self._entries.append(entry)
        self._arrays.append(array.view(_find_stored(array.dtype)))
        return len(self._arrays) - 1

    def write(self, text: str, file: IO[bytes]) -> None:
        """Writes the archive."""
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(zipfile.ZipInfo(_TREE), text)
            for number, array in enumerate(self._arrays):
                with archive.open(zipfile.ZipInfo(_member(number)), "w", force_zip64=True) as member:
                    _write_array(member, array)


def _write_array(member: Any, array: np.ndarray[Any, Any]) -> None:
    """Writes what ``numpy.save`` writes, whose chunks are larger than the caches of a processor."""
    if array.dtype.kind not in _NATIVE:
        np.lib.format.write_array(member, array, allow_pickle=False)
        return
    header = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(member, header)
    order = "F" if header["fortran_order"] else "C"
    flags: Any = ("external_loop", "buffered", "zerosize_ok")
    chunks: Any = np.nditer(array, flags, order=order, buffersize=_CHUNK // array.itemsize)
    for chunk in chunks:
        member.write(np.ascontiguousarray(chunk).view(np.uint8).data)  # most often without a copy


def _find_kind(value: Any, array: Any, path: str) -> str:
    """Returns how the tree calls an array.

    Raises:
        DataTypeError: it is of keys that no name leads back to.
    """
    if not is_key(array):
        return "tensor" if isinstance(value, Tensor) else "jax"
    if isinstance(value, Tensor):
        raise DataTypeError(
            f"save: {path} is a Tensor of keys. Got {describe(array)}. Save tensor.array, which is an array."
        )
    if not isinstance(jax.random.key_impl(array), str):
        raise DataTypeError(
            f"save: {path} is of keys whose implementation has no name. Got {describe(array)}. Save "
            "jax.random.key_data(key), and make the key again by jax.random.wrap_key_data."
        )
    return "key"


def _check_digits(value: int, path: str) -> int:
    try:
        str(value)
    except ValueError:
        raise DataError(
            f"save: {path} has more digits than Python writes. Got an integer of {value.bit_length()} bits. "
            "Save its bytes as an array of uint8."
        ) from None
    return value


def _member(number: int) -> str:
    return f"arrays/{number}.npy"


def _encode_float(_: _Writer, value: float, path: str) -> Any:  # noqa: ARG001  same signature as the others
    return value if math.isfinite(value) else {"float": repr(value)}


def _encode_numpy(writer: _Writer, value: Any, path: str) -> Any:
    if value.dtype.kind not in _NATIVE and value.dtype.kind != "V":
        raise DataTypeError(
            f"save: {path} is an array of something else than numbers. Got {describe(value)}. Save a list."
        )
    return {"numpy": writer.add(value)}


_ENCODERS: dict[type, Callable[[_Writer, Any, str], Any]] = {
    float: _encode_float,
    complex: lambda writer, value, path: {"complex": writer.encode_items((value.real, value.imag), path)},
    bytes: lambda _, value, path: {"bytes": value.hex()},  # noqa: ARG005
    list: lambda writer, value, path: {"list": writer.encode_items(value, path)},
    tuple: lambda writer, value, path: {"tuple": writer.encode_items(value, path)},
    dict: lambda writer, value, path: {"dict": writer.encode_pairs(value, path)},
    OrderedDict: lambda writer, value, path: {"OrderedDict": writer.encode_pairs(value, path)},
    np.ndarray: _encode_numpy,
}


class _Reader:
    """Rebuilds a tree from JSON and arrays."""

    def __init__(self, archive: zipfile.ZipFile, location: Any) -> None:
        self._archive = archive
        self._placement = find_placement(location)
        self._entries: list[dict[str, Any]] = []
        self._made: dict[tuple[str, int], Any] = {}

    def read(self) -> Any:
        """Reads the archive."""
        page = json.loads(self._archive.read(self._find_member(_TREE, None)))
        if not isinstance(page, dict) or page.get("oplib") != _VERSION:
            raise DataError(
                f"load: the file is of a version that is not read. Got {describe(page)}. This is version "
                f"{_VERSION} of the format. Load it with the oplib that saved it."
            )
        self._entries = page["arrays"]
        return self._decode(page["tree"], "the tree")

    def _decode(self, value: Any, path: str) -> Any:
        """Returns the value of some JSON. ``path`` names its place in errors."""
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        if kind in ("tensor", "jax", "numpy", "key"):
            return self._find(kind, content, path)
        if kind in ("list", "tuple"):
            items = [self._decode(item, f"{path}[{index}]") for index, item in enumerate(content)]
            return items if kind == "list" else tuple(items)
        if kind in ("dict", "OrderedDict"):
            keys = [self._decode(key, f"a key of {path}") for key, _ in content]
            items = [
                self._decode(item, f"{path}[{key!r}]") for key, (_, item) in zip(keys, content, strict=True)
            ]
            return (dict if kind == "dict" else OrderedDict)(zip(keys, items, strict=True))
        if kind == "complex":
            return complex(*[self._decode(part, path) for part in content])
        if kind in _PLAIN:
            return _PLAIN[kind](content)
        raise DataError(f"load: the tree has something of an unknown kind. Got {kind!r}. Save it again.")

    def _find(self, kind: str, number: int, path: str) -> Any:
        member = self._made.get((kind, number))
        if member is None:
            member = self._made[kind, number] = self._make(kind, number, path)
        return member

    def _make(self, kind: str, number: int, path: str) -> Any:
        entry = self._entries[number]
        values = self._read_array(number, entry)
        if kind == "numpy":
            return values
        if isinstance(self._placement, Sharding):
            check_shape(f"load: {path}", values, self._placement)
        array = adopt_array(values.astype(normalize_dtype(values.dtype), copy=False), self._placement)
        if kind == "key":
            return jax.random.wrap_key_data(array, impl=str(entry["impl"]))
        if kind == "jax":
            return array
        requires_grad = entry["requires_grad"]
        if not isinstance(requires_grad, bool):
            raise _misfit(number, "a bool for requires_grad", describe(requires_grad))
        return Tensor.from_array(array, requires_grad=requires_grad)

    def _read_array(self, number: int, entry: dict[str, Any]) -> np.ndarray[Any, Any]:
        """Reads an array that is as its entry says, or raises DataError."""
        name, shape = entry["dtype"], tuple(entry["shape"])
        is_structured = name.startswith(("[", "{"))  # numpy's own, which no Tensor has
        dtype = None if is_structured else np.dtype(name)
        size = None if dtype is None else math.prod(shape) * dtype.itemsize
        if dtype is not None:
            require_memory("load", shape, dtype)
        info = self._find_member(_member(number), size)
        with self._archive.open(info) as member:
            if dtype is not None:
                return _read_items(member, number, shape, dtype)
            with converting:  # a header is Python text
                values = np.lib.format.read_array(io.BytesIO(member.read()), allow_pickle=False)
        if values.shape != shape or str(values.dtype) != name:
            raise _misfit(number, f"{name} {shape}", f"{values.dtype} {values.shape}")
        return values

    def _find_member(self, name: str, size: int | None) -> zipfile.ZipInfo:
        """Finds a member, and checks its size.

        Args:
            name: the name of the member.
            size: the number of bytes of items that the table states; None if it states none.

        Raises:
            DataError: the member is longer, is compressed too far, or by a method that ``save`` does not use.
        """
        info = self._archive.getinfo(name)
        most = _HEADER + (100 * info.compress_size if size is None else size)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.file_size > most:
            raise DataError(
                f"load: the member {name} is not one that oplib.save has written. Got {info.file_size} bytes "
                f"from {info.compress_size}, compressed by method {info.compress_type}; there can be {most}. "
                "Save it again."
            )
        return info


def _read_items(
    member: IO[bytes], number: int, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """Reads an array into memory that JAX takes as it is, and that nothing else holds."""
    is_fortran = _read_header(member, number, shape, _find_stored(dtype))
    memory = np.empty(math.prod(shape) * dtype.itemsize + _ALIGNMENT, np.uint8)
    items = memory[-memory.ctypes.data % _ALIGNMENT :][: memory.size - _ALIGNMENT]
    place = 0
    while chunk := member.read(_CHUNK):
        items[place : place + len(chunk)] = np.frombuffer(chunk, np.uint8)  # raises if there are too many
        place += len(chunk)
    if place != items.size:
        raise _misfit(number, f"{items.size} bytes", f"{place} bytes")
    values = items.view(dtype)
    return values.reshape(shape[::-1]).T if is_fortran else values.reshape(shape)


def _find_stored(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the dtype as which a file stores another one."""
    return dtype if dtype.kind in _NATIVE else np.dtype(f"u{dtype.itemsize}")


def _read_header(member: IO[bytes], number: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Returns whether the items are in Fortran's order.

    Raises:
        DataError: the header of an array has another shape or dtype than its entry.
    """
    with converting:  # a header is Python text
        is_first = np.lib.format.read_magic(member) == (1, 0)
        read = np.lib.format.read_array_header_1_0 if is_first else np.lib.format.read_array_header_2_0
        shape_in_file, is_fortran, kind = read(member)
    if shape_in_file != shape or kind != dtype:
        raise _misfit(number, f"{dtype} {shape}", f"{kind} {shape_in_file}")
    return is_fortran


def _misfit(number: int, expected: str, got: str) -> DataError:
    return DataError(
        f"load: array {number} does not fit the table of the file. Got {got}, the table says {expected}. The "
        "file is damaged; save it again."
    )


_PLAIN: dict[str, Callable[[Any], Any]] = {"float": float, "bytes": bytes.fromhex, "dtype": np.dtype}
