"""The labelled replies, what each extractor makes of them, and the page that shows it.

Run as `python -m snellen.extraction.conformance [PAGE]` to write docs/evidence/extraction-conformance.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from snellen.extraction import VERSION, find_extractor, named_extractors


class ConformanceCase(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One reply and the place that a careful reader gives it."""

    id: str
    reply: str
    options: tuple[str, ...]
    labels: tuple[str, ...]
    expected: int | None
    kind: Literal["unambiguous", "ambiguous"]
    open_ok: bool = False
    """Rules may leave this reply to a judge."""
    note: str = ""


class ConformanceCounts(Struct, frozen=True):
    """How an extractor did on some cases."""

    right: int
    mislabelled: int
    """It named an option that the reader did not."""
    open: int
    """It named none where the reader did."""

    @property
    def cases(self) -> int:
        return self.right + self.mislabelled + self.open


def conformance_cases() -> tuple[ConformanceCase, ...]:
    """The labelled replies that ship with the package."""
    lines = (
        files("snellen.extraction")
        .joinpath("conformance.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    return tuple(msgspec.json.decode(line, type=ConformanceCase) for line in lines)


def count_conformance(extractor: str, some: Iterable[ConformanceCase]) -> ConformanceCounts:
    """Right (or open where that is accepted), mislabelled, and open."""
    outcomes = [_outcome(case, read(extractor, case)) for case in some]
    return ConformanceCounts(
        outcomes.count("right"), outcomes.count("mislabelled"), outcomes.count("open")
    )


@cache
def read(extractor: str, case: ConformanceCase) -> int | None:
    """The option that an extractor reads; the counts and the table of a page ask for the same."""
    return find_extractor(extractor).read(case.reply, case.options, case.labels).choice


def _outcome(case: ConformanceCase, choice: int | None) -> Literal["right", "mislabelled", "open"]:
    if choice == case.expected or (choice is None and case.open_ok):
        return "right"
    return "open" if choice is None else "mislabelled"


def conformance_page() -> str:
    """docs/evidence/extraction-conformance.md: the counts and all cases."""
    everything = conformance_cases()
    template = files("snellen.extraction").joinpath("page.md").read_text(encoding="utf-8")
    return template.format(
        version=VERSION,
        cases=len(everything),
        summary=_summary(everything),
        table=_all_cases(everything),
    )


def _summary(everything: Sequence[ConformanceCase]) -> str:
    kinds = {
        kind: [c for c in everything if c.kind == kind] for kind in ("unambiguous", "ambiguous")
    }
    rights_of = [f"{kind} ({len(some)}): right" for kind, some in kinds.items()]
    rows = [["extractor", *rights_of, "mislabelled", "left open"]]
    for name in named_extractors():
        tallies = [count_conformance(name, some) for some in kinds.values()]
        rights = [f"{t.right} ({t.right / t.cases:.1%})" for t in tallies]
        rows.append(
            [
                f"`{name}`",
                *rights,
                str(sum(t.mislabelled for t in tallies)),
                str(sum(t.open for t in tallies)),
            ]
        )
    return _table(rows)


def _all_cases(everything: Sequence[ConformanceCase]) -> str:
    columns = {
        extractor.column: name for name, extractor in named_extractors().items() if extractor.column
    }
    rows = [["case", "options", "reply", "label", *columns]]
    for case in everything:
        label = _shown(case, case.expected) + (" or open" if case.open_ok else "")
        readings = [_reading(case, read(name, case)) for name in columns.values()]
        identity = case.id + ("?" if case.kind == "ambiguous" else "")
        rows.append([identity, _options(case), _code(case.reply), label, *readings])
    return _table(rows)


def _reading(case: ConformanceCase, choice: int | None) -> str:
    label = _shown(case, choice)
    return {"right": label, "open": f"**{label}**", "mislabelled": f"**{label}!**"}[
        _outcome(case, choice)
    ]


def _shown(case: ConformanceCase, choice: int | None) -> str:
    return "-" if choice is None else case.labels[choice]


def _options(case: ConformanceCase) -> str:
    options = ", ".join(case.options)
    return _code(options if case.labels[0] == "A" else f"{case.labels[0]}: {options}")


_LONGEST = 90
_VISIBLE = str.maketrans({"\n": "⏎", "\t": "⇥", "|": "¦", "`": "ˋ"})


def _code(text: str) -> str:
    """As code in a table's cell: line ends visible, bars and back-ticks replaced, long texts cut."""
    text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text.translate(_VISIBLE))
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 1] + "…"
    return f"`{text}`" if text.strip() else "(blank)" if text else "(empty)"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, "|" + "--|" * len(rows[0]), *body])


def write_conformance_page(arguments: Sequence[str]) -> int:
    """Write the page, and say how many cases `standard` and `strict` mislabel."""
    target = Path(arguments[0] if arguments else "docs/evidence/extraction-conformance.md")
    target.write_text(conformance_page(), encoding="utf-8")
    mislabelled = sum(
        count_conformance(name, conformance_cases()).mislabelled for name in ("standard", "strict")
    )
    sys.stdout.write(
        f"{target}: {len(conformance_cases())} cases, {mislabelled} mislabelled by standard or strict\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(write_conformance_page(sys.argv[1:]))


# --- hard replies -----------------------------------------------------------------------------------------------------


class HardReply(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One reply, and the place of the option that it means."""

    id: str
    question: str
    options: tuple[str, ...]
    reply: str
    expected: int | None

    @property
    def group(self) -> str:
        """What the replies to one question share."""
        return self.id[:-1]

    @property
    def held_out(self) -> bool:
        return int(self.group[-3:]) % 2 == 0


def hard_replies(*, held_out: bool | None = None) -> tuple[HardReply, ...]:
    """All of them, or one half."""
    lines = (
        files("snellen.extraction")
        .joinpath("hard_replies.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    everything = (msgspec.json.decode(line, type=HardReply) for line in lines)
    return tuple(reply for reply in everything if held_out in (None, reply.held_out))
