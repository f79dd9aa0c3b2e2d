"""What JAX shows of an op in jaxprs, modules, logs and profiles: the user's line, and the op's name."""

from __future__ import annotations

import inspect
import logging
import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.ad_checkpoint import print_saved_residuals

import oplib
from oplib.library import CustomOpDef, custom_op

X = jnp.array([0.5, 1.0])


@pytest.fixture(params=["formula", "derive", "jvp", "host"])
def op(request: pytest.FixtureRequest) -> CustomOpDef:
    return make_op(request.param)


def make_op(kind: str) -> CustomOpDef:
    def sine(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    if kind == "host":
        made = custom_op("seen::sine", lambda x: x * 1, schema="(Tensor x) -> Tensor")
    else:
        made = custom_op("seen::sine", sine)
    if kind == "derive":
        made.register_autograd("derive")
    elif kind == "jvp":
        made.register_jvp(lambda p, t: (jnp.sin(p[0]), t[0] * jnp.cos(p[0])))
    else:
        made.register_autograd(
            lambda ctx, g: g * 2.0, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
        )
    return made


def call_op(op: CustomOpDef, x: Any) -> Any:
    return op(x).sum()


CALL_LINE = inspect.getsourcelines(call_op)[1] + 1


def find_lines(jaxpr: Any) -> set[tuple[str, int]]:
    """Returns file and line of each equation, as a jaxpr prints them."""
    text = jaxpr.pretty_print(source_info=True)
    return {(file, int(line)) for file, line in re.findall(r"# (\S+?):(\d+)", text)}


TRANSFORMS: list[Any] = [
    lambda f: f,
    jax.grad,
    lambda f: lambda x: jax.vmap(f)(x[None]),
    lambda f: lambda x: jax.jvp(f, (x,), (x,)),
]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_the_equations_of_a_jaxpr_show_the_line_of_the_call(op: CustomOpDef, transform: Any) -> None:
    lines = find_lines(jax.make_jaxpr(transform(lambda x: call_op(op, x)))(X))
    assert (__file__, CALL_LINE) in lines
    assert not [file for file, _ in lines if file.startswith(str(oplib.__path__[0])) or file[0] == "<"]


def test_lowered_programs_contain_no_frame_of_oplib() -> None:
    text = jax.jit(jax.grad(lambda x: call_op(make_op("formula"), x))).lower(X).as_text(debug_info=True)
    assert f'{__file__}":{CALL_LINE}' in text
    assert str(oplib.__path__[0]) not in text
    assert "<call of" not in text


def test_saved_residuals_show_the_line_of_the_call(capsys: pytest.CaptureFixture[str]) -> None:
    print_saved_residuals(lambda x: call_op(make_op("jvp"), x * 2), X)
    shown = capsys.readouterr().out
    assert str(oplib.__path__[0]) not in shown
    assert __file__ in shown


def test_operations_of_a_compiled_program_carry_the_name_of_the_op() -> None:
    def loss(x: jax.Array) -> jax.Array:
        return call_op(make_op("formula"), x)

    names = re.findall(r'op_name="([^"]*)"', jax.jit(jax.value_and_grad(loss)).lower(X).compile().as_text())
    assert any("seen::sine" in name and name.endswith("/sin") for name in names)
    lowered = jax.jit(jax.grad(loss)).lower(X).as_text(debug_info=True)
    assert re.search(r"transpose\(jvp\(.*seen::sine.backward\)*/mul", lowered)


def test_compilations_of_eager_calls_are_logged_under_the_name_of_the_op(
    caplog: pytest.LogCaptureFixture,
) -> None:
    op = make_op("formula")
    x = oplib.tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        op(x.array)
        op(x).backward(oplib.ones(5))
    compiled = [record.getMessage() for record in caplog.records]
    for name in ("jit(seen::sine)", "jit(seen::sine.backward)"):
        assert [text for text in compiled if text.startswith(f"Compiling {name} ")], name
    assert not [text for text in compiled if "run_one" in text or "record" in text or "<lambda>" in text]


def test_the_module_of_a_built_in_op_has_its_name(caplog: pytest.LogCaptureFixture) -> None:
    x = oplib.ones(1021, 1, requires_grad=True)  # a shape of which no other test compiles programs
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        oplib.exp(x).sum().backward()
    compiled = re.findall(r"Compiling jit\((\S+)\)", "\n".join(one.getMessage() for one in caplog.records))
    assert {"oplib::exp", "oplib::exp.backward", "oplib::sum"} <= set(compiled)
