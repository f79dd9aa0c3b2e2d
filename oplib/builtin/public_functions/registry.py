"""Every public function of an op: what ``oplib.add`` is, and what Tensor methods call.

One registry makes the functions, and its views are what packages and classes show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

import jax
from jax import lax

from oplib.builtin.argument_checks.value_checks import CHECKED
from oplib.builtin.composed.networks.losses import WRITTEN_LOSSES, render_loss
from oplib.builtin.in_place import detach_
from oplib.builtin.in_place_and_out.fill_in_place import choose_masked_fill, choose_zero, index_put
from oplib.builtin.in_place_and_out.random_in_place import FILLING
from oplib.builtin.in_place_and_out.resizing import RESIZING
from oplib.builtin.indexing.getitem import make_getitem
from oplib.builtin.indexing.setitem import setitem_
from oplib.builtin.overload_resolution.call_forms import OF_FORMS
from oplib.builtin.overload_resolution.operands import OF_OPERANDS
from oplib.builtin.overload_resolution.random_calls import OF_RANDOM
from oplib.builtin.registration import Overloads
from oplib.builtin.rows.composed import Composed
from oplib.builtin.rows.row import Function
from oplib.builtin.shared_kernels import view_rules as rules
from oplib.builtin.single_ops import ops
from oplib.builtin.tables.shapes.memory import make_view_dtype
from oplib.builtin.viewing import choose_split, make_turner
from oplib.torch_names import make_getattr
from oplib.tracebacks import entry_point

from .derived_forms import specify_in_place, specify_variadic, specify_with_flag
from .description import complete_composed, describe_function
from .families import COMPOSED, OVERLOADS
from .operators import inline_operators
from .specification import FunctionSpec, specify_choice, specify_composed, specify_op
from .writer import emit_function, name_function, name_method

Key = tuple[str, str]

_RESOLUTIONS = {
    **OF_OPERANDS,
    **OF_FORMS,
    **OF_RANDOM,
    "masked_fill": choose_masked_fill,
    "split": choose_split,
    "zero": choose_zero,
}
_TURNED = {
    **dict.fromkeys(("swapaxes", "swapdims", "transpose"), rules.transpose),
    "t": rules.t,
    "squeeze": rules.squeeze,
    "unsqueeze": rules.unsqueeze,
}
_WRITTEN = FILLING | RESIZING
_PACKAGES = ("linalg_", "fft_", "special_")
_NETWORKS = "nn.functional."


class View(Mapping[str, Function]):
    """Functions of a registry under the names of one place, each made when it is first asked for.

    Args:
        registry: makes the functions.
        keys: the form and the op of each function, by its name in this place.
    """

    def __init__(self, registry: FunctionRegistry, keys: dict[str, Key]) -> None:
        self._registry = registry
        self.keys_by_name = keys

    def __getitem__(self, name: str) -> Function:
        return self._registry.find(self.keys_by_name[name])

    def __contains__(self, name: object) -> bool:
        return name in self.keys_by_name  # a Mapping would make it to find out

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys_by_name)

    def __len__(self) -> int:
        return len(self.keys_by_name)

    def __or__(self, other: View) -> View:
        return View(self._registry, self.keys_by_name | other.keys_by_name)

    def rename(self, names: Mapping[str, str]) -> View:
        """Returns functions under other names, each with the name that it has here."""
        return View(self._registry, {name: self.keys_by_name[own] for name, own in names.items()})


class FunctionRegistry:
    """The functions of ops, each in several forms.

    The forms: "op", made from the rows; "plain", which methods are, made from the rows or of several ops;
    "function", which also takes ``out=`` where it may; "in place"; "variadic", a method;
    "network", with the name and flag that ``nn.functional`` has.

    Args:
        overloads: of the ops.
        composed: functions that are made of several ops.
        losses: names of losses that have torch's parameters, not those of their ops.

    Attributes:
        overloads, composed: as given.
        aliases: the op of each further name.
        taking_out: the names of functions that may take ``out=``, without those of linalg, fft and special.
        ops, in_place, functions, methods, linalg, fft, special, networks: views.
    """

    def __init__(
        self, overloads: Overloads, composed: Mapping[str, Composed], losses: Iterable[str] = ()
    ) -> None:
        self.overloads = overloads
        self.composed = composed
        self._losses = frozenset(losses)
        self._rows = {op: overloads.rows_of(op) for op in overloads.list_ops()}
        self._made: dict[Key, Function] = {}
        self._makers: dict[str, Callable[[str], Function]] = {
            "op": self._make_op,
            "plain": self._make_plain,
            "function": self._make_function,
            "in place": self._make_in_place,
            "variadic": self._make_variadic,
            "network": self._make_network,
            "given": lambda name: _GIVEN[name](),
        }
        self.aliases = {alias: op for op, rows in self._rows.items() for alias in rows[0].aliases}
        first = {op: rows[0] for op, rows in self._rows.items() if op not in composed}
        self.taking_out = {op for op, row in first.items() if row.out or row.exact_out}
        self.taking_out |= {name for name, record in composed.items() if record.out}
        self._lay_out_in_place()
        self._lay_out_functions()
        self._lay_out_networks()
        self._lay_out_methods()

    def find(self, key: Key) -> Function:
        """Returns a function by its form and op; it is made, and the op registered, at the first time."""
        function = self._made.get(key)
        if function is None:  # of two threads that make it, both get the first
            form, op = key
            function = self._made.setdefault(key, self._makers[form](op))
        return function

    # Views --------------------------------------------------------------------------------------------------

    def _lay_out_in_place(self) -> None:
        ops = [op for op, rows in self._rows.items() if any(row.has_in_place_form for row in rows)]
        ops += [name for name, record in self.composed.items() if record.in_place]
        names = [f"{op}_" for op in (*ops, *_TURNED, "index_put")] + list(_WRITTEN)
        keys = {name: ("in place", name) for name in names}
        aliases = {f"{alias}_": f"{op}_" for alias, op in self.aliases.items()}
        keys |= {alias: keys[name] for alias, name in aliases.items() if name in keys}
        self.in_place = View(self, keys)
        functions = [name for rows in self._rows.values() for name in rows[0].in_place_functions]
        self._in_place_at_the_root = [name for name in functions if not name.startswith(_NETWORKS)]
        self._in_networks = [name.removeprefix(_NETWORKS) for name in functions if "." in name]

    def _lay_out_functions(self) -> None:
        internal = {op for op, rows in self._rows.items() if rows[0].is_internal}
        names = [*(op for op in self._rows if op not in internal), *self.composed, "linalg_matmul"]
        self._at_the_root = [name for name in names if not name.startswith(("_", *_PACKAGES))]
        self._at_the_root += [*self._losses, "index_put"]
        of_composed = {alias: name for name, record in self.composed.items() for alias in record.aliases}
        functions = {name: ("function", name) for name in self._at_the_root}
        functions |= {alias: ("function", name) for alias, name in (self.aliases | of_composed).items()}
        functions |= {name: self.in_place.keys_by_name[name] for name in self._in_place_at_the_root}
        functions |= {"index_put_": ("in place", "index_put_"), "detach_": ("given", "detach_")}
        self.functions = View(self, functions)
        self.linalg, self.fft, self.special = (
            View(self, {name: ("function", name) for name in sorted(names) if name.startswith(package)})
            for package in _PACKAGES
        )

    def _lay_out_networks(self) -> None:
        first = [rows[0] for rows in self._rows.values() if rows[0].name_in_networks]
        keys = {row.op: ("function", row.op) for row in first if row.op in self.functions}
        keys |= {name: ("function", name) for name, record in self.composed.items() if record.in_networks}
        keys |= {name: ("in place", name) for name in self._in_networks}
        own = [row for row in first if row.inplace_at or row.name_in_networks != row.op]
        self.networks = View(self, keys | {row.name_in_networks: ("network", row.op) for row in own})

    def _lay_out_methods(self) -> None:
        names = {name: name for name in self._at_the_root} | self.aliases
        plain: dict[str, Key] = {name: ("plain", op) for name, op in names.items() if self._has_self(op)}
        variadic = {op: ("variadic", op) for op, rows in self._rows.items() if rows[0].variadic}
        keys = plain | {"unfold": ("op", "unfold")} | variadic | self.in_place.keys_by_name
        self.methods = View(self, keys)
        self._method_names = {key: name for name, key in reversed(plain.items())}
        self.ops = View(self, {op: ("op", op) for op in self._rows} | {"index_put": ("given", "index_put")})

    def _has_self(self, name: str) -> bool:
        if name in self.composed or name in self._losses:
            return name in self.composed and self.composed[name].is_method
        rows = self._rows.get(name)
        return rows is None or any(f"{row.name}(Tensor self" in row.schema for row in rows)

    # Forms --------------------------------------------------------------------------------------------------

    def _specify(self, name: str) -> FunctionSpec:
        """Describes the plain function of a name."""
        if name in self.composed:
            composed = self.composed[name]
            spec = specify_composed(name, composed.function)
            doc = complete_composed(spec.doc or "", name, spec.parameters, composed.origin)
            return replace(spec, doc=doc)
        if name in self._losses:
            parameters, lines, namespace, doc = render_loss(name)
            return FunctionSpec(
                name, tuple(parameters), tuple(lines), namespace, explains_untensors=True, doc=doc
            )
        return self._specify_op(name)

    def _specify_op(self, op: str, *, taken: int | None = None) -> FunctionSpec:
        """Describes the function of an op; the docstring tells of the first parameters that are taken."""
        rows, check = self._rows[op], CHECKED.get(op)
        if op in _RESOLUTIONS:
            spec = specify_choice(op, _RESOLUTIONS[op](self.overloads), check)
        else:
            spec = specify_op([self.overloads[row.name] for row in rows], rows[0], check)
        schemas = [self.overloads[row.name]._schema for row in rows]
        return replace(spec, doc=describe_function(rows, schemas, spec.parameters[:taken]))

    def _make_op(self, op: str) -> Function:
        is_shown = op not in self.composed and op not in self._losses
        spec = self._specify_op(op)
        function = self._write_plain(spec, "oplib" if is_shown else "oplib.ops")
        inline_operators(op, spec.branches)
        return function

    def _make_plain(self, name: str) -> Function:
        if name in self.composed or name in self._losses:
            return self._write_plain(self._specify(name))
        return self.ops[name]

    def _write_plain(self, spec: FunctionSpec, package: str = "oplib") -> Function:
        """Writes a function without ``out``; the method, where the public function has that."""
        name = spec.name
        method = self._method_names.get(("plain", name), "unfold" if name == "unfold" else "")
        is_public = not self._may_take_out(name) and name != "unfold"
        if is_public or not method:
            return name_function(emit_function(spec, f"<{package}.{name}>"), name)
        return name_method(emit_function(spec, f"<oplib.Tensor.{method}>"), name, method)

    def _may_take_out(self, name: str) -> bool:
        return name in self.taking_out or name.startswith(_PACKAGES)

    def _make_function(self, name: str) -> Function:
        if name == "linalg_matmul":
            return self.find(("function", "matmul"))
        if not self._may_take_out(name):
            return self.find(("plain", name))
        spec = _specify_polygamma(self.ops[name]) if name == "polygamma" else self._specify(name)
        has_gradient = name in self.composed or any(
            row.derivative.constant is None for row in self._rows[name]
        )
        is_exact = self._rows[name][0].exact_out if name in self._rows else self.composed[name].is_exact
        function = emit_function(
            spec, f"<oplib.{name}>", out=True, exact_out=is_exact, has_gradient=has_gradient
        )
        inline_operators(name, spec.branches)
        return name_function(function, name)

    def _make_in_place(self, name: str) -> Function:
        op = name[:-1]
        if name in _WRITTEN or op in _TURNED:
            rule = _TURNED.get(op)
            function = (
                make_turner(rule, op, self.overloads[rule.__name__]) if rule is not None else _WRITTEN[name]
            )
            spec = specify_composed(name, function)
        elif op == "index_put":
            spec = specify_in_place(specify_composed(op, index_put), name)
        else:
            spec = self._specify(op) if op in self.composed else self._specify_op(op)
            row = self._rows[op][0] if op in self._rows else None
            is_uniform, enlarges = (row.is_uniform, row.enlarges) if row else (False, False)
            is_exact = op in self.composed and self.composed[op].is_exact
            spec = specify_in_place(spec, name, is_uniform=is_uniform, enlarges=enlarges, is_exact=is_exact)
        return name_method(emit_function(spec, f"<oplib.Tensor.{name}>"), name)

    def _make_variadic(self, op: str) -> Function:
        spec = specify_variadic(self._specify_op(op), self._rows[op][0].variadic)
        return name_method(emit_function(spec, f"<oplib.Tensor.{op} of several>"), op)

    def _make_network(self, op: str) -> Function:
        row, name = self._rows[op][0], self._rows[op][0].name_in_networks
        spec = self._specify_op(op, taken=row.inplace_at or None)
        if row.inplace_at:
            spec = specify_with_flag(spec, row.inplace_at, f"{op}_")
        function = emit_function(spec, f"<oplib.{_NETWORKS}{name}>")
        return name_function(function, name, _NETWORKS.rstrip("."))


def _specify_polygamma(method: Function) -> FunctionSpec:
    """Of the two parameters the tensor is the second, as in torch; of the method it is the first."""

    def polygamma(n: int, input: Any) -> Any:
        return method(input, n)

    spec = specify_composed("polygamma", polygamma)
    return replace(spec, doc=method.__doc__)


def _rpow(input: Any, other: Any) -> Any:
    return ops.pow(other, input)


def _add(*arrays: Any) -> Any:
    return reduce(lax.add, arrays)


_GIVEN: dict[str, Callable[[], Function]] = {
    "add_arrays": lambda: jax.jit(_add),
    "detach_": lambda: name_function(entry_point(detach_), "detach_"),
    "getitem": lambda: make_getitem(OVERLOADS["index"]),
    "index_put": lambda: name_function(
        emit_function(specify_composed("index_put", index_put), "<oplib.index_put>"), "index_put"
    ),
    "rpow": lambda: _rpow,
    "setitem_": lambda: name_function(setitem_, "setitem_"),
    "view_dtype": lambda: make_view_dtype(OVERLOADS["view.dtype"]),
}
REGISTRY = FunctionRegistry(OVERLOADS, COMPOSED, WRITTEN_LOSSES)
ops.take_from(REGISTRY.ops)
ALIASES = REGISTRY.aliases
FUNCTIONS, METHODS, IN_PLACE = REGISTRY.functions, REGISTRY.methods, REGISTRY.in_place
LINALG, FFT, SPECIAL = REGISTRY.linalg, REGISTRY.fft, REGISTRY.special
NETWORKS, TAKING_OUT = REGISTRY.networks, REGISTRY.taking_out
UPCALLS = View(
    REGISTRY,
    REGISTRY.ops.keys_by_name
    | IN_PLACE.keys_by_name
    | {name: ("given", name) for name in _GIVEN}
    | {"to_dtype": ("op", "_to_copy")},
)

__all__ = sorted(FUNCTIONS)  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  from the tables
__getattr__ = make_getattr(globals(), FUNCTIONS)
