"""Make the question of a record: text, options, answer, and where wrong options come from."""

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
    """How a text that contains a question and its options is written, such as `What is it? Options:
    A. cat B. dog`.
    """

    label: str
    """What each option begins with, where {} stands for its letter: `{}: `, `({}) `, `{}. `."""
    heading: str = ""
    """A regular expression for the text between the question and the first option: `Options:`.

    White space need not be given.
    """
    between: str = r"\s*[,;]\s*|\s+"
    """A regular expression for the text between two options."""
    lower: bool = False
    """Whether the letters are in lower case: `a. cat`."""
    closing: str = ""
    """A regular expression for a text after the last option that is removed: `Please answer .*`."""


class OptionSplitter:
    """Splits texts such as `What is it? A. cat B. dog` into the question and its options.

    Raises DataError if the declared label does not contain the letter exactly once, or a regular
    expression is invalid.
    """

    def __init__(self, inline: InlineOptions) -> None:
        """Compile a pattern for the label of each option, such as `A. ` together with the text that separates it.

        Before the first label is the heading, such as `Options:`, or else white space. Before each further label is the
        text that separates two options, such as a comma. White space after the label is required only if the declared
        label ends with white space.
        """
        if inline.label.count(LETTER) != 1:
            raise DataError(
                f"inline: the label {inline.label!r} needs {LETTER} where the letter stands, once"
            )
        before_letter, after_letter = inline.label.strip().split(LETTER)
        white_space_after = r"(?:\s+|$)" if inline.label[-1].isspace() else r"\s*"
        heading = rf"\s*(?:{inline.heading})\s*" if inline.heading else r"\s+"
        letters = LETTERS.lower() if inline.lower else LETTERS
        try:
            self._labels: list[re.Pattern[str]] = []
            for index, letter in enumerate(letters):
                separator = heading if index == 0 else inline.between
                label = re.escape(before_letter) + letter + re.escape(after_letter)
                self._labels.append(re.compile(rf"(?:{separator}){label}{white_space_after}"))
            self._closing: re.Pattern[str] | None = None
            if inline.closing:
                self._closing = re.compile(rf"\s*(?:{inline.closing})\s*$", re.DOTALL)
        except re.error as error:
            raise DataError(f"inline: {error} is not a regular expression") from None

    def split(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Split a text into a question and the options after it: `What is it? A. cat B. dog` gives
        `("What is it?", ("cat", "dog"))`.

        If fewer than two options are found, the whole text is the question, and the options are an
        empty tuple.
        """
        body = self._closing.sub("", text) if self._closing else text
        labels: list[re.Match[str]] = []
        for label in self._labels:
            # The last label that looks like that of the first option begins the options. An
            # earlier one belongs to the question: `Is plan A. better? A. yes B. no`.
            if labels:
                match = label.search(body, labels[-1].end())
            else:
                match = _last_match(label, body)
            if match is None:
                break
            labels.append(match)
        if len(labels) < 2:
            return body.strip(), ()
        # An option ends where the label of the next one begins, and the last one at the end of the text.
        option_ends = [label.start() for label in labels[1:]] + [len(body)]
        options = []
        for label, end in zip(labels, option_ends, strict=True):
            options.append(body[label.end() : end].strip())
        question = body[: labels[0].start()].strip()
        return question, tuple(options)


def _last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the last match of a pattern in a text; None if there is none."""
    match = None
    for match in pattern.finditer(text):  # noqa: B007
        pass
    return match


OptionName = Literal["index", "letter", "text", "label"]
Pools = dict[str, tuple[str, ...]]


class Distractors(Struct, frozen=True, forbid_unknown_fields=True):
    """How the wrong options (distractors) of an open question are found.

    Questions answered by yes or no need none.
    """

    pools: tuple[str, ...] = ()
    """Templates that sort the answers of all questions into groups.

    A question's wrong options come from the group of its first template, then from that of the
    second, and so on. With `("{kind}", "")` they are answers to questions of the same kind, then
    answers to any question.
    """
    prompt: DistractorPrompt = ""
    """Prompt for a model that writes the wrong options.

    Builds without such a model draw them from the pools.
    """
    fillers: tuple[str, ...] = ()
    """Options used when the candidates run out."""
    rationale: str = ""
    """Template of the answer that annotators gave reasons for; for the prompt `rationales`."""
    question: str = ""
    """Template of the question in the prompt for the model; by default, the question as it is
    asked.
    """
    allow_fewer: bool = False


class Question(Struct, frozen=True, kw_only=True):
    """The part of a mapping that defines the question and its answer."""

    question: str
    options: str | tuple[str, ...] | dict[str, str] = ()
    """The options: a field that contains a list (`"{choices}"`), a list of templates (`["{A}",
    "{B}"]`), or a table of labels and fixed options.

    Options of optional fields that are empty are left out. A question without any option is open.
    """
    inline: InlineOptions | None = None
    """How the options are written inside the question, instead of `options`.

    A question whose text lists none is open.
    """
    answer: str | tuple[str, ...] = ()
    """With options: the correct one, named as `answer_is` says.

    Without: the accepted answers, the ground truth first.
    """
    answer_is: OptionName | Literal["", "votes"] = ""
    """How `answer` names an option: by `letter`, by `text`, by `index` from 0 (the default), or by
    `label` (the default for a table of labels).

    For open questions, `votes` means that there is one answer for each annotator. Repeated answers
    are then kept, and the most frequent one comes first.
    """
    may_repeat: bool = False
    """Whether two options of a question may be equal, as happens in some published data.

    Otherwise such a question is an error.
    """
    rewordings: tuple[str, ...] = ()
    """Other wordings of the question.

    A run that asks a question several times uses them in turn.
    """
    distractors: Distractors | None = None
    repairs: dict[str, str] = {}
    """Words that are misspelt in the questions of the source, each with its correct spelling."""


class QuestionMaker:
    """Makes the question of each record from the templates of an entry.

    Raises DataError if a template names an unknown field.
    """

    def __init__(self, question: Question, fields: Fields) -> None:
        """Prepare the templates of a declared question, which are filled with the fields of each record.

        Args:
            question: The declaration of the question, its options and its answer.
            fields: The fields of a record, by name.

        Raises:
            DataError: Options are declared twice: as fields and inside the text of the question.
        """

        def required_template(text: str) -> Template:
            """Return a template that raises FieldError for a record in which a field of it is empty."""
            return Template(text, fields, needed=True)

        self._question = required_template(question.question)
        self._rewordings = [required_template(text) for text in question.rewordings]
        answers = (question.answer,) if isinstance(question.answer, str) else question.answer
        self._answers = [required_template(text) for text in answers]
        if question.options and question.inline:
            raise DataError("options and inline: give one of both")
        self._options: _Options | None = None
        if question.options or question.inline:
            self._options = _Options(question, fields)
        self._splitter = OptionSplitter(question.inline) if question.inline else None
        self._may_repeat = question.may_repeat
        self._has_votes = question.answer_is == "votes"
        self._repairs = question.repairs
        misspellings = "|".join(re.escape(misspelling) for misspelling in question.repairs)
        self._misspelling = re.compile(rf"\b(?:{misspellings})\b")

        # For wrong options: which group of answers they are drawn from, or what their writer is told.
        self._spec = question.distractors
        self._pool_keys: list[Template] = []
        self._rationale: Template | None = None
        self._question_for_writer: Template | None = None
        if self._spec:
            self._pool_keys = [Template(text, fields) for text in self._spec.pools]
            if self._spec.rationale:
                self._rationale = required_template(self._spec.rationale)
            if self._spec.question:
                self._question_for_writer = required_template(self._spec.question)
        self._specs_by_keys: dict[tuple[str, ...], DistractorSpec] = {}

    @property
    def pools_answers(self) -> bool:
        return bool(self._pool_keys)

    def gold(self, record: Record) -> str:
        """Return the ground truth of a record, which is the first of its accepted answers.

        Raises FieldError if it is empty.
        """
        texts = self._answers[0].fill_all(record)
        if not texts or not texts[0].strip():
            raise FieldError(self._empty_answer_message(record))
        return texts[0]

    def keys(self, record: Record) -> tuple[str, ...]:
        """Return the keys of the groups of answers from which the wrong options of a record's
        question are drawn, in order.
        """
        return tuple(key.fill(record) for key in self._pool_keys)

    def question(self, record: Record, pools: Pools) -> QuestionDraft:
        """Return the question of a record: multiple choice if it has options, otherwise open.

        Args:
            record: The record.
            pools: The answers of all questions in groups by key, from which wrong options of open
                questions are drawn.

        Raises:
            FieldError: A required field is empty, or the answer is not one of the options.
        """
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
        accepted_texts = self._accepted_texts(record) if self._answers else ()
        distractors = None
        if self._spec:
            distractors = self._distractor_spec(self._spec, record, pools)
        return QuestionDraft(
            text, texts=accepted_texts, distractors=distractors, rewordings=rewordings
        )

    def _correct_misspellings(self, text: str) -> str:
        """Return a text in which the words of the setting `repairs` are spelt correctly."""
        if not self._repairs:
            return text
        return self._misspelling.sub(lambda word: self._repairs[word[0]], text)

    def _accepted_texts(self, record: Record) -> tuple[str, ...]:
        """Return the accepted answers to the question of a record.

        Usually these are its distinct answers, the ground truth first. If the entry declares them
        as votes (one answer of each annotator), they are all votes, with repetitions, the most
        frequent answer first.

        Raises:
            FieldError: An answer is empty.
        """
        texts_by_template = [answer.fill_all(record) for answer in self._answers]
        texts = list(chain.from_iterable(texts_by_template))
        has_empty_text = any(not text or text.isspace() for text in texts)
        if not texts_by_template[0] or has_empty_text:
            raise FieldError(self._empty_answer_message(record))
        if not self._has_votes:
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
        """Return where the wrong options of a record's question come from.

        Many questions draw from the same groups of answers. They share one object, unless a model
        writes the options and is given texts that differ between the records.
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
    """Return where the wrong options of a question come from.

    Args:
        spec: How wrong options are found in this benchmark.
        keys: Keys of the groups of answers to draw from, in order.
        pools: The answers to all questions in groups by key.
        rationale: For a model that writes wrong options: the answer that annotators gave reasons
            for.
        question: For such a model: its wording of the question; if empty, the question as it is
            asked.
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
    """Reads the options of a record and finds the correct one."""

    def __init__(self, question: Question, fields: Fields) -> None:
        """Prepare the options in the form in which an entry declares them.

        The options of a question are one of these: a table of labels and texts, which are the same for all records; the
        name of a field that has a list of texts; or several templates, each of which makes one option.

        Raises DataError if a text is declared that is not the name of a field, or the answers are declared as votes.
        """
        options = question.options
        self._labels: list[str] = []
        self._fixed: tuple[str, ...] = ()
        self._list: Field | None = None
        self._templates: list[Template] = []
        if isinstance(options, dict):
            self._labels = list(options)
            self._fixed = tuple(options.values())
        elif isinstance(options, tuple):
            self._templates = [Template(text, fields) for text in options]
        else:
            template = Template(options, fields)
            if not template.is_field:
                raise DataError(
                    f"options = {options!r} is not a field with a list; write several templates as a list"
                )
            self._list = template.fields[0]
        if question.answer_is == "votes":
            raise DataError(
                'answer_is = "votes" is for questions without options; leave it out, or the options'
            )
        self._answer_form: OptionName = question.answer_is or ("label" if self._labels else "index")

    @property
    def may_lack(self) -> bool:
        """Whether a record may have fewer options than others, as each option is made by its own
        template, which may be empty.
        """
        return bool(self._templates)

    def of(self, record: Record) -> tuple[str, ...]:
        """Return the options of a record.

        They are the same for all records if the entry gives a table of labels. Otherwise they are
        the items of a list in the record, or each is made by a template.
        """
        if self._fixed:
            return self._fixed
        if self._list:
            return tuple(self._list.texts(record))
        return tuple(template.fill(record) for template in self._templates)

    def gold(self, answer: Template, record: Record, options: tuple[str, ...]) -> int:
        """Return the index of the correct option, from 0.

        The answer of a record names the option by its index, letter, text or label, as the entry declares: for the
        second of the options (cat, dog), that is 1, B, dog, or the label that the entry gives it.

        Raises FieldError if the answer is not one of the options.
        """
        text = answer.fill(record)
        names_by_form: dict[OptionName, Sequence[str]] = {
            "index": [str(index) for index in range(len(options))],
            "letter": LETTERS[: len(options)],
            "text": options,
            "label": self._labels,
        }
        option_names = names_by_form[self._answer_form]
        if text in option_names:
            return option_names.index(text)
        name = _answer_name(answer)
        if self._answer_form == "index":
            option_list: Any = self._list.name if self._list else "options"
            raise FieldError(f"{name} {text} but {option_list} are 0-{len(options) - 1}")
        raise FieldError(f"the {name} {text!r} is none of {', '.join(option_names)}")


def _answer_name(answer: Template) -> str:
    """Return the name of the field that contains the answer, for error messages."""
    return answer.fields[0].name if answer.fields else "answer"
