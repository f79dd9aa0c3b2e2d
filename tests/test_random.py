"""``oplib.random``, torch's path to the global Generator."""

import contextlib

import pytest

import oplib


@pytest.fixture(autouse=True)
def kept_state():
    state = oplib.get_rng_state()
    yield
    oplib.set_rng_state(state)


def test_draws_in_a_fork_are_repeated_after_it_even_if_it_raises():
    before = oplib.get_rng_state()
    with contextlib.suppress(KeyError), oplib.random.fork_rng(devices=[]):
        oplib.manual_seed(5)
        inside = oplib.rand(3)
        raise KeyError
    assert oplib.get_rng_state() == before
    with oplib.random.fork_rng():
        outside = oplib.rand(3)
    assert oplib.get_rng_state() == before
    assert oplib.equal(oplib.rand(3), outside)
    assert not oplib.equal(inside, outside)


def test_a_fork_that_is_not_enabled_does_nothing():
    before = oplib.get_rng_state()
    with oplib.random.fork_rng(enabled=False):
        oplib.rand(3)
    assert oplib.get_rng_state() != before


def test_its_other_names_are_those_of_the_root():
    assert {name for name in oplib.random.__all__ if getattr(oplib, name, None) is None} == {"fork_rng"}
    assert oplib.random.manual_seed is oplib.manual_seed
