"""The filter of a page of questions, as a record, as the query of a URL, and as SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import asdict, replace

from snellen.report.samples import OUTCOMES
from snellen.viewing.index_database import RIGHT, UNPARSED, WRONG

QUESTIONS_PER_PAGE = 50
SORTS = {
    "order": ("in benchmark order", "question.benchmark, question.place, question.turn"),
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
SORTS_THAT_REVEAL_ANSWERS = ("hardest", "easiest")
OUTCOMES_THAT_REVEAL_ANSWERS = ("right", "right so far", "wrong", "scored")
"""Outcomes that reveal the answers."""
MIN_INDEXED_LETTERS = 3
"""Length of the shortest text that the trigram index finds."""

_PHRASE_OR_WORD = re.compile(r'"([^"]+)"|(\S+)')


class QuestionFilter(Struct, frozen=True, omit_defaults=True):
    """Which questions a list shows, and in which order.

    A question has an entry in the index for each run and protocol. The conditions `run`, `protocol`, `outcome`,
    `reading` and `unstable` must all be true of one entry: with `run=a` and `outcome=wrong`, a question is shown if
    run `a` answered it wrongly under some protocol.
    """

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
    """Only questions whose replies in one run choose different options."""
    disagree: bool = False
    """Only questions that some runs answer correctly and others do not."""
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
        """Whether the filter has a condition on the replies of a single run under a protocol."""
        return bool(self.outcome or self.reading or self.unstable)

    @property
    def is_by_replies(self) -> bool:
        """Whether the filter has a condition on replies: on those of a single run, or that models disagree."""
        return self.is_by_entry or self.disagree

    @property
    def compared(self) -> tuple[str, ...]:
        """The runs named in `better` and `worse` in this order, without a missing one; an empty tuple if both are
        missing.
        """
        return tuple(filter(None, (self.better, self.worse)))

    @property
    def address(self) -> str:
        return f"/questions?{self.query}"

    def question_address(self, benchmark: str, sample_id: str, turn: int, build: str) -> str:
        """Return the URL of the page of one question. It also contains this filter, so that the page can link to the
        list.

        The parameter `of` is the benchmark of the question. If the filter is limited to a benchmark, the parameter
        `in` has its name.

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
        """The fields that differ from their defaults, as the query of a URL. True is written as 1."""
        default = asdict(QuestionFilter())
        settings: dict[str, object] = {}
        for name, value in asdict(self).items():
            if value != default[name]:
                settings[name] = int(value) if isinstance(value, bool) else value
        return urlencode(settings)

    def without_answers(self) -> QuestionFilter:
        """Return the filter without conditions and orders that reveal the answers."""
        return replace(
            self,
            outcome="" if self.outcome in OUTCOMES_THAT_REVEAL_ANSWERS else self.outcome,
            disagree=False,
            better="",
            worse="",
            sort="order" if self.sort in SORTS_THAT_REVEAL_ANSWERS else self.sort,
        )

    def to(self, **changes: object) -> QuestionFilter:
        """Return the filter with some fields changed, on its first page unless `page` is given."""
        return replace(self, **{"page": 1, **changes})


def select_questions(chosen: QuestionFilter, runs: Mapping[str, int]) -> tuple[str, list[object]]:
    """Translate a filter to SQL for the index.

    Args:
        chosen: The filter.
        runs: The id of each run in the index, by its name.

    Returns:
        The SQL, which selects the ids of the matching questions in the order of the filter, and its parameters.
    """
    conditions, parameters = _reply_conditions(chosen, runs)
    if chosen.benchmark:
        conditions.append("question.benchmark = ?")
        parameters.append(chosen.benchmark)
    if chosen.dimension:
        conditions.append("question.dimension = ?")
        parameters.append(chosen.dimension)
    if chosen.disagree:
        conditions.append("question.disagree")
    if chosen.tag:
        conditions.append("question.id IN (SELECT question FROM tag WHERE tag = ?)")
        parameters.append(chosen.tag)
    for text in search_texts(chosen.q):
        condition, text_parameters = _text_condition(text)
        conditions.append(condition)
        parameters += text_parameters

    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    _, order = SORTS[chosen.sort]
    return f"SELECT question.id FROM question{where} ORDER BY {order}", parameters


def search_texts(query: str) -> list[str]:
    """Split a search into words and quoted phrases."""
    return [phrase or word for phrase, word in _PHRASE_OR_WORD.findall(query.replace("\0", " "))]


def _reply_conditions(
    chosen: QuestionFilter, runs: Mapping[str, int]
) -> tuple[list[str], list[object]]:
    """Translate the conditions of a filter on the replies to a question to SQL.

    Args:
        chosen: The filter.
        runs: The id of each run in the index, by its name.

    Returns:
        Conditions on the table `question`, and the parameters of all of them in their order.
    """
    # Conditions that one entry (the replies of one run under one protocol) has to meet.
    entry_conditions: list[str] = []
    parameters: list[object] = []
    if chosen.run:
        entry_conditions.append("run = ?")
        parameters.append(runs.get(chosen.run, -1))
    if chosen.protocol:
        entry_conditions.append("protocol = ?")
        parameters.append(chosen.protocol)
    if chosen.outcome:
        entry_conditions.append("outcome = ?")
        parameters.append(OUTCOMES.index(chosen.outcome))
    if chosen.reading:
        entry_conditions.append("reading = ?")
        parameters.append(chosen.reading)
    if chosen.unstable:
        entry_conditions.append("unstable = 1")

    conditions: list[str] = []
    if entry_conditions:
        where = " AND ".join(entry_conditions)
        conditions.append(_question_is_in(f"SELECT question FROM entry WHERE {where}"))
    if chosen.compared:
        conditions.append(_question_is_in(_compared_entries(chosen)))
        parameters += [runs.get(name, -1) for name in chosen.compared]
        if chosen.protocol:
            parameters.append(chosen.protocol)
    return conditions, parameters


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


def _question_is_in(select: str) -> str:
    """Return the SQL condition that a question is among those that a SELECT returns."""
    return f"question.id IN ({select})"


def _text_condition(text: str) -> tuple[str, Sequence[object]]:
    """Return the SQL condition that a text occurs in a question or in one of its replies, and its parameters.

    The trigram index finds texts of at least `MIN_INDEXED_LETTERS` characters. Shorter ones are compared with every
    text.
    """
    if len(text) >= MIN_INDEXED_LETTERS:
        comparison = "MATCH ?"
        quoted = text.replace('"', '""')
        pattern = f'"{quoted}"'
    else:
        comparison = "LIKE ? ESCAPE '\\'"
        escaped = re.sub(r"([\\%_])", r"\\\1", text)
        pattern = f"%{escaped}%"
    in_question = _question_is_in(f"SELECT rowid FROM question_words WHERE words {comparison}")
    matching_replies = f"SELECT rowid FROM reply_words WHERE words {comparison}"
    in_reply = _question_is_in(f"SELECT question FROM entry WHERE words IN ({matching_replies})")
    # The plus signs stop SQLite from using the index of ids, which is slow if most questions match.
    return f"(+{in_question} OR +{in_reply})", [pattern, pattern]
