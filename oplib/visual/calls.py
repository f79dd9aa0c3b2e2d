"""The calls of a recording: which function called which, read from the lines of nodes and from bytecode.

A node knows the instruction that recorded it, and not the frames below it, which would cost every call. Nodes
of one function belong to one call as long as its instructions go on, and what was recorded between them is
inside of the call. What a function calls before its first node or after its last one is told by the names
that its bytecode calls there.
"""

from __future__ import annotations

import dis
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import CodeType
from typing import TypeAlias

from oplib.frozen import frozen
from oplib.tensor import Tensor

from .records import NodeRecord

Item: TypeAlias = "NodeRecord | UserCall"
_METHODS = ("__call__", "forward", "<lambda>")  # the code that calls them does not say these names


@dataclass(slots=True, eq=False)
class UserCall:
    """A call of a function of the user.

    Attributes:
        code: of the function; None if it is not known, and around all calls.
        items: its nodes and calls, in the order of recording.
        first: the offset of the instruction that recorded its first node.
        last: likewise of the last node.
        end: the place of the last node in the recording.
    """

    code: CodeType | None
    items: list[Item]
    first: int
    last: int
    end: int = 0


def find_calls(nodes: Sequence[NodeRecord]) -> list[Item]:
    """Returns the nodes and calls that no call is around.

    Args:
        nodes: in the order of recording, without leaves.
    """
    root, around = UserCall(None, [], 0, 0, len(nodes)), list[UserCall]()
    calls = _cut(nodes)
    for place, (node, call) in enumerate(zip(nodes, calls, strict=True)):
        while around and around[-1].end < place:
            around.pop()
        if not call.items:
            (around[-1] if around else root).items.append(call)
            around.append(call)
        call.items.append(node)
    for code in _sort(calls):
        _adopt(root, code)
    return root.items


def _cut(nodes: Sequence[NodeRecord]) -> list[UserCall]:
    """Returns the call of each node."""
    opened: dict[CodeType | None, UserCall] = {}  # a call that goes on ends those that began in it
    calls: list[UserCall] = []
    for place, node in enumerate(nodes):
        code, offset = node.location or (None, 0)
        call = opened.get(code)
        if call is not None and _goes_on(call, offset, calls[-1]):
            while next(reversed(opened)) is not code:
                opened.popitem()
        else:
            opened.pop(code, None)
            call = opened[code] = UserCall(code, [], offset, offset)
        call.last, call.end = offset, place
        calls.append(call)
    return calls


def _goes_on(call: UserCall, offset: int, before: UserCall) -> bool:
    """Whether an instruction can follow the last one of a call, after those of the call before."""
    code = call.code
    if code is None:
        return True
    body = _read_body(code)
    if offset == call.last and before.code in code.co_consts:
        return True  # such as `sum` of a generator
    if before is call:
        return body.leads(call.last, offset)
    return any(
        site.is_open and body.leads(call.last, site.offset) and body.leads(site.offset, offset)
        for site in body.sites
    )


def _sort(calls: Sequence[UserCall]) -> list[CodeType]:
    """Sorts functions: each follows those that it calls by name, and those of which a call ended before."""
    ends: dict[CodeType, int] = {}
    for call in calls:
        if call.code is not None:
            ends.setdefault(call.code, call.end)
    known = sorted(ends, key=lambda code: ends[code])
    order: dict[CodeType, None] = {}
    seen: set[CodeType] = set()

    def visit(code: CodeType) -> None:
        names = {site.name for site in _read_body(code).sites}
        if code not in seen:
            seen.add(code)
            for other in known:
                if other.co_name in names:
                    visit(other)
            order[code] = None

    for code in known:
        visit(code)
    return list(order)


def _adopt(parent: UserCall, code: CodeType) -> None:
    """Moves into the calls of a function the calls beside them that it can have made."""
    found: list[Item] = []
    ahead = parent.items[::-1]
    while ahead:
        item = ahead.pop()
        if isinstance(item, UserCall):
            _adopt(item, code)
            if item.code is code:
                item.items[:0] = _take(code, found, item.first, is_before=True)[::-1]
                item.items += _take(code, ahead, item.last, is_before=False)
        found.append(item)
    parent.items = found


def _take(code: CodeType, beside: list[Item], offset: int, *, is_before: bool) -> list[Item]:
    """Takes calls off a list as long as a function can have made them before or after an instruction."""
    taken: list[Item] = []
    body = _read_body(code)
    while beside and isinstance(callee := beside[-1], UserCall) and callee.code not in (None, code):
        offsets = [
            site.offset
            for site in body.sites
            if _fits(code, site, callee.code)
            and (body.leads(site.offset, offset) if is_before else body.leads(offset, site.offset))
        ]
        if not offsets:
            break
        offset = min(offsets, key=lambda one: abs(one - offset))
        taken.append(beside.pop())
    return taken


@frozen
class _Site:
    """An instruction that calls: its offset, the name of what it calls, and whether that can be a user's."""

    offset: int
    name: str
    is_open: bool


@frozen
class _Body:
    """The calls of a function, and the first and last offsets of its loops."""

    sites: Sequence[_Site]
    loops: Sequence[tuple[int, int]]

    def leads(self, start: int, to: int) -> bool:
        """Whether an instruction can follow another one."""
        return start < to or any(first <= to and start <= last for first, last in self.loops)


@lru_cache(maxsize=1024)
def _read_body(code: CodeType) -> _Body:
    sites: list[_Site] = []
    loops: list[tuple[int, int]] = []
    called: dict[object, tuple[str, bool]] = {}  # what was last loaded, by the place where it begins
    for step in dis.get_instructions(code):
        at, name, value = step.positions and step.positions[::2], step.opname, step.argval
        if isinstance(value, CodeType) and value.co_name.startswith("<"):  # a generator or a lambda
            inner = [replace(site, offset=step.offset) for site in _read_body(value).sites]
            sites += [*inner, _Site(step.offset, value.co_name, is_open=True)]
            loops.append((step.offset, step.offset))
        elif name.startswith(("JUMP_BACKWARD", "UNPACK")):  # an unpacked Tensor records a node for each item
            loops.append((step.offset if name.startswith("UNPACK") else step.argval, step.offset))
        elif name == "LOAD_CONST" and value is None:  # the call of an `__exit__` begins so
            called.pop(at, None)
        elif name.startswith("LOAD_") and isinstance(value, str):
            is_method = "ATTR" in name or "METHOD" in name
            of_tensor = is_method and hasattr(Tensor, value) and called.get(at, ("",))[0] != "self"
            is_known = is_method or "FAST" not in name or value == "self"
            called[at] = value if is_known else "", not of_tensor
        elif "SUBSCR" in name:
            called[at] = "", True
        elif name.startswith("CALL") and at in called:
            sites.append(_Site(step.offset, *called[at]))
            called[at] = "", True
    return _Body(sites, loops)


def _fits(code: CodeType, site: _Site, callee: CodeType) -> bool:
    """Whether an instruction of a function can call another function."""
    if site.name in ("", callee.co_name) or (callee.co_name in _METHODS and site.is_open):
        return True
    is_named = callee.co_name in (*code.co_names, *code.co_freevars)  # given to what is called
    return is_named and site.is_open and all(one.name != callee.co_name for one in _read_body(code).sites)
