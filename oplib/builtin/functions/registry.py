"""Every built-in op as a function: what ``oplib.add`` is, and what Tensor methods call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
from jax import lax

from oplib.builtin.checks.not_tensors import refuse_untensors
from oplib.builtin.checks.places import CHECKED
from oplib.builtin.choosers.forms import OF_FORMS
from oplib.builtin.choosers.operands import OF_OPERANDS
from oplib.builtin.choosers.random import CHOOSERS as OF_RANDOM
from oplib.builtin.composed.networks.losses import WRITTEN_LOSSES, write_loss
from oplib.builtin.in_place import detach_, make_in_place
from oplib.builtin.indexing.getitem import Getter
from oplib.builtin.indexing.setitem import setitem_
from oplib.builtin.kernels import view_rules as rules
from oplib.builtin.registration import make_function
from oplib.builtin.rows.parameters import add_further_names
from oplib.builtin.single_ops import ops
from oplib.builtin.tables.shapes.memory import make_view_dtype
from oplib.builtin.viewing import choose_split, make_turner
from oplib.builtin.writing.fill_in_place import choose_masked_fill, index_put
from oplib.builtin.writing.out import add_out, takes_out
from oplib.builtin.writing.random_in_place import FILLING
from oplib.generated_code import define_function
from oplib.library.calls.fusion import list_branches
from oplib.tensor.shapes.keywords import take_named

from .description import describe_function
from .families import (
    COMPOSED,
    OF_FOURIER,
    OF_SPECIAL,
    OVERLOADS,
    ROWS,
)
from .names import name_function, name_method
from .operators import fuse_operators
from .placement import copy_to_device

Function = Callable[..., Any]
Maker = Callable[[str], Function]

_PREFIXES = ("linalg_", "fft_", "special_")
_INTERNAL = {row.op for row in ROWS if row.is_internal or row.op.startswith(("_", *_PREFIXES))}

# Further names of torch for the same functions.
ALIASES = {alias: row.op for row in ROWS for alias in row.aliases}


class Functions(Mapping[str, Function]):
    """Functions by name. Each is made, and its op registered, when it is first asked for.

    Args:
        makers: for each name what makes its function, from the name. Many share a maker, so that importing
            makes few objects.
    """

    def __init__(self, makers: Mapping[str, Maker]) -> None:
        self._makers = makers
        self._made: dict[str, Function] = {}

    def __getitem__(self, name: str) -> Function:
        found = self._made.get(name)
        if found is None:  # of two threads that make it, both get the first
            found = self._made.setdefault(name, self._makers[name](name))
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._makers  # a Mapping would make it to find out

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


_CHOOSERS = {
    **OF_OPERANDS,
    **OF_FORMS,
    **OF_RANDOM,
    "masked_fill": choose_masked_fill,
    "split": choose_split,
}


def _make(name: str) -> Function:
    rows = OVERLOADS.rows_of(name)
    chooser = _CHOOSERS.get(name)
    is_checked = name in CHECKED
    if chooser is None:
        function = make_function(rows[0], OVERLOADS[rows[0].name], by_further_names=not is_checked)
    else:
        function = chooser(OVERLOADS)
    if is_checked:
        function = CHECKED[name](function, name)
    function = add_further_names(function, name)
    if (chooser or is_checked) and not list_branches(function):
        function = refuse_untensors(function)
    fuse_operators(name, function)
    function.__doc__ = describe_function(rows, [OVERLOADS[row.name]._schema for row in rows], function)
    return _name_plain(function, name)


def _name_plain(function: Function, name: str) -> Function:
    """Names a function without ``out``: where the public one has that, this one is the method."""
    method = _METHODS_OF_LINALG.get(name, name)
    is_method = name == "unfold" or (_may_write_out(name) and method in METHODS and takes_out(function))
    return name_method(function, name, method) if is_method else name_function(function, name)


def _may_write_out(name: str) -> bool:
    return name in TAKING_OUT or name.startswith("linalg_")


def _make_in_place(name: str) -> Function:
    op = name[:-1]
    return name_method(make_in_place((_plain if op in COMPOSED else _functions)[op], name), name)


def _rpow(input: Any, other: Any) -> Any:  # noqa: A002  torch's name
    return ops.pow(other, input)


_TURNED = {"transpose": rules.transpose, "t": rules.t, "squeeze": rules.squeeze, "unsqueeze": rules.unsqueeze}


def _make_turner(name: str) -> Function:
    return name_method(make_turner(_TURNED[name[:-1]], name[:-1]), name)


def _make_filling(name: str) -> Function:
    return name_method(FILLING[name], name)


_functions = Functions(
    {**dict.fromkeys(OVERLOADS.list_ops(), _make), "index_put": lambda name: name_function(index_put, name)}
)
ops.take_from(_functions)
_in_place = Functions(
    dict.fromkeys([f"{row.op}_" for row in ROWS if row.in_place], _make_in_place)
    | dict.fromkeys([f"{name}_" for name in _TURNED], _make_turner)
    | {"index_put_": _make_in_place}
    | dict.fromkeys(FILLING, _make_filling)
)


def _with_aliases(functions: Functions, suffix: str = "") -> dict[str, Maker]:
    find = functions.__getitem__
    makers: dict[str, Maker] = {name: find for name in functions if name not in _INTERNAL}
    meant = {f"{alias}{suffix}": f"{name}{suffix}" for alias, name in ALIASES.items()}
    return makers | {alias: lambda alias: find(meant[alias]) for alias in meant if meant[alias] in functions}


def _compose(name: str) -> Function:
    return _name_plain(add_further_names(refuse_untensors(COMPOSED[name].function), name), name)


def _compose_loss(name: str) -> Function:
    return _name_plain(write_loss(name), name)


def _compose_linalg(name: str) -> Function:
    return name_function(add_further_names(refuse_untensors(COMPOSED[name].function), name), name)


def _has_self(name: str) -> bool:
    if name == "index_put":
        return True
    if name in COMPOSED or name in WRITTEN_LOSSES:
        return name in COMPOSED and COMPOSED[name].is_method
    rows = OVERLOADS.rows_of(ALIASES.get(name, name))
    return any(f"{row.name}(Tensor self" in row.schema for row in rows)


def _make_with_out(name: str) -> Function:
    return _add_out(_plain[name], name)


def _add_out(function: Function, name: str) -> Function:
    if not takes_out(function):
        return function
    return name_function(add_out(function, name, has_gradient=_has_gradient(name)), function.__name__)


def _has_gradient(name: str) -> bool:
    """Whether torch refuses to write the result for operands that require grad."""
    rows = OVERLOADS.rows_of(name) if name in OVERLOADS.list_ops() and name not in COMPOSED else []
    return not rows or any(row.derivative.constant is None for row in rows)


def _make_linalg(name: str) -> Function:
    if name == "linalg_matmul":
        return _public["matmul"]
    return _add_out(_functions[name] if name not in COMPOSED else _compose_linalg(name), name)


def _make_fourier(name: str) -> Function:
    if name not in COMPOSED:
        return _add_out(_functions[name], name)
    function = add_further_names(COMPOSED[name].function, name)
    return _add_out(name_function(function, name), name)


def _make_special(name: str) -> Function:
    return _add_out(_functions[name], name)


def _make_polygamma(name: str) -> Function:
    """Of the two parameters the tensor is the second, as in torch; of the method it is the first."""
    method = _plain[name]

    def polygamma(n: int, input: Any) -> Any:  # noqa: A002  torch's name
        return method(input, n)

    polygamma.__doc__ = method.__doc__
    return _add_out(name_function(polygamma, name), name)


TAKING_OUT = ({row.op for row in ROWS if row.out} - set(COMPOSED)) | {
    one.op for one in COMPOSED.values() if one.out
}
_COMPOSED_AT_THE_ROOT = [name for name in COMPOSED if not name.startswith(_PREFIXES)]
_plain = Functions(
    {
        **_with_aliases(_functions),
        **dict.fromkeys(_COMPOSED_AT_THE_ROOT, _compose),
        **dict.fromkeys(WRITTEN_LOSSES, _compose_loss),
    }
)
_find_plain = _plain.__getitem__
_public = Functions({name: _make_with_out if name in TAKING_OUT else _find_plain for name in _plain})
_shared = {alias: name for alias, name in ALIASES.items() if name in _plain}  # the others' ops are internal
LINALG = Functions(
    dict.fromkeys(
        [name for name in (*OVERLOADS.list_ops(), *COMPOSED) if name.startswith("linalg_")]
        + ["linalg_matmul"],
        _make_linalg,
    )
)
FFT = Functions(
    dict.fromkeys(
        [*sorted(OF_FOURIER), *(name for name in COMPOSED if name.startswith("fft_"))], _make_fourier
    )
)
SPECIAL = Functions(dict.fromkeys(sorted(OF_SPECIAL), _make_special))
_AT_THE_ROOT = {  # functions of oplib.linalg that torch also has at the root
    **{alias: name for alias, name in ALIASES.items() if name.startswith("linalg_")},
    **{alias: name for name, one in COMPOSED.items() for alias in one.aliases},
}
IN_PLACE = Functions(_with_aliases(_in_place, "_"))
_find_in_place = IN_PLACE.__getitem__
_IN_PLACE_FUNCTIONS = [name for row in ROWS for name in row.in_place_functions]
_NETWORKS = "nn.functional."
NETWORKS_IN_PLACE = [
    name.removeprefix(_NETWORKS) for name in _IN_PLACE_FUNCTIONS if name.startswith(_NETWORKS)
]
_METHODS_OF_LINALG = {name: alias for alias, name in ALIASES.items() if name.startswith("linalg_")}
FUNCTIONS = Functions(
    {
        **dict.fromkeys([name for name in _IN_PLACE_FUNCTIONS if "." not in name], _find_in_place),
        "index_put_": _find_in_place,
        "detach_": lambda _: detach_,
        **dict.fromkeys(_plain, lambda name: _public[_shared.get(name, name)]),
        **dict.fromkeys(_AT_THE_ROOT, lambda name: LINALG[_AT_THE_ROOT[name]]),
        "polygamma": _make_polygamma,
    }
)
_VARIADIC = {row.op: row.variadic for row in ROWS if row.variadic}
_VARIADIC_METHOD = """def {op}(input, *numbers, {name}=None):
    if {name} is not None:
        return function(input, take_named({op!r}, {name!r}, {name}, numbers))
    are_listed = len(numbers) == 1 and not isinstance(numbers[0], int)
    return function(input, numbers[0] if are_listed else numbers)
"""


def _make_variadic(name: str) -> Function:
    """A method that takes its numbers one by one, in one sequence, or by the keyword of its op."""
    namespace: dict[str, Any] = {"function": _functions[name], "take_named": take_named}
    text = _VARIADIC_METHOD.format(op=name, name=_VARIADIC[name])
    define_function(text, name, f"<oplib.Tensor.{name}>", namespace)
    namespace[name].__doc__ = _functions[name].__doc__
    return name_method(namespace[name], name)


_find_op = _functions.__getitem__
METHODS = Functions(
    {
        **{name: _find_plain for name in _plain if _has_self(name)},
        "unfold": _find_op,
        **dict.fromkeys(_VARIADIC, _make_variadic),
        **dict.fromkeys(IN_PLACE, _find_in_place),
    }
)
UPCALLS = Functions(
    {
        **dict.fromkeys(_functions, _find_op),
        **dict.fromkeys(IN_PLACE, _find_in_place),
        "add_arrays": lambda _: jax.jit(lax.add),
        "getitem": lambda _: Getter(OVERLOADS).getitem,
        "rpow": lambda _: _rpow,
        "setitem_": lambda name: name_function(setitem_, name),
        "to_device": lambda _: copy_to_device,
        "view_dtype": lambda _: make_view_dtype(OVERLOADS["view.dtype"]),
        "to_dtype": lambda _: _functions["_to_copy"],
    }
)

__all__ = sorted(FUNCTIONS)  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  from the tables


def __getattr__(name: str) -> Function:
    """Makes the function of an op when the module is first asked for it."""
    if name not in FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = globals()[name] = FUNCTIONS[name]
    return function
