"""Checks the pages that a user reads against the house rules of website/prose.toml, and counts their words.

    python website/prose.py                    # exit code 1 and one line per finding
    python website/prose.py --longest          # the longest sentence of each page
    python website/prose.py --words            # the words of each page, and of all

The rules: proselint's, a longest sentence, and shapes of compressed English, each with what to write instead.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
RULES: dict[str, Any] = tomllib.loads((Path(__file__).parent / "prose.toml").read_text("utf-8"))
SHAPES = [
    (shape["name"], re.compile(shape["pattern"], re.IGNORECASE), shape["instead"])
    for shape in RULES["shape"]
]  # fmt: skip
FENCE = re.compile(r"^(```|~~~).*?^\1[^\S\n]*$", re.DOTALL | re.MULTILINE)
FRONT = re.compile(r"\A---\n.*?^---\n", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
PICTURE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
LINK = re.compile(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
NEW_BLOCK = re.compile(r"\s*(?:[*+-]|\d+\.)\s+|#+\s|\||\s*$")
ITEM = re.compile(r"^\s*(?:[*+-]|\d+\.)\s+")
END = re.compile(r"(?<=[.!?])[\"'”)]*\s+(?=[\"'“(*]*(?:[A-Z0-9`]|[a-z]+[A-Z]))|(?<=[.!?])\s*$")
SHORT = re.compile(r"\b(?:e\.g|i\.e|cf|vs|al|Fig|Sec|No)\.$")


class Finding(NamedTuple):
    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


class Sentence(NamedTuple):
    line: int
    text: str

    @property
    def words(self) -> int:
        return len(self.text.split())


def checked() -> list[Path]:
    """README and every page of docs/ without those apart, and without those that wait to be rewritten."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if not name_of(page).startswith((*RULES["apart"], *RULES["waiting"]))]


def user_path() -> list[Path]:
    """The pages that a user reads, which have a budget of words: README and the tutorials and guides of docs/."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if not name_of(page).startswith((*RULES["apart"], *RULES["uncounted"]))]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def words_of(page: Path) -> int:
    """As `wc -w` counts them: code and tables, too."""
    return len(page.read_text("utf-8").split())


def prose(text: str) -> str:
    """The text of a page on its own lines, without code blocks, links' targets and front matter."""
    for pattern in (FRONT, FENCE, COMMENT):
        text = pattern.sub(lambda match: "\n" * match[0].count("\n"), text)
    text = CODE.sub(lambda match: "`code`" + "\n" * match[0].count("\n"), text)
    return LINK.sub(r"\1", PICTURE.sub(r"\1", text)).replace("**", "")


def sentences(text: str) -> Iterator[Sentence]:
    """Sentences of a page, each with its first line; a cell of a table, a heading and an item stand for themselves."""
    for line, block in _blocks(prose(text)):
        start, offset = 0, 0
        for end in [*(match.end() for match in END.finditer(block)), len(block)]:
            part = block[start:end]
            if part.strip() and not SHORT.search(part.strip()):
                yield Sentence(line + offset, " ".join(part.split()))
                offset += part.count("\n")
                start = end


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    first, held = 1, ""
    for number, line in enumerate(text.split("\n"), 1):
        if NEW_BLOCK.match(line) and held:
            yield first, held
            held = ""
        if line.startswith("|"):
            yield from ((number, cell) for cell in line.strip("|").split("|") if re.search(r"\w", cell))
        elif line.startswith("#"):
            yield number, line.lstrip("# ")
        elif line.strip():
            first, held = (number, ITEM.sub("", line)) if not held else (first, f"{held}\n{line}")
    if held:
        yield first, held


def findings(page: Path) -> Iterator[Finding]:
    yield from findings_in(name_of(page), page.read_text("utf-8"))


def findings_in(name: str, text: str) -> Iterator[Finding]:
    """What breaks a rule in the text of a page."""
    parts = list(sentences(text))
    for part in parts:
        if part.words > RULES["longest_sentence"]:
            yield Finding(name, part.line, f"{part.words} words in a sentence: {part.text[:80]} ...")
        for shape, pattern, instead in SHAPES:
            for match in pattern.finditer(part.text):
                yield Finding(name, part.line, f"{shape}: {match[0]!r}; {instead}")
    yield from _proselint(name, parts)


def _proselint(name: str, parts: list[Sentence]) -> Iterator[Finding]:
    """What proselint finds, a sentence on each line, with a sign between them that no repeated word reaches across."""
    from proselint.checks import __register__
    from proselint.config import DEFAULT
    from proselint.registry import CheckRegistry
    from proselint.tools import LintFile

    registry = CheckRegistry()
    if not registry.checks:
        registry.register_many(__register__)
    file = LintFile(source=name, content="".join(f"{part.text} ·\n" for part in parts))
    for result in file.lint({**DEFAULT, "checks": {**DEFAULT["checks"], **RULES["proselint"]}}):
        check = result.check_result
        yield Finding(name, parts[result.pos[0] - 1].line, f"{check.check_path}: {check.message}")


def over_budget() -> str:
    """What to say when the pages have more words than they may; empty while they do not."""
    total = sum(words_of(page) for page in user_path() if page in checked())
    return f"{total:,} words in all pages; at most {RULES['budget']:,}" if total > RULES["budget"] else ""


def main(words: list[str]) -> int:
    if "--words" in words:
        for page in user_path():
            print(f"{words_of(page):6} {name_of(page)}")
        waiting = sum(words_of(page) for page in user_path() if page not in checked())
        print(f"{sum(map(words_of, user_path())):6} in all, {waiting} of them in pages that wait to be rewritten")
        return 0
    if "--longest" in words:
        for page in user_path():
            longest = max(sentences(page.read_text("utf-8")), key=lambda sentence: sentence.words)
            print(f"{longest.words:4} {name_of(page)}:{longest.line}: {longest.text}")
        return 0
    found = [str(finding) for page in checked() for finding in findings(page)]
    print("\n".join(filter(None, [*found, over_budget()])) or "the pages keep the house rules")
    return 1 if found or over_budget() else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
