"""Code in documents: runs the code of a page and compares the output with the shown output."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A ```python block of a page, and the ```text block that follows it at once, if any.

    Attributes:
        code: the block, after as many empty lines as keep its line numbers.
        output: the output that the page shows.
    """

    code: str
    output: str


@dataclass(frozen=True)
class Pair:
    """Two programs side by side, in the two cells of a row, and their output.

    Attributes:
        programs: the two programs, each after as many empty lines as keep its line numbers.
        output: the ```text block after the table.
    """

    programs: tuple[str, str]
    output: str


def find_pages() -> list[Path]:
    """Returns every page written in Markdown."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def has_pairs(text: str) -> bool:
    """Tells whether the programs of a page are side by side: then each is complete."""
    return "<td>" in text


def read_pairs(text: str) -> list[Pair]:
    """Returns the pairs of a page in their order."""
    blocks = [block for block in FENCE.finditer(text) if block[1] in {"python", "text"}]
    kinds = [block[1] for block in blocks]
    if kinds != ["python", "python", "text"] * (len(kinds) // 3):
        raise ValueError(f"two programs and what they print, again and again; got {kinds}")
    return [
        Pair((_number(text, blocks[place]), _number(text, blocks[place + 1])), blocks[place + 2][2])
        for place in range(0, len(blocks), 3)
    ]


def _number(text: str, block: re.Match[str]) -> str:
    """Returns the code of a block, after as many empty lines as keep its line numbers."""
    return "\n" * (text[: block.start()].count("\n") + 1) + block[2]


def read_examples(text: str) -> list[Example]:
    """Returns the examples of a page in their order; they share one namespace."""
    blocks = list(FENCE.finditer(text))
    examples: list[Example] = []
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block[1] != "python":
            continue
        is_output = following and following[1] == "text" and not text[block.end() : following.start()].strip()
        output = following[2] if following and is_output else ""
        examples.append(Example(_number(text, block), output))
    return examples
