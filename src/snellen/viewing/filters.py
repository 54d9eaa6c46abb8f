"""The filter of a page of questions, as a record, as the query of a URL, and as SQL."""

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
"""For each order, its label and its SQL."""
SORTS_BY_ANSWERS = ("hardest", "easiest")
OF_ANSWERS = ("right", "right so far", "wrong", "scored")
"""Outcomes that reveal the answers."""
SHORTEST_INDEXED = 3
"""Length of the shortest text that the trigram index finds."""

_WORDS = re.compile(r'"([^"]+)"|(\S+)')


class QuestionFilter(Struct, frozen=True, omit_defaults=True):
    """Conditions on questions, and their order. One entry must meet `outcome`, `run`, `protocol` and `unstable`."""

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
    """The reading of a reply, or the reason why there is none, as shown in the list."""
    unstable: bool = False
    disagree: bool = False
    better: str = ""
    """A run that is right ..."""
    worse: str = ""
    """... where this one, under the same protocol, is not."""
    sort: str = "order"
    columns: str = ""
    """`all` for every model and protocol.

    Otherwise the first models under their preferred protocol or, with a condition on replies, under the protocols that
    met it.
    """
    page: int = 1

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> QuestionFilter:
        """Read a filter of questions from the query of a URL. An invalid value is replaced by its default."""
        names = ("q", "benchmark", "dimension", "tag", "run", "protocol", "reading")
        texts = {name: query.get(name, "")[:500] for name in names}
        outcome = query.get("outcome", "")
        sort = query.get("sort", "")
        page_text = query.get("page", "1")
        page = 1
        if page_text.isdecimal() and len(page_text) < 9:
            page = max(int(page_text), 1)
        return cls(
            **texts,
            better=query.get("better", ""),
            worse=query.get("worse", ""),
            outcome=outcome if outcome in OUTCOMES else "",
            unstable=query.get("unstable") == "1",
            disagree=query.get("disagree") == "1",
            sort=sort if sort in SORTS else "order",
            columns="all" if query.get("columns") == "all" else "",
            page=page,
        )

    @property
    def selection(self) -> QuestionFilter:
        """The filter without the page and the columns, which do not affect the chosen questions."""
        return replace(self, page=1, columns="")

    @property
    def is_by_entry(self) -> bool:
        """Whether questions are chosen by the outcome of one of their entries."""
        return bool(self.outcome or self.reading or self.unstable)

    @property
    def is_by_replies(self) -> bool:
        """Whether questions are chosen by the outcome of one entry, or by disagreement between models."""
        return self.is_by_entry or self.disagree

    @property
    def compared(self) -> tuple[str, ...]:
        """The runs named in `better` and `worse`: two, one or none."""
        return tuple(filter(None, (self.better, self.worse)))

    @property
    def address(self) -> str:
        return f"/questions?{self.query}"

    def question_address(self, benchmark: str, sample_id: str, turn: int, build: str) -> str:
        """Return the URL of the page of one question. It also contains this filter, so that the page can lead back.

        The parameter `of` is the benchmark of the question, and `in` is the benchmark that the filter selects, if any.

        Args:
            benchmark: The benchmark of the question.
            sample_id: The identifier of its sample.
            turn: The index of its round in a dialogue, otherwise 0.
            build: The version of the benchmark.
        """
        question = {"of": benchmark, "sample": sample_id, "turn": turn, "build": build[:12]}
        query_parts = [urlencode(question)]
        if self.benchmark:
            query_parts.append(urlencode({"in": self.benchmark}))
        other_settings = replace(self, benchmark="", page=1).query
        if other_settings:
            query_parts.append(other_settings)
        return "/question?" + "&".join(query_parts)

    @property
    def query(self) -> str:
        """The fields that differ from their defaults, as the query of a URL."""
        default = asdict(QuestionFilter())
        settings = {name: value for name, value in asdict(self).items() if value != default[name]}
        return urlencode(
            {
                name: int(value) if isinstance(value, bool) else value
                for name, value in settings.items()
            }
        )

    def without_answers(self) -> QuestionFilter:
        """Return the filter without conditions and orders that reveal the answers."""
        return replace(
            self,
            outcome="" if self.outcome in OF_ANSWERS else self.outcome,
            disagree=False,
            better="",
            worse="",
            sort="order" if self.sort in SORTS_BY_ANSWERS else self.sort,
        )

    def to(self, **changes: object) -> QuestionFilter:
        """Return the filter with some fields changed, on its first page unless `page` is given."""
        return replace(self, **{"page": 1, **changes})


def select_questions(chosen: QuestionFilter, runs: Mapping[str, int]) -> tuple[str, list[object]]:
    """Return the SQL that selects the ids of the chosen questions in order, and its parameters.

    `runs` has the ids of the runs by name.
    """
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
    """Split a search into words and quoted phrases."""
    return [phrase or word for phrase, word in _WORDS.findall(query.replace("\0", " "))]


def _entry_conditions(
    chosen: QuestionFilter, runs: Mapping[str, int]
) -> tuple[list[str], list[object]]:
    """Return the conditions of a filter that are about the replies to a question, as SQL.

    Args:
        chosen: The filter.
        runs: The number of each run in the index, by its name.

    Returns:
        SQL conditions on questions, and the values of their parameters.
    """
    reply_conditions: list[str] = []
    values: list[object] = []
    if chosen.run:
        reply_conditions.append("run = ?")
        values.append(runs.get(chosen.run, -1))
    if chosen.protocol:
        reply_conditions.append("protocol = ?")
        values.append(chosen.protocol)
    if chosen.outcome:
        reply_conditions.append("outcome = ?")
        values.append(OUTCOMES.index(chosen.outcome))
    if chosen.reading:
        reply_conditions.append("reading = ?")
        values.append(chosen.reading)
    if chosen.unstable:
        reply_conditions.append("unstable = 1")
    conditions: list[str] = []
    if reply_conditions:
        conditions.append(
            _among(f"SELECT question FROM entry WHERE {' AND '.join(reply_conditions)}")
        )
    if chosen.compared:
        conditions.append(_among(_compared_entries(chosen)))
        values += [runs.get(name, -1) for name in chosen.compared]
        if chosen.protocol:
            values.append(chosen.protocol)
    return conditions, values


def _compared_entries(chosen: QuestionFilter) -> str:
    """Return the SQL for questions that run `better` has right and run `worse` has wrong, under one protocol.

    If only one of them is named, only its condition applies.
    """
    better_is_right = f"good.run = ? AND good.outcome = {RIGHT}"
    worse_is_wrong = f"bad.run = ? AND bad.outcome IN ({WRONG}, {UNPARSED})"
    if chosen.better and chosen.worse:
        entries = "entry AS good JOIN entry AS bad USING (question, protocol)"
        condition = f"{better_is_right} AND {worse_is_wrong}"
    elif chosen.better:
        entries = "entry AS good"
        condition = better_is_right
    else:
        entries = "entry AS bad"
        condition = worse_is_wrong
    of_protocol = " AND protocol = ?" if chosen.protocol else ""
    return f"SELECT question FROM {entries} WHERE {condition}{of_protocol}"


def _among(select: str) -> str:
    return f"question.id IN ({select})"


def _search(text: str) -> tuple[str, Sequence[object]]:
    """Return the SQL condition for questions or replies that contain a text, and its parameters."""
    if len(text) >= SHORTEST_INDEXED:
        phrase = '"' + text.replace('"', '""') + '"'
        comparison = "MATCH ?"
    else:
        escaped = re.sub(r"([\\%_])", r"\\\1", text)
        phrase = f"%{escaped}%"
        comparison = "LIKE ? ESCAPE '\\'"
    questions = f"SELECT rowid FROM question_words WHERE words {comparison}"
    replies = f"SELECT question FROM entry WHERE words IN (SELECT rowid FROM reply_words WHERE words {comparison})"
    # The plus signs stop SQLite from using the index of ids, which is slow if most questions match.
    return f"(+{_among(questions)} OR +{_among(replies)})", [phrase, phrase]
