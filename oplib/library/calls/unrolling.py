"""Templates: Python functions whose source is written out for arguments that are partly known.

A template is an ordinary function, checked and read like any other. :func:`expand_template` returns the lines
of its statements for a generated function. It unrolls loops and comprehensions over sequences of known
length, decides ``if`` where the test is known, and replaces a call of a function that ``inlined`` marks by
the statements of that function. A value is one of three things during expansion:

- a :class:`Code`: text that computes the value when the generated function runs;
- a tuple or a list of values: a sequence of known length;
- any other object: the value itself.

Rules for templates:

- A marked function returns in its last line only. A function that is called as ``return f(...)`` may return
  earlier too.
- A marked function that needs statements is not called in ``and``, ``or`` or a conditional expression, unless
  the test is known.
- Assigning to a loop variable assigns to the variable that it stands for. Any other variable that is assigned
  once does not exist in the generated code if its value is known.
- ``return None`` at the end of a template, or of a function called as ``return f(...)``, stands for the
  statements that follow the template in the generated function.

Parameters of generated functions have names that users chose. All other names begin with two underscores.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import itertools
import operator
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from oplib.generated_code import INLINED, indent, parse

_LISTED: set[Any] = {enumerate, list, range, tuple, zip}
_OPERATORS: dict[type, tuple[str, Callable[..., Any]]] = {
    ast.Add: ("+", operator.add),
    ast.BitOr: ("|", operator.or_),
    ast.Eq: ("==", operator.eq),
    ast.In: ("in", lambda item, items: item in items),
    ast.Is: ("is", operator.is_),
    ast.IsNot: ("is not", operator.is_not),
    ast.LShift: ("<<", operator.lshift),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Mult: ("*", operator.mul),
}


class Code(str):
    """The text of an expression.

    Args:
        text: the text.
        level: how loosely its outermost operator binds; 0 if there is none, as in a name or a call.
    """

    __slots__ = ("level",)

    def __new__(cls, text: str, level: int = 0) -> Code:  # noqa: PYI034  no subclass is made
        """Makes the text."""
        code = super().__new__(cls, text)
        code.level = level
        return code


_ARITHMETIC, _COMPARISON, _NOT, _AND, _OR, _CONDITIONAL = range(1, 7)


def _enclose(code: Code, level: int) -> str:
    """Returns the text of an operand, in parentheses if it binds more loosely than a level."""
    return f"({code})" if code.level > level else code


class Names:
    """The names of one generated function.

    Attributes:
        objects: by global name what generated code refers to; the ``__globals__`` of the function.
        variables: the names of local variables that are in use where the text is being written.
        taken: the names of all local variables.
        shared: the variables that are in use after the block in which they were made.
    """

    def __init__(self, objects: dict[str, Any]) -> None:
        self.objects = objects
        self.variables: set[str] = set()
        self.taken: set[str] = set()
        self.shared: set[str] = set()

    def refer(self, value: Any, hint: str) -> Code:
        """Returns code that stands for an object."""
        if value is None or value.__class__ in (bool, int, str):
            return Code(repr(value))
        for name in _count_names(value.__name__ if isinstance(value, type) else hint):
            if name not in self.taken and self.objects.setdefault(name, value) is value:
                return Code(name)
        raise AssertionError

    def make_variable(self, hint: str) -> Code:
        """Returns a new local variable."""
        for name in _count_names(hint):
            if name not in self.variables and name not in self.objects:
                self.variables.add(name)
                self.taken.add(name)
                return Code(name)
        raise AssertionError


def expand_template(template: Callable[..., Any], names: Names, **known: Any) -> list[str]:
    """Returns the lines of a template, without a ``return None`` at its end: what follows comes then.

    Args:
        template: the function.
        names: of the function that the statements are for.
        **known: its arguments, each a value as the module docstring describes.
    """
    names.variables, names.shared = set(), set()
    expander = _Expander(_read(template), known, names)
    lines = expander.expand_block(expander.source.body)
    return lines[:-1] if lines[-1:] == ["return None"] else lines


class _Source(NamedTuple):
    """A template as it is written.

    Attributes:
        parameters: their names.
        body: the statements, without the docstring.
        returns_last: whether the only ``return``, if there is one, is the last statement.
        assigned_again: the variables that are assigned more than once, loops included.
        scope: the global names that it sees.
    """

    parameters: list[str]
    body: list[ast.stmt]
    returns_last: bool
    assigned_again: set[str]
    scope: dict[str, Any]


@cache
def _read(template: Any) -> _Source:
    """Reads the source of a template."""
    parsed: Any = parse(textwrap.dedent(inspect.getsource(template))).body[0]
    parameters = (*parsed.args.args, *parsed.args.kwonlyargs)
    nodes = list(ast.walk(parsed))
    targets = [one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
    return _Source(
        [one.arg for one in parameters],
        parsed.body[1:] if ast.get_docstring(parsed) is not None else parsed.body,
        all(one is parsed.body[-1] for one in nodes if isinstance(one, ast.Return)),
        {name for name, count in Counter(targets).items() if count > 1},
        template.__globals__,
    )


def _count_names(hint: str) -> Iterator[str]:
    hint = hint.lstrip("_")
    return (f"__{hint}{number or ''}" for number in itertools.count())


def is_code(value: Any) -> bool:
    """Whether a value is known only when the generated function runs."""
    return value.__class__ is Code


def _hint(node: ast.expr) -> str:
    """A name for what an expression stands for."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else "value"


def _is_sequence(value: Any) -> bool:
    return value.__class__ in (tuple, list)


class _Expander(ast.NodeVisitor):
    """Expands one template; a template that it calls has an expander of its own.

    Args:
        source: of the template.
        known: its arguments.
        names: of the generated function.
    """

    def __init__(self, source: _Source, known: dict[str, Any], names: Names) -> None:
        self.source = source
        self._known = known
        self._names = names
        self._variables: dict[str, Code] = {}
        self._written: list[str] = []

    def generic_visit(self, node: ast.AST) -> Any:
        """Refuses what no template contains. The other methods write a statement or return a value."""
        raise ValueError(f"A template contains {type(node).__name__}: {ast.unparse(node)}.")

    # Statements -------------------------------------------------------------------------------------------

    def expand_block(self, body: Sequence[ast.stmt]) -> list[str]:
        """Returns the lines of a block; what they bind is not known after it."""
        outer, self._written = self._written, []
        known, variables = dict(self._known), set(self._names.variables)
        self._expand_here(body)
        self._known, self._names.variables = known, variables | self._names.shared
        inner, self._written = self._written, outer
        return inner

    def _expand_here(self, body: Sequence[ast.stmt]) -> None:
        """Writes statements, up to one that always returns."""
        for statement in body:
            self.visit(statement)
            if self._has_returned():
                return

    def _has_returned(self) -> bool:
        return bool(self._written) and self._written[-1].startswith("return ")

    def visit_Expr(self, node: ast.Expr) -> None:
        value = self.visit(node.value)
        if is_code(value):
            self._written.append(value)

    def visit_Return(self, node: ast.Return) -> None:
        call = node.value
        if isinstance(call, ast.Call) and (callee := self._find_callee(call.func)) in INLINED:
            self._inline(callee, call, is_returned=True)
        else:
            self._written.append(f"return {self._read(call) if call else None}")

    def visit_Assign(self, node: ast.Assign) -> None:
        (target,) = node.targets
        value = self.visit(node.value)
        if not isinstance(target, ast.Name):
            self._assign(self._read(target), value)
        elif target.id not in self.source.assigned_again:
            self._known[target.id] = self._hold(value, target.id)
        else:
            self._assign(self._find_variable(target.id), value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        symbol, _ = _OPERATORS[type(node.op)]
        self._written.append(f"{self._read(node.target)} {symbol}= {self._read(node.value)}")

    def visit_If(self, node: ast.If) -> None:
        test = self.visit(node.test)
        if not is_code(test):
            self._expand_here(node.body if test else node.orelse)
            return
        body, orelse = self.expand_block(node.body), self.expand_block(node.orelse)
        if body or orelse:
            self._written += [f"if {test}:", *indent(body or ["pass"])]
        if orelse:
            self._written += ["else:", *indent(orelse)]

    def visit_For(self, node: ast.For) -> None:
        for item in self.visit(node.iter):
            self._unpack(node.target, item)
            self._expand_here(node.body)
            if self._has_returned():
                return

    def visit_Try(self, node: ast.Try) -> None:
        self._written += ["try:", *indent(self.expand_block(node.body))]
        for one in node.handlers:
            if one.type is not None:
                self._written += [f"except {self._read(one.type)}:", *indent(self.expand_block(one.body))]

    def _assign(self, target: Any, value: Any) -> None:
        self._written.append(f"{target} = {self._to_code(value)}")

    def _find_variable(self, name: str) -> Any:
        """The variable behind a name that is assigned more than once."""
        held = self._known.get(name)
        if is_code(held):
            return held
        if name not in self._variables:
            self._variables[name] = variable = self._names.make_variable(name)
            self._names.shared.add(variable)
        return self._variables[name]

    def _hold(self, value: Any, hint: str) -> Any:
        """A value that may be used several times: code is run once, and its result held in a variable."""
        if _is_sequence(value):
            return [self._hold(item, hint) for item in value]
        if not is_code(value) or value.isidentifier():
            return value
        variable = self._names.make_variable(hint)
        self._assign(variable, value)
        return variable

    def _unpack(self, target: ast.expr, item: Any) -> None:
        if isinstance(target, ast.Tuple):
            for one, part in zip(target.elts, item, strict=True):
                self._unpack(one, part)
        elif isinstance(target, ast.Name):
            self._known[target.id] = self._hold(item, target.id)

    # Expressions ------------------------------------------------------------------------------------------

    def _read(self, node: ast.expr) -> Any:
        """The code of an expression."""
        return self._to_code(self.visit(node), _hint(node))

    def _to_code(self, value: Any, hint: str = "value") -> Code:
        if is_code(value):
            return value
        if _is_sequence(value):
            items = [self._to_code(item, hint) for item in value]
            return Code(f"({', '.join(items)}{',' if len(items) == 1 else ''})")
        return self._names.refer(value, hint)

    def _enclose(self, value: Any, level: int = 0, hint: str = "value") -> str:
        """The text of an operand of an operator."""
        return _enclose(self._to_code(value, hint), level)

    def visit_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def visit_Name(self, node: ast.Name) -> Any:
        name = node.id
        if name in self._known:
            return self._known[name]
        if name in self._variables:
            return self._variables[name]
        found = self._find_global(name)
        return found if found.__class__ in (bool, int) else self._names.refer(found, name)

    def _find_global(self, name: str) -> Any:
        scope = self.source.scope
        return scope[name] if name in scope else getattr(builtins, name)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        value = self.visit(node.value)
        return Code(f"{_enclose(value, 0)}.{node.attr}") if is_code(value) else getattr(value, node.attr)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        value = self.visit(node.value)
        index = self.visit(node.slice)
        if is_code(value) or is_code(index):
            return Code(f"{self._enclose(value)}[{self._to_code(index)}]")
        return value[index]

    def visit_Slice(self, node: ast.Slice) -> slice:
        return slice(None if node.lower is None else self.visit(node.lower), None)

    def visit_Starred(self, node: ast.Starred) -> Any:
        return Code(f"*{self._enclose(self.visit(node.value))}")

    def visit_Tuple(self, node: ast.Tuple | ast.List) -> Any:
        return self._list_items(node.elts)

    visit_List = visit_Tuple  # noqa: N815  ast names it so

    def _list_items(self, nodes: Sequence[ast.expr]) -> list[Any]:
        items: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                items.extend(self.visit(node.value))
            else:
                items.append(self.visit(node))
        return items

    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> list[Any]:
        known = dict(self._known)
        items: list[Any] = []
        self._unroll(node.elt, node.generators, items)
        self._known = known
        return items

    visit_GeneratorExp = visit_ListComp  # noqa: N815  ast names it so

    def _unroll(self, element: ast.expr, loops: Sequence[ast.comprehension], items: list[Any]) -> None:
        if not loops:
            items.append(self.visit(element))
            return
        for item in self.visit(loops[0].iter):
            self._unpack(loops[0].target, item)
            if all(map(self._decide, loops[0].ifs)):
                self._unroll(element, loops[1:], items)

    def _decide(self, test: ast.expr) -> Any:
        value = self.visit(test)
        if is_code(value):
            raise ValueError(f"The condition '{ast.unparse(test)}' of a comprehension is not known.")
        return value

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        first, *others = node.values
        return _join(node.op, [self.visit(first), *map(self._visit_part, others)])

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        test = self.visit(node.test)
        if not is_code(test):
            return self.visit(node.body if test else node.orelse)
        body, orelse = map(self._visit_part, (node.body, node.orelse))
        return Code(
            f"{self._enclose(body, _OR)} if {_enclose(test, _OR)} else {self._to_code(orelse)}", _CONDITIONAL
        )

    def _visit_part(self, node: ast.expr) -> Any:
        """The value of an expression that may not be evaluated: no statement may stand before it."""
        count = len(self._written)
        value = self.visit(node)
        if len(self._written) > count:
            raise ValueError(f"A call in a branch needs statements. Got {ast.unparse(node)}.")
        return value

    def visit_Compare(self, node: ast.Compare) -> Any:
        (op,), (right,) = node.ops, node.comparators
        values = self.visit(node.left), self.visit(right)
        if isinstance(op, ast.In) and values[0] is None and _is_sequence(values[1]):
            codes = filter(is_code, values[1])
            tests = [Code(f"{_enclose(one, _ARITHMETIC)} is None", _COMPARISON) for one in codes]
            return None in values[1] or _join(ast.Or(), tests)
        return self._operate(op, values, _COMPARISON, _hint(right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self.visit(node.operand)
        return Code(f"not {_enclose(value, _NOT)}", _NOT) if is_code(value) else not value

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return self._operate(node.op, (self.visit(node.left), self.visit(node.right)), _ARITHMETIC)

    def _operate(self, op: ast.AST, values: tuple[Any, Any], level: int, hint: str = "value") -> Any:
        symbol, operate = _OPERATORS[type(op)]
        if not any(map(is_code, values)):
            return operate(*values)
        left, right = self._enclose(values[0], level - 1), self._enclose(values[1], level - 1, hint)
        return Code(f"{left} {symbol} {right}", level)

    def visit_Call(self, node: ast.Call) -> Any:
        callee = self._find_callee(node.func)
        if callee in INLINED:
            return self._inline(callee, node)
        arguments, named = self._visit_arguments(node)
        if callee in (all, any):
            return _join(ast.And() if callee is all else ast.Or(), arguments[0])
        if isinstance(callee, operator.itemgetter) and _is_sequence(arguments[0]):
            return list(callee(arguments[0]))
        if callee is len and not is_code(arguments[0]):
            return len(arguments[0])
        if callee in _LISTED and not any(map(is_code, arguments)):
            return list(callee(*arguments, **named))
        given = [
            *map(self._to_code, arguments),
            *[f"{name}={self._to_code(value, name)}" for name, value in named.items()],
        ]
        return Code(f"{self._enclose(self.visit(node.func), hint=_hint(node.func))}({', '.join(given)})")

    def _find_callee(self, node: ast.expr) -> Any:
        """The function that a call runs; None where that is not known."""
        if isinstance(node, ast.Name):
            callee = self._known[node.id] if node.id in self._known else self._find_global(node.id)
        else:
            callee = self.visit(node) if isinstance(node, ast.Attribute) else None
        return None if is_code(callee) else callee

    def _visit_arguments(self, call: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        named = {one.arg: self.visit(one.value) for one in call.keywords if one.arg is not None}
        return self._list_items(call.args), named

    def _inline(self, function: Any, call: ast.Call, *, is_returned: bool = False) -> Any:
        """Writes the statements of a marked function, and returns its value or writes that it is returned."""
        source = _read(function)
        arguments, named = self._visit_arguments(call)
        given = dict(zip(source.parameters, arguments, strict=False)) | named
        known = {name: self._hold(value, name) for name, value in given.items()}
        inner = _Expander(source, known, self._names)
        inner._written = self._written
        *first, last = source.body
        result = last.value if isinstance(last, ast.Return) else None
        if not (source.returns_last or (is_returned and result is not None)):
            raise ValueError(f"{function.__name__} is called where it must return in its last line.")
        is_complete = result is None or (is_returned and ast.unparse(result) != "None")
        inner._expand_here(source.body if is_complete else first)
        return None if is_returned or result is None else inner.visit(result)


def _join(op: ast.boolop, values: Sequence[Any]) -> Any:
    """``and`` or ``or`` of values, without those that are known."""
    decisive = isinstance(op, ast.Or)
    codes = [value for value in values if is_code(value)]
    if any(bool(value) is decisive for value in values if not is_code(value)):
        return decisive
    if len(codes) < 2:
        return codes[0] if codes else not decisive
    word, level = ("or", _OR) if decisive else ("and", _AND)
    return Code(f" {word} ".join(_enclose(one, level - 1) for one in codes), level)
