"""A record for every node that runs, where the logger is at DEBUG."""

import logging
import re

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd.graph import _register_logging_hooks_on_whole_graph, get_gradient_edge, log
from tests.autograd.functions import Split


class Records:
    """The messages so far, read anew each time."""

    def __init__(self, caplog):
        self.caplog = caplog

    def __iter__(self):
        return iter(self.caplog.messages)

    def __getitem__(self, place):
        return self.caplog.messages[place]


@pytest.fixture
def records(caplog):
    with caplog.at_level(logging.DEBUG, logger=log.name):
        yield Records(caplog)


@pytest.mark.spec("000.28", "000.29")
def test_every_node_of_a_backward_is_logged_once_with_what_it_gets(records):
    x = oplib.ones(2, 3).requires_grad_()
    y = (x * x).sum()
    y.backward()
    assert [re.sub(r" at .*| with .*", "", text) for text in records] == [
        "Executing: <SumBackward0 of oplib::sum",
        "Executing: <MulBackward0 of oplib::mul.Tensor",
        "Executing: <AccumulateGrad of a leaf f32[2,3]>",
    ]
    assert [text.split(" with grad_outputs: ")[1] for text in records] == [
        "[f32[]]",
        "[f32[2, 3]]",
        "[f32[2, 3]]",
    ]


@pytest.mark.spec("000.29")
def test_the_hooks_go_when_the_run_ends_also_by_an_error(records):
    x = oplib.ones(2).requires_grad_()
    y = (x * x).sum()
    y.register_hook(lambda grad: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            y.backward(retain_graph=True)
    assert list(records) == []
    assert not y.grad_fn._pre_hooks
    with pytest.raises(RuntimeError, match="does not require grad"):
        oplib.autograd.backward(oplib.ones(1), oplib.ones(1))


@pytest.mark.spec("000.28")
def test_a_record_comes_after_the_hooks_that_were_there(records):
    x = oplib.tensor(1.0, requires_grad=True)
    y = x * x
    y.register_hook(lambda grad: log.debug("tensor hook"))
    y.grad_fn.register_prehook(lambda grads: log.debug("pre-hook"))
    y.backward()
    assert records[:2] == ["tensor hook", "pre-hook"]
    assert records[2].startswith("Executing: <MulBackward0")


@pytest.mark.spec("000.28")
def test_a_leaf_that_is_only_captured_is_not_logged(records):
    x = oplib.tensor(1.0, requires_grad=True)
    oplib.autograd.grad(x * x, x)
    assert [text.split(" of ")[0] for text in records] == ["Executing: <MulBackward0"]


@pytest.mark.spec("000.28")
def test_an_absent_gradient_is_shown_as_none(records):
    x = oplib.ones(3).requires_grad_()
    Split.apply(x)[0].sum().backward()
    assert any(text.endswith("[f32[3],None]") for text in records)


@pytest.mark.spec("000.28")
def test_traced_gradients_are_shown_by_their_shapes(records):
    def step(value):
        x = oplib.Tensor.from_array(value, requires_grad=True)
        return oplib.autograd.grad((x * x).sum(), x)[0].array

    jax.jit(step)(jnp.ones(2, jnp.bfloat16))
    assert records[1].endswith("[bf16[2]]")


@pytest.mark.spec("000.28")
def test_hooks_by_hand_take_tensors_and_edges_and_skip_tensors_outside_the_graph(records):
    x = oplib.tensor(1.0, requires_grad=True)
    y = x * x
    _register_logging_hooks_on_whole_graph([])()
    _register_logging_hooks_on_whole_graph([None, oplib.tensor(1.0)])()
    remove = _register_logging_hooks_on_whole_graph([get_gradient_edge(y), y])
    assert len(y.grad_fn._pre_hooks) == 1
    remove()
    assert not y.grad_fn._pre_hooks


@pytest.mark.spec("000.1")
def test_nothing_is_logged_by_default(caplog):
    x = oplib.tensor(1.0, requires_grad=True)
    (x * x).backward()
    assert caplog.messages == []
