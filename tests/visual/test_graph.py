"""``oplib.visual.graph``: its forms, its files, and its errors."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

import oplib
from oplib.errors import AutogradError, DataError, GradientTypeError
from oplib.visual import graph, graph_text


def penalty(h):
    length = (h * h).sum(dim=-1).sqrt()
    return (length - 1.0).square().mean()


def make_loss(rows=4):
    w = oplib.ones(3, 2, requires_grad=True)
    h = oplib.ones(rows, 3) @ w
    return h.sum() + penalty(h), w


def test_the_svg_is_xml_with_ops_shapes_bytes_lines_and_the_blocks_of_functions():
    loss, w = make_loss()
    text = graph(loss, {"w": w}).svg()
    root = ET.fromstring(text)
    words = ["".join(one.itertext()) for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "penalty()" in words
    assert {"sqrt", "f32[4, 2]", "32 B", "w"} <= set(words)
    assert any(word.startswith("test_graph.py:") for word in words)
    kinds = [one.get("class") for one in root.iter() if one.get("data-n")]
    assert kinds.count("node parameter") == 1


def test_a_custom_op_is_drawn_apart_from_built_in_ones(forget_ops):
    @oplib.custom_op("test_graph::double")
    def double(x: oplib.Tensor) -> oplib.Tensor:
        return x * 2

    double.register_autograd(lambda ctx, g: g * 2)
    x = oplib.ones(2, requires_grad=True)
    assert [(node.op, node.kind) for node in graph(double(x).exp()).nodes] == [
        ("exp", "built-in"),
        ("test_graph::double", "custom"),
        ("leaf1", "leaf"),
    ]


def test_str_is_the_text_of_the_graph_and_of_a_large_one_a_summary():
    loss, w = make_loss()
    assert str(graph(loss, {"w": w})) == graph_text(loss, params={"w": w})
    for _ in range(2_000):
        loss = loss + 1.0
    lines = str(graph(loss)).splitlines()
    assert lines[0].startswith("2010 nodes behind f32[], ")
    assert (
        lines[1].split()[0] == test_str_is_the_text_of_the_graph_and_of_a_large_one_a_summary.__name__ + "()"
    )


def test_a_graph_of_twenty_thousand_nodes_has_a_summary_and_a_picture():
    x = y = oplib.ones(1, requires_grad=True)
    for _ in range(10_000):
        y = y * 1.5
        y = y + x
    made = graph(y)
    (one,) = made.summary()
    assert (one.nodes, one.ops) == (20_000, (("mul", 10_000), ("add", 10_000)))
    assert len(made._repr_html_()) < 1_000_000


def test_the_html_of_a_hundred_nodes_is_small_and_holds_its_source_lines():
    x = y = oplib.ones(2, requires_grad=True)
    for _ in range(25):
        y = (y * x).sin() + y.cos()
    page = graph(y.sum(), {"x": x}, run=True).html()
    assert len(page.encode()) < 200_000
    assert "y = (y * x).sin() + y.cos()" in page


def test_a_loss_that_is_nan_names_the_call_that_finds_its_cause():
    x = oplib.tensor([-1.0, 4.0], requires_grad=True)
    cure = "loss nan: oplib.visual.first_nan(step) finds the call"
    bad, fine = graph(x.log().sum(), run=True), graph((x * 2).sum(), run=True)
    assert f"<b>{cure}</b>" in bad.html()
    assert str(bad).splitlines()[0] == cure
    assert "<b>loss 6</b>" in fine.html()
    assert "loss" not in str(fine)


def test_the_page_needs_no_network():
    page = graph(make_loss()[0]).html()
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\((?!#)| src=| href=", page)


def test_a_line_of_the_program_cannot_end_the_script_of_the_page():
    x = oplib.ones(2, requires_grad=True)
    y = x * 2.0  # </script><script>alert(1)</script>
    assert "</script><script>alert" not in graph(y.sum(), {"</script>&<b>": x}).html()


def test_dot_has_a_cluster_for_each_block_and_an_edge_for_each_input():
    loss, w = make_loss()
    made = graph(loss, {"w": w})
    text = made.dot()
    assert text.count("subgraph cluster_") == 1
    assert text.count(" -> ") == sum(target is not None for node in made.nodes for target, _ in node.edges)
    assert text.count(" [label=") == len(made.nodes)


@pytest.mark.parametrize("ending", [".html", ".svg", ".dot", ".txt"])
def test_a_file_gets_the_form_that_its_ending_names(tmp_path, ending):
    made = graph(make_loss()[0])
    path = made.save(tmp_path / f"a{ending}")
    wanted = {".html": made.html, ".svg": made.svg, ".dot": made.dot, ".txt": made.__str__}[ending]
    assert path.read_text(encoding="utf-8") == wanted()


def test_a_wrong_ending_and_a_path_that_cannot_be_written_are_errors(tmp_path):
    made = graph(make_loss()[0])
    with pytest.raises(ValueError, match=r"graph.save: the ending .* Got '.*a.png'. Choose one of .html"):
        made.save(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"graph.save: the file cannot be written. Got .*No such file"):
        made.save(tmp_path / "none" / "a.svg")
    (tmp_path / "b.svg").mkdir()
    with pytest.raises(DataError, match=r"graph.save: the file cannot be written. Got .*Is a directory"):
        made.save(tmp_path / "b.svg")


def test_a_tensor_without_a_history_is_an_error():
    with pytest.raises(
        AutogradError, match=r"graph: the tensor has no history. Got f32\[2\], which does not"
    ):
        graph(oplib.ones(2))
    with pytest.raises(AutogradError, match=r"Got f32\[2\], which is a leaf. Pass the result"):
        graph(oplib.ones(2, requires_grad=True))
    with pytest.raises(
        GradientTypeError, match=r"graph: 'loss' holds something that is no Tensor. Got float"
    ):
        graph(1.0)


def test_params_are_tensors_in_any_containers_an_iterator_or_a_module():
    loss, w = make_loss()

    class Module:
        def named_parameters(self):
            yield "layer.w", w

    for params, name in [
        ({"w": w}, "w"),
        ([w], "param0"),
        ((one for one in [w]), "param0"),
        (w, "param"),
        (Module(), "layer.w"),
        ({"layers": [{"w": w}], "none": None}, "layers.0.w"),
        ([{"w": w}], "param0.w"),
        ({"encoder.layers.0": {"w": w}}, "encoder.layers.0.w"),
    ]:
        assert graph(loss, params).nodes[-1].op == name
    for params, kind in [(3, "int"), ({"w": "w"}, "str"), ({"layers": [w, 1.5]}, "float")]:
        with pytest.raises(
            TypeError, match=rf"graph: 'params' holds something that is no Tensor. Got {kind}"
        ):
            graph(loss, params)


def test_a_node_whose_name_and_repr_fail_is_shown_by_its_class():
    class Broken(oplib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = oplib.ones(2, requires_grad=True)
    y = Broken.apply(x)
    kind = type(y.grad_fn)

    def fail(self):
        raise ValueError("mine")

    kind.name = kind.__repr__ = fail
    made = graph(y.sum())
    assert "BrokenBackward" in made._repr_html_()
    assert made.nodes[1].name == "BrokenBackward"


def test_a_freed_graph_is_shown_and_says_that_it_is_freed():
    loss, w = make_loss()
    loss.backward()
    made = graph(loss, {"w": w})
    assert {node.op for node in made.nodes if node.is_freed} >= {"sqrt", "mul"}
    assert made.nbytes == 0
    assert "what it kept is freed" in made.svg()


def test_a_wide_graph_is_drawn_with_each_leaf_once():
    leaves = [oplib.ones(1, requires_grad=True) for _ in range(300)]
    wide = graph(oplib.cat(leaves).sum())
    assert wide.svg().count('<g class="node leaf"') == 300
    assert wide._repr_html_() == wide.svg()
