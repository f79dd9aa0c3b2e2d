"""The table of the rules of ops."""

import pytest

import oplib
from oplib.errors import RegistrationValueError
from oplib.visual import ops


def test_the_text_has_a_line_for_each_op():
    lines = str(ops("oplib")).splitlines()
    assert lines[0].split() == [
        "cpu",
        "gpu",
        "tpu",
        "fake",
        "backward",
        "forward",
        "vmap",
        "sharding",
        "autocast",
    ]
    assert sum(line.startswith("oplib::") for line in lines) == len(ops("oplib").descriptions) > 400


def test_all_namespaces_have_at_least_the_ops_of_one():
    assert len(ops().descriptions) >= len(ops("oplib").descriptions)


def test_the_page_is_one_file_in_which_names_are_no_markup(forget_ops):
    oplib.library.define("rules_table::f", '(Tensor x, str how="<b>&") -> Tensor')
    page = ops("rules_table").html()
    assert page.startswith("<!doctype html>")
    assert "&lt;b&gt;&amp;" in page
    assert "<b>&" not in page
    assert "http" not in page
    assert ops("rules_table")._repr_html_() in page


def test_an_unknown_namespace_is_refused():
    with pytest.raises(RegistrationValueError, match="the namespace 'nowhere' has no op"):
        ops("nowhere")
