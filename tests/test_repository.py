"""What no file of the repository may carry."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Put together from pieces, so that this file is checked like any other.
FORBIDDEN = {
    "the address of a package registry": [
        r"(index-url|registry\s*=|resolved|source)\W+https?" + "://",
        "pypi" + r"\.org",
        "python" + r"hosted\.org",
        "conda" + r"\.anaconda",
        "npm" + r"js\.(org|com)",
        r"https?" + r"://[^\s)>\"']*/simple\b",
    ],
    "a path of somebody's machine": [
        r"(?<![\w.~$}])/(home|root|Users|work|opt)" + r"/\w",
        r"/tmp/" + r"\w",
        r"[A-Z]:\\" + r"Users",
    ],
    "a word about how the text came to be written": [
        r"\b(AI|language)[- ](" + "assistant|model|generated)",
        r"\b(co-authored|generated)[- ]" + "(by|with)",
        r"(?<!scope=\")\bse" + r"ssions?\b",
        r"\bag" + r"ents?\b",
        r"\bwork" + r"place\b",
    ],
}


def list_files() -> list[Path]:
    """Returns the files of the repository, or all there are where it is no git checkout."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        return [path for path in ROOT.rglob("*") if path.is_file() and "/.venv" not in path.as_posix()]
    return [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def find_forbidden(text: str) -> list[str]:
    """Returns what a text carries that it should not: which kind, and the words themselves."""
    return [
        f"{kind}: {found[0]!r}"
        for kind, patterns in FORBIDDEN.items()
        for pattern in patterns
        for found in re.finditer(pattern, text, re.IGNORECASE)
    ]


def test_no_file_has_forbidden_content():
    carried = {}
    for path in list_files():
        try:
            found = find_forbidden(path.read_text())
        except UnicodeDecodeError:
            continue  # an image
        if found:
            carried[path.relative_to(ROOT).as_posix()] = found
    assert carried == {}


@pytest.mark.parametrize(
    "text",
    [
        "extra-index-" + "url = https://example.invalid/",
        "see py" + "pi.org",
        "https://mirror.example.invalid" + "/simple",
        "cd /ho" + "me/somebody",
        "written in a se" + "ssion",
    ],
)
def test_text_that_belongs_elsewhere_is_found(text):
    assert find_forbidden(text)


@pytest.mark.parametrize(
    "text", ["https://github.com/jax-ml/jax/issues/1", "#!/usr/bin/env bash", "a/work/b", 'scope="session"']
)
def test_ordinary_text_is_left_alone(text):
    assert not find_forbidden(text)


def test_there_is_no_lock_file():
    names = {path.name for path in list_files()}
    assert not {name for name in names if name.endswith((".lock", "-lock.json")) or name == "pip.conf"}
