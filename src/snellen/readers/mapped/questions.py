"""From a record to its question: texts, options, answer, and sources of distractors."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
        before, after = map(re.escape, inline.label.strip().split(LETTER))
        blank = r"(?:\s+|$)" if inline.label[-1].isspace() else r"\s*"
        heading = rf"\s*(?:{inline.heading})\s*" if inline.heading else r"\s+"
        try:
            self._labels = [
                re.compile(
                    rf"(?:{inline.between if place else heading}){before}{letter}{after}{blank}"
                )
                for place, letter in enumerate(LETTERS.lower() if inline.lower else LETTERS)
            ]
            self._closing = (
                re.compile(rf"\s*(?:{inline.closing})\s*$", re.DOTALL) if inline.closing else None
            )
        except re.error as error:
            raise DataError(f"inline: {error} is not a regular expression") from None

    def split(self, text: str) -> tuple[str, tuple[str, ...]]:
        """The question, and its options in the order of their letters; none where the text has fewer than two."""
        body = self._closing.sub("", text) if self._closing else text
        starts: list[re.Match[str]] = []
        for label in self._labels:
            # The first option has the last place that fits: what looks like a label before it is the question's own.
            match = _last(label, body) if not starts else label.search(body, starts[-1].end())
            if match is None:
                break
            starts.append(match)
        if len(starts) < 2:
            return body.strip(), ()
        ends = [start.start() for start in starts[1:]] + [len(body)]
        options = tuple(
            body[start.end() : end].strip() for start, end in zip(starts, ends, strict=True)
        )
        return body[: starts[0].start()].strip(), options


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
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
        self._keys = [Template(text, fields) for text in self._spec.pools] if self._spec else []
        self._rationale = (
            needed(self._spec.rationale) if self._spec and self._spec.rationale else None
        )
        self._told = needed(self._spec.question) if self._spec and self._spec.question else None
        self._made: dict[tuple[str, ...], DistractorSpec] = {}

    @property
    def pools_answers(self) -> bool:
        return bool(self._keys)

    def gold(self, record: Record) -> str:
        """The first accepted answer. Raises FieldError when there is none."""
        texts = self._answers[0].fill_all(record)
        if not texts or not texts[0].strip():
            raise FieldError(self._missing(record))
        return texts[0]

    def keys(self, record: Record) -> tuple[str, ...]:
        """The keys of the pools that supply the record's distractors."""
        return tuple(key.fill(record) for key in self._keys)

    def question(self, record: Record, pools: Pools) -> QuestionDraft:
        """The question of the record. Raises FieldError for an empty field, or an answer that is not an option."""
        text = self._repaired(self._question.fill(record))
        rewordings = tuple(self._repaired(reworded.fill(record)) for reworded in self._rewordings)
        if self._options:
            text, options = (
                self._splitter.split(text) if self._splitter else (text, self._options.of(record))
            )
            if any(options):
                gold = (
                    (self._options.gold(self._answers[0], record, options),)
                    if self._answers
                    else ()
                )
                return _without_empty(
                    QuestionDraft(
                        text, options, gold, rewordings=rewordings, may_repeat=self._may_repeat
                    ),
                    self._options.may_lack,
                )
        return QuestionDraft(
            text,
            texts=self._texts(record) if self._answers else (),
            distractors=self._distractors(self._spec, record, pools) if self._spec else None,
            rewordings=rewordings,
        )

    def _repaired(self, text: str) -> str:
        return self._wrong.sub(lambda word: self._repairs[word[0]], text) if self._repairs else text

    def _texts(self, record: Record) -> tuple[str, ...]:
        """The distinct accepted answers, the gold first, or all votes. Raises FieldError when one is empty."""
        accepted = [answer.fill_all(record) for answer in self._answers]
        texts = [text for answer_texts in accepted for text in answer_texts]
        if not accepted[0] or any(not text or text.isspace() for text in texts):
            raise FieldError(self._missing(record))
        if not self._votes:
            return tuple(dict.fromkeys(texts))
        order = {text: place for place, text in enumerate(by_votes(texts))}
        return tuple(sorted((text.strip() for text in texts), key=order.__getitem__))

    def _missing(self, record: Record) -> str:
        """A message saying which answer is empty."""
        for answer in self._answers:
            texts = answer.fill_all(record)
            for place, text in enumerate(texts):
                if not text.strip():
                    return f"{_name(answer)}{f'[{place}]' * (len(texts) > 1)} is empty"
        return (
            f"{_name(self._answers[0])} is empty; is this the file of a split with hidden answers?"
        )

    def _distractors(self, spec: Distractors, record: Record, pools: Pools) -> DistractorSpec:
        keys = self.keys(record)
        if self._rationale is None and self._told is None:
            if keys not in self._made:
                self._made[keys] = _spec_of(spec, keys, pools)
            return self._made[keys]
        rationale = self._rationale.fill(record) if self._rationale else ""
        return _spec_of(
            spec, keys, pools, (rationale, self._told.fill(record) if self._told else "")
        )


def _without_empty(question: QuestionDraft, may_lack: bool) -> QuestionDraft:
    """The question but for its empty options, where it may lack some. Raises FieldError for an empty answer."""
    if not may_lack or all(question.options):
        return question
    if empty := [place for place in question.gold if not question.options[place]]:
        raise FieldError(f"the answer is option {LETTERS[empty[0]]}, which is empty")
    filled = [place for place, option in enumerate(question.options) if option]
    options, gold = (question.options[place] for place in filled), map(filled.index, question.gold)
    return replace(question, options=tuple(options), gold=tuple(gold))


def _spec_of(
    spec: Distractors,
    keys: Sequence[str],
    pools: Pools,
    texts_for_writer: tuple[str, str] = ("", ""),
) -> DistractorSpec:
    """`told` are the answer that rationales explain, and the question as shown to a writer."""
    return DistractorSpec(
        tiers=tuple(pools[key] for key in keys),
        fillers=spec.fillers,
        prompt=spec.prompt,
        rationale=texts_for_writer[0],
        question=texts_for_writer[1],
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
        self._is: OptionName = question.answer_is or ("label" if self._labels else "index")

    @property
    def may_lack(self) -> bool:
        """Whether columns of options may be empty."""
        return bool(self._templates)

    def of(self, record: Record) -> tuple[str, ...]:
        if self._fixed:
            return self._fixed
        return tuple(
            self._list.texts(record)
            if self._list
            else [text.fill(record) for text in self._templates]
        )

    def gold(self, answer: Template, record: Record, options: tuple[str, ...]) -> int:
        """The index of the right option. Raises FieldError for an answer that is not among the options."""
        text = answer.fill(record)
        choices: dict[OptionName, Sequence[str]] = {
            "index": [str(number) for number in range(len(options))],
            "letter": LETTERS[: len(options)],
            "text": options,
            "label": self._labels,
        }
        if text in choices[self._is]:
            return choices[self._is].index(text)
        name = _name(answer)
        if self._is == "index":
            option_list: Any = self._list.name if self._list else "options"
            raise FieldError(f"{name} {text} but {option_list} are 0-{len(options) - 1}")
        raise FieldError(f"the {name} {text!r} is none of {', '.join(choices[self._is])}")


def _name(answer: Template) -> str:
    return answer.fields[0].name if answer.fields else "answer"
