"""What the stubs say that a function gives: from the schemas of its op, or from the lists here."""

from __future__ import annotations

from oplib.builtin.functions.registry import ALIASES, OVERLOADS

TENSOR = "Tensor"
SEVERAL = "tuple[Tensor, ...]"
UNKNOWN = "Any"
_WITH_CONSTANT_RESULT = {"is_complex": "bool", "is_floating_point": "bool", "numel": "int"}
_TUPLES = (
    *("hsplit", "vsplit", "dsplit", "split_with_sizes", "tensor_split", "broadcast_tensors", "meshgrid"),
)
# The named results of functions that are made of several ops, as their own files have them.
_NAMED = {
    "linalg_lstsq": ("solution", "residuals", "rank", "singular_values"),
    "linalg_lu": ("P", "L", "U"),
    "lstsq": ("solution", "residuals", "rank", "singular_values"),
    "qr": ("Q", "R"),
    "svd": ("U", "S", "V"),
    "triangular_solve": ("solution", "cloned_coefficient"),
}
# Without these they give one Tensor; with them it depends on the values.
DECIDING = {
    **dict.fromkeys(
        [f"{kind}max_pool{n}d" for kind in ("", "adaptive_") for n in (1, 2, 3)], ("return_indices",)
    ),
    "nonzero": ("as_tuple",),
    "unique": ("return_inverse", "return_counts"),
    "unique_consecutive": ("return_inverse", "return_counts"),
}
# What they give depends on how many they are given, or on a flag.
_DEPENDING = frozenset({"atleast_1d", "atleast_2d", "atleast_3d", "broadcast_shapes", "lu"})
# They make Tensors of numbers.
MAKING = frozenset(
    {"bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"}
    | {"fft_fftfreq", "fft_rfftfreq", "tril_indices", "triu_indices"}
)


def list_named_results() -> dict[str, tuple[str, ...]]:
    """Returns the fields of every class of named results, by the name of the class."""
    schemas = [row.schema for op in OVERLOADS.list_ops() for row in OVERLOADS.rows_of(op)]
    found = {_list_fields(schema.partition("->")[2].strip()) for schema in schemas}
    return {name_class(fields): fields for fields in sorted(found | set(_NAMED.values())) if fields}


def name_class(fields: tuple[str, ...]) -> str:
    """Returns what the stubs call the class of named results with these fields."""
    return f"_{'_'.join(fields)}"


def find_result(name: str) -> str:
    """Returns what the function gives for Tensors, whatever else it is given; ``Any`` where that depends."""
    op = ALIASES.get(name, name)
    if name in _WITH_CONSTANT_RESULT:
        return _WITH_CONSTANT_RESULT[name]
    if op in _NAMED:
        return name_class(_NAMED[op])
    if op in _TUPLES:
        return SEVERAL
    if op in _DEPENDING:
        return UNKNOWN
    if op not in OVERLOADS.list_ops():
        return TENSOR
    results = {_translate(row.schema.partition("->")[2].strip()) for row in OVERLOADS.rows_of(op)}
    return results.pop() if len(results) == 1 else UNKNOWN


def has_mixed_results(name: str) -> bool:
    """Whether the op gives one Tensor without ``dim``, and with it also where the items stood."""
    return name in ("max", "min", "median", "nanmedian")


def takes_one_tensor(name: str) -> bool:
    """Whether the only array that the op takes is the one it gives one for."""
    op = ALIASES.get(name, name)
    if op not in OVERLOADS.list_ops():
        return False
    schemas = [row.schema.partition("->")[0] for row in OVERLOADS.rows_of(op)]
    return all(schema.count("Tensor") == 1 and "Tensor[" not in schema for schema in schemas)


def _translate(result: str) -> str:
    if result == "Tensor":
        return TENSOR
    if result == "Tensor[]":
        return SEVERAL
    if fields := _list_fields(result):
        return name_class(fields)
    return f"tuple[{result.strip('()')}]" if set(result) <= set("(Tensor, )") else UNKNOWN


def _list_fields(result: str) -> tuple[str, ...]:
    parts = [part.split() for part in result.strip("()").split(",")]
    is_named = len(parts) > 1 and all(len(part) == 2 and part[0] == "Tensor" for part in parts)
    return tuple(part[1] for part in parts) if is_named else ()
