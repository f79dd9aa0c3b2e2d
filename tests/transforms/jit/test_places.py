"""How far the walk from a function goes."""

import logging
import threading

import oplib
from oplib.transforms.jit.places import Walk


def test_objects_of_pythons_own_classes_are_not_looked_into():
    event, logger, weight = threading.Event(), logging.getLogger("places"), oplib.ones(2)

    def step(x):
        logger.debug("a step")
        event.set()
        return x * weight

    walk = Walk(step, [])
    assert [place.value for place in walk.tensors.values()] == [weight]
    assert len(walk.containers) < 20
    assert oplib.jit(step)(oplib.ones(2)).tolist() == [1, 1]
    assert event.is_set()


def test_a_cell_that_is_still_empty_is_passed_over():
    def make():
        def step(x):
            return later(x) if False else x * 2

        compiled = oplib.jit(step)
        result = compiled(oplib.ones(2))
        later = abs
        return result, later

    assert make()[0].tolist() == [2, 2]


def test_the_globals_of_installed_packages_are_not_looked_into():
    def step(x):
        assert x.ndim == 1  # pytest rewrites this to calls of its own functions
        return x * 2

    assert len(Walk(step, []).containers) < 20
    assert oplib.jit(step)(oplib.ones(2)).tolist() == [2, 2]
