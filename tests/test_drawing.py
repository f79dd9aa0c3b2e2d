"""Pictures of the site: charts, the values of examples, tabs, and the entries of the built-in ops."""

import re

import mpmath
import numpy as np
import pytest

from docs.drawing import ops_pages
from docs.drawing.flowchart import draw_chart, read_chart
from docs.drawing.ops_pages import write_entry
from docs.drawing.pictures import draw_pictures, follow_theme, set_tabs
from tests.documents import find_pages, read_examples

CHART = 'flowchart TB\n  a["first<br>more"]:::custom --> b(["round"])\n  a -.->|"a text"| c["third"]'


def test_a_chart_has_its_boxes_and_arrows():
    chart = read_chart(CHART)
    assert {name: box.lines for name, box in chart.boxes.items()} == {
        "a": ["first", "more"],
        "b": ["round"],
        "a to c": ["a text"],
        "c": ["third"],
    }
    assert chart.arrows == {("a", "b"): False, ("a", "a to c"): True, ("a to c", "c"): True}
    assert (chart.boxes["a"].kind, chart.boxes["b"].is_round) == ("custom", True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("graph LR\n a --> b", "'graph LR'"),
        ("flowchart TB\n --> b", "a box is expected"),
        ('flowchart TB\n a["x"] b["y"]', "an arrow is expected"),
    ],
)
def test_a_chart_that_cannot_be_read_raises(text, found):
    with pytest.raises(ValueError, match=found):
        read_chart(text)


def test_the_boxes_of_a_chart_do_not_overlap_and_are_inside():
    svg = draw_chart(CHART)
    width, height = map(float, re.search(r'viewBox="\S+ \S+ (\S+) (\S+)"', svg).groups())
    boxes = [
        tuple(map(float, found))
        for found in re.findall(r'class="box" x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)"', svg)
    ]
    assert len(boxes) == 3
    for number, (x, y, wide, high) in enumerate(boxes):
        assert -10 <= x <= x + wide <= width - 10
        assert -10 <= y <= y + high <= height - 10
        for left, top, breadth, depth in boxes[:number]:
            assert x >= left + breadth or left >= x + wide or y >= top + depth or top >= y + high


BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHARTS = [(page.name, code) for page in find_pages() for code in BLOCK.findall(page.read_text())]


@pytest.mark.parametrize(("page", "code"), CHARTS, ids=[page for page, _ in CHARTS])
def test_each_chart_of_a_page_has_all_its_boxes(page, code):
    boxes = [box for box in read_chart(code).boxes.values() if box.kind != "text"]
    assert draw_chart(code).count('class="box"') == len(boxes) >= 2, page


def test_the_value_of_an_example_is_drawn_where_its_comment_stands():
    text = (
        "# Title\n\n```python\nclass A:\n    def _repr_html_(self):\n        return '<b>shown</b>'\n```\n\n"
        "<!-- picture: A() -->\n\nend\n"
    )
    drawn = draw_pictures(text, "page.md")
    assert '<div class="picture"><b>shown</b></div>' in drawn
    assert "<!--" not in drawn
    assert drawn.endswith("\nend\n")


def test_an_error_of_an_example_fails_the_build():
    with pytest.raises(ZeroDivisionError):
        draw_pictures("```python\n1 / 0\n```\n<!-- picture: 1 -->\n", "page.md")


def test_pictures_have_other_colours_in_a_dark_theme():
    light, dark = re.findall(r'data-theme="\w+"\] .oplib-graph\{(--paper:[^;]*);', follow_theme())
    assert light != dark


def test_programs_side_by_side_become_tabs():
    text = "<table><tr><th>JAX</th><th>oplib</th></tr><tr><td>\n\na\n\n</td><td>\n\nb\n\n</td></tr></table>\n"
    assert re.findall(r"\{tab-item\} (\w+)", set_tabs(text)) == ["JAX", "oplib"]
    assert "<td>" not in set_tabs(text)


def test_the_entry_of_an_op_shows_shapes_and_what_its_example_returns():
    entry = write_entry("oplib.special.erfcx", "special_erfcx")
    assert "``f32[3] -> f32[3]``" in entry
    example = re.search(
        r">>> x = oplib.tensor\((.*)\)\n\s+>>> oplib.special.erfcx\(x\)\n\s+tensor\((.*)\)", entry
    )
    given, shown = ([float(number) for number in re.findall(r"-?[\d.]+", text)] for text in example.groups())
    due = [float(mpmath.exp(x * x) * mpmath.erfc(x)) for x in given]
    np.testing.assert_allclose(shown, due, atol=1e-4)


def test_the_entry_of_a_function_of_several_ops_shows_the_shapes_of_calls_that_have_run():
    assert "``f32[2,3] -> f32[2,2]``" in write_entry("oplib.cov")
    assert "``f32[1,2,2] -> f32[1,1,1]``" in write_entry(
        "oplib.nn.functional.max_pool2d", others=["oplib.max_pool2d"]
    )


def test_the_shapes_of_a_function_that_reads_values_are_those_of_a_run():
    assert "``i32[3] -> i32[2]``" in write_entry("oplib.nonzero")


def test_the_entry_of_an_op_with_an_example_has_no_second_one():
    entry = write_entry("oplib.poisson", "poisson")
    assert ">>>" not in entry
    assert "``f32[3,4] -> f32[3,4]``" in entry


def test_each_public_function_of_an_op_has_one_entry(monkeypatch, tmp_path):
    entries: list[str] = []
    monkeypatch.setattr(ops_pages, "write_entry", lambda path, *_, **__: entries.append(path) or "")
    ops_pages.write_ops_pages(tmp_path)
    assert len(entries) == len(set(entries)) > 490
    assert {"oplib.cov", "oplib.linalg.inv", "oplib.nn.functional.unfold", "oplib.fft.fft2"} <= set(entries)
    assert "oplib.unfold" not in entries


def test_a_block_of_a_notebook_does_not_hide_the_example_after_it():
    text = "```{code-cell}\n1\n```\n\n```python\nprint(2)\n```\n\n```text\n2\n```\n"
    assert [example.output for example in read_examples(text)] == ["2\n"]
