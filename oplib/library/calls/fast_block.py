"""The text of the short cut for one overload: what generated code does once the arguments have names."""

from __future__ import annotations

import itertools

from oplib.autograd.recording.record_pattern import Pattern
from oplib.library.carrier.specialization import MAX_CHOSEN
from oplib.library.records.record import Record
from oplib.library.schema import Argument

from .derived_view import gives_views
from .fast_key import FastKey


class FastBlock:
    """The lines that serve the calls of one overload which need no care; others fall through to what follows.

    What the lines refer to is named after ``number``, since one function may hold the blocks of several
    overloads; the names are filled in by :mod:`.fast_path`.

    Args:
        record: of the op.
        number: of this block in its function.
        names: of the variables that hold the arguments, if they are not called as in the schema.

    Attributes:
        key: how the specialization of a call is found.
        pairs: the arguments with their names.
        operands: those of them that are numbers and change at every call.
        patterns: in which ways calls have been recorded, for each of which there are lines.
    """

    def __init__(self, record: Record, number: int = 0, names: list[str] | None = None) -> None:
        self.key = FastKey(record, names)
        self.number = number
        self.is_single = len(record.schema.returns) == 1
        self.records = record.derivative.constant is None
        self.is_view = gives_views(record)
        self.pairs: list[tuple[str, Argument]] = list(
            zip(self.key.names, record.schema.arguments, strict=True)
        )
        self.operands = [(name, argument) for name, argument in self.pairs if argument.name in record.operand]
        self.patterns: list[Pattern] = []

    def lines(self) -> list[str]:
        """Returns the lines: one part for each way in which optional tensors are there or not."""
        lines = [line for name, argument in self.operands for line in _operand_lines(name, argument)]
        for present in itertools.product((True, False), repeat=len(self.key.optionals)):
            absent = {name for name, there in zip(self.key.optionals, present, strict=True) if not there}
            tests = [f"{name} is {'None' if name in absent else 'not None'}" for name in self.key.optionals]
            part = _Part(self, absent).lines()
            lines += [f"if {' and '.join(tests)}:", *_indent(part)] if tests else part
        return lines


class _Part:
    """The lines for the calls in which just these arguments are arrays.

    Args:
        block: of the overload.
        absent: the optional tensors that are None.
    """

    def __init__(self, block: FastBlock, absent: set[str]) -> None:
        self.block = block
        self.absent = absent
        # What is an array in the call: its expression among Tensors, and the tensor behind it or None.
        self.flat: list[tuple[str, str | None]] = [
            (f"{name}._storage.array", name) if argument.has_tensor else (f"__o_{name}", None)
            for name, argument in block.pairs
            if (argument.has_tensor and name not in absent) or (name, argument) in block.operands
        ]
        self.names = [name for _, name in self.flat]
        self.tensors = [name for name in self.names if name is not None]

    def lines(self) -> list[str]:
        if self.block.is_view:  # of Tensors the complete path makes views
            arrays = self._all("{}.__class__ in __array_types")
            return [
                *self._find_lines(),
                f"if __s is not None and __config.compile_kernels and {arrays}:",
                f"    return {self._run_arrays()}",
            ]
        return [
            *self._find_lines(),
            "if __s is not None and __config.compile_kernels:",
            f"    if {self._all('{}.__class__ is __Tensor')}:",
            "        __m = __modes.state",
            "        if not __m.watchers:",
            *_indent(self._record_lines() if self.block.records else [], 3),
            f"            {self._run_line()}",
            f"    elif {self._all('{}.__class__ in __array_types')}:",
            f"        return {self._run_arrays()}",
        ]

    def _find_lines(self) -> list[str]:
        """What cannot stand in a key is for the complete path; where nothing is fixed, all calls have one."""
        key = self.block.key
        find = f"__s = __find{self.block.number}({key.spell(self.absent)})"
        return [f"try: {find}", "except (TypeError, ValueError): __s = None"] if key.fixed else [find]

    def _all(self, test: str) -> str:
        operands = [f"__o_{name} is not None" for name, _ in self.block.operands]
        test = test.replace("__array_types", f"__array_types{self.block.number}")
        return " and ".join([*(test.format(name) for name in self.tensors), *operands])

    def _run_line(self) -> str:
        read = ", ".join(expression for expression, _ in self.flat)
        if self.block.is_single:
            return (
                f"__o = __new(__Storage); __o.array = __s.run_one({read}); __o.version = 0; "
                f"__t = __new(__Tensor); __t._storage = __o; return __t"
            )
        return f"return tuple([__box(__o) for __o in __s.run({read})[1]])"

    def _run_arrays(self) -> str:
        arrays = ", ".join(expression if name is None else name for expression, name in self.flat)
        return f"__s.run_one({arrays})" if self.block.is_single else f"__s.run({arrays})[1]"

    def _record_lines(self) -> list[str]:
        """The hot path of training: everything that ``record`` does, spelled out for what is known."""
        lines = self._record_one_lines() if self.block.is_single else self._record_several_lines()
        return [
            *[f"__q_{name} = {name}._requires_grad" for name in self.tensors],
            f"if ({' or '.join(f'__q_{name}' for name in self.tensors)}) and __m.grad_enabled:",
            f"    __r = {self._recorder()}",
            *_indent(lines),
        ]

    def _recorder(self) -> str:
        """The recorder for who requires grad: of few arrays an attribute, which needs no key to be made."""
        if len(self.names) <= MAX_CHOSEN:
            return _choose([(place, name) for place, name in enumerate(self.names) if name is not None])
        wanted = ", ".join("False" if name is None else f"__q_{name}" for name in self.names)
        return f"__s.recorders[({wanted},)]"

    def _record_several_lines(self) -> list[str]:
        read = ", ".join(expression for expression, _ in self.flat)
        node_class = f"__node_class{self.block.number}"
        return [
            f"__a = ({read},)",
            f"return tuple(__record({node_class}, __r(*__a), ({self._boxes()}), __a))",
        ]

    def _boxes(self) -> str:
        return "".join(f"{name}, " for name in self.names)

    def _record_one_lines(self) -> list[str]:
        arrays = "".join(f"__a{place}, " for place in range(len(self.flat)))
        reads = [
            f"__a{place} = {expression}"
            if name is None
            else f"__s{place} = {name}._storage; __a{place} = __s{place}.array"
            for place, (expression, name) in enumerate(self.flat)
        ]
        number = self.block.number
        lines = [*reads, f"__r = __r({arrays})", "__p = __r[0]", "__k = __p.pattern"]
        for place, pattern in enumerate(self.block.patterns):
            if len(pattern.wanted) == len(self.flat):  # else it is one of another part
                lines += [f"if __k is __k{number}_{place}:", *_indent(self._pattern_lines(pattern))]
        return [*lines, f"return __learn{number}(__r, ({self._boxes()}), ({arrays}))"]

    def _pattern_lines(self, pattern: Pattern) -> list[str]:
        """Records a call as one that was recorded before; the result is in ``__r``, its plan in ``__p``."""
        lines = [
            "__o = __new(__Storage); __o.array = __x = __r[1]; __o.version = 0",
            "__t = __new(__Tensor); __t._storage = __o",
        ]
        if not pattern.differentiable:
            return [*lines, "return __t"]
        return [
            *lines,
            f"__t._requires_grad = True; __t._grad_fn = __n = __new(__node_class{self.block.number})",
            "__n.plan = __p",
            *self._edge_lines(pattern),
            "__n.sequence_nr = __m.sequence_nr; __m.sequence_nr += 1",
            "if __m.locations: __note(__n)",
            *self._save_lines(pattern),
            "return __t",
        ]

    def _edge_lines(self, pattern: Pattern) -> list[str]:
        """The edges; of a leaf the leaf itself, of which the node makes an edge when it is looked at."""
        pairs = zip(self.names, pattern.wanted, strict=True)
        names = {place: name for place, (name, want) in enumerate(pairs) if want}
        leaves = [f"__g{place} is None" for place in names]
        edges = ["None"] * len(pattern.wanted)
        inputs = list(edges)
        for place, name in names.items():
            edges[place] = f"(__g{place}, {name}._output_nr)"
            inputs[place] = f"{name} if __g{place} is None else {edges[place]}"
        return [
            *[f"__g{place} = {name}._grad_fn" for place, name in names.items()],
            f"if {' or '.join(leaves)}: __n.inputs = ({', '.join(inputs)},)",
            f"else: __n.edges = ({', '.join(edges)},)",
        ]

    def _save_lines(self, pattern: Pattern) -> list[str]:
        if not pattern.sources:
            return []
        count = len(self.flat)
        values = [f"__a{source}" if source < count else "__x" for source in pattern.sources]
        storages = ["__o" if source == count else self._storage(source) for source in pattern.sources]
        versions = [
            f"__s{source}.version" if source < count and self.names[source] is not None else "0"
            for source in pattern.sources
        ]
        written = [version for version in versions if version != "0"]
        note = f"if {' or '.join(written)}: __n.versions = ({', '.join(versions)},)"
        return [f"__n.saved = ({', '.join(values + storages)},)", *([note] if written else [])]

    def _storage(self, place: int) -> str:
        return "__nobody" if self.names[place] is None else f"__s{place}"


def _choose(asked: list[tuple[int, str]], bits: int = 0) -> str:
    """The expression of one of the recorders that are attributes; one of the tensors asked requires grad."""
    if not asked:
        return f"__s.record{bits}"
    (place, name), *rest = asked
    yes = _choose(rest, bits | 1 << place)
    return f"({yes} if __q_{name} else {_choose(rest, bits)})" if rest or bits else yes


def _indent(lines: list[str], depth: int = 1) -> list[str]:
    return [f"{'    ' * depth}{line}" for line in lines]


def _operand_lines(name: str, argument: Argument) -> list[str]:
    """The array of a number; None where the complete path has to look at it."""
    kind = str(argument.type)
    kinds = (kind,) if kind in ("float", "int") else ("float", "int")
    return [
        f"if {' or '.join(f'{name}.__class__ is {one}' for one in kinds)}:",
        f"    __o_{name} = __numbers[__x64.value][{name}.__class__].get({name})",
        f"    if __o_{name} is None: __o_{name} = __to_operand({name})",
        f"else: __o_{name} = None",
    ]
