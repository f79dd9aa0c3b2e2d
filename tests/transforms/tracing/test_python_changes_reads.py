"""What code reads of a place that it changes; what it only writes is a log, and stays a side effect."""

from types import SimpleNamespace

import pytest

from oplib.transforms.tracing.python_changes import UsesOfCode

READS = {
    "a value": "y = @",
    "a sum": "y = @ + 1",
    "an argument": "y = len(@)",
    "a product that is stored again": "@ = @ * 2",
    "an item": "y = @[0]",
    "an item by a name": "y = @[k]",
    "a slice": "y = @[1:]",
    "an attribute": "y = @.n",
    "a result of a method": "y = @.copy()",
    "what a method takes out": "@.pop()",
    "the order": "@.reverse()",
    "a key": "other[@] = 0",
    "a part of a key": "other[1 + @] = 0",
    "a key of a count": "other[@] += 1",
    "what is added": "y = 1; y += @",
    "what is added to an item": "other[0] += @",
    "what is stored": "other[0] = @",
    "what is appended": "other.append(@)",
    "what is appended to an item": "@[0].append(1)",
    "an entry that is deleted": "del @[0]",
    "an iteration": "y = [one for one in @]",
    "a condition": "y = 1 if @ else 2",
    "what is written and read": "@.append(1); y = @[0]",
    "an inner function": "y = lambda: @",
}
WRITES = {
    "an assignment": "@ = 1",
    "append": "@.append(1)",
    "extend": "@.extend(other)",
    "update": "@.update(n=1)",
    "insert": "@.insert(0, k)",
    "an item": "@[0] = 1",
    "an item by a name": "@[k] = 1",
    "an entry": "@['k'] = k",
    "a count": "@ += 1",
    "a product": "@ *= k",
    "a count in an item": "@[0] += 1",
    "a count under a name": "@[k] -= 1",
    "several": "@.append(1); @[k] = 2; @ += 3",
    "an inner function": "y = lambda: @.append(1)",
}
PLACES = {"global": "place", "closure": "held", "attribute": "kept.place"}


def reads(statements, place, keys=frozenset()):
    """Returns whether the code of a function of some statements reads a place."""
    name = PLACES[place]
    declared = "global place" if place == "global" else "nonlocal held"
    lines = "".join(f"        {line}\n" for line in (declared, *statements.replace("@", name).split("; ")))
    spaces = {}
    exec(f"def make(held, kept, other, k):\n    def step():\n{lines}    return step\n", spaces)
    path = SimpleNamespace(value=spaces["make"](0, 0, 0, 0), again=[], is_reachable=True)
    names = SimpleNamespace(is_dynamic=False)
    uses = UsesOfCode(SimpleNamespace(containers=[path], names=names))
    return uses.read_name(name.rpartition(".")[2], frozenset(keys))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", READS)
def test_code_that_needs_the_value_of_a_place_reads_it(name, place):
    assert reads(READS[name], place)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", WRITES)
def test_code_that_only_writes_a_place_does_not_read_it(name, place):
    assert not reads(WRITES[name], place)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("statement", "changed", "expected"),
    [
        ("y = @['a']", ["a"], True),
        ("y = @['a']", ["b"], False),
        ("y = @[0]", [0, 1], True),
        ("y = @[0]", [1], False),
        ("y = @[-1]", [1], True),  # it may be the one
        ("y = @[0:1]", [1], True),
        ("y = @[k]", ["b"], True),
        ("y = @[1.0]", [1], True),
        ("@['a'].append(1)", ["b"], False),
        ("y = @['a'] + @['b']", ["b"], True),
        ("y = @", ["b"], True),
        ("y = 'a' in @", ["b"], True),
    ],
)
def test_of_a_container_code_reads_the_keys_that_it_names(statement, changed, expected, place):
    assert reads(statement, place, changed) is expected
