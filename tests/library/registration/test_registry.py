"""Contributions of libraries: which one is in force, what their removal does, and many threads at once."""

from __future__ import annotations

import gc

import jax.numpy as jnp
import pytest

from oplib.errors import RegistrationError, UnknownOperatorError
from oplib.library import Library, custom_op, ops, refresh, register_autograd, register_fake, register_vmap
from oplib.library.registration.registry import registry
from tests.library.sample_kernels import adding
from tests.threads import run_in_threads, try_in_threads

X = jnp.zeros(2)


def define(name, namespace="reg"):
    library = Library(namespace, "FRAGMENT")
    library.define(f"{name}(Tensor x) -> Tensor")
    return library


def record(name):
    return getattr(ops.reg, name).default.record


@pytest.mark.usefixtures("told_already")
class TestStacks:
    def test_the_newest_kernel_is_in_force(self):
        first, second = define("f"), Library("reg", "IMPL")
        first.impl("f", adding(1), "default")
        second.impl("f", adding(2), "default")
        assert ops.reg.f(X)[0] == 2

    def test_destroying_the_top_kernel_restores_the_one_below(self):
        first, second = define("f"), Library("reg", "IMPL")
        first.impl("f", adding(1), "default")
        second.impl("f", adding(2), "default")
        second._destroy()
        assert ops.reg.f(X)[0] == 1

    def test_destroying_a_kernel_below_leaves_the_top_one(self):
        owner, first, second = define("f"), Library("reg", "IMPL"), Library("reg", "IMPL")
        first.impl("f", adding(1), "default")
        second.impl("f", adding(2), "default")
        first._destroy()
        assert ops.reg.f(X)[0] == 2
        del owner

    def test_fake_kernels_are_a_stack_too(self):
        owner, second = define("f"), Library("reg", "IMPL")
        fakes = [lambda x: x, lambda x: x]
        register_fake("reg::f", fakes[0], lib=owner)
        register_fake("reg::f", fakes[1], lib=second)
        assert record("f").fake is fakes[1]
        second._destroy()
        assert record("f").fake is fakes[0]

    def test_formulas_are_a_stack_too(self):
        owner, second = define("f"), Library("reg", "IMPL")
        formulas = [lambda ctx, g: g, lambda ctx, g: g]
        register_autograd("reg::f", formulas[0], lib=owner)
        register_autograd("reg::f", formulas[1], lib=second)
        assert record("f").derivative.backward is formulas[1]
        second._destroy()
        assert record("f").derivative.backward is formulas[0]

    def test_a_device_kernel_goes_before_the_default_whatever_the_order(self):
        library = define("f")
        library.impl("f", adding(1), "CPU")
        library.impl("f", adding(2), "default")
        assert ops.reg.f(X)[0] == 1

    def test_a_kernel_that_survives_its_op_serves_the_next_definition(self):
        first, kernels = define("f"), Library("reg", "IMPL")
        kernels.impl("f", adding(1), "default")
        first._destroy()
        second = define("f")
        assert ops.reg.f(X)[0] == 1
        del second


class TestLifetime:
    def test_an_op_goes_with_the_last_reference_to_its_library(self):
        library = define("f")
        assert ops.reg.f.default.alive
        del library
        with pytest.raises(UnknownOperatorError):
            _ = ops.reg.f

    def test_a_library_in_a_cycle_goes_when_the_cycle_is_collected(self):
        library = define("f")
        library.itself = library
        del library
        gc.collect()
        assert not hasattr(ops.reg, "f")

    def test_a_rule_goes_with_its_own_library_and_the_op_stays(self):
        owner, rules = define("f"), Library("reg", "IMPL")
        rule = register_vmap("reg::f", lambda info, in_dims, x: (x, 0), lib=rules)
        assert record("f").vmap is rule
        rules._destroy()
        assert record("f").vmap is None
        del owner

    def test_an_op_of_custom_op_stays_when_its_object_goes(self):
        custom_op("reg::f", adding(1))
        gc.collect()
        assert ops.reg.f(X)[0] == 1

    def test_a_handle_raises_after_the_end_of_the_op(self):
        library = define("f")
        overload, packet = ops.reg.f.default, ops.reg.f
        library._destroy()
        for handle in (overload, packet, overload.arrays):
            with pytest.raises(
                RegistrationError, match=r"reg::f: the op is not defined any more\. .*test_registry\.py:\d+"
            ):
                handle(X)

    def test_a_handle_works_again_when_the_op_is_defined_again(self):
        library = define("f")
        overload, packet = ops.reg.f.default, ops.reg.f
        library._destroy()
        library = define("f")
        library.impl("f", adding(3), "default")
        assert overload(X)[0] == packet(X)[0] == 3

    def test_the_last_record_survives_the_library(self):
        library = define("f")
        overload = ops.reg.f.default

        def backward(ctx, g):
            return g

        register_autograd("reg::f", backward, lib=library)
        library._destroy()
        assert overload.record.derivative.backward is backward

    def test_nothing_of_a_destroyed_library_stays_in_the_registry(self):
        library = define("f")
        qualname = ops.reg.f.default._qualname
        library._destroy()
        assert registry.read(qualname) == ()


class TestVersions:
    def test_each_change_of_an_op_raises_its_version(self):
        library = define("f")
        versions = [record("f").version]
        library.impl("f", adding(1), "default")
        versions.append(record("f").version)
        register_fake("reg::f", lambda x: x, lib=library)
        versions.append(record("f").version)
        assert versions == sorted(set(versions))

    def test_the_version_goes_on_when_an_op_is_defined_again(self):
        library = define("f")
        overload = ops.reg.f.default
        before = overload.record.version
        library._destroy()
        library = define("f")
        assert overload.record.version > before

    def test_a_change_of_one_op_leaves_the_others_alone(self):
        libraries = [define("f"), define("g")]
        before = record("g")
        libraries[0].impl("f", adding(1), "default")
        assert record("g") is before

    def test_refresh_gives_every_op_a_new_version(self):
        library = define("f")
        before = record("f").version
        refresh()
        assert record("f").version == before + 1
        del library

    def test_a_local_op_may_be_collected_while_refresh_runs(self, monkeypatch):
        def publish(*arguments):
            if local:
                local.clear()
                gc.collect()
            return complete(*arguments)

        library = define("f")
        version = record("f").version
        local = [custom_op(adding(1), schema="(Tensor x) -> Tensor") for _ in range(3)]
        complete = registry._publish
        monkeypatch.setattr(registry, "_publish", publish)
        refresh()
        assert local == []
        assert record("f").version == version + 1  # no op keeps its old code
        del library


class TestBuilding:
    def test_the_function_of_a_call_is_built_once_at_the_first_call(self, monkeypatch):
        built = []

        def build(overload):
            built.append(overload.name())
            return lambda x: x

        monkeypatch.setattr("oplib.library.registration.registry.build_call", build)
        library = define("f")
        library.impl("f", adding(1), "default")
        assert built == []
        ops.reg.f(X), ops.reg.f(X)
        assert built == ["reg::f"]

    def test_it_is_built_anew_for_a_new_record(self):
        library = define("f")
        library.impl("f", adding(1), "CPU")
        assert ops.reg.f(X)[0] == 1
        scope = Library("reg", "IMPL")
        register_fake("reg::f", lambda x: x, lib=scope)
        assert ops.reg.f(X)[0] == 1


class TestThreads:
    def test_of_many_that_define_one_name_exactly_one_wins(self):
        libraries = [Library("reg", "FRAGMENT") for _ in range(8)]
        found = try_in_threads(lambda number: libraries[number].define("f(Tensor x) -> Tensor"), 8)
        assert [type(one) for one in found if one != "f"] == [RegistrationError] * 7
        assert ops.reg.f.overloads() == ["default"]

    def test_many_may_define_different_ops_at_once(self):
        libraries = [Library("reg", "FRAGMENT") for _ in range(8)]
        run_in_threads(lambda number: libraries[number].define(f"f{number}(Tensor x) -> Tensor"), 8)
        assert set(ops.reg) >= {f"f{number}" for number in range(8)}

    def test_calls_go_on_while_rules_are_registered(self):
        library = define("f")
        library.impl("f", adding(1), "default")
        seen = []

        def act(number):
            for _ in range(20):
                if number % 2:
                    register_fake("reg::f", lambda x: x, lib=library)
                else:
                    seen.append(float(ops.reg.f(X)[0]))

        run_in_threads(act)
        assert set(seen) == {1.0}

    def test_a_library_that_dies_while_another_registers_is_still_taken_away(self):
        def act(number):
            for turn in range(10):
                define(f"f{number}_{turn}")  # removed at once

        run_in_threads(act)
        assert not any(name.startswith("f") for name in ops.reg)

    def test_a_finalizer_inside_a_registration_leaves_its_work_to_it(self):
        library = define("f")

        def check(pieces):
            nonlocal library
            library = None

        other = Library("reg", "FRAGMENT")
        other.define("g(Tensor x) -> Tensor")
        piece = registry.read(ops.reg.g.default._qualname)[0]
        registry.add(ops.reg.g.default._qualname, piece.slot, piece.value, piece.owner, check)
        assert not hasattr(ops.reg, "f")
        assert hasattr(ops.reg, "g")
