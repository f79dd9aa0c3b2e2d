"""What a person looks for on the pages of graphs of real size, read from the data that their script draws."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oplib.visual import Graph

PAGE = Path(__file__).parents[2] / "docs/gallery/graphs.md"


@pytest.fixture(scope="module")
def graphs() -> dict[str, Graph]:
    names: dict[str, Any] = {"__name__": "__main__"}
    for code in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(code, PAGE.name, "exec"), names)
    return {name: names[name] for name in ("transformer", "chain", "recurrent")}


def read_data(graph: Graph) -> dict[str, Any]:
    (text,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', graph.html())
    return json.loads(text.replace("<\\/", "</"))


def list_parts(level: dict[str, Any], depth: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    for part in level["parts"]:
        yield depth, part
        if "title" in part and part["level"]:
            yield from list_parts(part["level"], depth + 1)


def list_titles(data: dict[str, Any]) -> list[tuple[int, str, bool]]:
    return [
        (depth, part["title"], part["open"]) for depth, part in list_parts(data["level"]) if "title" in part
    ]


def test_a_transformer_is_one_box_of_twelve_layers_with_its_calls_inside(graphs: dict[str, Graph]) -> None:
    data = read_data(graphs["transformer"])
    assert [(depth, title) for depth, title, _ in list_titles(data)] == [
        (0, "block() ×12"),
        (1, "norm[0]"),
        (1, "attention()"),
        (1, "norm[1]"),
        (1, "mlp()"),
    ]


@pytest.mark.parametrize(("name", "title"), [("chain", "gate() ×150"), ("recurrent", "step() ×200")])
def test_repeated_calls_are_one_open_box_with_one_call(
    graphs: dict[str, Graph], name: str, title: str
) -> None:
    data = read_data(graphs[name])
    assert list_titles(data) == [(0, title, True)]
    (box,) = [part for _, part in list_parts(data["level"]) if "title" in part]
    turns = int(title.partition("×")[2])
    shown = {
        part["node"] for part in box["level"]["parts"] if data["nodes"][part["node"]]["kind"] == "built-in"
    }
    assert len(box["members"]) == turns * len(shown)
    assert shown == set(box["members"][-len(shown) :])


@pytest.mark.parametrize("name", ["transformer", "chain", "recurrent"])
def test_inputs_and_the_loss_are_seen_when_all_boxes_are_closed(graphs: dict[str, Graph], name: str) -> None:
    data = read_data(graphs[name])
    outside = [part for part in data["level"]["parts"] if "node" in part]
    assert any(part["node"] == 0 for part in outside)  # the loss
    closed = [part for part in data["level"]["parts"] if "title" in part]
    assert closed
    for box in closed:
        assert re.search(r"→ f32\[\d", box["note"])
    seen = " ".join(part.get("note", "") + part.get("body", "") for part in data["level"]["parts"])
    leaves = {node["op"] for node in data["nodes"] if node["kind"] == "parameter"}
    assert all(leaf in seen for leaf in leaves) or re.search(r"\d+ parameters", seen)


@pytest.mark.parametrize("name", ["transformer", "chain", "recurrent"])
def test_a_search_finds_op_parameter_line_shape_and_dtype_of_each_node(
    graphs: dict[str, Graph], name: str
) -> None:
    data = read_data(graphs[name])
    assert len(data["nodes"]) == len(graphs[name].nodes)
    for node in data["nodes"]:
        assert node["op"]
        assert all(re.fullmatch(r"f32\[[\d, ]*\]", shape) for shape in node["shapes"])
        assert node["kind"] == "parameter" or node["place"].startswith("graphs.md:")


@pytest.mark.parametrize("name", ["transformer", "chain", "recurrent"])
def test_the_page_and_the_picture_are_small(graphs: dict[str, Graph], name: str) -> None:
    assert len(graphs[name].html()) < 900_000
    assert len(graphs[name].svg()) < 60_000
    assert "genexpr" not in graphs[name].svg()
