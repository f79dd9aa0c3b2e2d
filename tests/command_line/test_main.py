"""The command line, as a process where the exit status and the streams count, else by its function."""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import oplib
from oplib.command_line.main import main
from oplib.command_line.new_package import write_files

ROOT = Path(oplib.__file__).parents[1]
MODULE = '''
"""Ops of a user."""
import jax
import jax.numpy as jnp
from oplib.library import custom_op

@custom_op("commands::cube")
def cube(x: jax.Array) -> jax.Array:
    """Cubes."""
    return x ** 3

def save(ctx, inputs, output):
    ctx.save_for_backward(*inputs)

cube.register_autograd(lambda ctx, g: g * {factor} * ctx.saved_tensors[0] ** 2, setup_context=save)

@custom_op("commands::odd")
def odd(x: jax.Array, thing: object) -> jax.Array:
    return x
'''


@pytest.fixture(autouse=True)
def own_modules(forget_ops, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("user_ops"):
            del sys.modules[name]


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "user_ops.py"
    path.write_text(MODULE.format(factor=3))
    return str(path)


@pytest.fixture
def wrong_module(tmp_path):
    path = tmp_path / "user_ops_wrong.py"
    path.write_text(MODULE.format(factor=2))
    return str(path)


def test_the_table_of_a_module(module, capsys):
    assert main(["ops", "--module", module]) == 0
    printed = capsys.readouterr().out
    assert "commands::cube" in printed
    assert "user_ops.py:7" in printed
    assert "oplib::sin" not in printed


def test_the_table_of_all_ops_has_the_built_in_ones(capsys):
    assert main(["ops"]) == 0
    assert "oplib::sin" in capsys.readouterr().out


def test_tables_for_machines(module, capsys, tmp_path):
    page = tmp_path / "ops.html"
    assert main(["ops", "commands", "--module", module, "--json", "--html", str(page)]) == 0
    table = json.loads(capsys.readouterr().out)
    assert [op["name"] for op in table] == ["commands::cube", "commands::odd"]
    assert table[0]["rules"][4]["status"] == "registered"
    assert "<b>cube</b>" in page.read_text()


def test_one_op_with_its_rules_and_a_call(module, capsys):
    assert main(["show", "commands::cube", "--module", module]) == 0
    printed = capsys.readouterr().out
    assert "Cubes." in printed
    assert "backward      ●  register_autograd" in printed
    assert "oplib.ops.commands.cube.default(oplib.randn(3, 4))" in printed
    assert main(["show", "oplib::sin", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "oplib::sin(Tensor self) -> Tensor"


def test_a_built_in_op_has_no_place(capsys):
    assert main(["show", "oplib::exp"]) == 0
    printed = capsys.readouterr().out
    assert "array kernel, compiled  ·  built in\n" in printed
    assert "backward      ●  register_autograd\n" in printed
    assert main(["ops", "oplib"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:-2]
    assert len(lines) > 500
    assert all(line.endswith("  built in") for line in lines)


@pytest.mark.slow
def test_a_right_module_passes_its_check(module, capsys):
    assert main(["check", module, "--quick"]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[:3] == [
        "  schema, autograd registration, fake kernel, compiled, gradients, forward mode",
        "  ✓ passed   ✗ failed   – skipped",
        "",
    ]
    assert "commands::cube   ✓ ✓ ✓ ✓ ✓ ✓" in printed
    assert "commands::odd    –   no arguments can be made" in printed
    assert "0 failed, 6 passed, 1 skipped" in printed


@pytest.mark.slow
def test_a_wrong_module_fails_its_check(wrong_module, capsys, tmp_path):
    page, results = tmp_path / "report.html", tmp_path / "results.xml"
    assert main(["check", wrong_module, "--quick", "--html", str(page), "--junit", str(results)]) == 1
    printed = capsys.readouterr().out
    assert "1 failed, 5 passed, 1 skipped" in printed
    assert "a factor is missing" in printed
    text = page.read_text()
    assert text.count("<svg") == 3
    assert "http" not in text.replace("http-equiv", "")
    cases = list(ET.fromstring(results.read_text()).iter("testcase"))
    assert [case.get("name") for case in cases if case.find("failure") is not None] == ["test_gradients"]
    assert [case.get("classname") for case in cases if case.find("skipped") is not None] == ["commands::odd"]


def test_check_for_machines(wrong_module, capsys):
    assert main(["check", wrong_module, "--quick", "--json"]) == 1
    cube, odd = json.loads(capsys.readouterr().out)
    assert cube["checks"]["test_gradients"]["outcome"] == "failed"
    assert odd["checks"]["samples"]["outcome"] == "skipped"


def test_an_op_that_raises_for_all_samples_fails(tmp_path, capsys):
    path, results = tmp_path / "user_ops_raising.py", tmp_path / "results.xml"
    path.write_text(
        "import jax\nfrom oplib.library import custom_op\n"
        "@custom_op('commands::raising')\n"
        "def raising(x: jax.Array, *, by: float) -> jax.Array:\n"
        "    raise ZeroDivisionError('no way.')\n"
    )
    assert main(["check", str(path), "--junit", str(results)]) == 1
    printed = capsys.readouterr().out
    assert "commands::raising   ✗" in printed
    assert "Got ZeroDivisionError for (f32[3,4], by=0.5): no way. Correct the op" in printed
    assert "1 failed, 0 passed, 0 skipped" in printed
    (failure,) = ET.fromstring(results.read_text()).iter("failure")
    assert "ZeroDivisionError" in str(failure.get("message"))


@pytest.mark.slow
def test_the_bench(module, capsys):
    assert main(["bench", "commands::cube", "--module", module, "--shape", "x=2,5", "--json"]) == 0
    times = json.loads(capsys.readouterr().out)["microseconds"]
    assert list(times) == [
        "bare jit", "call on arrays", "call on Tensors", "bare jit(grad)", "recorded call and backward",
    ]  # fmt: skip
    assert all(time > 0 for time in times.values())


def test_the_programs(module, capsys):
    assert main(["jaxpr", "commands::cube", "--module", module, "--shape", "x=2,5"]) == 0
    assert "f32[2,5]" in capsys.readouterr().out
    assert main(["hlo", "commands::cube", "--module", module]) == 0
    assert "stablehlo" in capsys.readouterr().out
    assert main(["hlo", "commands::cube", "--module", module, "--optimized"]) == 0
    assert "HloModule" in capsys.readouterr().out


GRAPH = """
import oplib

def loss():
    w = oplib.ones(2, requires_grad=True)
    return (w * 3).sum(), {"weight": w}

def number(): return 1

def fails(): raise ValueError("no data")
"""


def test_the_graph_of_a_loss(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("user_ops_graph.py").write_text(GRAPH)
    assert main(["graph", "user_ops_graph.py:loss"]) == 0
    assert "weight  f32[2]" in capsys.readouterr().out
    assert main(["graph", "user_ops_graph.py:loss", "--run", "-o", "loss.svg"]) == 0
    assert "weight" in Path("loss.svg").read_text()
    assert capsys.readouterr().out == "  loss.svg\n"


def test_the_doctor(capsys, monkeypatch):
    assert main(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["oplib"].startswith(oplib.__version__)
    assert "cpu" in facts["devices"]
    monkeypatch.setattr(oplib.config, "fast_path", False)
    assert main(["doctor"]) == 0
    assert "config.fast_path or config.compile_kernels is off" in capsys.readouterr().out


def test_the_doctor_says_whether_memory_of_large_arrays_is_kept(capsys, monkeypatch):
    monkeypatch.setattr("platform.libc_ver", lambda: ("glibc", "2.39"))
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
        monkeypatch.delenv(name, raising=False)
    assert main(["doctor"]) == 0
    assert "arrays above 32 MB" in capsys.readouterr().out
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "1000000000")
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000000000")
    assert main(["doctor"]) == 0
    assert "arrays above 32 MB" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_new_package_passes_its_tests(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "fresh_ops"]) == 0
    assert "python -m pytest" in capsys.readouterr().out
    assert ">softclip</text>" in Path("fresh_ops/docs/softclip.svg").read_text()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "oplib_pytest"]
    done = subprocess.run(command, cwd=tmp_path / "fresh_ops", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "18 passed" in done.stdout
    command = [sys.executable, "benchmarks/bench_softclip.py"]
    paths = {"PYTHONPATH": os.pathsep.join([".", str(ROOT)])}  # in place of an installation
    done = subprocess.run(
        command,
        cwd=tmp_path / "fresh_ops",
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | paths,
    )
    assert "plain JAX" in done.stdout, done.stderr


def test_a_new_package_says_where_oplib_comes_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = {path: path.read_text() for path in write_files("fresh_ops", None)}
    project = tomllib.loads(texts[Path("fresh_ops/pyproject.toml")])
    assert project["project"]["dependencies"] == ["jax"]
    assert [path.name for path, text in texts.items() if "HOST/OWNER" in text] == ["pyproject.toml"]
    assert "oplib is on no package index" in texts[Path("fresh_ops/README.md")]


def test_what_is_to_be_filled_in_is_found(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_files("fresh_ops", None)
    assert main(["doctor", "--package", "fresh_ops"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6  # licence, name, classifiers, the address of oplib in two, that of the source
    assert all(line.startswith("  fresh_ops/pyproject.toml:") for line in lines)
    project = Path("fresh_ops/pyproject.toml")
    project.write_text(project.read_text().replace("TODO", "done"))
    assert main(["doctor", "--package", "fresh_ops"]) == 1  # the address is commented out
    assert "HOST/OWNER" in capsys.readouterr().out
    project.write_text(project.read_text().replace("HOST/OWNER", "host/owner"))
    assert main(["doctor", "--package", "fresh_ops", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["to fill in"] == []


def test_an_interrupted_package_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "run", interrupt)
    assert main(["new", "fresh_ops"]) == 130
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["BSD-3-Clause", "MIT"])
def test_a_licence_is_written_and_named(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_files("fresh_ops", name)
    project = tomllib.loads(Path("fresh_ops/pyproject.toml").read_text())["project"]
    assert (project["license"], project["license-files"]) == (name, ["LICENSE"])
    assert len(Path("fresh_ops/LICENSE").read_text()) > 1_000
    assert main(["doctor", "--package", "fresh_ops"]) == 1
    assert "LICENSE:" in capsys.readouterr().out  # the name of the owner


@pytest.mark.parametrize("page", ["README.md", "docs", "oplib"])
def test_no_text_asks_an_index_for_oplib(page):
    files = [ROOT / page] if page.endswith(".md") else list((ROOT / page).rglob("*"))
    texts = {file: file.read_text() for file in files if file.suffix in (".md", ".py", ".txt")}
    assert texts
    assert [file for file, text in texts.items() if re.search(r"pip install \W*oplib\b", text)] == []


REFUSES = """
import jax, oplib

@oplib.custom_op("refuses::a")
def a(x: jax.Array) -> jax.Array:
    if len(x) != 77: raise ValueError("x must have 77 rows")
    return x / 2

@oplib.custom_op("refuses::b")
def b(x: jax.Array) -> jax.Array: return x / 2

@b.register_autograd
def fails(ctx, grad): raise ValueError("no gradient")

@oplib.custom_op("refuses::c")
def c(x: jax.Array) -> jax.Array: return x / 2

@oplib.testing.add_samples(c)
def make(): raise KeyError("no data")
"""

BAD_INPUT = [
    (["ops", "nowhere"], "the namespace 'nowhere' has no op"),
    (["show", "no::op"], "the operator no::op does not exist"),
    (["show", "op"], "op"),
    (
        ["show", "oplib::add"],
        "Got oplib::add, which has oplib::add.Scalar, oplib::add.Tensor, oplib::add.scaled.",
    ),
    (["check", "no_file.py"], "there is no file no_file.py"),
    (["check", "no.such.module"], "no.such.module cannot be imported: No module named 'no'"),
    (["check", "json"], "json registers no op"),
    (
        ["check", "broken.py"],
        "broken.py cannot be imported: ZeroDivisionError: division by zero (broken.py:2)",
    ),
    (["check", "refused.py"], "(refused.py:4)"),
    (["check", "leaves.py"], "leaves.py cannot be imported: SystemExit: 3"),
    (["ops", "oplib", "--html", "no/folder.html"], "no/folder.html cannot be written: No such file"),
    (["bench", "oplib::sin", "--shape", "self"], "--shape self: not of the form NAME=N,M"),
    (["bench", "oplib::sin", "--shape", "self=2,-1"], "--shape self=2,-1: not of the form NAME=N,M"),
    (["check", "numpy.py"], "numpy.py cannot be imported: its name is that of the module numpy, which oplib"),
    (
        ["check", "email/ops.py"],
        "its name is that of the module email, which oplib or Python imports. Rename its",
    ),
    (
        ["check", "relative.py"],
        "(relative.py:1). Put an __init__.py beside it, so that its folder is a package",
    ),
    (["show", "refuses::c", "--module", "refuses.py"], "KeyError: 'no data' (refuses.py:19)"),
    (
        ["bench", "refuses::a", "--module", "refuses.py"],
        "each of x. It raises ValueError: x must have 77 rows",
    ),
    (["bench", "refuses::b", "--module", "refuses.py"], "ValueError: no gradient (refuses.py:13)"),
    (["jaxpr", "refuses::a", "--module", "refuses.py", "--shape", "x=1"], "x=1; give --shape NAME=N,M"),
    (["bench"], "the following arguments are required: NS::OP. `oplib bench --help` shows what it takes"),
    (["check", "--json"], "the following arguments are required: MODULE. `oplib check --help` shows"),
    (["completion", "csh"], "invalid choice: 'csh'"),
    (["ops", "--none"], "unrecognized arguments: --none. `oplib --help` shows what it takes"),
    ([], "the following arguments are required: COMMAND. `oplib --help` shows what it takes"),
    (["check", "."], "'.' is neither a file.py nor the name of a module"),
    (["check", ""], "'' is neither a file.py nor the name of a module"),
    (["bench", "oplib::sin", "--shape", "other=2"], "'shapes' names 'other'"),
    (
        ["bench", "oplib::matmul", "--shape", "self=2,3", "--shape", "other=2,3"],
        "it accepts with self=2,3 other=2,3; give --shape NAME=N,M for each of self, other",
    ),
    (["graph", "graphs.py"], "graphs.py is not of the form FILE.py:FUNCTION"),
    (["graph", "graphs.py:nothing"], "graphs.py has no function 'nothing'"),
    (["graph", "graphs.py:number"], "number returns int; it must return a Tensor"),
    (["graph", "graphs.py:fails"], "ValueError: no data (graphs.py:10)"),
    (["graph", "graphs.py:loss", "-o", "loss.bmp"], "loss.bmp"),
    (["new", "class"], "'class' cannot be the name of a package"),
    (["new", "class"], "such as my_class"),
    (["new", "my-ops2"], "such as my_ops2"),
    (["new", "\N{LATIN SMALL LIGATURE FI}x"], "such as fix"),
    (["new", "__init__"], "such as init"),
    (["new", "2d"], "such as my_2d"),
    (["new", "docs"], "such as my_docs"),
    (["new", ""], "such as ops"),
    (["doctor", "--package", "taken"], "taken has no pyproject.toml"),
    (["new", "jax"], "'jax' is the name of an installed package, which the new one would hide"),
    (["new", "json"], "'json' is the name of an installed package"),
    (["new", "taken"], "taken exists already"),
]


@pytest.mark.parametrize(("words", "told"), BAD_INPUT, ids=[" ".join(words) for words, _ in BAD_INPUT])
def test_bad_input_gives_one_line_and_status_2(words, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("broken.py").write_text("import os\n1 / 0\n")
    Path("refused.py").write_text("import oplib\n\n\n@oplib.custom_op('a::b')\ndef b(x): return x\n")
    Path("leaves.py").write_text("raise SystemExit(3)\n")
    Path("numpy.py").write_text("import numpy\n")
    Path("relative.py").write_text("from .leaves import x\n")
    Path("refuses.py").write_text(REFUSES)
    Path("email").mkdir()
    for name in ("__init__", "ops"):
        Path(f"email/{name}.py").write_text("import email\n")
    Path("graphs.py").write_text(GRAPH)
    Path("taken").mkdir()
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("oplib: ")
    assert told in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.slow
def test_a_closed_pipe_gives_one_line_and_status_2():
    command = f"{sys.executable} -m oplib ops | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "oplib: the output was closed\n"


@pytest.mark.slow
def test_an_output_that_is_closed_from_the_start_gives_one_line_and_status_2():
    command = ["bash", "-c", f"{sys.executable} -m oplib ops >&-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "oplib: the output is closed\n")


@pytest.mark.slow
def test_marks_that_the_encoding_of_the_output_lacks_are_replaced():
    command = [sys.executable, "-m", "oplib", "ops", "oplib"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stderr == ""
    assert re.search(r"oplib::relu +\?", done.stdout)


@pytest.mark.slow
def test_the_version_needs_no_command():
    command = [sys.executable, "-m", "oplib", "--version"]
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
        == f"oplib {oplib.__version__}\n"
    )


COMMANDS = {
    "ops": ["ops", "oplib"],
    "show": ["show", "oplib::sin"],
    "check": ["check", "user_ops.py", "--quick"],
    "graph": ["graph", "user_ops_graph.py:loss"],
    "bench": ["bench", "oplib::sin"],
    "jaxpr": ["jaxpr", "oplib::sin"],
    "hlo": ["hlo", "oplib::sin"],
    "doctor": ["doctor"],
    "new": ["new", "fresh_ops"],
    "completion": ["completion", "bash"],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("user_ops.py").write_text(MODULE.format(factor=3))
    Path("user_ops_graph.py").write_text(GRAPH)


def test_every_command_stands_in_the_tests_and_on_the_page(capsys):
    main(["completion", "bash"])
    assert f'values="{" ".join(COMMANDS)}"' in capsys.readouterr().out
    page = (ROOT / "docs/use/command_line.md").read_text()
    assert [name for name in COMMANDS if f"`{name} " not in page and f"`{name}`" not in page] == []


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.usefixtures("folder")
def test_every_command_prints_for_other_programs_whatever_the_module_prints(words, capsys):
    for path in Path().glob("user_ops*.py"):
        path.write_text(
            path.read_text().replace("    return x", "    print('said');return x") + "print('said')"
        )
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_what_a_module_prints_comes_to_stderr_beside_json(module, capsys):
    Path(module).write_text(f"print('said by the user')\n{Path(module).read_text()}")
    assert main(["ops", "--module", module, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)
    assert err == "said by the user\n"
    assert main(["show", "oplib::sin"]) == 0  # the next command prints as before
    assert "oplib::sin" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.usefixtures("folder")
def test_every_command_prints_without_colours_where_they_are_not_wanted(words, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(words) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_interrupted_in_one_line(name, monkeypatch, capsys):
    def interrupt(parser, words):
        options = parse(parser, words)
        options.run = raise_interrupt
        return options

    def raise_interrupt(options):
        raise KeyboardInterrupt

    parse = argparse.ArgumentParser.parse_args
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", interrupt)
    assert main(COMMANDS[name]) == 130
    assert capsys.readouterr() == ("", "oplib: interrupted\n")


@pytest.mark.slow
def test_an_interrupt_of_the_process_ends_it_in_one_line(folder):
    Path("user_ops_slow.py").write_text(  # a process in the background ignores the signal at first
        "import os, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
    )
    command = [sys.executable, "-m", "oplib", "ops", "--module", "user_ops_slow.py"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "oplib: interrupted\n")


@pytest.mark.slow
@pytest.mark.parametrize("interrupted", ["oplib.tensor", "oplib.command_line.main"])
def test_an_interrupt_within_imports_ends_the_process_in_one_line(interrupted, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {interrupted!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.meta_path.insert(0, Interrupts())\n"
    )
    command = [sys.executable, "-m", "oplib", "doctor"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "oplib: interrupted\n")


@pytest.mark.slow
def test_a_file_of_the_folder_hides_no_module_from_the_command(tmp_path):
    (tmp_path / "jax.py").write_text("")
    (tmp_path / "user_ops_beside.py").write_text(f"import user_ops_common\n{MODULE.format(factor=3)}")
    (tmp_path / "user_ops_common.py").write_text("")
    command = [sys.executable, "-m", "oplib", "ops", "--module", "user_ops_beside.py"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "commands::cube" in done.stdout


def test_an_interrupt_while_the_words_are_read_ends_in_one_line(monkeypatch, capsys):
    def interrupt(parser, words):
        raise KeyboardInterrupt

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", interrupt)
    assert main(["doctor"]) == 130
    assert capsys.readouterr() == ("", "oplib: interrupted\n")


def test_a_file_of_a_package_imports_its_neighbours(tmp_path, capsys):
    for folder in ("first", "second"):  # two packages of one name
        package = tmp_path / folder / "user_ops_package"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "neighbour.py").write_text("import jax\n")
        (package / "main.py").write_text(
            "import oplib\nfrom .neighbour import jax\n"
            f"@oplib.custom_op('commands::{folder}')\ndef f(x: jax.Array) -> jax.Array: return x / 2\n"
        )
        assert main(["ops", "--module", str(package / "main.py")]) == 0
        table = capsys.readouterr().out
        assert [name for name in ("first", "second") if f"commands::{name}" in table] == [folder]


def test_a_defect_of_oplib_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr("oplib.command_line.doctor._EXTRAS", 3)
    with pytest.raises(TypeError):
        main(["doctor"])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name, capsys):
    with pytest.raises(SystemExit):
        main([name, "--help"])
    told = capsys.readouterr().out.split("options:")[1]
    for option in re.findall(r"^  -.*(?:\n {10,}.*)*", told, re.MULTILINE):
        assert re.search(r"(?:  |\n {10,})[a-zA-Z]\S* \S+", option), option


@pytest.mark.parametrize(
    ("words", "proposed"),
    [
        (["oplib", "che"], ["check"]),
        (["oplib", "check", "--q"], ["--quick"]),
        (["oplib", "new", "--"], ["--help", "--json", "--license"]),
        (["oplib", "new", "fresh_ops", "--license", ""], ["BSD-3-Clause", "MIT"]),
        (["oplib", "completion", ""], ["bash", "zsh", "fish"]),
        (["oplib", "check", ""], []),  # files, by the shell
        (["oplib", "--"], ["--help", "--version"]),
    ],
)
def test_bash_completes_commands_and_options(words, proposed, capsys):
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    words_now = f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}"
    run = f"{script}\n{words_now}; _oplib; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", run], capture_output=True, text=True, check=True)
    assert done.stdout.split() == proposed


def test_the_scripts_for_zsh_and_fish_have_every_command(capsys):
    main(["completion", "bash"])
    bash = capsys.readouterr().out
    main(["completion", "zsh"])
    assert capsys.readouterr().out.endswith(bash)
    main(["completion", "fish"])
    fish = capsys.readouterr().out
    assert 'complete -c oplib -n "__fish_seen_subcommand_from check" -a "--help --html --json' in fish
    assert [name for name in COMMANDS if f'from {name}"' not in fish] == []
