"""The pytest plugin, in runs of pytest of its own."""

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture
def run(pytester, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.delenv("XLA_FLAGS", raising=False)

    def run(code, *options):
        pytester.makepyfile(code)
        return pytester.runpytest_subprocess("-p", "oplib_pytest", *options)

    return run


@pytest.mark.slow
def test_the_fixtures(run, pytester):
    pytester.makeini("[pytest]\noplib_devices = 2")
    code = """
    import jax, oplib

    def test_x64(x64):
        assert oplib.tensor(1).dtype == oplib.int64

    def test_without(): assert oplib.tensor(1).dtype == oplib.int32

    def test_seed(seed):
        first = oplib.randn(3)
        oplib.manual_seed(seed)
        assert seed == 7
        assert (oplib.randn(3) == first).all()

    def test_devices(devices): assert len(devices(2)) == 2

    def test_too_many(devices): devices(3)
    """
    result = run(code, "--oplib-seed=7", "-rs")
    result.assert_outcomes(passed=4, skipped=1)
    result.stdout.fnmatch_lines(["*needs 3 devices, found 2*"])


@pytest.mark.slow
def test_leftovers_are_found_where_the_settings_ask(run, pytester):
    code = """
    import oplib

    def test_it(): oplib.config.fast_path = False

    def test_after(): assert oplib.config.fast_path
    """
    run(code).assert_outcomes(passed=1, failed=1)  # nobody asked, and the second test sees it
    pytester.makeini("[pytest]\noplib_leftovers = true")
    result = run(code)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*oplib.config.fast_path: True became False*"])


@pytest.mark.slow
def test_oplib_is_not_imported_unless_a_test_asks(run):
    result = run("import sys\ndef test_it(): assert not {'oplib', 'jax'} & set(sys.modules)")
    result.assert_outcomes(passed=1)
