"""The tool that counts which mistakes the tests find."""

import ast
import subprocess
from pathlib import Path

import pytest

from tests.mutants import copy_project, draw, list_mutants, main

PLACE = Path("oplib/config.py")


def list_lines(source):
    """Returns the line of each mutant as it is afterwards."""
    data = source.encode()
    return [one.change(data).decode().splitlines()[one.line - 1].strip() for one in list_mutants(PLACE, data)]


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("a = b < c", ["a = (b <= c)"]),
        ("a = b is None", ["a = (b is not None)"]),
        ("a = b and c", ["a = (b or c)"]),
        ("a = b + c", ["a = (b - c)"]),
        ("a += b", ["a -= b"]),
        ("a = not b", ["a = (b)"]),
        ("a = True", ["a = (False)"]),
        ("a = 2", ["a = (3)"]),
        ("def f(): return a", ["def f(): return (None)"]),
        ("def f(): return None", []),
        ("def f(): return False", ["def f(): return (True)"]),
        ("if a: pass", ["if (not a): pass"]),
        ("a = b if c() else d", ["a = b if (not c()) else d"]),
        ("a = 'é' + b", ["a = ('é' - b)"]),
        ("def f(a: b | c) -> b | c: pass", []),
        ("a: b | c", []),
        ("a = f'{b + 1}'", []),
        ("if TYPE_CHECKING: import a", []),
        ("'''Text.'''", []),
        ("_MOST_KNOWN = 64", []),
        ("a = zip(b, c, strict=True)", []),
        ("@lru_cache(maxsize=64)\ndef f(): pass", []),
    ],
)
def test_a_mutant_swaps_one_thing(source, lines):
    assert list_lines(source) == lines


def test_an_expression_of_several_lines_is_replaced_whole():
    (mutant,) = list_mutants(PLACE, b"def f():\n    if (a\n        and b):\n        pass\n")
    assert (mutant.line, mutant.text) == (2, "(a or b)")
    ast.parse(mutant.change(b"def f():\n    if (a\n        and b):\n        pass\n"))


@pytest.fixture
def project(tmp_path):
    """A checkout with a module, a test that finds its first two lines, and a file that git ignores."""
    for name, text in {
        "oplib/__init__.py": "",
        "oplib/config.py": "def double(x):\n    return x * 2\n\n\ndef is_large(x):\n    return x > 9\n",
        "tests/test_config.py": (
            "from oplib.config import double\n\n\ndef test_one():\n    assert double(3) == 6\n"
        ),
        ".gitignore": "out/\n",
        "out/file": "",
        "pyproject.toml": "[tool.pytest.ini_options]\nmarkers = ['slow']\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def read_all(folder):
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(folder).parts
    }


def test_a_seed_draws_the_same_mutants(project):
    one, same, other = (draw([project / "oplib"], project, 3, seed) for seed in (1, 1, 2))
    assert one == same != other
    assert len(draw([project / "oplib"], project, 100, 1)) == 6


def test_a_line_is_drawn_alone(project):
    (mutant,) = draw([project / "oplib" / "config.py:2"], project, 1, 1)
    assert mutant.line == 2
    assert len(draw([project / "oplib" / f"config.py:{line}" for line in (1, 2, 5)], project, 100, 1)) == 3


def test_a_copy_has_what_git_does_not_ignore_and_what_tests_have_compiled(project, tmp_path_factory):
    copy = tmp_path_factory.mktemp("copy")
    compiled = project / ".pytest_cache" / "jax" / "program"
    (project / ".gitignore").write_text("out/\n.pytest_cache/\n")
    compiled.parent.mkdir(parents=True)
    compiled.touch()
    copy_project(project, copy)
    assert {str(path.relative_to(copy)) for path in read_all(copy)} == {
        str(path.relative_to(project)) for path in read_all(project) if path.name != "file"
    }


@pytest.mark.slow
def test_survivors_are_shown_and_the_checkout_stays_as_it_is(project, capsys):
    before = read_all(project)
    main(["oplib", "--count", "9", "--seed", "1"], project)
    assert read_all(project) == before
    shown = capsys.readouterr().out
    assert shown.count("\nkilled, ") == shown.count("oplib/config.py:2\n") == 3
    assert "oplib/config.py:6\n    -    return x > 9\n    +    return (x >= 9)\n" in shown
    assert "3 of 6 mutants killed, 0 of them by a test that hung; 3 survived" in shown


@pytest.mark.slow
def test_a_mutant_whose_test_fails_or_hangs_without_it_is_left_out(project, capsys):
    test = project / "tests" / "test_config.py"
    test.write_text(test.read_text().replace("== 6", "== 7"))
    main(["oplib", "--count", "1", "--seed", "1"], project)
    assert "0 survived; 1 left out" in capsys.readouterr().out
    test.write_text("import time\n\n\ndef test_one():\n    time.sleep(60)\n")
    main(["oplib", "--count", "1", "--seed", "1", "--limit", "1"], project)
    assert "0 survived; 1 left out" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["while is_large(9): pass", "sleep(99 if is_large(9) else 0)"])
def test_a_mutant_in_which_one_test_hangs_is_killed_and_many_short_tests_are_no_hang(
    project, capsys, statement
):
    (project / "tests" / "test_config.py").write_text(
        "from time import process_time, sleep\nimport pytest\nfrom oplib.config import is_large\n\n\n"
        "@pytest.mark.parametrize('number', range(5))\ndef test_time(number):\n"
        "    start = process_time()\n    while process_time() < start + 0.5: pass\n\n\n"
        f"def test_one():\n    {statement}\n"
    )
    main(["oplib/config.py:6", "--count", "9", "--seed", "1", "--limit", "2"], project)
    shown = capsys.readouterr().out
    assert "\n    +    return (x >= 9)\n" in shown
    assert "1 of 3 mutants killed, 1 of them by a test that hung; 2 survived" in shown


def test_an_interrupt_removes_the_copy(project, monkeypatch, tmp_path_factory):
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr("tempfile.tempdir", str(folder))

    def interrupt(*arguments):
        assert list(folder.iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr("tests.mutants.Trial._run_tests", interrupt)
    before = read_all(project)
    with pytest.raises(KeyboardInterrupt):
        main(["oplib", "--count", "1"], project)
    assert list(folder.iterdir()) == []
    assert read_all(project) == before
