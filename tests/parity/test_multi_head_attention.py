"""multi_head_attention_forward beside torch: values, weights, gradients, with each kind of mask and key."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentError, ArgumentValueError

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(5)
DATA = {
    name: np.round(RNG.normal(size=shape, scale=0.6), 3).astype(np.float32)
    for name, shape in {
        "query": (3, 2, 4),
        "key": (5, 2, 4),
        "value": (5, 2, 4),
        "wide": (5, 2, 6),
        "packed": (12, 4),
        "bias": (12,),
        "wq": (4, 4),
        "wk": (4, 6),
        "wv": (4, 4),
        "out": (4, 4),
        "out_bias": (4,),
        "more_k": (1, 1, 4),
        "more_v": (1, 1, 4),
        "static": (4, 7, 2),
        "mask": (3, 5),
        "masks": (4, 3, 5),
        "few": (2, 5),
    }.items()
}
PLAIN = "query, key, value, 4, 2, packed, bias, None, None, False, 0.0, out, out_bias"
UNBATCHED = PLAIN.replace("query, key, value", "query[:, 0], key[:, 0], value[:, 0]")
EXTRA = "query, key, value, 4, 2, packed, None, more_k, more_v, True, 0.0, out, None"
SEPARATE = "query, wide, value, 4, 2, None, bias, None, None, False, 0.0, out, out_bias"
WEIGHTS = "use_separate_proj_weight=True, q_proj_weight=wq, k_proj_weight=wk, v_proj_weight=wv"
CALLS = (
    PLAIN,
    PLAIN.replace("query, key, value", "query, query, query"),
    f"{PLAIN}, need_weights=False",
    f"{PLAIN}, average_attn_weights=False",
    f"{PLAIN}, key_padding_mask=few > 0.6",
    f"{PLAIN}, key_padding_mask=few > 0.6, need_weights=False",
    f"{PLAIN}, key_padding_mask=few",
    f"{PLAIN}, attn_mask=mask",
    f"{PLAIN}, attn_mask=mask > 0.9, need_weights=False",
    f"{PLAIN}, attn_mask=masks",
    f"{PLAIN}, attn_mask=masks, need_weights=False",
    f"{PLAIN}, attn_mask=masks, key_padding_mask=few, average_attn_weights=False",
    f"{PLAIN}, attn_mask=mask, is_causal=True",
    f"{PLAIN}, attn_mask=mask, is_causal=True, need_weights=False",
    f"{PLAIN}, attn_mask=mask, is_causal=True, key_padding_mask=few, need_weights=False",
    f"{PLAIN}, static_k=static, static_v=static * 2",
    UNBATCHED,
    f"{UNBATCHED}, need_weights=False",
    f"{UNBATCHED}, average_attn_weights=False, key_padding_mask=few[0], attn_mask=mask",
    EXTRA,
    f"{EXTRA}, attn_mask=mask, need_weights=False",
    f"{SEPARATE}, {WEIGHTS}",
    f"{SEPARATE}, {WEIGHTS}, need_weights=False, attn_mask=masks",
    f"{PLAIN.replace('0.0', '0.7')}, training=False",
)


def run(lib: Any, call: str) -> tuple[list[Any], list[Any]]:
    leaves = {name: lib.tensor(data, requires_grad=True) for name, data in DATA.items()}
    function = lib.nn.functional.multi_head_attention_forward
    results = [one for one in eval(f"function({call})", leaves | {"function": function}) if one is not None]
    sum((one * one.cos()).sum() for one in results).backward()
    return results, [leaf.grad for leaf in leaves.values()]


@pytest.mark.matrix(4)
@pytest.mark.parametrize("call", CALLS)
def test_results_weights_and_gradients_are_torchs(call: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's about masks of two kinds
        theirs, ours = run(torch, call), run(oplib, call)
    assert [one.shape for one in ours[0]] == [tuple(one.shape) for one in theirs[0]]
    for mine, other in zip(ours[0] + ours[1], theirs[0] + theirs[1], strict=True):
        assert (mine is None) == (other is None)
        if mine is not None:
            np.testing.assert_allclose(mine.tolist(), other.tolist(), rtol=2e-4, atol=2e-5)


def test_it_works_on_arrays_under_jit_and_grad() -> None:
    names = {name: jnp.asarray(data) for name, data in DATA.items()}

    def loss(query: Any) -> Any:
        call = f"function({PLAIN}, key_padding_mask=few, need_weights=False)"
        function = oplib.nn.functional.multi_head_attention_forward
        result, weights = eval(call, names | {"function": function, "query": query})
        assert weights is None
        return (result * jnp.cos(result)).sum()

    x = oplib.tensor(DATA["query"], requires_grad=True)
    tensors = {name: oplib.tensor(data) for name, data in DATA.items()} | {"query": x}
    function = oplib.nn.functional.multi_head_attention_forward
    result, _ = eval(f"function({PLAIN}, key_padding_mask=few)", tensors | {"function": function})
    (result * result.cos()).sum().backward()
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(names["query"]), x.grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("p", [0.5, 1.0])
def test_dropout_replaces_weights_and_scales_the_others(p: float) -> None:
    oplib.manual_seed(0)
    names = {name: oplib.tensor(data) for name, data in DATA.items()}
    names["function"] = oplib.nn.functional.multi_head_attention_forward
    call = f"function({PLAIN.replace('0.0', 'p')}, average_attn_weights=False)"
    _, plain = eval(call, names | {"p": 0.0})
    _, dropped = eval(call, names | {"p": p})
    kept = dropped != 0
    assert kept.any().item() == (p < 1)
    assert not kept.all()
    assert oplib.allclose(dropped[kept], plain[kept] / (1 - p if p < 1 else 1))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (PLAIN.replace("query,", "query[0, 0],"), r"must be \[L, E\], or \[L, N, E\]"),
        (PLAIN.replace("key, value", "key, value[:2]"), "one length of key and value"),
        (PLAIN.replace("key, value", "wide, value"), "one length of key and value"),
        (PLAIN.replace("4, 2", "8, 2"), "the last size of the query must be embed_dim_to_check"),
        (PLAIN.replace("4, 2", "4, 3"), "and a multiple of num_heads"),
        (PLAIN.replace("packed", "None"), r"in_proj_weight must have the shape \(12, 4\)"),
        (SEPARATE + ", use_separate_proj_weight=True", "the weight of a projection must have the shape"),
        (f"{PLAIN}, attn_mask=few", r"attn_mask must have one of the shapes \(3, 5\) and \(4, 3, 5\)"),
        (f"{PLAIN}, attn_mask=mask.int()", "only bool and floating types of attn_mask are supported"),
        (f"{PLAIN}, key_padding_mask=mask", r"key_padding_mask must have the shape \(2, 5\)"),
        (f"{PLAIN}, is_causal=True", "is_causal needs attn_mask"),
        (f"{PLAIN}, static_k=masks", r"static_k must have the shape \(4, 'S', 2\)"),
        (EXTRA.replace("more_v", "None"), "bias_k and bias_v are given together"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_both(call: str, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        run(oplib, call)
    with pytest.raises((AssertionError, RuntimeError)):
        run(torch, call)


def test_a_probability_beyond_1_is_refused() -> None:
    with pytest.raises(ArgumentValueError, match="dropout probability has to be between 0 and 1, but got 2"):
        run(oplib, PLAIN.replace("0.0", "2.0"))
