"""Turn the rows of a table into predictions. Rows that cannot be used are left out, counted and named in a note."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from snellen.callers import setting
from snellen.common.answer_forms import ANSWER_FORM_DESCRIPTIONS, AnswerForm
from snellen.errors import DataError
from snellen.formats.delimited import LETTERS
from snellen.formats.listed_cells import listed
from snellen.formats.source_row import SourceRow
from snellen.interchange.predictions.cells import (
    Asked,
    count_in_cell,
    decoding_of,
    image_names,
    likelihood_in_cell,
    only_value,
    place_of,
    replies_in_cell,
    text_in_cell,
    without_fraction,
    without_prompt,
)
from snellen.interchange.predictions.json_replies import answer_field, field_of_reply
from snellen.interchange.predictions.reply_choice import (
    MOSTLY,
    TableReading,
    are_prompts_repeated,
    extracted_by_model,
    extracted_letters,
    results_of_programs,
)
from snellen.interchange.predictions.rows import (
    HALF_PAIRS,
    Findings,
    PredictedRow,
    is_empty_cell,
)
from snellen.interchange.predictions.several_answers import (
    ListKind,
    alternatives,
    is_bare_list,
    is_list,
    is_plural,
    kind_of_lists,
    letters_in_reply,
    letters_of,
    list_in_answer,
    places_named,
    sign_between_alternatives,
)
from snellen.interchange.predictions.shown_options import (
    HIDDEN,
    LISTED_APART,
    ShownOptions,
    asks_for_text,
    cells_to_last,
    letters_of_golds,
    listed_options,
    option_cells,
    options_of_letters,
    places_by_exclusion,
    shown_in_prompt,
    words_for_hidden,
)
from snellen.metrics.vqa import number_in
from snellen.readers.table_answers import option_texts_of, read_answer, wrong_texts
from snellen.readers.table_columns import TableColumns, TableSource
from snellen.recognition.columns import SEVERAL
from snellen.recognition.folding import as_text, folded, folded_name, whole_number, word_count
from snellen.recognition.named_option import bare_label, label_of, named_option
from snellen.recognition.verdicts import Reading as ReadingOfVerdicts
from snellen.recognition.verdicts import is_judged, reading_of_verdicts, verdict_of_cell

_EXPORTED = frozenset(("sample_id", "presentation", "protocol"))
"""Columns of a table that `snellen export` wrote."""
_ORDER = "order"
"""A column of such a table: the order in which a row showed the options. Without it, repetitions of
a question look the same."""
LISTS_AS_ANSWERS = "lists among single right answers, each of which is one answer (call the column `answers` if any of a list is right)"
_STATES_NUMBER = re.compile(
    r"\A\W*[1-9](?:\W*\Z|[.):])|\b(?:option|choice|answer(?: is)?)\W{0,3}[1-9]\b", re.IGNORECASE
)
"""The number of an option at the beginning of a reply, or after a word that announces it."""


FEWEST_RANKED = 10
"""The fewest lists of several replies from which one can see that they rank answers."""
MOST_WORDS_RANKED = 4
"""The most words on average of ranked answers. Longer samples of one reply are seldom the same."""


def is_exported(rows: Sequence[SourceRow]) -> bool:
    """Return whether rows are those of a table that `snellen export` wrote."""
    return bool(rows) and rows[0].cells.keys() >= _EXPORTED


_NUMBER = re.compile(r"\d+")


def without_outer_brackets(reply: str) -> str:
    """Return a reply without the brackets and full stops around it: `2` for `(2).`."""
    return reply.strip("() .")


def number_in_reply(reply: str) -> str:
    """Return the number in a reply if it has exactly one, as in `option 3`.

    A reply without a number, or with several different ones, is returned with the brackets and full
    stops around it removed.

    Examples:
        >>> number_in_reply("(2)."), number_in_reply("정답은 3번입니다."), number_in_reply("2 or 3")
        ('2', '3', '2 or 3')
    """
    numbers = set(_NUMBER.findall(reply))
    return numbers.pop() if len(numbers) == 1 else without_outer_brackets(reply)


class RowReader:
    """Turns rows of one table into predictions. `findings` counts the rows that were left out, by reason.

    How the table has to be read (for example, whether replies are numbers of options that count
    from 0) is found out once, from all of its rows, when the reader is made. `notes` tells the user
    what was found out.

    Args:
        reading: The rows of the table, with what each column is for.
        reply: The name of the column that holds the replies; empty if no column does.
    """

    def __init__(self, reading: TableReading, reply: str) -> None:
        self.findings = Findings()
        self.notes: list[str] = []
        self.rows = reading.rows
        self._table = reading
        self._roles = reading.roles.roles
        self._is_exported = is_exported(reading.rows) and _ORDER in reading.rows[0].cells
        self._columns = _columns_by_role(reading)
        self._source = TableSource(
            self._columns,
            frozenset(),
            self._roles.get("image", ()),
            self._roles.get("options", ()),
            reading.roles.answer_is,
        )

        answer = self._columns.answer
        golds = [as_text(only_value(row.cells.get(answer, ""))) for row in reading.rows]
        self._hidden = words_for_hidden(golds)
        texts_of_golds = {gold for gold in golds if gold.strip().casefold() not in self._hidden}
        self._empty_golds = [text for text in texts_of_golds if is_empty_cell(text)]
        """Right answers, of any row, that look like an empty cell, such as `None`. Such a reply is
        an answer and not a missing one."""
        self._letters: tuple[str, ...] = ()
        if reading.options_in_prompts and not self._source.options and not self._are_texts_asked():
            self._letters = letters_of_golds(golds, self._hidden)

        self._reply = self._column_to_read(reply)
        self._repeats_prompts = are_prompts_repeated(reading, self._reply)
        if self._repeats_prompts:
            self.notes.append("the replies repeat their prompts; what follows these is read")
        self._json_field = self._answer_field(golds)
        if self._json_field:
            self.notes.append(
                f"the replies are JSON objects, of which {self._json_field!r} is read"
            )
        self._option_names: list[str] = []
        """Names of the columns of options. A reply may be such a name (`option_b`) in place of a letter (`B`)."""
        if self._source.has_option_columns:
            self._option_names = [
                folded_name(name) for name in self._source.options if len(name) > 1
            ]
        self._settle_form_of_replies()
        self._read_verdict = self._reading_of_verdicts()

        self._alternatives_between = self._sign_between_alternatives()
        self._lists_are_alternatives = self._are_lists_alternatives()
        self._kind_of_lists: ListKind = ""
        self._list_column = self._reply
        if not self._source.options:
            self._settle_lists()
        self._are_replies_ranked = not self._kind_of_lists and self._are_lists_ranked()
        if self._are_replies_ranked:
            self.notes.append(
                f"the lists in {self._reply!r} never have an item twice, as several samples of a reply would: they rank "
                "answers, of which the first counts"
            )

    def _column_to_read(self, reply: str) -> str:
        """Return the column whose cells are read as replies, and note it if it is another one than that of the replies."""
        column = reply
        of_programs = results_of_programs(self._table, reply)
        if of_programs:
            column = of_programs
            self.notes.append(
                f"the replies in {reply!r} are programs, so what they gave is read, in {of_programs!r}"
            )
        of_model = extracted_by_model(self._table)
        if of_model:
            column = of_model
            self.notes.append(
                f"what a model extracted from each reply is read, in {of_model!r}, as VLMEvalKit does; "
                f"{setting('columns', {'reply': reply})} reads the replies themselves"
            )
        extracted = extracted_letters(self._table) if self._letters else ""
        if extracted:
            # Without the texts of options, a letter that names one is hard to find in a long reply.
            column = extracted
            self.notes.append(
                f"the file has no options, so the letters in {extracted!r} are read, and not whole replies"
            )
        return column

    def _settle_form_of_replies(self) -> None:
        """Find out whether replies are numbers of options, and how a number is found in a reply."""
        self._number_said: Callable[[str], str] = without_outer_brackets
        self._reply_form: AnswerForm = self._form_of_replies()
        if self._reply_form == "any" and self._counts_options:
            # Only if few replies are a number alone. Where most are, "I see 2 people" names no option.
            self._number_said = number_in_reply
            self._reply_form = self._form_of_replies()
        if self._reply_form != "any":
            self.notes.append(
                f"the replies are read as the {ANSWER_FORM_DESCRIPTIONS[self._reply_form]}"
            )
        self._has_numbered_options = self._reply_form == "any" and self._are_numbers_stated()

    def _answer_field(self, golds: Sequence[str]) -> str:
        """Return the name of the field that holds the answer in replies that are JSON objects.

        For example, it is `answer` for replies such as `{"answer": "B", "reason": "..."}`. The text
        is empty if the replies are not JSON objects.
        """
        if not self._reply or self._table.is_of_form:
            return ""
        cells = [row.cells.get(self._reply) for row in self._table.rows]
        replies = [reply for cell in cells for reply in replies_in_cell(cell)]
        right = {*golds, *LETTERS[:10]} if self._source.options else golds
        return answer_field(replies, right, self._columns.answer)

    def _replies_in(self, cell: Any) -> tuple[str, ...]:
        """Return the replies in a cell. Of a reply that is a JSON object, this is only the field with the answer.

        A cell can hold several replies, for example a list of sampled ones. An empty tuple means
        that it has none.
        """
        replies = replies_in_cell(cell)
        if not self._json_field:
            return replies
        return tuple(field_of_reply(reply, self._json_field) for reply in replies)

    def _sign_between_alternatives(self) -> str:
        """Return the sign between the accepted answers in one cell: `|` where cells are like `a cup | a mug`.

        The text is empty if each cell holds a single answer, or a list.
        """
        if not self._columns.answer or self._source.options or self._table.is_joined:
            return ""
        answered: list[tuple[str, str]] = []
        for row in self._table.rows:
            answer = row.cells.get(self._columns.answer)
            [reply, *_] = self._replies_in(row.cells.get(self._reply)) or ("",)
            if isinstance(answer, str):
                answered.append((answer, reply))
        sign = sign_between_alternatives(answered)
        if sign:
            self.notes.append(f"right answers hold alternatives, which {sign!r} separates")
        return sign

    def _are_lists_alternatives(self) -> bool:
        """Return whether a list in the column of right answers means that any of its items is accepted.

        It does if the column has a plural name such as `answers`, or if more than half of its
        filled cells are lists. A few lists among single answers are answers themselves, as `[2014,
        2016]` is to "Which years?".
        """
        name = folded_name(self._columns.answer.rpartition(".")[2])
        if self._table.is_joined or self._table.is_of_form or is_plural(name):
            return True
        filled = 0
        lists = 0
        for row in self._table.rows:
            cell = row.cells.get(self._columns.answer)
            if cell not in (None, ""):
                filled += 1
                lists += is_list(cell)
        return 2 * lists > filled

    def _is_one_answer(self, cell: Any) -> bool:
        """Return whether a cell is a list that, as a whole, is the one right answer: `[2014, 2016]`.

        This is only so where other cells of the column are single answers; see
        `_are_lists_alternatives`.
        """
        if self._lists_are_alternatives or not is_bare_list(cell):
            return False
        return len(listed(cell) or ()) > 1

    def _settle_lists(self) -> None:
        """Find out whether right answers and replies are both lists, and how these are to be compared.

        `["B", "D"]` may be the answers to two questions, or one answer with two parts. The result
        is kept in `_kind_of_lists`, as `kind_of_lists` returns it. Lists are looked for in the
        column of replies and then in the column with what a program read from the replies.
        """
        for column in (self._reply, self._table.column("reading")):
            pairs = (
                (row.cells.get(self._columns.answer), row.cells.get(column))
                for row in self._table.rows
            )
            kind = kind_of_lists(pairs) if column and self._columns.answer else ""
            if not kind:
                continue
            self._kind_of_lists = kind
            self._list_column = column
            words = {
                "items": "each item answers a question",
                "whole": "each is one answer",
                "set": "a reply is right if it has the same items",
            }[kind]
            self.notes.append(f"the right answers and {column!r} hold lists: {words}")
            return

    def _are_lists_ranked(self) -> bool:
        """Return whether lists of replies rank answers, as `["a cat", "a dog"]` does, and are not samples of one reply.

        Samples of short answers are often the same. Lists rank answers if they are short, and none
        of them has an item twice.
        """
        if not self._reply or self._table.is_of_form or self._table.is_joined:
            return False
        if self._source.options or self._letters:
            return False
        n_lists = 0
        n_words = 0
        n_items = 0
        for row in self._table.rows:
            cell = row.cells.get(self._reply)
            items = [folded(item) for item in replies_in_cell(cell)] if is_list(cell) else []
            if len(set(items)) < len(items):
                return False
            n_lists += len(items) > 1
            n_items += len(items)
            n_words += sum(map(word_count, items))
        return n_lists >= FEWEST_RANKED and n_words <= MOST_WORDS_RANKED * n_items

    def _form_of_replies(self) -> AnswerForm:
        """Return whether replies are numbers of options, and whether these count from 0 or from 1.

        If right answers are numbers of options, replies count in the same way. Otherwise the
        numbers in all replies are looked at: if there is a 0, and none reaches the number of
        options, they count from 0.

        A number may also be part of an option's text, such as `3` where an option is `3 cm`. It
        then means that option, and not the third one, if right answers are not numbers of options
        or if the reply is a sentence.

        Returns:
            `index0` or `index1`; `any` if replies are not numbers of options.
        """
        if not self._source.options:
            return "any"
        numbers: list[int] = []
        fewest_options = 0
        n_answered = 0
        for row in self._table.rows:
            [reply, *_] = self._replies_in(row.cells.get(self._reply)) or ("",)
            options = self._texts_of_options(row)
            if not reply or not options:
                continue
            n_answered += 1
            digits = self._number_said(reply)
            number = whole_number(digits)
            if number is None or named_option(reply, options, "text") is not None:
                continue
            words = [word for option in options for word in folded(option).split()]
            is_in_option = number in map(number_in, words)
            is_in_sentence = digits != without_outer_brackets(reply)
            if is_in_option and (is_in_sentence or not self._counts_options):
                continue  # 3 means `3 cm` or `three`
            numbers.append(number)
            fewest_options = min(fewest_options or len(options), len(options))

        if not n_answered or len(numbers) < MOSTLY * n_answered:
            return "any"
        if self._counts_options:
            return self._source.answer_is
        has_zero = 0 in numbers
        if has_zero and max(numbers) < fewest_options:
            return "index0"
        if not has_zero and max(numbers) == fewest_options:
            return "index1"
        return "any"

    @property
    def _counts_options(self) -> bool:
        """Whether right answers are numbers of options, such as 2 for the second or third one."""
        return self._source.answer_is in ("index0", "index1")

    def _are_numbers_stated(self) -> bool:
        """Return whether right answers are numbers of options from 1, and more than half of the replies state one."""
        if self._source.answer_is != "index1":
            return False
        stating = 0
        for row in self._table.rows:
            [reply, *_] = self._replies_in(row.cells.get(self._reply)) or ("",)
            stating += _STATES_NUMBER.search(reply) is not None
        return 2 * stating > len(self._table.rows)

    def _texts_of_options(self, row: SourceRow) -> tuple[str, ...]:
        """Return the options that a row has in columns of their own; empty if they cannot be used."""
        try:
            return option_texts_of(row.cells, self._source, row.where)
        except DataError:
            return ()

    def predicted(self, row: SourceRow) -> Iterator[PredictedRow]:
        """Yield a prediction for each reply of a row.

        Most rows have one. A row with several sampled replies has one for each, and a row with
        lists of right answers and of replies may have one for each item. A row that cannot be used
        yields nothing, and `findings` counts the reason.
        """
        if row.holds_half_pair:
            self.findings.add(HALF_PAIRS, row.where)
        elif row.fault:
            self.findings.add("rows left out, that cannot be read", row.where)
            return
        cells = row.cells
        asked = Asked(cells, self._roles)
        row_id = ""
        if self._columns.id:
            row_id = without_fraction(text_in_cell(cells.get(self._columns.id)))
        name = row_id or place_of(row)

        likeliest_option, scores = likelihood_in_cell(cells.get(self._table.column("likelihood")))
        is_likelihood = likeliest_option is not None or bool(scores)
        try:
            shown = self._options(cells, asked, row.where, len(scores))
        except DataError:
            self.findings.add("rows left out, with options that cannot be used", name)
            return

        answer_cell = cells.get(self._columns.answer) if self._columns.answer else None
        right_options: tuple[int, ...] = ()
        if shown and answer_cell and not self._table.is_joined and not is_likelihood:
            right_options = places_named(answer_cell, shown, self._source.answer_is)
        has_several_right_options = len(right_options) > 1
        options = shown.options
        labels = shown.labels
        gold: tuple[int, ...] = ()
        references: tuple[str, ...] = ()
        fault = ""
        if has_several_right_options:
            # Scored as an open question whose answer is the letters of all right options, such as `AC`.
            options = ()
            labels = ()
            references = (letters_of(right_options),)
        else:
            gold, references, fault = self._answer(
                cells, shown, row.where, is_likelihood=is_likelihood
            )
        if references and not self._kind_of_lists and self._is_one_answer(answer_cell):
            self.findings.add(LISTS_AS_ANSWERS, name)
        if fault and not self._table.is_joined:
            self.findings.add(f"rows left out, {fault}", name)
            return

        replies = self._replies_in(cells.get(self._reply)) if self._reply else asked.replies
        if is_likelihood:
            replies = ()  # the model scored the options and wrote nothing
        elif has_several_right_options:
            texts = self._replies_to_several(cells, replies)
            form = self._source.answer_is
            replies = tuple(letters_in_reply(text, shown, form) for text in texts)
        elif references and bare_label("".join(replies)) and self._lists_options(asked):
            self.findings.add(LISTED_APART, name)
            return
        if self._repeats_prompts:
            replies = tuple(without_prompt(reply, asked) for reply in replies)

        predicted = replace(
            self._facts_of_row(row, asked, row_id),
            options=options,
            labels=labels,
            gold=gold,
            references=references,
            likeliest_option=likeliest_option,
            scores=scores,
        )
        predicted = self._as_presented(predicted, cells)
        if self._kind_of_lists:
            yield from self._of_lists(predicted, cells)
        elif len(replies) > 1 and not self._are_replies_ranked:
            for number, reply in enumerate(replies):
                text = self._reply_text(reply, predicted)
                of_row = predicted.group or predicted.picture or predicted.id or predicted.where
                yield replace(predicted, presentation=number, reply=text, group=of_row)
        else:
            reply = replies[0] if replies else ""
            yield replace(predicted, reply=self._reply_text(reply, predicted))

    def _facts_of_row(self, row: SourceRow, asked: Asked, row_id: str) -> PredictedRow:
        """Return a prediction without options, right answers and reply, but with everything else that its row says.

        Args:
            row: The row.
            asked: The question and the prompt of the row.
            row_id: The id of the row, or an empty text. If the row is one turn of a dialogue, the
                number of the turn at the end of the id is removed, so that all turns have the same
                id.
        """
        cells = row.cells
        turn = count_in_cell(cells.get(self._table.column("turn")))
        tags: dict[str, str] = {}
        for column in self._roles.get("tag", ()):
            if column in cells:
                tags[folded_name(column)] = text_in_cell(cells[column])
        return PredictedRow(
            where=place_of(row),
            id=row_id if turn is None else row_id.removesuffix(f"_{turn}"),
            turn=turn,
            presentation=count_in_cell(cells.get(self._table.column("presentation"))),
            question=asked.question,
            prompt=asked.prompt,
            subject=text_in_cell(cells.get(self._table.column("subject"))),
            context=text_in_cell(cells.get(self._columns.context)),
            failure=text_in_cell(cells.get(self._table.column("failure"))),
            template=text_in_cell(cells.get(self._table.column("template"))),
            picture=image_names(cells, self._source.pictures),
            group=text_in_cell(cells.get(self._columns.group)),
            tags=tags,
            verdict=self._verdict(cells),
            reading=self._reading(cells),
            judge=text_in_cell(cells.get(self._table.column("judge"))),
            decoding=decoding_of(cells),
        )

    def _as_presented(self, row: PredictedRow, cells: Mapping[str, Any]) -> PredictedRow:
        """Return a prediction with the protocol and the order of options under which Snellen asked it.

        This applies only to tables that `snellen export` wrote; other predictions are returned as
        they are. Such a table repeats a question with its options in several orders, and its column
        `order` says which: `[2, 0, 1]` means that the third option was shown first.
        """
        protocol = text_in_cell(cells.get("doc.protocol"))
        if protocol:
            return replace(row, protocol=protocol)
        if not self._is_exported:
            return row
        presented = replace(
            row,
            presentation=count_in_cell(cells["presentation"]),
            protocol=text_in_cell(cells["protocol"]),
        )
        order = listed(cells[_ORDER]) or []
        places = [whole_number(as_text(place)) for place in order]
        if row.method == "likelihood" or set(places) != set(range(len(row.options))):
            return presented
        shown = [place for place in places if place is not None]
        return replace(
            presented,
            options=tuple(row.options[place] for place in shown),
            gold=tuple(shown.index(place) for place in row.gold),
        )

    def _replies_to_several(
        self, cells: Mapping[str, Any], replies: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Return the replies to a question with several right options, for which a list is a single reply.

        For such a question `["A", "C"]` is one reply that names two options; for another, it would
        be two replies.
        """
        cell = cells.get(self._reply)
        return (as_text(cell),) if isinstance(cell, list) else replies

    def _of_lists(self, row: PredictedRow, cells: Mapping[str, Any]) -> Iterator[PredictedRow]:
        """Yield the predictions of a row whose right answer and reply are lists.

        There is one prediction for each item if every item answers a question of its own, and
        otherwise one for the whole list.
        """
        golds = list_in_answer(cells.get(self._columns.answer))
        given = list_in_answer(cells.get(self._list_column))
        if self._kind_of_lists == "set":
            golds, given = tuple(sorted(set(golds))), tuple(sorted(set(given)))
        if self._kind_of_lists in ("whole", "set"):
            reply = f"[{', '.join(given)}]" if given else text_in_cell(cells.get(self._reply))
            yield replace(
                row, options=(), labels=(), references=(f"[{', '.join(golds)}]",), reply=reply
            )
            return
        for number, gold in enumerate(golds):
            name = f"{row.id or row.where}/{number + 1}"
            reply = given[number] if number < len(given) else ""
            of_item = replace(row, id=name, reply=reply, reading=None, verdict=None)
            place = named_option(gold, row.options, labels=row.labels) if row.options else None
            if place is None:
                yield replace(of_item, options=(), labels=(), references=(gold,))
            else:
                yield replace(of_item, gold=(place,), references=())

    def _reply_text(self, reply: str, row: PredictedRow) -> str | None:
        """Return a reply as it is to be scored; None if the cell says that there is no reply, such as `nan`.

        A reply that is the name of a column of options (`option_b`), or a number of an option,
        becomes the letter of that option.
        """
        if not row.labels and folded_name(reply) in self._option_names:
            place = self._option_names.index(folded_name(reply))
            if place < len(row.options):
                return LETTERS[place]
        if self._reply_form != "any":
            place = named_option(self._number_said(reply), row.options, self._reply_form)
            if place is not None and named_option(reply, row.options, "text") is None:
                return (row.labels or LETTERS)[place]
        expected_texts = (*row.options, *row.references, *self._empty_golds)
        is_empty = not self._table.is_of_form and is_empty_cell(reply, expected_texts)
        return None if is_empty else reply

    def _reading_of_verdicts(self) -> ReadingOfVerdicts:
        """Return the function that turns a cell of the column of verdicts into a number from 0 to 1.

        A verdict says whether a reply is right, for example `correct`. If a judge gave marks such
        as 1 to 5, a note tells the user how they are converted.
        """
        column = self._table.column("verdict")
        counts = Counter(text_in_cell(row.cells.get(column)) for row in self._table.rows)
        judged = is_judged(column, self._table.roles.profiles) or bool(self._table.column("judge"))
        read = reading_of_verdicts(counts, is_judged=judged)
        if read is None or read is verdict_of_cell:
            return verdict_of_cell
        shown = [text for text in sorted(counts) if read(text) is not None]
        shares = ", ".join(f"{text} as {read(text):.0%}" for text in (shown[0], shown[-1]))
        self.notes.append(
            f"a judge's marks in {column!r} are read as shares of the best one: {shares}"
        )
        return read

    def _verdict(self, cells: Mapping[str, Any]) -> float | None:
        """Return how right the reply is according to the file, from 0 to 1; None if the file does not say.

        It is in the column of verdicts. Without such a column, an object such as `{"answer": "B",
        "read": "C"}`, with the right answer beside what a program read in the reply, gives 1 if
        both are equal and 0 if not.
        """
        column = self._table.column("verdict")
        if column:
            return self._read_verdict(text_in_cell(cells.get(column)))
        metric, _, field = self._table.column("reading").rpartition(".")
        right = cells.get(f"{metric}.answer")
        read = cells.get(f"{metric}.{field}")
        if (
            not metric
            or not right
            or isinstance(right, (list, dict)) != isinstance(read, (list, dict))
        ):
            return None  # a text cannot be compared with a list of which any item may be right
        return float(read == right)

    def _reading(self, cells: Mapping[str, Any]) -> str | None:
        column = self._table.column("reading")
        if not column or column not in cells:
            return None
        return text_in_cell(cells[column])

    def _options(
        self, cells: Mapping[str, Any], asked: Asked, where: str, n_scored: int
    ) -> ShownOptions:
        """Return the options that a row showed, with their labels; empty for an open question.

        They are looked for in columns of the table, then in a list in the prompt, and then as the
        right answer together with columns of wrong ones. If the file has only letters as right
        answers, the texts of options are not known and are called `option A`, `option B` and so on.

        Args:
            cells: The cells of the row.
            asked: Its question and prompt.
            where: The row, for messages.
            n_scored: The number of options that have a log-likelihood.

        Raises:
            DataError: The columns of options cannot be used.
        """
        if self._source.options:
            return self._options_in_columns(cells, where)
        if self._table.options_in_prompts:
            listed = shown_in_prompt(asked.prompt) or shown_in_prompt(asked.question)
            is_answer_listed = self._place_in_list(cells, listed) is not None
            are_all_scored = len(listed.options) == n_scored
            is_choice = is_answer_listed or are_all_scored or not self._columns.answer
            if listed.options and is_choice:
                return listed
        wrong = wrong_texts(cells, self._columns)
        if wrong:
            right = text_in_cell(cells.get(self._columns.answer))
            return ShownOptions((right, *wrong))
        answer = as_text(only_value(cells.get(self._columns.answer, ""))).strip()
        is_hidden = not answer or answer.casefold() in self._hidden
        if self._letters and (is_hidden or label_of(answer)):
            return options_of_letters(self._letters)
        return ShownOptions(())

    def _options_in_columns(self, cells: Mapping[str, Any], where: str) -> ShownOptions:
        """Return the options of a row that has a column for each option, or one column with a list of them.

        If both right answers and replies are numbers from 1, the labels of the options are 1, 2, 3
        and so on, and otherwise letters.
        """
        columns = self._source.options
        if self._source.has_option_columns and not self._has_numbered_options:
            if self._table.is_joined:
                return ShownOptions(cells_to_last(cells, columns))
            return option_cells(cells, columns)
        options = option_texts_of(cells, self._source, where)
        if not self._has_numbered_options:
            return ShownOptions(options)
        numbers = tuple(str(number) for number in range(1, len(options) + 1))
        return ShownOptions(options, numbers)

    def _are_texts_asked(self) -> bool:
        """Return whether more than half of the prompts ask the model to write a text, such as a caption."""
        asking = 0
        for row in self._table.rows:
            asked = Asked(row.cells, self._roles)
            asking += asks_for_text(asked.prompt or asked.question)
        return 2 * asking > len(self._table.rows)

    def _place_in_list(self, cells: Mapping[str, Any], listed: ShownOptions) -> int | None:
        """Return the index of the option that is the right answer, among those that the prompt lists.

        None if the prompt lists no options, or if the answer is none of them.
        """
        answer = as_text(only_value(cells.get(self._columns.answer)))
        if not listed or not answer:
            return None
        place = named_option(answer, listed.options, labels=listed.labels, in_words=True)
        return self._excluded.get((listed.options, answer)) if place is None else place

    @cached_property
    def _excluded(self) -> dict[tuple[tuple[str, ...], str], int]:
        """For right answers worded differently than in the prompt, the index of the option they must mean.

        For example, prompts list the options Left, Right and Above, and the right answers in the
        file are `left`, `right` and `on top`. `on top` equals no option, but as the other answers
        take the other options, it must mean Above. The key is then `(("Left", "Right", "Above"),
        "on top")` and the value 2. Each such guess is noted for the user.
        """
        answered: list[tuple[tuple[str, ...], str]] = []
        for row in self._table.rows:
            asked = Asked(row.cells, self._roles)
            listed = shown_in_prompt(asked.prompt) or shown_in_prompt(asked.question)
            answer = as_text(only_value(row.cells.get(self._columns.answer)))
            if listed and answer:
                answered.append((listed.options, answer))
        places = places_by_exclusion(answered)
        for (options, answer), place in places.items():
            self.notes.append(
                f"{answer!r} is taken for the option {options[place]!r}, as other answers name the others"
            )
        return places

    def _lists_options(self, asked: Asked) -> bool:
        """Return whether a prompt lists three options or more, so that a letter as a reply is one of them."""
        if not self._table.options_in_prompts:
            return False
        listed = listed_options(asked.prompt) or listed_options(asked.question)
        return not self._table.is_joined and len(listed) > 2

    def _answer(
        self, cells: Mapping[str, Any], shown: ShownOptions, where: str, *, is_likelihood: bool
    ) -> tuple[tuple[int, ...], tuple[str, ...], str]:
        """Return the right answer of a row: the index of an option, or the texts that an open question accepts.

        Args:
            cells: The cells of the row.
            shown: The options of the row.
            where: The row, for messages.
            is_likelihood: Whether the row has log-likelihoods of the options. Then its right answer
                may be a number of an option from 0, as evaluation harnesses record it.

        Returns:
            A tuple of three: the indices of the right option (at most one), the accepted texts, and
            the reason why the row cannot be used. The first two are empty if the right answer is
            not known, and the reason is empty if the row can be used.
        """
        written = cells.get(self._columns.answer) if self._columns.answer else None
        answer = only_value(written)
        if answer is None or answer == "" or self._is_hidden_answer(answer, shown):
            return (), (), ""
        if self._kind_of_lists:
            return (), (as_text(written),), ""
        if not shown.options:
            return self._open_answer(cells, where)
        if isinstance(answer, list):
            place = self._named(as_text(written), shown)  # an option in brackets
            return _right_option(place, "with several right options")
        number = whole_number(as_text(answer))
        if is_likelihood and number is not None and number < len(shown.options):
            place = number
        elif self._letters or self._source.options:
            place = self._named(answer, shown)
        else:
            place = self._place_in_list(cells, shown)
        return _right_option(place, "whose right answer is none of their options")

    def _is_hidden_answer(self, answer: Any, shown: ShownOptions) -> bool:
        """Return whether a cell says that the right answer is not published, as `hidden` and `?` do.

        A word that is the text of one of the options does not count.
        """
        word = as_text(answer).strip().casefold()
        if self._table.is_of_form or word not in self._hidden:
            return False
        is_option = any(option.strip().casefold() == word for option in shown.options)
        return not (word in HIDDEN and is_option)

    def _open_answer(
        self, cells: Mapping[str, Any], where: str
    ) -> tuple[tuple[int, ...], tuple[str, ...], str]:
        """Return the texts that count as right for a row without options, in the tuple that `_answer` returns."""
        written = cells.get(self._columns.answer)
        if self._letters and isinstance(only_value(written), list):
            return (), (), "with several right options"
        if self._is_one_answer(written):
            return (), (as_text(written),), ""
        try:
            _, references = read_answer(cells, (), self._source, where)
        except DataError:
            return (), (), "whose answer names an option that they do not have"
        return (), alternatives(references, self._alternatives_between), ""

    def _named(self, answer: Any, shown: ShownOptions) -> int | None:
        """Return the index of the option that a right answer names; None if it names none.

        It is read first in the form that right answers of this table have (for example as a number
        from 0), and if that fails, in any form.
        """
        columns = self._source.options if self._source.has_option_columns else ()
        form = self._source.answer_is
        if form != "any" and not shown.has_gap and not self._letters:
            place = named_option(answer, shown.options, form, columns=columns)
            if place is not None:
                return place
        return named_option(answer, shown.options, labels=shown.labels, in_words=True)


def _columns_by_role(reading: TableReading) -> TableColumns:
    """Return the columns of a table for the roles that a table of questions has, too."""
    by_role: dict[str, Any] = {}
    for role, names in reading.roles.roles.items():
        if role in TableColumns.__struct_fields__:
            by_role[role] = names if role in SEVERAL else names[0]
    return TableColumns(**{"question": "", **by_role})


def _right_option(place: int | None, fault: str) -> tuple[tuple[int, ...], tuple[str, ...], str]:
    return ((), (), fault) if place is None else ((place,), (), "")
