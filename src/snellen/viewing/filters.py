"""What a page of questions shows, as a record, as the query of an address, and as SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import asdict, replace

from snellen.report.samples import OUTCOMES
from snellen.viewing.index_database import RIGHT, UNPARSED, WRONG

PAGE = 50
SORTS = {
    "order": ("as asked", "question.benchmark, question.place, question.turn"),
    "hardest": (
        "fewest right first",
        "question.share_right IS NULL, question.share_right, question.id",
    ),
    "easiest": (
        "most right first",
        "question.share_right IS NULL, question.share_right DESC, question.id",
    ),
    "unstable": (
        "unstable first",
        "question.unstable DESC, question.benchmark, question.place, question.turn",
    ),
    "sample": ("by sample id", "question.sample_id, question.benchmark, question.turn"),
}
"""Name -> its words, and the order in SQL."""
SORTS_BY_ANSWERS = ("hardest", "easiest")
OF_ANSWERS = ("right", "right so far", "wrong", "scored")
"""Outcomes and orders that only who knows the answers can tell."""
SHORTEST_INDEXED = 3
"""Letters of the shortest text that an index of trigrams finds."""

_WORDS = re.compile(r'"([^"]+)"|(\S+)')


class QuestionFilter(Struct, frozen=True, omit_defaults=True):
    """Which questions, in which order. Outcome, run, protocol and `unstable` are asked of one and the same entry."""

    q: str = ""
    """Words, or phrases in quotation marks, all of which occur in the question, its options or a reply."""
    benchmark: str = ""
    dimension: str = ""
    tag: str = ""
    """`name=value`"""
    run: str = ""
    protocol: str = ""
    outcome: str = ""
    reading: str = ""
    """What a reply was read as, or why it was not, in the words of the list."""
    unstable: bool = False
    disagree: bool = False
    better: str = ""
    """A run that is right ..."""
    worse: str = ""
    """... where this one, under the same protocol, is not."""
    sort: str = "order"
    columns: str = ""
    """`all` for every model and protocol; else of the first models the preferred protocol, or those by whose replies
    questions were chosen, where that was asked."""
    page: int = 1

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> QuestionFilter:
        """What an address asks for; what is not a value of a field is ignored."""
        names = ("q", "benchmark", "dimension", "tag", "run", "protocol", "reading")
        texts = {name: query.get(name, "")[:500] for name in names}
        number = query.get("page", "1")
        return cls(
            **texts,
            better=query.get("better", ""),
            worse=query.get("worse", ""),
            outcome=query.get("outcome", "") if query.get("outcome") in OUTCOMES else "",
            unstable=query.get("unstable") == "1",
            disagree=query.get("disagree") == "1",
            sort=query.get("sort", "") if query.get("sort") in SORTS else "order",
            columns="all" if query.get("columns") == "all" else "",
            page=max(int(number), 1) if number.isdecimal() and len(number) < 9 else 1,
        )

    @property
    def selection(self) -> QuestionFilter:
        """The same without the page and the columns."""
        return replace(self, page=1, columns="")

    @property
    def is_by_entry(self) -> bool:
        """Whether questions are chosen by what came of one of their entries."""
        return bool(self.outcome or self.reading or self.unstable)

    @property
    def is_by_replies(self) -> bool:
        return self.is_by_entry or self.disagree

    @property
    def compared(self) -> tuple[str, ...]:
        """The two runs that are set against each other, or the only one of them that is named."""
        return tuple(filter(None, (self.better, self.worse)))

    @property
    def address(self) -> str:
        return f"/questions?{self.query}"

    def question_address(self, benchmark: str, sample_id: str, turn: int, build: str) -> str:
        """The page of one question among the chosen ones; the benchmark that is chosen is called `in` there."""
        question = {"of": benchmark, "sample": sample_id, "turn": turn, "build": build[:12]}
        filtered = replace(self, benchmark="", page=1).query
        chosen = urlencode({"in": self.benchmark}) if self.benchmark else ""
        return "/question?" + "&".join(filter(None, [urlencode(question), chosen, filtered]))

    @property
    def query(self) -> str:
        """The fields that are not at their defaults, for an address."""
        default = asdict(QuestionFilter())
        settings = {name: value for name, value in asdict(self).items() if value != default[name]}
        return urlencode(
            {
                name: int(value) if isinstance(value, bool) else value
                for name, value in settings.items()
            }
        )

    def without_answers(self) -> QuestionFilter:
        """The same without what is chosen or ordered by right and wrong."""
        return replace(
            self,
            outcome="" if self.outcome in OF_ANSWERS else self.outcome,
            disagree=False,
            better="",
            worse="",
            sort="order" if self.sort in SORTS_BY_ANSWERS else self.sort,
        )

    def to(self, **changes: object) -> QuestionFilter:
        """The same with some fields changed, from its first page on unless a page is given."""
        return replace(self, **{"page": 1, **changes})


def select_questions(chosen: QuestionFilter, runs: Mapping[str, int]) -> tuple[str, list[object]]:
    """SQL for the ids of the chosen questions in their order, and its values. `runs` are the ids of runs by name."""
    conditions, values = _entry_conditions(chosen, runs)
    for column in ("benchmark", "dimension"):
        if selected := getattr(chosen, column):
            conditions.append(f"question.{column} = ?")
            values.append(selected)
    if chosen.disagree:
        conditions.append("question.disagree")
    if chosen.tag:
        conditions.append("question.id IN (SELECT question FROM tag WHERE tag = ?)")
        values.append(chosen.tag)
    for text in search_texts(chosen.q):
        condition, parameters = _search(text)
        conditions.append(condition)
        values += parameters
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT question.id FROM question{where} ORDER BY {SORTS[chosen.sort][1]}", values


def search_texts(query: str) -> list[str]:
    """The words and phrases of a search."""
    return [phrase or word for phrase, word in _WORDS.findall(query.replace("\0", " "))]


def _entry_conditions(
    chosen: QuestionFilter, runs: Mapping[str, int]
) -> tuple[list[str], list[object]]:
    entry: list[str] = []
    values: list[object] = []
    if chosen.run:
        entry.append("run = ?")
        values.append(runs.get(chosen.run, -1))
    if chosen.protocol:
        entry.append("protocol = ?")
        values.append(chosen.protocol)
    if chosen.outcome:
        entry.append("outcome = ?")
        values.append(OUTCOMES.index(chosen.outcome))
    if chosen.reading:
        entry.append("reading = ?")
        values.append(chosen.reading)
    if chosen.unstable:
        entry.append("unstable = 1")
    conditions = (
        [_among(f"SELECT question FROM entry WHERE {' AND '.join(entry)}")] if entry else []
    )
    if chosen.compared:
        conditions.append(_among(_compared_entries(chosen)))
        values += [
            *(runs.get(name, -1) for name in chosen.compared),
            *filter(None, [chosen.protocol]),
        ]
    return conditions, values


def _compared_entries(chosen: QuestionFilter) -> str:
    """The questions that one run has right, or another has not, or both under one protocol."""
    good = f"good.run = ? AND good.outcome = {RIGHT}"
    bad = f"bad.run = ? AND bad.outcome IN ({WRONG}, {UNPARSED})"
    if chosen.better and chosen.worse:
        entries, condition = (
            "entry AS good JOIN entry AS bad USING (question, protocol)",
            f"{good} AND {bad}",
        )
    else:
        entries, condition = ("entry AS good", good) if chosen.better else ("entry AS bad", bad)
    of_protocol = " AND protocol = ?" if chosen.protocol else ""
    return f"SELECT question FROM {entries} WHERE {condition}{of_protocol}"


def _among(select: str) -> str:
    return f"question.id IN ({select})"


def _search(text: str) -> tuple[str, Sequence[object]]:
    if len(text) >= SHORTEST_INDEXED:
        phrase, compared = '"' + text.replace('"', '""') + '"', "MATCH ?"
    else:
        escaped = re.sub(r"([\\%_])", r"\\\1", text)
        phrase, compared = f"%{escaped}%", "LIKE ? ESCAPE '\\'"
    questions = f"SELECT rowid FROM question_words WHERE words {compared}"
    replies = f"SELECT question FROM entry WHERE words IN (SELECT rowid FROM reply_words WHERE words {compared})"
    # Without the sign each match is looked up in the table and all are sorted: slow where most questions match.
    return f"(+{_among(questions)} OR +{_among(replies)})", [phrase, phrase]
