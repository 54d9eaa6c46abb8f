"""Find out what kind of questions a file asks, and by which metrics they are scored.

A known benchmark has its metrics in the catalogue. For other files, the kind of their right answers
decides, such as numbers, boxes or long texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from statistics import median

from msgspec.structs import replace

from snellen import registry
from snellen.errors import DataError
from snellen.extraction.closed_answers import LETTERS, letter_in
from snellen.extraction.final_answer import find_final_answer
from snellen.extraction.standard import read_choice
from snellen.interchange.predictions.known_names import as_known, known_benchmark
from snellen.interchange.predictions.rows import (
    PredictedRow,
    PredictionFile,
    is_number,
    with_failure,
)
from snellen.interchange.predictions.scoring_call import scoring_call
from snellen.interchange.predictions.shown_options import asks_for_text
from snellen.interchange.predictions.tokens import has_marks, without_marks
from snellen.metrics.declaration import ReplyMetric
from snellen.metrics.hallucination import read_yes_no
from snellen.metrics.numbers import read_numbers
from snellen.metrics.vqa import typed_match
from snellen.recognition.answer_types import LONG_TEXT, TEXT, YES_NO, AnswerType, answer_type
from snellen.recognition.folding import folded, folded_words, whole_number, word_count
from snellen.recognition.named_option import named_option
from snellen.recognition.said_in_cells import in_whole_words
from snellen.recognition.verdicts import verdict_of_cell


def as_named(file: PredictionFile) -> PredictionFile:
    """Return a file with the metrics and the title of the benchmark that is part of its name, if the catalogue has it.

    Others may have asked the questions of a known benchmark in another way, for example with
    options. The file then gets only the title.
    """
    if file.suite or file.metrics:
        return file
    known = known_benchmark(file.title)
    if known is None:
        return file
    with_model = replace(file, model=file.model or known.model)
    with_metrics = as_known(with_model, known)
    if with_metrics is not None:
        return with_metrics
    return replace(with_model, title=known.spec.short)


FEW = 0.05
"""The share of replies that may be exceptions to a rule about all of them."""
RECORDED = "recorded_verdict"
OVERALL = "overall_accuracy"


def with_types(file: PredictionFile) -> PredictionFile:
    """Return a file of predictions with the metrics by which its questions are scored.

    Open questions (those without options) get the metrics of the type of their right answers, such as numbers or boxes,
    or become a choice among a few classes. Then the verdicts in the file are compared with the score of each reply: they
    confirm how the replies are read, or become the headline.
    """
    if not any(row.gold or row.references for row in file.rows):
        return _with_only_verdicts(file)
    typed = _with_metrics(_with_plain_texts(file))
    return _with_verdicts(_with_replies_confirmed(typed))


def _with_only_verdicts(file: PredictionFile) -> PredictionFile:
    """Return a file without right answers with its own verdicts as the main result, if nearly every row has one.

    Beside replies, marks of a fixed rule between 0 and 1 may be something else, such as how sure
    the model is. Verdicts that are all the same, or wrong only where there is no reply, may say that
    requests succeeded. Such a file is returned as it is.
    """
    verdicts = [row.verdict for row in file.rows if row.verdict is not None]
    if not verdicts or len(verdicts) < (1 - FEW) * len(file.rows):
        return file
    has_replies = any(verdict_of_cell(row.reply or "") is None for row in file.rows)
    are_marks = any(verdict not in (0.0, 0.5, 1.0) for verdict in verdicts)
    wrong = [row for row in file.rows if row.verdict == 0]
    says_of_requests = all(with_failure(row).reply is None for row in wrong)
    if has_replies and (
        len(set(verdicts)) == 1 or says_of_requests or (are_marks and not file.judged)
    ):
        return file
    note = "the file has no right answers, so its own verdicts are the headline; they are not recomputed"
    return _noted(replace(file, metrics=(RECORDED,), headline=RECORDED), note)


def _with_plain_texts(file: PredictionFile) -> PredictionFile:
    """Return a file whose right answers and replies are texts that can be compared.

    They may be codes, lists by rank, or texts with the marks of a tokenizer or of reasoning.
    """
    file = _without_marks(file)
    file = _with_frames_read(file)
    file = _with_first_ranked(file)
    file = _with_codes_read(file)
    file = _with_codes_spelled(file)
    return _with_numbers_open(file)


def _with_metrics(file: PredictionFile) -> PredictionFile:
    """Return a file with the metrics of its open questions, or with these as a choice among their right answers."""
    with_references = [row for row in file.rows if row.references]
    open_rows = [row for row in with_references if not row.options]
    if file.metrics or not open_rows:
        return _with_overall(file, len(open_rows))

    kind = answer_type([row.references for row in open_rows])
    n_asking_for_texts = sum(asks_for_text(row.prompt or row.question) for row in open_rows)
    if n_asking_for_texts > len(open_rows) / 2:
        kind = LONG_TEXT
    are_all_open = len(open_rows) == len(with_references)
    if kind.classes and are_all_open:
        replies = [row.reply for row in open_rows if row.reply]
        if not _do_name_several_kinds(replies, list(map(folded, kind.classes))):
            return _among_classes(file, kind.classes)
        kind = TEXT

    are_closed = _are_closed(open_rows)
    if kind == LONG_TEXT and are_closed:
        kind = TEXT
    if kind == TEXT and are_all_open:
        labels = _labels_within_labels(open_rows)
        if labels:
            return _among_labels(file, labels)
    if kind == TEXT and not are_closed and _are_unmet_sentences(open_rows):
        kind = LONG_TEXT
    if kind.kind == "box" and _are_points(open_rows):
        kind = POINTS

    typed = replace(file, metrics=kind.metrics)
    if kind != TEXT:
        is_mixed = any(row.options for row in file.rows)
        subject = "questions without options read as" if is_mixed else "read as"
        typed = _noted(typed, f"{subject} {kind.why}: {kind.metrics[0]}")
    if kind.kind == "number":
        typed = _as_measured(typed)
    return _with_overall(_with_rule_of_scores(typed), len(open_rows))


SENTENCE = 5
"""Right answers may be sentences that no reply repeats if half of them have at least this many words."""
FEWEST_SENTENCES = 3
"""The fewest replies from which one can conclude that none repeats its right answer."""
LONG_SENTENCE = 10
"""If right answers have at least this many words, a reply matches mostly by chance, so more matches are tolerated."""
FEW_BY_CHANCE = 0.25
"""The share of the replies that may match long sentences although only a judge can compare them."""


def _are_unmet_sentences(rows: Sequence[PredictedRow]) -> bool:
    """Return whether right answers are sentences that hardly any reply repeats, so that comparing texts says nothing."""
    answered = [row for row in rows if row.reply]
    if len(answered) < FEWEST_SENTENCES:
        return False
    n_words = median(word_count(row.references[0]) for row in answered)
    if n_words < SENTENCE:
        return False
    looked_at = answered[:: max(1, len(answered) // MOST_READ)]
    n_met = 0
    for row in looked_at:
        try:
            n_met += bool(typed_match(row.reply or "", row.references))
        except DataError:  # a right answer is a word that any reply has
            return False
    most_by_chance = FEW_BY_CHANCE if n_words >= LONG_SENTENCE else FEW
    return n_met <= most_by_chance * len(looked_at)


POINTS = AnswerType("box", metrics=("points", "boxes"), why="points in boxes")


def _are_points(rows: Sequence[PredictedRow]) -> bool:
    """Return whether most replies are two numbers and nothing else, such as the position of a click."""
    answered = [row.reply for row in rows if row.reply]
    n_points = sum(_POINT.fullmatch(reply) is not None for reply in answered)
    return 2 * n_points > len(answered)


_POINT = re.compile(r"\s*[\[(]?\s*-?[\d.]+(?:e-?\d+)?\s*,\s*-?[\d.]+(?:e-?\d+)?\s*[\])]?\s*")

FEWEST_PER_TEXT = 5
"""Right answers are a closed set, such as names of classes, if each has at least this many questions on average."""


def _are_closed(rows: Sequence[PredictedRow]) -> bool:
    """Return whether right answers are a few texts, each of many questions, as the names of classes are."""
    texts = {folded(text) for row in rows for text in row.references}
    return bool(texts) and FEWEST_PER_TEXT * len(texts) <= len(rows)


MOST_LABELS = 100
"""The most different right answers that may be a set of labels to choose from."""


def _labels_within_labels(rows: Sequence[PredictedRow]) -> tuple[str, ...]:
    """Return the labels that right answers are, if some labels are part of others and replies name labels.

    A reply of `analytical cubism` contains `cubism`, but names another label. Such questions are
    therefore scored as multiple choice among all labels, so that a reply is not right only because
    it contains the right label.

    Returns:
        The labels in the order of the rows; empty if the questions are of any other kind.
    """
    labels: dict[str, str] = {}
    for row in rows:
        if len(row.references) != 1:
            return ()
        text = row.references[0].strip()
        labels.setdefault(folded(text), text)
    if len(labels) > MOST_LABELS or not _are_closed(rows) or _are_of_several_kinds(labels):
        return ()
    replies = [row.reply for row in rows if row.reply]
    if not replies or not _is_any_within_another(labels):
        return ()

    looked_at = replies[:: max(1, len(replies) // MOST_READ)]
    options = tuple(labels.values())
    n_naming = 0
    for reply in looked_at:
        n_naming += read_choice(reply, options, ()).choice is not None
    return options if n_naming >= (1 - 2 * FEW) * len(looked_at) else ()


def _is_any_within_another(labels: Iterable[str]) -> bool:
    """Return whether the words of one label are a part of another label, as `cubism` is of `analytical cubism`."""
    texts = [f" {' '.join(folded_words(label))} " for label in labels]
    for inner in texts:
        if not inner.strip():
            continue
        if any(inner != outer and inner in outer for outer in texts):
            return True
    return False


def _kinds_of_labels(labels: Iterable[str]) -> dict[str, str]:
    """Return the kind of each label: `yes or no`, `number` or `word`; empty if it may be of several kinds.

    A single word beside labels of another kind belongs to these, as `none` does to numbers, and
    `unclear` to yes and no.

    Args:
        labels: The labels, in small letters and without punctuation at their end.
    """
    kinds: dict[str, str] = {}
    for label in labels:
        if any(map(str.isdigit, label)):
            kinds[label] = "number" if is_number(label) else ""  # `2 dogs`
        elif folded_words(label)[:1] in (["yes"], ["no"]):
            kinds[label] = "yes or no"
        else:
            kinds[label] = "word"
    words = [label for label, kind in kinds.items() if kind == "word"]
    if len(words) == 1:
        kinds[words[0]] = ""
    return kinds


def _are_of_several_kinds(labels: Iterable[str]) -> bool:
    """Return whether labels are of several kinds (numbers, yes or no, other words) and so of different questions.

    For example, a file may ask "Is there a dog?" and "What colour is it?". The reply "Yes, it is a
    black dog" would then name both `yes` and `black`, so the questions cannot be one choice among
    all labels.

    Args:
        labels: The labels, in small letters and without punctuation at their end.
    """
    return len(set(_kinds_of_labels(labels).values()) - {""}) > 1


def _do_name_several_kinds(replies: Sequence[str], labels: Iterable[str]) -> bool:
    """Return whether single replies often name labels of different kinds, so that different things are asked.

    `not sure` beside yes and no is no such case: a reply then names one of the three.
    """
    kinds = _kinds_of_labels(labels)
    in_words = {label: f" {' '.join(folded_words(label))} " for label in kinds}
    looked_at = replies[:: max(1, len(replies) // MOST_READ)]
    n_several = 0
    for reply in looked_at:
        said = f" {' '.join(folded_words(reply))} "
        kinds_named = {kinds[label] for label, words in in_words.items() if words in said}
        n_several += len(kinds_named - {""}) > 1
    return n_several > FEW * len(looked_at)


def _noted(file: PredictionFile, note: str) -> PredictionFile:
    return replace(file, notes=(*file.notes, note))


def _with_rows(file: PredictionFile, rows: Iterable[PredictedRow], note: str) -> PredictionFile:
    return _noted(replace(file, rows=tuple(rows)), note)


def _answered(file: PredictionFile) -> list[PredictedRow]:
    return [row for row in file.rows if row.reply]


def _reply_as_read(row: PredictedRow) -> PredictedRow:
    """Return a row with the text that a program read in its reply, according to the file, in place of the reply."""
    return replace(row, reply=row.reading) if row.reply else row


# --- measurements -------------------------------------------------------------------------------------------------------


RELATIVE = "mean_relative_accuracy"
"""This metric has no value for a right answer of 0."""
ABSOLUTE = ("counting", "number_accuracy", "typed_match")
FEWEST_MEASURED = 10
"""The fewest different right answers with decimals in a file of measurements."""


def _as_measured(file: PredictionFile) -> PredictionFile:
    """Return a file of measurements with the mean absolute error as its main result; other files as they are.

    Measurements are right answers with decimals, such as lengths and distances, which replies can
    only estimate: hardly any equals the right answer. Mean relative accuracy (VSI-Bench, Yang et
    al. 2024) is in the report, too.
    """
    answered = [row for row in _answered(file) if row.references]
    golds = [read_numbers(row.references[0]) for row in answered]
    if any(len(gold) != 1 for gold in golds):
        return file
    with_decimals = {gold[0] for gold in golds if gold[0].denominator > 1}
    n_numbers = 0
    n_equal = 0
    for row, gold in zip(answered, golds, strict=True):
        reply = read_numbers(row.reply or "")
        n_numbers += len(reply) == 1
        n_equal += reply == gold
    is_measured = len(with_decimals) >= max(FEWEST_MEASURED, len(answered) / 2)
    are_numbers = n_numbers >= (1 - 2 * FEW) * len(answered)
    if not is_measured or not are_numbers or n_equal > FEW * len(answered):
        return file
    note = "the right answers are measured, and replies come near them at best: mean absolute error"
    metrics = (*ABSOLUTE, RELATIVE) if all(gold[0] for gold in golds) else ABSOLUTE
    return _noted(replace(file, metrics=metrics, headline="count_mae"), note)


# --- verdicts and headlines ------------------------------------------------------------------------------------------


DIFFERING = 0.005
"""The file's verdicts may become the main result if the share of right replies differs from theirs
by more than this."""
SHARES = ("", "accuracy", OVERALL)
"""Headlines that are shares of right replies."""


def _with_replies_confirmed(file: PredictionFile) -> PredictionFile:
    """Return a file whose replies are read in agreement with its own verdicts, or else with these as the main result.

    The authors of the verdicts knew by which rule a reply is right, and the number that they
    published follows from them. If the scores computed here differ from the verdicts, two other
    readings are tried: what a program read in each reply, according to the file; and each reply
    plus or minus 1, in case options are counted from another number. If neither agrees with the
    verdicts, these become the main result.
    """
    answered = [row for row in _answered(file) if row.gold or row.references]
    judged = [row for row in answered if row.verdict in (0.0, 1.0)]
    has_verdicts = len(judged) > (1 - FEW) * len(answered)
    if file.headline not in SHARES or file.judged or not has_verdicts:
        return file
    looked_at = judged[:: max(1, len(judged) // MOST_COMPARED)]
    measure = _measure_of(file)
    if measure is None or not looked_at:
        return file
    share_by_verdicts = sum(row.verdict or 0.0 for row in looked_at) / len(looked_at)
    if share_by_verdicts in (0, 1):
        return file
    scores = [_is_right(row, measure) for row in looked_at]
    n_right_or_wrong = scores.count(0.0) + scores.count(1.0)
    if n_right_or_wrong < (1 - FEW) * len(scores):  # shares such as those of ANLS
        return file
    share_by_scores = scores.count(1.0) / len(scores)
    distance = abs(share_by_scores - share_by_verdicts)
    if distance <= DIFFERING or not _are_repetitions_right(judged):
        return file
    if share_by_scores > share_by_verdicts and _are_denied_surely_right(looked_at, scores):
        return file

    both = (
        f"the file's own verdicts call {share_by_verdicts:.1%} of the replies right, and as they are read here "
        f"{share_by_scores:.1%} are"
    )
    as_read = list(map(_reply_as_read, looked_at))
    if _is_confirmed(as_read, measure, distance):
        rows = [row if row.reading is None else _reply_as_read(row) for row in file.rows]
        note = f"{both}; what the file says was read in each agrees, so that counts"
        return _with_rows(file, rows, note)
    for step in (-1, 1):
        shifted = [_shifted(row, step) for row in file.rows]
        if shifted == list(file.rows):
            continue
        shifted_looked_at = [_shifted(row, step) for row in looked_at]
        if _is_confirmed(shifted_looked_at, measure, distance):
            note = (
                f"{both}; they agree only if {step:+d} is added to each reply: they count the options from another number "
                "than the right answers"
            )
            return _with_rows(file, shifted, note)
    metrics = file.metrics if RECORDED in file.metrics else (*file.metrics, RECORDED)
    note = f"{both}: its verdicts are the headline"
    return _noted(replace(file, metrics=metrics, headline=RECORDED), note)


def _are_denied_surely_right(rows: Sequence[PredictedRow], scores: Sequence[float | None]) -> bool:
    """Return whether most replies that are right here, but wrong by the file's verdicts, repeat the right answer.

    The verdicts are then about something else than whether the reply is right.
    """
    n_denied = 0
    n_surely_right = 0
    for row, score in zip(rows, scores, strict=True):
        if score and not row.verdict:
            n_denied += 1
            n_surely_right += is_surely_right(row)
    return n_surely_right > n_denied / 2


def share_right(file: PredictionFile) -> float | None:
    """Return the share of replies that are right by the main result of a file, from 0 to 1.

    None if its main result is no share of right replies, or if a row cannot be said to be right or
    wrong.
    """
    measure = _measure_of(file)
    if not file.rows or (file.headline not in (*SHARES, RECORDED)) or measure is None:
        return None
    n_right = 0
    for row in file.rows:
        if not row.gold and not row.references:
            return None
        if file.headline == RECORDED:
            score = row.verdict
        else:
            score = _is_right(row, measure) if row.reply else 0.0
        if score not in (0.0, 1.0):
            return None
        n_right += score == 1.0
    return n_right / len(file.rows)


MOST_COMPARED = 1000
"""Replies whose reading is compared with the file's verdicts."""


def _is_confirmed(rows: Sequence[PredictedRow], measure: Measure, distance: float) -> bool:
    """Return whether nearly all replies are right here exactly where the file's verdicts say so.

    Args:
        rows: The rows, with their replies read in another way than before.
        measure: The function that scores a reply.
        distance: How far the share of right replies was from that of the verdicts before. It has to
            be smaller now.
    """
    scores = [_is_right(row, measure) for row in rows]
    n_alike = sum(score == row.verdict for score, row in zip(scores, rows, strict=True))
    share = scores.count(1.0) / len(rows)
    share_right = sum(row.verdict or 0.0 for row in rows) / len(rows)
    return n_alike >= SAME * len(rows) and abs(share - share_right) < distance


def _with_verdicts(file: PredictionFile) -> PredictionFile:
    """Return a file of open questions with its own verdicts among the metrics, if nearly every reply has one.

    For texts and numbers, the verdicts become the main result, because there are many rules for
    comparing them, and only the authors know theirs. This is not done if verdicts mark replies as
    wrong that repeat the right answer: the verdicts are then about something else.
    """
    answered = _answered(file)
    judged = [row for row in answered if row.verdict is not None]
    is_open = any(row.references for row in judged) and not any(row.options for row in judged)
    fewest = MOSTLY_JUDGED if file.judged else 1 - FEW
    if not is_open or len(judged) <= fewest * len(answered) or RECORDED in file.metrics:
        return file
    usual = file.metrics[0] if file.metrics else ""
    with_own = replace(file, metrics=(*file.metrics, RECORDED))
    if file.headline or usual not in OF_MANY_RULES or not _are_repetitions_right(judged):
        return with_own
    note = (
        "no rule can tell which of such replies its authors call right, so the file's own verdicts are the headline, "
        f"and {usual} is in the report"
    )
    return _noted(replace(with_own, headline=RECORDED), note)


MOSTLY_JUDGED = 0.75
"""The share of the replies that have a verdict, at least, where a judge gave them. People leave out improper questions."""
OF_MANY_RULES = ("typed_match", "rouge_l", "number_accuracy")
"""The first metrics of answers that scripts compare by many rules: texts, long texts and numbers."""


def _measure_of(file: PredictionFile) -> Measure | None:
    """Return the function that scores a reply by the first metric of a file, from 0 to 1.

    None if this metric has no score for single replies.
    """
    if not file.metrics or file.metrics[0] in (OVERALL, RECORDED):
        return typed_match
    if file.metrics[0] == "pope":
        return _says_same
    if file.metrics[0] == "number_accuracy":
        return _is_same_number
    metric = registry.find_registered("metrics", file.metrics[0])
    return metric.measure if isinstance(metric, ReplyMetric) else None


def _says_same(reply: str, references: Sequence[str]) -> float:
    return float(read_yes_no(reply) == read_yes_no(references[0]))


def _is_right(row: PredictedRow, measure: Measure) -> float | None:
    """Return how right a reply is, from 0 to 1; None if the function cannot score such right answers.

    Args:
        row: The row. If it has options, the reply is 1 if it names a right one, and otherwise 0.
        measure: The function that scores replies to open questions.
    """
    if row.options:
        labels = (row.labels or LETTERS[: len(row.options)]) if row.lists_options else ()
        return float(read_choice(row.reply or "", row.options, labels).choice in row.gold)
    try:
        return float(measure(row.reply or "", row.references))
    except DataError:
        return None


FEWEST_REPETITIONS = 5
"""The fewest replies equal to the right answer from which the file's verdicts are checked."""


def _are_repetitions_right(judged: Sequence[PredictedRow]) -> bool:
    """Return whether the file's verdicts mark replies as right that repeat the right answer.

    True, too, if there are fewer than five such replies to judge by.
    """
    verdicts = [row.verdict or 0.0 for row in judged if is_surely_right(row)]
    if len(verdicts) < FEWEST_REPETITIONS:
        return True
    return sum(verdicts) >= (1 - 2 * FEW) * len(verdicts)


def is_surely_right(row: PredictedRow) -> bool:
    """Return whether a reply is a right answer word for word, or names the letter of the right option."""
    right = (*row.references, *(row.options[place] for place in row.gold))
    reply = folded(row.reply or "")
    return any(folded(text) == reply for text in right) or _names_letter(row)


def _names_letter(row: PredictedRow) -> bool:
    """Return whether the right answer is the letter of an option, and the reply names that letter."""
    if row.gold and row.lists_options:
        labels = row.labels or LETTERS[: len(row.options)]
        right = [labels[place] for place in row.gold if place < len(labels)]
        return letter_in(row.reply or "") in right
    [reference, *_] = row.references or ("",)
    return reference.strip() in LETTERS and letter_in(row.reply or "") == reference.strip()


Measure = Callable[[str, Sequence[str]], float]
"""Returns the score of a reply, given the right answers."""


def _is_same_number(reply: str, references: Sequence[str]) -> float:
    return float(read_numbers(reply) == read_numbers(references[0]))


def _shifted(row: PredictedRow, step: int) -> PredictedRow:
    """Return a row with its reply increased by `step`, if the reply is a whole number; otherwise the row as it is."""
    number = whole_number((row.reply or "").strip())
    return row if number is None else replace(row, reply=str(number + step))


RULES = (
    "exact_match",
    "contains_answer",
    "direct_answer_accuracy",
    "legacy_vqa_accuracy",
    "relaxed_accuracy",
    "legacy_relaxed_accuracy",
    "anls",
    "legacy_anls",
)
"""The rules by which scripts score open questions, from the plainest."""
SAME = 0.99
"""The share of a file's scores that a rule has to give alike."""
ROUNDED = 0.01
"""How far a score may be rounded."""


def _with_rule_of_scores(file: PredictionFile) -> PredictionFile:
    """Return a file with a known metric as its first, if that metric gives the scores that the file has.

    For example, scores that equal those of ANLS in nearly all rows show that the authors used ANLS.
    """
    scored = [row for row in _answered(file) if row.references and row.verdict is not None]
    if file.judged or not scored or len(scored) <= (1 - FEW) * len(_answered(file)):
        return file
    usual = registry.find_registered("metrics", file.metrics[0])
    if not isinstance(usual, ReplyMetric) or _share_alike(scored, usual.measure) >= SAME:
        return file
    for name in RULES:
        rule = registry.find_registered("metrics", name)
        if _share_alike(scored, rule.measure) < SAME:
            continue
        others = [metric for metric in file.metrics if metric != name]
        note = f"the file's own scores are those of {name}, which is the headline"
        return _noted(replace(file, metrics=(name, *others)), note)
    return file


def _share_alike(rows: Sequence[PredictedRow], measure: Measure) -> float:
    """Return the share of rows to which a function gives the score that the file has; 0 if it cannot score them."""
    n_alike = 0
    for row in rows:
        try:
            score = measure(row.reply or "", row.references)
        except DataError:  # it takes answers of another kind
            return 0.0
        n_alike += abs(score - (row.verdict or 0.0)) <= ROUNDED
    return n_alike / len(rows)


def _with_overall(file: PredictionFile, open_rows: int) -> PredictionFile:
    """Return a file with the accuracy over all questions as its main result, if only some of them have options.

    Args:
        file: The file.
        open_rows: The number of rows without options.
    """
    has_choices = any(row.options for row in file.rows)
    if not has_choices or not open_rows or file.headline:
        return file
    metrics = file.metrics if OVERALL in file.metrics else (*file.metrics, OVERALL)
    note = "questions with and without options: the headline is the accuracy over all of them"
    return _noted(replace(file, metrics=metrics, headline=OVERALL), note)


# --- replies in a form of their own ----------------------------------------------------------------------------------


def _without_marks(file: PredictionFile) -> PredictionFile:
    """Return a file without the marks of a tokenizer (`<SOS>`) in its texts, if most right answers have them.

    Such texts come from the training of a captioning model, so they are scored as captions.
    """
    with_references = [row for row in file.rows if row.references]
    n_marked = sum(has_marks(row.references[0]) for row in with_references)
    if not with_references or n_marked <= len(with_references) / 2:
        return file
    rows = [
        replace(
            row,
            reply=without_marks(row.reply or ""),
            references=tuple(map(without_marks, row.references)),
        )
        for row in file.rows
    ]
    note = f"texts as a tokenizer left them, whose marks are dropped: {CAPTIONS[0]}"
    return _with_rows(replace(file, metrics=file.metrics or CAPTIONS), rows, note)


CAPTIONS = ("rouge_l", "cider")


def _with_frames_read(file: PredictionFile) -> PredictionFile:
    """Return a file with only the final answer of each reply, if nearly all replies reason first.

    `<SUMMARY>...</SUMMARY><CONCLUSION>a dog</CONCLUSION>` becomes `a dog`, because metrics compare
    whole texts.
    """
    n_open = 0
    n_framed = 0
    rows: list[PredictedRow] = []
    for row in file.rows:
        reply = row.reply or ""
        part = find_final_answer(reply)
        answer = reply[part.start : part.end].strip()
        is_open = bool(reply and row.references)
        is_framed = is_open and bool(answer) and "<" in reply[: part.start]
        n_open += is_open
        n_framed += is_framed
        rows.append(replace(row, reply=answer) if is_framed else row)
    if not n_open or n_framed <= (1 - 2 * FEW) * n_open:
        return file
    note = "the replies reason first, and what they frame as the answer, or say after their thoughts, is read"
    return _with_rows(file, rows, note)


def _with_numbers_open(file: PredictionFile) -> PredictionFile:
    """Return a file with its questions as open ones, if their options are numbers that no model was shown.

    A benchmark may list all of its right answers as the `choices` of each question, although the
    model has to calculate.
    """
    rows: list[PredictedRow] = []
    for row in file.rows:
        is_hidden_choice = bool(row.options) and not row.lists_options
        if not is_hidden_choice or not all(is_number(option) for option in row.options):
            return file
        references = tuple(row.options[place] for place in row.gold)
        rows.append(replace(row, options=(), gold=(), references=references, lists_options=True))
    note = "the options are numbers that the prompts do not show, so the questions are read as open"
    return _with_rows(file, rows, note) if rows else file


def _with_first_ranked(file: PredictionFile) -> PredictionFile:
    """Return a file with only the first answer of each reply, if nearly all replies rank answers: `Fear,Anger,Sadness`.

    If a question has several right answers, such a reply lists them, and the file is returned as it
    is.
    """
    answers: set[str] = set()
    for row in file.rows:
        if len(row.references) > 1:
            return file
        answers.update(text.strip().casefold() for text in row.references)

    n_ranking = 0
    rows: list[PredictedRow] = []
    for row in file.rows:
        ranked = [item.strip() for item in (row.reply or "").split(",")]
        n_ranking += len(ranked) > 2 and answers.issuperset(item.casefold() for item in ranked)
        rows.append(replace(row, reply=ranked[0]) if row.reply else row)
    if n_ranking <= (1 - FEW) * len(_answered(file)):
        return file
    return _with_rows(file, rows, "the replies rank several answers, of which the first counts")


CODES = {"0", "1"}
"""How tables write that a statement is false or true."""


def _with_codes_read(file: PredictionFile) -> PredictionFile:
    """Return a file with what a program read in place of the replies.

    This is done if right answers are 0 or 1, replies are sentences, and the file says which of the
    two nearly each reply means.
    """
    answered = [row for row in _answered(file) if row.references]
    n_read = 0
    n_said = 0
    for row in answered:
        if row.references[0].strip() not in CODES:
            return file
        n_read += (row.reading or "").strip() in CODES
        n_said += (row.reply or "").strip() in CODES
    if n_read <= (1 - 2 * FEW) * len(answered) or n_said > FEW * len(answered):
        return file
    note = "the right answers are 0 or 1, so what the file says was read in each reply counts"
    return _with_rows(file, map(_reply_as_read, file.rows), note)


def _with_codes_spelled(file: PredictionFile) -> PredictionFile:
    """Return a file with the same words on both sides, if these are codes of two values.

    One side may have 1 and 0, and the other one yes and no, or true and false. Right answers may also be a word and its
    negation, such as `valid` and `invalid`, if replies say yes and no.
    """
    answered = [row for row in _answered(file) if row.references and not row.options]
    golds = {row.references[0].strip().casefold() for row in answered}
    replies = [(row.reply or "").strip() for row in answered]
    if not answered:
        return file

    if golds == CODES and all(reply.casefold() in ("true", "false") for reply in replies):
        words = {"1": "true", "0": "false"}
        rows = [
            replace(row, references=tuple(words.get(text.strip(), text) for text in row.references))
            for row in file.rows
        ]
        return _with_rows(
            file, rows, "the right answers are 1 for true and 0 for false, as replies say"
        )

    if golds == CODES:
        said = [read_yes_no(reply) for reply in replies if reply not in CODES]
        n_words = len(said) - said.count(None)
        if n_words < (1 - FEW) * len(answered):
            return file
        words = {"1": "yes", "0": "no"}
        rows = [
            replace(row, references=tuple(words.get(text.strip(), text) for text in row.references))
            for row in file.rows
        ]
        return _with_rows(
            file, rows, "the right answers are 1 for yes and 0 for no, as replies say"
        )

    positive = _word_beside_its_negation(golds)
    if positive:
        said = [read_yes_no(reply) for reply in replies]
        n_naming = sum(positive in reply.casefold() for reply in replies)
        are_yes_or_no = said.count(None) <= 2 * FEW * len(said) and 2 * n_naming < len(replies)
        if not are_yes_or_no:
            return file
        rows = []
        for row in file.rows:
            words = [
                "yes" if text.strip().casefold() == positive else "no" for text in row.references
            ]
            rows.append(replace(row, references=tuple(words)))
        return _with_rows(
            file, rows, f"the replies are yes for {positive}, and no for its negation"
        )

    pair = next((pair for pair in YES_NO if golds == set(pair)), None)
    if pair is None or not all(reply in CODES for reply in replies):
        return file
    rows = []
    for row in file.rows:
        word = pair[0] if (row.reply or "").strip() == "1" else pair[1]
        rows.append(replace(row, reply=word) if row.reply else row)
    return _with_rows(file, rows, f"the replies are 1 for {pair[0]} and 0 for {pair[1]}")


_NEGATING = ("un", "in", "im", "ir", "il", "non", "not", "dis")
"""What negates the word behind it: `unsatisfiable`, `invalid`, `not entailed`."""


def _word_beside_its_negation(words: Collection[str]) -> str:
    """Return the word of a pair of which the other is its negation: `valid` of `valid` and `invalid`; else empty."""
    if len(words) != 2:
        return ""
    shorter, longer = sorted(words, key=len)
    beginning = longer.removesuffix(shorter).strip(" _-")
    return shorter if longer.endswith(shorter) and beginning in _NEGATING else ""


# --- classes ---------------------------------------------------------------------------------------------------------


def _among_classes(file: PredictionFile, classes: tuple[str, ...]) -> PredictionFile:
    """Return a file with its open questions as a choice among a few classes."""
    rows = [_as_choice(row, classes) for row in file.rows]
    note = f"read as a choice of {' or '.join(classes)}, as all right answers are: accuracy"
    chosen = _with_rows(file, rows, note)
    if not _are_codes(_answered(file), classes):
        return chosen
    note = "no reply names one of them, so what the file says was read in it counts"
    return _with_rows(chosen, [replace(row, reply=row.reading) for row in rows], note)


def _among_labels(file: PredictionFile, labels: tuple[str, ...]) -> PredictionFile:
    """Return a file with its open questions as a choice among labels, some of which are part of others."""
    rows = [_as_choice(row, labels) for row in file.rows]
    note = f"read as a choice of the {len(labels)} labels that the right answers are, as some stand within others: accuracy"
    return _with_rows(file, rows, note)


def _as_choice(row: PredictedRow, classes: tuple[str, ...]) -> PredictedRow:
    """Return a row as a choice among classes, which the model did not see as options."""
    if row.options:
        return row
    places = [named_option(text, classes, "text") for text in row.references]
    gold = tuple(dict.fromkeys(place for place in places if place is not None))
    return replace(row, options=classes, lists_options=False, gold=gold, references=())


def _are_codes(answered: Sequence[PredictedRow], classes: tuple[str, ...]) -> bool:
    """Return whether replies name no class (`A` where classes are `PASS` and `FAIL`), but the file says which is meant."""
    n_naming = 0
    n_read = 0
    for row in answered:
        reply = (row.reply or "").casefold()
        n_naming += any(name.casefold() in reply for name in classes)
        n_read += named_option(row.reading or "", classes, "text") is not None
    return n_naming <= FEW * len(answered) and n_read > (1 - 2 * FEW) * len(answered)


FEWEST_PER_CODE = 3
"""Numbers may be codes for classes if each number, and each reply, is in at least this many rows on average."""
MOST_NAMED = 8
"""Codes that an error names."""


def check_numbers_said(path: Path, file: PredictionFile) -> None:
    """Raise DataError if right answers are a few numbers, but no reply has a number: the numbers stand for classes.

    Args:
        path: The file, for messages.
        file: Its predictions.
    """
    rows = [row for row in file.rows if row.reply and row.references and not row.options]
    replies = [row.reply or "" for row in rows]
    codes = list(dict.fromkeys(row.references[0] for row in rows))
    fewest, most = sorted((len(codes), len(set(replies))))
    are_classes = fewest > 1 and len(rows) >= FEWEST_PER_CODE * most
    if "number_accuracy" not in file.metrics[:1] or not are_classes:
        return
    if any(map(read_numbers, replies)):
        return
    numbers = ", ".join(codes[:MOST_NAMED])
    raise DataError(
        f"{path}: the right answers are numbers ({numbers}), and no reply has one ({replies[0][:40]!r}); if they stand for "
        f"classes, add a column with the names of these: {scoring_call(path, columns={'answer': 'NAME'})}"
    )


COMPARING_TEXTS = ("typed_match", "exact_match", "vqa_accuracy")


def check_answers_met(path: Path, file: PredictionFile, reply: str, answer: str) -> None:
    """Raise DataError if no reply contains its right answer, and the user named only the column of replies.

    Another column may have the right answers then.

    Args:
        path: The file, for messages.
        file: Its predictions.
        reply: The column of replies that the user named.
        answer: The column that was taken for the right answers.
    """
    answered = [row for row in _answered(file) if row.references]
    are_judged = any(row.verdict is not None for row in answered)
    if file.metrics[:1] not in [(name,) for name in COMPARING_TEXTS] or are_judged:
        return
    if len(answered) < FEWEST_UNREAD or any(
        typed_match(row.reply or "", row.references) for row in answered
    ):
        return
    first = answered[0]
    command = scoring_call(path, columns={"reply": reply, "answer": "NAME"})
    raise DataError(
        f"{path}: no reply in {reply!r} has the right answer that {answer!r} gives, for example "
        f"{(first.reply or '')[:40]!r} beside {first.references[0][:40]!r}; name both columns ({answer!r} again, if it has "
        f"the right answers): {command}"
    )


FEWEST_APART = 20
"""The fewest replies from which right answers are refused because no reply has them."""
MOST_DIFFERENT = 10
"""The most different replies to a question that has a fixed set of answers."""


def check_answers_possible(path: Path, file: PredictionFile) -> None:
    """Raise DataError if the right answers of a file cannot be answers to its questions.

    A column such as `ground_truth` may instead describe the image. That is concluded in two cases:

    - no reply has a word of its right answer, and either all replies are among a few texts, or more
      than half of the questions or replies are about yes or no although the right answers are not;
    - most images have several questions but the same right answer to all of them, and hardly any
      reply has it.

    Args:
        path: The file, for messages.
        file: Its predictions.
    """
    answered = [row for row in _answered(file) if row.references and not row.options]
    golds = {folded(text) for row in answered for text in row.references}
    replies = {folded(row.reply or "") for row in answered}
    if len(answered) < FEWEST_APART or len(answered) < len(file.rows) / 2 or len(golds) < 2:
        return

    first = answered[0]
    has_few_replies = 2 <= len(replies) <= MOST_DIFFERENT
    has_number_as_answer = any(map(is_number, golds))
    are_replies_closed = has_few_replies and golds.isdisjoint(replies) and not has_number_as_answer
    n_closed = sum(map(_is_closed_otherwise, answered))
    may_be_apart = are_replies_closed or n_closed > len(answered) / 2
    if may_be_apart and not any(map(_shares_word, answered)):
        raise DataError(
            f"{path}: the right answers ({first.references[0][:40]!r}, ...) do not answer these questions: replies are "
            f"{', '.join(repr(reply[:20]) for reply in sorted(replies)[:4])}, and none is right; name the column with the "
            f"right answers: {scoring_call(path, columns={'answer': 'NAME'})}"
        )
    if _are_facts_on_images(answered):
        raise DataError(
            f"{path}: each image has the same right answer to different questions ({first.references[0][:40]!r}), and "
            "hardly a reply has it, so it says something of the image; name the column with the right answers: "
            f"{scoring_call(path, columns={'answer': 'NAME'})}"
        )


def _are_facts_on_images(rows: Sequence[PredictedRow]) -> bool:
    """Return whether right answers describe images, for example by their class, and do not answer the questions.

    Most images then have several questions with the same right answer, and almost no reply states
    it. If the file has verdicts on its replies, False is returned, because these say which replies
    are right.
    """
    has_verdicts = any(row.verdict is not None for row in rows)
    has_rows_without_image = any(not row.picture for row in rows)
    if has_verdicts or has_rows_without_image:
        return False

    answers_by_image: dict[str, set[tuple[str, ...]]] = {}
    questions_by_image: dict[str, set[str]] = {}
    for row in rows:
        answers_by_image.setdefault(row.picture, set()).add(row.references)
        questions_by_image.setdefault(row.picture, set()).add(row.question or row.prompt)
    n_images = len(answers_by_image)
    n_with_one_answer = sum(len(answers) == 1 for answers in answers_by_image.values())
    n_with_several_questions = sum(len(asked) > 1 for asked in questions_by_image.values())
    if n_with_one_answer < n_images / 2 or n_with_several_questions <= n_images / 2:
        return False

    rows_read = rows[:: max(1, len(rows) // MOST_READ)]
    try:
        n_right = sum(typed_match(row.reply or "", row.references) for row in rows_read)
    except DataError:  # a right answer is a word that any reply has
        return False
    if n_right > FEW * len(rows_read):
        return False

    # Replies with right answers of other rows answer these questions, though wrongly.
    all_answers = {in_whole_words(text) for row in rows for text in row.references}
    replies = [in_whole_words(row.reply or "") for row in rows_read]
    n_of_any_row = sum(any(answer in reply for answer in all_answers) for reply in replies)
    return 2 * n_of_any_row <= len(rows_read)


_ASKS_YES_OR_NO = re.compile(r"\byes\s*(?:/|or)\s*no\b", re.IGNORECASE)


def _is_closed_otherwise(row: PredictedRow) -> bool:
    """Return whether a question is about yes or no, by its text or by its reply, but its right answer is not."""
    asks = _ASKS_YES_OR_NO.search(row.prompt or row.question) is not None
    first_word = folded(row.reply or "").split(" ")[0].strip(",.:;!")
    is_said = asks or first_word in ("yes", "no")
    return is_said and not any(folded(text) in CODES_OR_WORDS for text in row.references)


def _shares_word(row: PredictedRow) -> bool:
    """Return whether a reply and its right answer have a word in common, or the reply contains the answer.

    The second is needed for scripts without spaces between words, such as Chinese.
    """
    words = _words_said(row.reply or "")
    said = in_whole_words(row.reply or "")
    return any(
        not words.isdisjoint(_words_said(text)) or in_whole_words(text) in said
        for text in row.references
    )


_WORD_SAID = re.compile(r"\w+(?:-\w+)*")
"""A word with the hyphens and underscores within it: `knee` is not said in `knee_arthritis`."""


def _words_said(text: str) -> set[str]:
    """Return the words of a text in small letters, without punctuation and marks of Markdown or HTML around them."""
    return {word.strip("_") for word in _WORD_SAID.findall(folded(text))} - {""}


FEWEST_UNREAD = 10
"""The fewest replies from which a file is refused because none names an option."""
MOST_READ = 200
"""At most about this many replies are read to decide such questions."""


CODES_OR_WORDS = frozenset("0 1 true false yes no".split())


def check_options_named(path: Path, file: PredictionFile, codes: Sequence[str]) -> None:
    """Raise DataError if hardly any reply can be read as one of its options.

    The right answers may then be in another column, in the words that replies use.

    Args:
        path: The file, for messages.
        file: Its predictions.
        codes: Columns with 0 and 1, or words for these. One of them may have the right answers.
    """
    rows = [row for row in file.rows if row.reply and row.options and row.method == "generation"]
    looked_at = rows[:: max(1, len(rows) // MOST_READ)]
    if len(looked_at) < FEWEST_UNREAD:
        return
    unread = [row for row in looked_at if not _is_option_named(row)]
    if len(looked_at) - len(unread) > FEW * len(looked_at):
        return
    first = unread[0]
    are_codes = all((row.reply or "").strip().casefold() in CODES_OR_WORDS for row in rows)
    options = ", ".join(f"{option[:40]!r}" for option in first.options[:MOST_NAMED])
    raise DataError(
        f"{path}: hardly a reply can be read as one of the options ({options}), for example {(first.reply or '')[:40]!r} "
        f"in {first.where}; name the column that says the right answers as the replies do: "
        f"{scoring_call(path, columns={'answer': codes[0] if are_codes and codes else 'NAME'})}"
    )


def _is_option_named(row: PredictedRow) -> bool:
    labels = (row.labels or LETTERS[: len(row.options)]) if row.lists_options else ()
    if read_choice(row.reply or "", row.options, labels).choice is not None:
        return True
    return any(folded(option) in folded(row.reply or "") for option in row.options)
