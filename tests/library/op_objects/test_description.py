"""The description of an op: which rules are registered, derived, missing or refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.library import custom_op
from oplib.library.op_objects.description import RULES, Status


@pytest.fixture(scope="module")
def rounded():
    @custom_op("describe::rounded")
    def rounded(x: jax.Array, digits: int = 0) -> jax.Array:
        """Rounds to some digits.

        More text.
        """
        return jnp.round(x, digits)

    def backward(ctx, grad):
        return jnp.round(grad), None

    rounded.register_autograd(backward)
    return rounded


@pytest.fixture(scope="module")
def on_host():
    @custom_op("describe::on_host")
    def on_host(x: np.ndarray) -> np.ndarray:
        return x * 2

    return on_host


def statuses(op):
    return {fact.rule: fact.status.name for fact in op.describe().rules}


def test_every_rule_has_one_fact(rounded):
    assert tuple(fact.rule for fact in rounded.describe().rules) == RULES


def test_a_kernel_for_arrays_gets_all_but_what_is_registered(rounded):
    assert statuses(rounded) == {
        "kernel cpu": "derived", "kernel gpu": "derived", "kernel tpu": "derived", "fake": "derived",
        "backward": "registered", "forward mode": "derived", "vmap": "derived", "sharding": "derived",
        "autocast": "missing",
    }  # fmt: skip


def test_a_kernel_on_the_host_says_what_is_missing(on_host):
    found = statuses(on_host)
    assert [found[f"kernel {name}"] for name in ("cpu", "gpu", "tpu")] == ["registered", "host", "host"]
    assert (found["fake"], found["backward"], found["forward mode"]) == ("missing",) * 3
    assert "register_fake('describe::on_host'" in str(on_host.describe())


def test_the_advice_for_a_host_kernel_makes_the_rule_registered():
    @custom_op("describe::advised")
    def advised(x: np.ndarray) -> np.ndarray:
        return x * 2

    oplib.library.register_fake("describe::advised", lambda x: x)
    oplib.library.register_kernel("describe::advised", "gpu", lambda x: x * 2)
    found = statuses(advised)
    assert (found["fake"], found["kernel gpu"]) == ("registered", "registered")


def test_arguments_show_that_forward_mode_is_refused(rounded):
    x = jnp.ones(3)
    fact = rounded.describe(x, 1)["forward mode"]
    assert fact.status is Status.refused
    assert "'round' at test_description.py" in fact.text
    assert fact.advice == "oplib.library.register_jvp('describe::rounded', rule)"
    with pytest.raises(oplib.errors.AutogradError, match="round"):  # as the description says
        jax.jvp(lambda x: rounded(x, 1), (x,), (x,))


def test_arguments_may_be_tensors_and_keywords(rounded):
    assert rounded.describe(x=oplib.ones(2), digits=1)["backward"].status is Status.registered


def test_a_declared_nonlinear_formula_is_refused():
    @custom_op("describe::clipped")
    def clipped(x: jax.Array) -> jax.Array:
        return x * 1

    clipped.register_autograd(lambda ctx, grad: jnp.clip(grad, -1, 1), nonlinear=True)
    assert clipped.describe()["forward mode"].status is Status.refused


def test_registered_rules_name_their_place(rounded):
    place = rounded.describe()["backward"].where
    assert place is not None
    assert place.partition("test_description.py:")[1]


def test_a_mutable_op_has_no_backward():
    oplib.library.define("describe::write", "(Tensor(a!) x) -> ()")
    description = oplib.ops.describe.write.default.describe()
    assert description["backward"].text == "the op writes an argument"
    assert description["kernel cpu"].status is Status.missing


def test_built_in_ops_are_described():
    for op in (oplib.ops.oplib.sin.default, oplib.ops.oplib.relu.default):
        assert op.describe()["backward"].status in {Status.registered, Status.derived}


def test_text_has_a_line_for_each_rule_and_the_first_line_of_the_docstring(rounded):
    text = str(rounded.describe())
    assert "Rounds to some digits." in text
    assert "More text" not in text
    assert all(f"  {rule}" in text for rule in RULES)


def test_notebooks_show_a_table(rounded):
    assert "<table>" in rounded._repr_html_()
    assert "-&gt; Tensor" in rounded._repr_html_()
    assert rounded._opoverload._repr_html_() == rounded._repr_html_()
    assert oplib.ops.describe.rounded._repr_html_() == rounded._repr_html_()


def test_json_has_the_status_by_name(rounded):
    facts = rounded.describe().to_json()
    assert facts["name"] == "describe::rounded"
    assert {fact["status"] for fact in facts["rules"]} == {"registered", "derived", "missing"}


def test_each_rule_that_is_registered_is_told_with_what_it_says():
    op = custom_op("describe::doubled", lambda x: x * 2, schema="(Tensor x) -> Tensor", compile=True)
    op.register_autocast("cpu", oplib.bfloat16)
    op.register_autocast("cuda", oplib.float16)
    op.register_sharding("i -> i")
    op.register_vmap(lambda info, in_dims, x: (x * 2, in_dims[0]))
    description = op.describe()
    assert {description[rule].status for rule in ("autocast", "sharding", "vmap")} == {Status.registered}
    assert description["autocast"].text == "cpu: bfloat16, cuda: float16"
    assert description["sharding"].text == "register_sharding: i -> i"
    assert "test_description.py:" in (description["vmap"].where or "")
