"""The docstrings of the functions of built-in ops, generated from their rows."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from inspect import Parameter

from oplib.builtin.rows.row import Row
from oplib.builtin.shared_kernels.dtype_classes import ALL
from oplib.docstrings import complete_docstring, wrap
from oplib.library.schema import FunctionSchema, ListType, OptionalType, SchemaType

from .explanations import explain_op

_PLAIN_WORDS = {
    "Tensor": ("a tensor", "tensors"),
    "int": ("an int", "ints"),
    "float": ("a float", "floats"),
    "bool": ("a bool", "bools"),
    "str": ("a str", "strs"),
    "Scalar": ("a number", "numbers"),
    "ScalarType": ("a dtype", "dtypes"),
    "Generator": ("a Generator", "Generators"),
}
_ORDER = (
    *("a tensor", "a number", "an int", "a float", "a bool", "a str"),
    *("a list of tensors", "a list of ints", "a list of floats"),
)
_NOT_IN_SCHEMAS = {
    "unbiased": ("a bool",),
    "size": ("an int", "a list of ints"),
    "dtype": ("a dtype",),
    "device": ("a device",),
    "requires_grad": ("a bool",),
}
_ITEM_BY_ITEM = frozenset({"items", "floats", "bools", "mixed"})
_OF_RESULTS = {
    "keepdim": ", without the reduced dimensions, or with length 1 for each if `keepdim`",
    "reduction": " without dimensions, or one loss per item with `reduction='none'`",
    "dtype": ", of `dtype` if it is given",
}
_SUBMODULES = ("linalg_", "fft_", "special_")
_DIMS = frozenset({"dim", "dims", "dim0", "dim1", "dimension", "start_dim", "dims_self"})
_SHARED_ERRORS = {
    "dim": "DimensionError: the dim does not exist.",
    "generator": "TracingError: the Generator was made outside the running trace.",
}
_COUNTING_DIMS = frozenset({"tile"})
_FORMULA = r"[^A-Za-z]|\w*[(_]|[b-zA-Z]\b|input\b|\w+ [*@+] "
_CHANGED = r"with (the|a) "
_ALL_CLASSES = len(ALL)


def complete_composed(doc: str, name: str, parameters: Sequence[Parameter], source: str) -> str:
    """Completes the docstring of a function made of several ops by the texts that ops share.

    Args:
        doc: the docstring, which may lack shared parameters, their errors, and the section Source.
        name: the name of the function.
        parameters: its parameters.
        source: whose contract it follows.
    """
    names = [parameter.name for parameter in parameters]
    raised = [text for name, text in _SHARED_ERRORS.items() if name in names]
    complete = complete_docstring(
        doc,
        {
            parameter.name: f"{told}{_tell_default(parameter)}."
            for parameter in parameters
            if (told := explain_op(name, parameter.name))
        },
        order=names,
        Raises="\n".join(raised),
        Source=source,
    )
    return complete.replace("\nExample:\n", "\nExample:\n    >>> import oplib\n")


def _tell_default(parameter: Parameter) -> str:
    return "" if parameter.default in (Parameter.empty, None) else f"; by default {parameter.default!r}"


def describe_function(
    rows: Sequence[Row], schemas: Sequence[FunctionSchema], parameters: Iterable[Parameter]
) -> str:
    """Returns the docstring of an op's function.

    Args:
        rows: the rows of the op.
        schemas: the schemas of the rows.
        parameters: the parameters of the function of all overloads, without further names.
    """
    return "\n".join(_Description(rows, schemas, parameters).list_lines())


def describe_derivative(row: Row) -> str:
    """Returns a sentence that says how a row differentiates."""
    derivative = row.derivative
    if derivative.constant is not None:
        return f"Zero, because {derivative.constant}."
    if derivative.missing is not None:
        return f"Missing, because {derivative.missing}."
    return "JAX's own derivative of the kernel." if derivative.derive else "A formula of the op."


def describe_dtypes(classes: str) -> str:
    """Returns classes of dtypes in words, as adjectives.

    Example:
        >>> describe_dtypes("ihfc"), describe_dtypes("fc")
        ('integer, floating or complex', 'float32, float64 or complex')
    """
    floats = "floating" if "h" in classes else "float32, float64"
    adjectives = (("b", "bool"), ("i", "integer"), ("f", floats), ("c", "complex"))
    return _join(", ".join(word for letter, word in adjectives if letter in classes).split(", "))


class _Description:
    """Generates the docstring of one op."""

    def __init__(
        self, rows: Sequence[Row], schemas: Sequence[FunctionSchema], parameters: Iterable[Parameter]
    ) -> None:
        self._rows = rows
        self._schemas = schemas
        self._op = rows[0].op
        self._defaults = {parameter.name: parameter.default for parameter in parameters}
        types = _collect_types(schemas)
        self._types = {name: _find_types(types, name) for name in self._defaults}
        self._tensors = [name for name, words in self._types.items() if "a tensor" in words]
        self._result = rows[0].result
        self._is_item_by_item = self._result in _ITEM_BY_ITEM
        classes = [row.dtypes for row in rows]
        self._classes = classes[0] if len(classes) == 1 else "".join(set().union(*classes))

    def list_lines(self) -> list[str]:
        """Returns the docstring, section by section."""
        rows = self._rows
        of_tensors = max(rows, key=lambda row: row.schema.count("Tensor "))
        chosen = next((row for row in rows if "." not in row.name), of_tensors)
        return [
            *(_summarise(chosen), "", "Args:", *map(self._describe_parameter, self._defaults)),
            *("", "Returns:", self._describe_results()),
            *("", "Raises:", *self._list_errors()),
            *("", "Gradient:", f"    {describe_derivative(chosen)}"),
            *("", "Source:", f"    {chosen.origin}"),
            *("", "Overloads:", *_list_overloads(rows)),
            "",
        ]

    def _describe_parameter(self, name: str) -> str:
        line = f"    {name}: {_join(self._types[name])}"
        is_first = self._tensors[:1] == [name]
        if is_first:
            line += self._describe_tensor()
        default = self._defaults[name]
        if default is not Parameter.empty:
            line += f", by default {default!r}"
        told = explain_op(self._op, name.rstrip("_"))
        if told:
            line += f"; {told}"
        if self._is_item_by_item and not is_first and name in self._tensors:
            line += f"; broadcasts with `{self._tensors[0]}`"
        if is_first and self._schemas[0].arguments[0].name == "self" and not self._op.startswith(_SUBMODULES):
            line += "; in a method, the tensor itself"
        return wrap(f"{line}.", "        ")

    def _describe_tensor(self) -> str:
        """Returns the dtypes of the first tensor; for several tensors, their common dtype."""
        if self._tensors[0] == "condition":
            return " of bools"
        is_only = len(self._tensors) == 1
        shape = " of any shape" if is_only and self._is_item_by_item else ""
        if len(self._classes) == _ALL_CLASSES:
            return f"{shape} and any dtype" if shape else " of any dtype"
        classes = describe_dtypes(self._classes)
        if is_only:
            return f"{shape}{' and' if shape else ' of'} {classes} dtype"
        return f"; the common dtype of the tensors is {classes}"

    def _describe_results(self) -> str:
        forms = list(dict.fromkeys(map(_name_results, self._schemas)))
        words = ", or ".join(forms)
        if self._is_item_by_item:
            words = self._describe_items(words)
        elif self._result == "shape":
            words += f" of the shape of `{self._tensors[0]}`"
        words += "".join(_OF_RESULTS[name] for name in self._defaults if name in _OF_RESULTS)
        if self._rows[0].is_view:
            words += ", which shares the memory of its argument"
        if len(forms) > 1:
            words += "; see the overloads"
        return wrap(f"    {words[0].upper()}{words[1:]}.", "    ")

    def _describe_items(self, words: str) -> str:
        """Returns the shape and dtype of a result that is computed item by item."""
        is_only = len(self._tensors) == 1
        first = f"of `{self._tensors[0]}`"
        shape = f"of the shape {first}" if is_only else "of the shape to which the tensors broadcast"
        dtype = f"of the dtype {first}" if is_only else "of their common dtype"
        if self._result == "bools":
            return f"{words} of bools, {shape}"
        if self._result == "mixed":
            return f"{words} {shape}"
        return f"{words} {shape} and {dtype}{', or floating for ints' if self._result == 'floats' else ''}"

    def _list_errors(self) -> list[str]:
        lines = ["    ArgumentTypeError: an argument has a type that is not listed above."]
        if len(self._classes) < _ALL_CLASSES:
            lines.append(f"    UnsupportedDtypeError: the dtype is not {describe_dtypes(self._classes)}.")
        if self._op not in _COUNTING_DIMS and not _DIMS.isdisjoint(self._defaults):
            lines.append("    DimensionError: a dimension does not exist.")
        if self._is_item_by_item and len(self._tensors) > 1:
            lines.append("    ArgumentError: the shapes do not broadcast.")
        return lines


def _summarise(row: Row) -> str:
    """Returns the first sentence; adds a verb to a formula. Compiles patterns late: imports are fast."""
    doc = re.sub(r"\bself\b", "input", row.doc)
    if re.match(_CHANGED, doc):
        doc = f"Returns the tensor {doc}"
    elif re.match(_FORMULA, doc):
        doc = f"Computes {doc}"
    end = "" if doc.endswith("...") else "."
    return wrap(f"{doc[0].upper()}{doc[1:]}{end}", "")


def _collect_types(schemas: Iterable[FunctionSchema]) -> dict[str, tuple[str, ...]]:
    """Returns the words for the types of each argument in all overloads, by its name in the function."""
    types_by_name: dict[str, tuple[str, ...]] = {}
    for schema in schemas:
        for argument in schema.arguments:
            name = "input" if argument.name == "self" else argument.name
            words = _name_types(argument.type)
            before = types_by_name.get(name)
            if before is not None and before != words:
                words = tuple(sorted({*before, *words}, key=_ORDER.index))
            types_by_name[name] = words
    return types_by_name


@functools.cache
def _name_types(type_: SchemaType) -> tuple[str, ...]:
    if isinstance(type_, OptionalType):
        return _name_types(type_.element)
    if not isinstance(type_, ListType):
        return _PLAIN_WORDS.get(str(type_), ("a value", "values"))[:1]
    single, several = _PLAIN_WORDS[str(type_.element)]
    return (f"a list of {several}",) if type_.size is None else (single, f"a list of {several}")


def _find_types(types: Mapping[str, tuple[str, ...]], name: str) -> tuple[str, ...]:
    words = types.get(name.rstrip("_")) or _NOT_IN_SCHEMAS.get(name)
    return types["input"] if words is None else words


def _name_results(schema: FunctionSchema) -> str:
    names = [f"`{result.name}`" for result in schema.returns if result.name]
    if names:
        return f"a named tuple of the tensors {', '.join(names[:-1])} and {names[-1]}"
    if len(schema.returns) != 1:
        return f"a tuple of {len(schema.returns)} tensors"
    (only,) = schema.returns
    return "a tensor" if only.is_tensor else "a tuple of tensors"


def _list_overloads(rows: Sequence[Row]) -> list[str]:
    """Returns the schemas, each with its description if the descriptions differ."""
    are_alike = len({row.doc for row in rows}) == 1
    return [f"    {row.schema}" if are_alike else f"    {row.schema}\n        {row.doc}" for row in rows]


def _join(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
