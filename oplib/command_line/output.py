"""Printing, in colours where a terminal and rich are there, and loading of the user's modules."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from argparse import Namespace
from collections.abc import Generator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from oplib.library.op_objects.overload import OpOverload, list_overloads
from oplib.tracebacks import is_inside


class CommandError(Exception):
    """A request that cannot be served; its text is one line."""


_IN_USE = frozenset(sys.modules)  # what oplib has imported; a file of one of these names would hide it
_outputs: list[TextIO] = []
_PLAIN: Mapping[str, str] = {}


@contextmanager
def only_json() -> Generator[None]:
    """Sends to stderr what a module of the user prints, so that stdout has the JSON and nothing else."""
    _outputs.append(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _outputs.pop()


def print_json(value: Any) -> None:
    """Prints a value for other programs."""
    print(json.dumps(value, indent=2, default=str), file=_outputs[-1] if _outputs else sys.stdout)


def print_result(options: Namespace, value: Any, text: str, colors: Mapping[str, str] = _PLAIN) -> None:
    """Prints a result for other programs if ``--json`` is given, and otherwise its text."""
    if options.json:
        print_json(value)
    else:
        print_colored(text, colors)


def print_colored(text: str, colors: Mapping[str, str]) -> None:
    """Prints text; each of the words gets its colour where a terminal and rich are there, and no NO_COLOR.

    Args:
        text: the text.
        colors: colours of rich by word.
    """
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or importlib.util.find_spec("rich") is None:
        print(text)
        return
    from rich.console import Console
    from rich.text import Text

    colored = Text(text)
    for word, color in colors.items():
        colored.highlight_words([word], color)
    Console(highlight=False, soft_wrap=True).print(colored)


def write_file(path: str, text: str) -> None:
    """Writes a file.

    Raises:
        CommandError: it cannot be written.
    """
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None


def load_module(name: str) -> ModuleType:
    """Imports a file or a module.

    Args:
        name: the path of a file of Python, or the dotted name of a module.

    Raises:
        CommandError: there is none, or its import fails.
    """
    if not (name.endswith(".py") or all(part.isidentifier() for part in name.split("."))):
        raise CommandError(f"{name!r} is neither a file.py nor the name of a module")
    try:
        sys.path.insert(0, "")
        if name.endswith(".py"):
            return _load_file(Path(name))
        return importlib.import_module(name)
    except CommandError:
        raise
    except ModuleNotFoundError as error:
        raise CommandError(f"{name} cannot be imported: {error}. Name a file.py or a module") from None
    except (Exception, SystemExit) as error:  # noqa: BLE001  code of the user
        line = find_user_line(error)
        if "no known parent package" in str(error):
            line += ". Put an __init__.py beside it, so that its folder is a package"
        raise CommandError(f"{name} cannot be imported: {type(error).__name__}: {error}{line}") from None


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise CommandError(f"there is no file {path}")
    folder, names = path.resolve().parent, [path.stem]
    while (folder / "__init__.py").is_file():
        folder, names = folder.parent, [folder.name, *names]
    root, name = names[0], ".".join(names).removesuffix(".__init__")
    known = getattr(sys.modules.get(root), "__file__", None)
    if known is None or not Path(known).is_relative_to(folder):
        if root in _IN_USE or root in sys.stdlib_module_names:
            raise CommandError(
                f"{path} cannot be imported: its name is that of the module {root}, which oplib or Python "
                f"imports. Rename {'it' if root == path.stem else 'its folder'}"
            )
        for other in [other for other in sys.modules if other.partition(".")[0] == root]:
            del sys.modules[other]  # an earlier file, or package, of this name
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()  # the file may be younger than what is known of its folder
    return importlib.import_module(name)


def find_user_line(error: BaseException) -> str:
    """Returns the innermost line of the user's code, in parentheses."""
    step, line = error.__traceback__, ""
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if "importlib" not in file and not is_inside[file]:
            line = f" ({Path(file).name}:{step.tb_lineno})"
        step = step.tb_next
    return line


def load_ops(name: str) -> list[OpOverload]:
    """Imports a file or a module, and returns the ops that it registers.

    Raises:
        CommandError: it cannot be imported, or registers no op.
    """
    before = {op.name() for op in list_overloads() if not op.record.is_built_in}
    module = load_module(name)
    file = getattr(module, "__file__", None) or ""
    folder = str(Path(file).parent) if Path(file).name == "__init__.py" else file
    known = [op for op in list_overloads() if not op.record.is_built_in]
    overloads = [
        op for op in known if op.name() not in before or (folder and op.record.where.startswith(folder))
    ]
    if not overloads:
        raise CommandError(f"{name} registers no op")
    return overloads
