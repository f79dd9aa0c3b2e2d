"""``oplib.testing.ops``: a test for each op, sample and check, in a run of pytest of its own."""

import pytest

from oplib.errors import RegistrationValueError
from oplib.testing import ops

pytest_plugins = ["pytester"]

MODULE = """
import jax
import oplib.testing
from oplib.library import custom_op

@custom_op("plugged::cube")
def cube(x: jax.Array) -> jax.Array:
    return x ** 3

{more}
@custom_op("plugged::other")
def other(x: jax.Array, by: object) -> jax.Array:
    return x

def save(ctx, inputs, output):
    ctx.save_for_backward(*inputs)

cube.register_autograd(lambda ctx, g: g * {factor} * ctx.saved_tensors[0] ** 2, setup_context=save)

@oplib.testing.ops("plugged", checks=["test_schema", "test_gradients", "test_second_gradients"])
def test_ops(case):
    case()
"""

RAISING = """
@custom_op("plugged::raising")
def raising(x: jax.Array) -> jax.Array:
    return x.nothing
"""


@pytest.fixture
def run(pytester, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")

    def run(factor, *options, more=""):
        pytester.makepyfile(MODULE.format(factor=factor, more=more))
        return pytester.runpytest_subprocess("-p", "oplib_pytest", "-v", *options)

    return run


@pytest.mark.slow
def test_a_right_op_passes_one_without_samples_is_skipped_and_one_that_raises_fails(run):
    result = run(3, more=RAISING)
    result.assert_outcomes(passed=3, skipped=1, failed=1)
    result.stdout.fnmatch_lines(
        ["E *OpCheckError: plugged::raising: raises for all arguments*AttributeError*"]
    )
    result.stdout.fnmatch_lines(["*plugged::cube-0-gradients*PASSED*"])


@pytest.mark.slow
def test_a_wrong_formula_fails_its_checks_only(run):
    result = run(2, "-m", "not oplib_slow")
    result.assert_outcomes(passed=1, failed=1, skipped=1, deselected=1)
    result.stdout.fnmatch_lines(["*plugged::cube-0-gradients*FAILED*"])
    lines = result.outlines
    shown = lines[lines.index(next(line for line in lines if "= FAILURES =" in line)) :]
    assert any(line.strip().startswith(">") and "case()" in line for line in shown)
    assert any(line.startswith("E ") and "test_gradients failed with" in line for line in shown)
    assert len(shown) < 40, shown
    assert not any("oplib/" in line for line in shown[:-2])


def test_a_namespace_without_ops_is_refused():
    with pytest.raises(RegistrationValueError, match=r"the namespace 'nowhere' has no op. There are .*oplib"):
        ops("nowhere")


def test_an_unknown_check_is_refused():
    with pytest.raises(RegistrationValueError, match="there is no check 'test_speed'"):
        ops("oplib", checks=["test_speed"])
