"""The result types of functions in the stubs, from the schemas of ops or the records of functions."""

from __future__ import annotations

from oplib.builtin.public_functions.registry import COMPOSED, OVERLOADS, REGISTRY, FunctionRegistry
from oplib.builtin.rows.composed import Composed

TENSOR = "Tensor"
SEVERAL = "tuple[Tensor, ...]"
UNKNOWN = "Any"


def list_named_results() -> dict[str, tuple[str, ...]]:
    """Returns the fields of every class of named results, by the name of the class."""
    schemas = [row.schema for op in OVERLOADS.list_ops() for row in OVERLOADS.rows_of(op)]
    results = [schema.partition("->")[2].strip() for schema in schemas]
    found = {_list_fields(result) for result in (*results, *(one.returns for one in COMPOSED.values()))}
    return {name_class(fields): fields for fields in sorted(found) if fields}


def name_class(fields: tuple[str, ...]) -> str:
    """Returns the name, in the stubs, of the class of named results with these fields."""
    return f"_{'_'.join(fields)}"


def find_result(name: str, registry: FunctionRegistry = REGISTRY) -> str:
    """Returns the result type of a function for Tensors; ``Any`` if it depends on other arguments."""
    if (composed := find_composed(name, registry)) and composed.returns:
        return _translate(composed.returns)
    results = _list_results(name, registry)
    return results.pop() if len(results) == 1 else UNKNOWN if results else TENSOR


def find_composed(name: str, registry: FunctionRegistry) -> Composed | None:
    """Returns the record of a function that is made of several ops, by its name or an alias."""
    by_alias = (one for one in registry.composed.values() if name in one.aliases)
    return registry.composed.get(name) or next(by_alias, None)


def has_mixed_results(name: str, registry: FunctionRegistry) -> bool:
    """Tells whether the op returns one Tensor without ``dim``, and values and indices with it."""
    return _list_results(name, registry) == {TENSOR, name_class(("values", "indices"))}


def takes_one_tensor(name: str, registry: FunctionRegistry) -> bool:
    """Tells whether the op takes a single array and returns an array for it."""
    schemas = [schema.partition("->")[0] for schema in _list_schemas(name, registry)]
    return bool(schemas) and all(
        schema.count("Tensor") == 1 and "Tensor[" not in schema for schema in schemas
    )


def _list_results(name: str, registry: FunctionRegistry) -> set[str]:
    return {_translate(schema.partition("->")[2].strip()) for schema in _list_schemas(name, registry)}


def _list_schemas(name: str, registry: FunctionRegistry) -> list[str]:
    """Returns the schemas of an op, by its name or an alias; none for any other function."""
    op = registry.aliases.get(name, name)
    return (
        [row.schema for row in registry.overloads.rows_of(op)] if op in registry.overloads.list_ops() else []
    )


def _translate(result: str) -> str:
    if result in (TENSOR, "bool", "int"):
        return result
    if result == "Tensor[]":
        return SEVERAL
    if fields := _list_fields(result):
        return name_class(fields)
    return f"tuple[{result.strip('()')}]" if set(result) <= set("(Tensor, )") else UNKNOWN


def _list_fields(result: str) -> tuple[str, ...]:
    parts = [part.split() for part in result.strip("()").split(",")]
    is_named = len(parts) > 1 and all(len(part) == 2 and part[0] == "Tensor" for part in parts)
    return tuple(part[1] for part in parts) if is_named else ()
