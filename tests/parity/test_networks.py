"""Functions made of several ops, and decompositions, on torch and on oplib: values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oplib

torch = pytest.importorskip("torch")

Program = Callable[..., Any]
RNG = np.random.default_rng(5)
CUBE, KEYS, VALUES = (RNG.normal(size=shape).tolist() for shape in [(2, 3, 4), (2, 5, 4), (2, 5, 6)])
IMAGE = RNG.normal(size=(3, 2, 4, 4)).tolist()
MATRIX, SYMMETRIC = RNG.normal(size=(4, 3)).tolist(), [[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 1.0]]

PROGRAMS: dict[str, tuple[Program, tuple[Any, ...]]] = {
    "attention": (
        lambda lib, f, q, k, v: f.scaled_dot_product_attention(q, k, v),
        (CUBE, KEYS, VALUES),
    ),
    "causal attention with a scale": (
        lambda lib, f, q: f.scaled_dot_product_attention(q, q * 2, q + 1, is_causal=True, scale=0.3),
        (CUBE,),
    ),
    "attention under a mask of bools": (
        lambda lib, f, q, k, v: f.scaled_dot_product_attention(q, k, v, attn_mask=k[:, :3, 0:1] > -9.0),
        (CUBE, KEYS, VALUES),
    ),
    "batch_norm in training": (
        lambda lib, f, x: f.batch_norm(x, None, None, training=True),
        (IMAGE,),
    ),
    "batch_norm by running moments": (
        lambda lib, f, x, w: f.batch_norm(x, lib.ones(2), lib.ones(2) * 4, w, w + 1),
        (IMAGE, [0.5, 2.0]),
    ),
    "instance_norm": (lambda lib, f, x, w: f.instance_norm(x, weight=w, bias=w), (IMAGE, [0.5, 2.0])),
    "einsum": (lambda lib, f, x, y: lib.einsum("bij,bkj->bik", x, y), (CUBE, KEYS)),
    "tensordot": (lambda lib, f, x: lib.tensordot(x, x, dims=([1, 2], [1, 2])), (CUBE,)),
    "tensordot over the last axes": (lambda lib, f, x: lib.tensordot(x, x.transpose(0, 1), 1), (SYMMETRIC,)),
    "qr": (lambda lib, f, x: lib.matmul(*lib.linalg.qr(x)), (MATRIX,)),
    "svd": (lambda lib, f, x: _rebuild(*lib.linalg.svd(x, full_matrices=False)), (MATRIX,)),
    "singular values": (lambda lib, f, x: lib.linalg.svd(x, full_matrices=False)[1], (MATRIX,)),
    "eigh": (lambda lib, f, x: _rebuild_hermitian(*lib.linalg.eigh(x + x.mT)), (SYMMETRIC,)),
    "lstsq": (lambda lib, f, x: _first(lib.linalg.lstsq(x, x[:, :2] + 1)), (MATRIX,)),
    "max_pool2d": (lambda lib, f, x: f.max_pool2d(x, 2, stride=1, padding=1), (IMAGE,)),
    "masked_select": (lambda lib, f, x: lib.masked_select(x, x > 0), (MATRIX,)),
    "repeat_interleave by a tensor": (
        lambda lib, f, x: lib.repeat_interleave(x, lib.tensor([1, 0, 2]), 1),
        (MATRIX,),
    ),
    "norm": (lambda lib, f, x: x.norm() + x.norm(1, 0).sum() + lib.norm(x, "nuc"), (MATRIX,)),
    "embedding": (
        lambda lib, f, x: f.embedding(lib.tensor([[0, 3], [1, 0]]), x, padding_idx=0),
        (MATRIX,),
    ),
    "binary_cross_entropy at the ends": (
        lambda lib, F, x: F.binary_cross_entropy(x, lib.tensor([0.0, 1.0, 0.3]), reduction="none"),
        ([0.0, 1.0, 0.6],),
    ),
    "quantile, by its part": (lambda lib, F, x, q: lib.quantile(x, q), (MATRIX, 0.3)),
    "quantiles along a dim, by their parts": (
        lambda lib, F, x, q: lib.quantile(x, q, 1),
        (MATRIX, [0.2, 0.7]),
    ),
}


def _rebuild(u: Any, s: Any, vh: Any) -> Any:
    return (u * s) @ vh


def _rebuild_hermitian(values: Any, vectors: Any) -> Any:
    return (vectors * values) @ vectors.mT + values.sum()


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def run(lib: Any, name: str) -> list[np.ndarray]:
    program, operands = PROGRAMS[name]
    leaves = [lib.tensor(data, requires_grad=True) for data in operands]
    result = program(lib, lib.nn.functional, *leaves)
    (result * result + result).sum().backward()
    return [np.asarray(one.detach().tolist()) for one in (result, *(leaf.grad for leaf in leaves))]


@pytest.mark.matrix(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_it_gives_on_torch_with_its_gradients(name: str) -> None:
    for mine, other in zip(run(oplib, name), run(torch, name), strict=True):
        assert mine.shape == other.shape
        np.testing.assert_allclose(mine, other, rtol=2e-3, atol=2e-4)


PLAIN: dict[str, Program] = {
    "nonzero": lambda lib: lib.nonzero(lib.tensor([[0, 2], [3, 0]])),
    "nonzero as a tuple": lambda lib: lib.nonzero(lib.tensor([[0, 2], [3, 0]]), as_tuple=True),
    "argwhere": lambda lib: lib.argwhere(lib.tensor([0.0, 2.0])),
    "unique": lambda lib: lib.unique(lib.tensor([3, 1, 3]), return_inverse=True, return_counts=True),
    "one_hot": lambda lib: lib.nn.functional.one_hot(lib.tensor([0, 2])),
    "max_pool1d with places": lambda lib: lib.nn.functional.max_pool1d(
        lib.tensor([[[1.0, 3.0, 2.0, 5.0]]]), 2, return_indices=True
    ),
    "running moments": lambda lib: _move_moments(lib),
    "running moments of instances": lambda lib: _move_moments_of_instances(lib),
}


def _move_moments(lib: Any) -> Any:
    mean, variance = lib.zeros(2), lib.ones(2)
    lib.nn.functional.batch_norm(lib.tensor(IMAGE), mean, variance, training=True, momentum=0.3)
    return mean, variance


def _move_moments_of_instances(lib: Any) -> Any:
    mean, variance = lib.zeros(2), lib.ones(2)
    lib.nn.functional.instance_norm(lib.tensor(IMAGE), mean, variance, momentum=0.3)
    return mean, variance


@pytest.mark.parametrize("name", PLAIN)
def test_what_is_not_differentiated_is_the_same(name: str) -> None:
    mine, other = (PLAIN[name](lib) for lib in (oplib, torch))
    pairs = zip(mine, other, strict=True) if isinstance(other, tuple) else [(mine, other)]
    for one, two in pairs:
        np.testing.assert_allclose(np.asarray(one.tolist()), np.asarray(two.tolist()), rtol=1e-5, atol=1e-6)


BAD: dict[str, Program] = {
    "a mask and is_causal": lambda lib: lib.nn.functional.scaled_dot_product_attention(
        lib.ones(1, 2, 2), lib.ones(1, 2, 2), lib.ones(1, 2, 2), attn_mask=lib.ones(2, 2), is_causal=True
    ),
    "a probability above 1": lambda lib: lib.nn.functional.dropout(lib.ones(2), 1.5),
    "one place per channel": lambda lib: lib.nn.functional.instance_norm(lib.ones(2, 3, 1)),
    "one value per channel": lambda lib: lib.nn.functional.batch_norm(
        lib.ones(1, 2), None, None, training=True
    ),
    "a mask of numbers": lambda lib: lib.masked_select(lib.ones(2), lib.ones(2)),
    "a negative class": lambda lib: lib.nn.functional.one_hot(lib.tensor([-1])),
    "a place beyond the table": lambda lib: lib.nn.functional.embedding(lib.tensor([4]), lib.ones(3, 2)),
    "shapes that do not multiply": lambda lib: lib.ones(2, 3) @ lib.ones(2, 3),
    "a singular shape": lambda lib: lib.linalg.inv(lib.ones(2, 3)),
    "integers into a softmax": lambda lib: lib.softmax(lib.tensor([1, 2]), 0),
    "a target of another size": lambda lib: lib.nn.functional.binary_cross_entropy(lib.ones(2), lib.ones(3)),
    "k out of range": lambda lib: lib.topk(lib.ones(2), 3),
    "a reduction that is none": lambda lib: lib.nn.functional.mse_loss(
        lib.ones(2), lib.ones(2), reduction="x"
    ),
    "a probability of 2": lambda lib: lib.nn.functional.binary_cross_entropy(
        lib.full((2,), 2.0), lib.ones(2)
    ),
    "a target of -1": lambda lib: lib.nn.functional.binary_cross_entropy(lib.ones(2), -lib.ones(2)),
    "a probability that is nan": lambda lib: lib.nn.functional.binary_cross_entropy(
        lib.full((2,), float("nan")), lib.ones(2)
    ),
    "the bits of a float": lambda lib: ~lib.ones(1),
    "the bits of a float, by the function": lambda lib: lib.bitwise_not(lib.ones(1)),
    "an equation without operands": lambda lib: lib.einsum("ij"),
    "an equation with an empty list of operands": lambda lib: lib.einsum("i", []),
    "a number of several": lambda lib: float(lib.ones(2)),
    "an item of several": lambda lib: lib.ones(2).item(),
    "an equation with too few operands": lambda lib: lib.einsum("ij,jk", lib.ones(2, 2)),
    "a float between brackets": lambda lib: lib.ones(2)[1.5],
}


@pytest.mark.parametrize("name", BAD)
def test_what_torch_refuses_is_refused_as_an_error_of_the_same_kind(name: str) -> None:
    with pytest.raises(Exception) as theirs:
        BAD[name](torch)
    with pytest.raises(theirs.type.__mro__[-4] if theirs.type.__module__ != "builtins" else theirs.type):
        BAD[name](oplib)


def test_dropout_keeps_the_mean_and_so_many_items() -> None:
    oplib.manual_seed(0)
    x = oplib.ones(100, 100, requires_grad=True)
    y = oplib.nn.functional.dropout(x, 0.25)
    y.sum().backward()
    kept = np.asarray(y.detach().tolist()) != 0
    assert abs(kept.mean() - 0.75) < 0.02
    np.testing.assert_allclose(np.asarray(x.grad.tolist()), kept / 0.75, rtol=1e-6)
    assert oplib.nn.functional.dropout(x, 0.25, training=False) is x


@pytest.mark.filterwarnings("ignore:.*Using a target size")
@pytest.mark.parametrize(
    "loss", ["mse_loss", "l1_loss", "smooth_l1_loss"]
)  # torch has no gradient of huber_loss
@pytest.mark.parametrize(("shape", "target"), [((2,), ()), ((), (2,)), ((), ()), ((2, 1), (2,))])
def test_a_number_beside_a_tensor_counts_for_the_dtype_of_a_loss(loss: str, shape: Any, target: Any) -> None:
    def run(lib: Any) -> Any:
        x = lib.ones(shape, dtype=lib.bfloat16).requires_grad_()
        y = (lib.ones(target) * 2).requires_grad_()
        result = getattr(lib.nn.functional, loss)(x, y)
        result.backward()
        dtypes = [str(one.dtype).split(".")[-1].strip("dtype()'") for one in (result, x.grad, y.grad)]
        return dtypes, result.tolist(), x.grad.tolist(), y.grad.tolist()

    assert run(oplib) == run(torch)
