"""Compiled autograd under transformations, in modes, and on several devices."""

import gc
import re
import weakref

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import oplib
from oplib.autograd import compiled_autograd, detect_anomaly, grad
from oplib.autograd.compiled_autograd import enable
from tests.autograd.functions import Square


@pytest.mark.spec("D.26")
def test_inside_a_trace_it_has_no_effect(counts):
    @jax.jit
    def by_jax(array):
        x = oplib.Tensor.from_array(array, requires_grad=True)
        (x * x).sum().backward()
        return x.grad.array

    @oplib.jit
    def by_oplib(x):
        leaf = x.detach().requires_grad_()
        (leaf * leaf).sum().backward()
        return leaf.grad

    with enable():
        assert by_jax(np.float32([1.0, 2.0])).tolist() == [2.0, 4.0]
        assert by_oplib(oplib.tensor([1.0, 2.0])).tolist() == [2.0, 4.0]
        mapped = oplib.vmap(lambda row: grad((row * row).sum(), row)[0])
        assert mapped(oplib.ones(2, 3, requires_grad=True)).tolist() == [[2.0] * 3] * 2
    assert (counts("captures"), counts("eager")) == (0, 0)


@pytest.mark.spec("D.26")
def test_a_graph_recorded_by_vmap_or_jit_runs_compiled_outside(agree):
    step = oplib.jit(lambda a, b: (a * b).sin())

    def run(w, y, z):
        mapped = oplib.vmap(lambda row, other: row * other + row.sum())(w, y)
        (step(mapped, z) * w).sum().backward()

    agree(run)


@pytest.mark.spec("D.26")
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_batched_gradients_and_anomaly_detection_give_what_eager_gives(agree, counts):
    def run(w, y, z):
        y_of = (w * y).sum(0)
        (jacobian,) = grad(y_of, w, oplib.eye(3), is_grads_batched=True)
        with detect_anomaly():
            (w * z).sum().backward()
        return jacobian

    agree(run)
    assert compiled_autograd.counters["compiled_autograd_eager"]["anomaly detection"] == 2


@pytest.mark.spec("D.26")
def test_without_compiled_kernels_passes_run_eagerly(x, counts):
    oplib.config.compile_kernels = False
    try:
        with enable():
            (x * x).sum().backward()
    finally:
        oplib.config.compile_kernels = True
    assert (counts("captures"), counts("eager")) == (0, 1)


@pytest.mark.spec("D.24")
def test_64_bits_and_the_precision_of_products_belong_to_the_key(counts, with_64_bits):
    x = oplib.ones(2, 2, dtype=oplib.float32, requires_grad=True)
    for precision in ("default", "float32"):
        with jax.default_matmul_precision(precision), enable():
            x.grad = None
            (x @ x).sum().backward()
    assert counts("captures") == 2
    with jax.enable_x64(False), enable():
        x.grad = None
        (x @ x).sum().backward()
    assert counts("captures") == 3


def test_the_cache_keeps_no_function_hook_or_saved_tensor_alive(leaves, collector_off):
    w, y, _ = leaves()
    with enable():
        a = Square.apply(w * y)
        hook = Hook()
        a.register_hook(hook)
        refs = [weakref.ref(one) for one in (a, a.grad_fn, hook, w, y.detach().array)]
        a.sum().backward()
        del a, hook, w, y
    gc.collect()
    assert [ref() for ref in refs] == [None] * len(refs)


class Hook:
    """A hook that can be referred to weakly."""

    def __call__(self, grad):
        """Changes nothing."""


@pytest.mark.devices(8)
def test_a_data_parallel_pass_reduces_each_gradient_at_most_once_and_gathers_nothing(counts):
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    everywhere, split = (NamedSharding(mesh, spec) for spec in (PartitionSpec(), PartitionSpec("data")))
    generator = np.random.default_rng(0)
    arrays = [generator.normal(size=size).astype(np.float32) / 4 for size in ((16, 16), (16,), (16, 4))]
    data = generator.normal(size=(64, 16)).astype(np.float32)
    texts = []

    def compiler(function):
        compiled = jax.jit(function)

        def run(*values):
            texts.append(compiled.lower(*values).compile().as_text())
            return compiled(*values)

        return run

    def step(place, place_data):
        leaves = [oplib.Tensor.from_array(jax.device_put(one, place), requires_grad=True) for one in arrays]
        weight, bias, out = leaves
        inputs = oplib.Tensor.from_array(jax.device_put(data, place_data))
        ((((inputs @ weight) + bias).tanh() @ out) ** 2).mean().backward()
        return [leaf.grad for leaf in leaves]

    expected = step(jax.devices()[0], jax.devices()[0])
    with enable(compiler):
        found = step(everywhere, split)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-6)
        assert one.sharding.is_equivalent_to(everywhere, one.ndim)
    used = {name: sum(len(re.findall(rf" {name}\(", text)) for text in texts) for name in COLLECTIVES}
    assert used.pop("all-reduce") <= len(found)
    assert set(used.values()) == {0}
    assert counts("eager") == 0


COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter")


@pytest.mark.devices(2)
def test_a_graph_on_two_devices_runs_eagerly(counts):
    first, second = jax.devices()[:2]
    x = oplib.Tensor.from_array(jax.device_put(np.float32([1.0, 2.0]), first), requires_grad=True)
    z = oplib.Tensor.from_array(jax.device_put(np.float32([3.0, 4.0]), second), requires_grad=True)
    with enable():
        oplib.autograd.backward([(x * x).sum(), (z * z).sum()])
    assert x.grad.tolist() == [2.0, 4.0]
    assert z.grad.tolist() == [6.0, 8.0]
    assert x.grad.array.devices() == {first}
    assert z.grad.array.devices() == {second}
