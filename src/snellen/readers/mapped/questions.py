"""From a record to its question: texts, options, answer, and sources of distractors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen.common.drafts import DistractorPrompt, DistractorSpec, QuestionDraft, by_votes
from snellen.errors import DataError
from snellen.formats.delimited import LETTERS
from snellen.readers.mapped.records import Fields, Record
from snellen.readers.mapped.templates import Field, FieldError, Template

LETTER = "{}"


class InlineOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """How a question and its options stand in one text."""

    label: str
    """How each option begins, with {} for its letter: `{}: `, `({}) `, `{}. `."""
    heading: str = ""
    """A regular expression of what stands between question and options, besides white space: `Options:`."""
    between: str = r"\s*[,;]\s*|\s+"
    """A regular expression of what stands between two options."""
    lower: bool = False
    """Whether the letters are small ones."""
    closing: str = ""
    """A regular expression of what follows the last option and belongs to neither: `Please answer .*`."""


class OptionSplitter:
    """Takes texts apart. Raises DataError for a label without its letter, or for a wrong expression."""

    def __init__(self, inline: InlineOptions) -> None:
        if inline.label.count(LETTER) != 1:
            raise DataError(
                f"inline: the label {inline.label!r} needs {LETTER} where the letter stands, once"
            )
        before_letter, after_letter = map(re.escape, inline.label.strip().split(LETTER))
        blank = r"(?:\s+|$)" if inline.label[-1].isspace() else r"\s*"
        heading = rf"\s*(?:{inline.heading})\s*" if inline.heading else r"\s+"
        try:
            letters = LETTERS.lower() if inline.lower else LETTERS
            self._labels: list[re.Pattern[str]] = []
            for index, letter in enumerate(letters):
                separator = inline.between if index else heading
                label = f"{before_letter}{letter}{after_letter}"
                self._labels.append(re.compile(rf"(?:{separator}){label}{blank}"))
            self._closing: re.Pattern[str] | None = None
            if inline.closing:
                self._closing = re.compile(rf"\s*(?:{inline.closing})\s*$", re.DOTALL)
        except re.error as error:
            raise DataError(f"inline: {error} is not a regular expression") from None

    def split(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Split a text into the question and the options that follow it, by their letters. There are no options if the text
        has fewer than two.
        """
        body = self._closing.sub("", text) if self._closing else text
        labels: list[re.Match[str]] = []
        for label in self._labels:
            # The first option has the last place that fits: what looks like a label before it is the question's own.
            if labels:
                match = label.search(body, labels[-1].end())
            else:
                match = _last_match(label, body)
            if match is None:
                break
            labels.append(match)
        if len(labels) < 2:
            return body.strip(), ()
        option_ends = [label.start() for label in labels[1:]] + [len(body)]
        options = tuple(
            body[label.end() : end].strip() for label, end in zip(labels, option_ends, strict=True)
        )
        question = body[: labels[0].start()].strip()
        return question, options


def _last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the last match of a pattern in a text, or None."""
    match = None
    for match in pattern.finditer(text):  # noqa: B007
        pass
    return match


OptionName = Literal["index", "letter", "text", "label"]
Pools = dict[str, tuple[str, ...]]


class Distractors(Struct, frozen=True, forbid_unknown_fields=True):
    """How the distractors of an open question are made, as in the paper; yes/no questions need none."""

    pools: tuple[str, ...] = ()
    """Templates of the keys by which answers are pooled, the nearest first; the empty key pools all answers."""
    prompt: DistractorPrompt = ""
    """The prompt for a model that writes them; the pools are for builds without a model."""
    fillers: tuple[str, ...] = ()
    """Options used when the candidates run out."""
    rationale: str = ""
    """Template of the answer that the rationales explain (prompt `rationales`)."""
    question: str = ""
    """Template of the question as shown to a writer; the question itself when empty."""
    allow_fewer: bool = False


class Question(Struct, frozen=True, kw_only=True):
    """The part of a mapping that defines the question and its answer."""

    question: str
    options: str | tuple[str, ...] | dict[str, str] = ()
    """A list field, a list of templates, or a table of labels and their options. Templates of optional fields that are
    empty are left out; a question without any option is an open one."""
    inline: InlineOptions | None = None
    """How the options stand inside the question, in place of `options`; where there are none it is an open one."""
    answer: str | tuple[str, ...] = ()
    """With options: the right one, in the form given by `answer_is`. Without: the accepted texts, the gold first."""
    answer_is: OptionName | Literal["", "votes"] = ""
    """How `answer` names an option: `label` (default for a table), `index` from 0 (other default), `letter`, `text`.

    Without options `votes`: an answer of each annotator, so that repeats are kept, the most frequent first.
    """
    may_repeat: bool = False
    """Whether a question may have the same option twice, as published data do now and then; else it is refused."""
    rewordings: tuple[str, ...] = ()
    """Rewordings of the question; presentations alternate between them."""
    distractors: Distractors | None = None
    repairs: dict[str, str] = {}
    """Words that the source misspells in its questions, and what is meant."""


class QuestionMaker:
    """Makes the question of a record. Raises DataError for a template with an unknown field."""

    def __init__(self, question: Question, fields: Fields) -> None:
        def needed(text: str) -> Template:
            return Template(text, fields, needed=True)

        self._question = needed(question.question)
        self._rewordings = [needed(text) for text in question.rewordings]
        answers = (question.answer,) if isinstance(question.answer, str) else question.answer
        self._answers = [needed(text) for text in answers]
        if question.options and question.inline:
            raise DataError("options and inline: give one of both")
        self._options = _Options(question, fields) if question.options or question.inline else None
        self._splitter = OptionSplitter(question.inline) if question.inline else None
        self._may_repeat = question.may_repeat
        self._votes = question.answer_is == "votes"
        self._repairs = question.repairs
        self._wrong = re.compile(rf"\b(?:{'|'.join(map(re.escape, question.repairs))})\b")
        self._spec = question.distractors
        self._pool_keys = (
            [Template(text, fields) for text in self._spec.pools] if self._spec else []
        )
        self._rationale: Template | None = None
        self._question_for_writer: Template | None = None
        if self._spec and self._spec.rationale:
            self._rationale = needed(self._spec.rationale)
        if self._spec and self._spec.question:
            self._question_for_writer = needed(self._spec.question)
        self._specs_by_keys: dict[tuple[str, ...], DistractorSpec] = {}

    @property
    def pools_answers(self) -> bool:
        return bool(self._pool_keys)

    def gold(self, record: Record) -> str:
        """Return the first accepted answer of a record, the ground truth. Raises FieldError if it is empty."""
        texts = self._answers[0].fill_all(record)
        if not texts or not texts[0].strip():
            raise FieldError(self._empty_answer_message(record))
        return texts[0]

    def keys(self, record: Record) -> tuple[str, ...]:
        """Return the keys of the pools of answers from which the record's distractors are taken."""
        return tuple(key.fill(record) for key in self._pool_keys)

    def question(self, record: Record, pools: Pools) -> QuestionDraft:
        """Return the question of a record: multiple choice if it has options, else open. Raises FieldError for an
        empty field, or an answer that is not an option."""
        text = self._correct_misspellings(self._question.fill(record))
        rewordings = tuple(
            self._correct_misspellings(reworded.fill(record)) for reworded in self._rewordings
        )
        if self._options:
            if self._splitter:
                text, options = self._splitter.split(text)
            else:
                options = self._options.of(record)
            if any(options):
                gold: tuple[int, ...] = ()
                if self._answers:
                    gold = (self._options.gold(self._answers[0], record, options),)
                question = QuestionDraft(
                    question=text,
                    options=options,
                    gold=gold,
                    rewordings=rewordings,
                    may_repeat=self._may_repeat,
                )
                return _drop_empty_options(question, self._options.may_lack)
        return QuestionDraft(
            text,
            texts=self._accepted_texts(record) if self._answers else (),
            distractors=self._distractor_spec(self._spec, record, pools) if self._spec else None,
            rewordings=rewordings,
        )

    def _correct_misspellings(self, text: str) -> str:
        """Return a text with the words corrected that the source is declared to misspell."""
        if not self._repairs:
            return text
        return self._wrong.sub(lambda word: self._repairs[word[0]], text)

    def _accepted_texts(self, record: Record) -> tuple[str, ...]:
        """Return the accepted answers of a record.

        If the entry declares them as votes of annotators, all votes are returned, the most frequent answer first. Otherwise
        they are the distinct answers, the ground truth first.

        Raises:
            FieldError: An answer is empty.
        """
        texts_by_template = [answer.fill_all(record) for answer in self._answers]
        texts = list(chain.from_iterable(texts_by_template))
        has_empty_text = any(not text or text.isspace() for text in texts)
        if not texts_by_template[0] or has_empty_text:
            raise FieldError(self._empty_answer_message(record))
        if not self._votes:
            return tuple(dict.fromkeys(texts))
        ranked = by_votes(texts)
        votes = [text.strip() for text in texts]
        votes.sort(key=ranked.index)
        return tuple(votes)

    def _empty_answer_message(self, record: Record) -> str:
        """Return a message that tells which answer of a record is empty."""
        for answer in self._answers:
            texts = answer.fill_all(record)
            for index, text in enumerate(texts):
                if not text.strip():
                    position = f"[{index}]" if len(texts) > 1 else ""
                    return f"{_answer_name(answer)}{position} is empty"
        return f"{_answer_name(self._answers[0])} is empty; is this the file of a split with hidden answers?"

    def _distractor_spec(self, spec: Distractors, record: Record, pools: Pools) -> DistractorSpec:
        """Return how the distractors of a record's question are found.

        Records whose questions draw from the same pools of candidates share one object, unless each has texts of its
        own for the model that writes distractors.
        """
        keys = self.keys(record)
        if self._rationale is None and self._question_for_writer is None:
            if keys not in self._specs_by_keys:
                self._specs_by_keys[keys] = _make_distractor_spec(spec, keys, pools)
            return self._specs_by_keys[keys]
        rationale = self._rationale.fill(record) if self._rationale else ""
        question = self._question_for_writer.fill(record) if self._question_for_writer else ""
        return _make_distractor_spec(spec, keys, pools, rationale=rationale, question=question)


def _drop_empty_options(question: QuestionDraft, may_lack: bool) -> QuestionDraft:
    """Return a question without its empty options.

    Args:
        question: The question.
        may_lack: Whether options may be empty; if not, the question is returned as it is.

    Raises:
        FieldError: The correct option is empty.
    """
    if not may_lack or all(question.options):
        return question
    for correct in question.gold:
        if not question.options[correct]:
            raise FieldError(f"the answer is option {LETTERS[correct]}, which is empty")
    filled = [index for index, option in enumerate(question.options) if option]
    options = tuple(question.options[index] for index in filled)
    gold = tuple(filled.index(correct) for correct in question.gold)
    return replace(question, options=options, gold=gold)


def _make_distractor_spec(
    spec: Distractors,
    keys: Sequence[str],
    pools: Pools,
    rationale: str = "",
    question: str = "",
) -> DistractorSpec:
    """Return a specification of distractors.

    Args:
        spec: How the distractors of the benchmark are made.
        keys: Keys of the pools with candidates, the most suitable pool first.
        pools: The answers to all questions by key.
        rationale: The answer that the rationales explain, for a model that writes distractors.
        question: The question as it is shown to such a model; empty for the question itself.
    """
    return DistractorSpec(
        tiers=tuple(pools[key] for key in keys),
        fillers=spec.fillers,
        prompt=spec.prompt,
        rationale=rationale,
        question=question,
        allow_fewer=spec.allow_fewer,
    )


class _Options:
    """The options of a question, and which of them is the answer."""

    def __init__(self, question: Question, fields: Fields) -> None:
        options = question.options
        self._labels = list(options) if isinstance(options, dict) else []
        self._fixed = tuple(options.values()) if isinstance(options, dict) else ()
        self._list: Field | None = None
        if isinstance(options, str):
            template = Template(options, fields)
            if not template.is_field:
                raise DataError(
                    f"options = {options!r} is not a field with a list; write several templates as a list"
                )
            self._list = template.fields[0]
        self._templates = (
            [Template(text, fields) for text in options] if isinstance(options, tuple) else []
        )
        if question.answer_is == "votes":
            raise DataError(
                'answer_is = "votes" is for questions without options; leave it out, or the options'
            )
        self._answer_form: OptionName = question.answer_is or ("label" if self._labels else "index")

    @property
    def may_lack(self) -> bool:
        """Whether columns of options may be empty."""
        return bool(self._templates)

    def of(self, record: Record) -> tuple[str, ...]:
        """Return the options of a record: the fixed ones of the mapping, the items of a list field, or a template
        for each."""
        if self._fixed:
            return self._fixed
        if self._list:
            return tuple(self._list.texts(record))
        return tuple(template.fill(record) for template in self._templates)

    def gold(self, answer: Template, record: Record, options: tuple[str, ...]) -> int:
        """Return the index of the correct option. Raises FieldError for an answer that is not among the options."""
        text = answer.fill(record)
        choices: dict[OptionName, Sequence[str]] = {
            "index": [str(number) for number in range(len(options))],
            "letter": LETTERS[: len(options)],
            "text": options,
            "label": self._labels,
        }
        if text in choices[self._answer_form]:
            return choices[self._answer_form].index(text)
        name = _answer_name(answer)
        if self._answer_form == "index":
            option_list: Any = self._list.name if self._list else "options"
            raise FieldError(f"{name} {text} but {option_list} are 0-{len(options) - 1}")
        raise FieldError(f"the {name} {text!r} is none of {', '.join(choices[self._answer_form])}")


def _answer_name(answer: Template) -> str:
    """Return the name of an answer's field for messages."""
    return answer.fields[0].name if answer.fields else "answer"
