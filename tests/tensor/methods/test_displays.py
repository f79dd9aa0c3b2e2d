"""What notebooks show of a Tensor."""

import jax
import pytest

import oplib
from oplib.errors import TracingError


@pytest.mark.cpu
def test_the_html_of_a_tensor_tells_its_facts_and_values():
    x = oplib.tensor([[1.0, 0.5]], requires_grad=True)
    html = x._repr_html_()
    assert html.startswith("<div>Tensor · f32[1,2] · 8 bytes · cpu · requires grad</div><pre>")
    assert "tensor([[1.0000, 0.5000]], requires_grad=True)" in html
    assert "grad_fn &lt;MulBackward0 of oplib::mul.Scalar at test_displays.py:" in (x * 2)._repr_html_()


def test_the_html_of_a_traced_tensor_tells_its_shape_also_after_the_trace():
    seen = []

    @jax.jit
    def f(array):
        seen.append(oplib.Tensor.from_array(array))
        seen.append(seen[0]._repr_html_())
        return array

    f(oplib.ones(3).array)
    assert "Tensor · f32[3]" in seen[1]
    assert "f32[3]" in seen[0]._repr_html_()
    with pytest.raises(TracingError):
        seen[0].tolist()


def test_the_html_of_a_tensor_inside_a_compiled_function_and_after_it():
    seen = []

    @oplib.jit
    def f(x):
        made = x * 2
        seen.extend([made, made._repr_html_()])
        return x

    f(oplib.ones(3))
    assert "f32[3]" in seen[1]
    assert "whose trace has ended" in seen[0]._repr_html_() or "f32[3]" in seen[0]._repr_html_()


def test_treescope_shows_array_and_history():
    treescope = pytest.importorskip("treescope")
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    shown = treescope.render_to_text({"x": x, "y": x * 2})
    assert "Tensor(" in shown
    assert "array=<jax.Array(" in shown
    assert "requires_grad=True" in shown
    assert "MulBackward0 of oplib::mul.Scalar" in shown


def test_treescope_is_left_to_show_a_tensor_whose_trace_has_ended_by_its_repr():
    seen = []
    oplib.jit(lambda x: seen.append(x * 2) or x)(oplib.ones(3))
    assert seen[0].__treescope_repr__(None, None) is NotImplemented
