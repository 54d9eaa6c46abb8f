"""Faults of an entry that make its number wrong although it builds, runs and scores.

The catalogue's own entries are linted by the tests; a run says what it finds before it asks anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from snellen.callers import for_caller
from snellen.catalogue import BenchmarkSpec, published_number_of
from snellen.metrics.declaration import DEFAULT_TEXT_METRICS, find_metric
from snellen.records import Answer, Sample
from snellen.scoring.grouped import GroupAccuracy

MAX_TOKENS_OF_SHORT_REPLY = 64
"""A benchmark that allows longer replies asks for free text."""
LETTERS = frozenset("ABCDEFGHIJ")


def entry_findings(spec: BenchmarkSpec) -> list[str]:
    """Return the faults that an entry shows by itself: one line each, with the remedy.

    Examples:
        >>> from snellen.catalogue import entries
        >>> entry_findings(entries()["modern/pope"])
        []
    """
    return [*_whole_text_findings(spec), *_group_findings(spec)]


def _whole_text_findings(spec: BenchmarkSpec) -> list[str]:
    """Return a finding (a line of text) if a benchmark compares whole replies with the answer, but replies are long.

    Such a metric would not accept "It is a dog." for "dog". The result is an empty list if the questions have options,
    if replies are limited to a few tokens, or if the first metric does not compare whole texts.
    """
    if spec.formulation != "text" or spec.max_new_tokens <= MAX_TOKENS_OF_SHORT_REPLY:
        return []
    name = (spec.metrics or DEFAULT_TEXT_METRICS)[0]
    if not any(row.whole_text for row in find_metric(name).rows):
        return []
    return [
        f"{spec.name}: {name} compares the whole reply, but replies of up to {spec.max_new_tokens} tokens "
        "are free text; put typed_match, a metric of final answers, or a judge's first"
    ]


def _group_findings(spec: BenchmarkSpec) -> list[str]:
    """Return a finding (a line of text) for each metric over groups that the benchmark does not name.

    Such a metric counts a group, such as all questions about one image, as right only if every question in it is right.
    The result is an empty list if all groups are named.
    """
    findings = []
    has_clusters = "group" in spec.source.params or "cluster" in spec.groups
    for name in spec.metrics:
        metric = find_metric(name)
        if not isinstance(metric, GroupAccuracy) or metric.kind == "one":
            continue
        is_grouped = metric.kind in spec.groups or has_clusters
        if not is_grouped:
            findings.append(
                f"{spec.name}: {name} needs the groups of its questions; name the tag that they share in "
                f'`groups = {{ {metric.kind} = "TAG" }}`, or their `group` in [source.params]'
            )
    return findings


def answer_findings(
    spec: BenchmarkSpec, samples: Iterable[Sample], answers: Collection[Answer]
) -> list[str]:
    """Return the faults that show only in the questions and answers of a built benchmark.

    Args:
        spec: The benchmark.
        samples: Its questions.
        answers: Their answers; empty if its makers withhold them, or if the data has none.
    """
    has_open_questions = False
    for sample in samples:
        if any(not turn.options for turn in sample.rounds):
            has_open_questions = True
            break
    if not has_open_questions or spec.formulation != "text":
        return []
    texts: list[str] = []
    for answer in answers:
        texts.extend(answer.texts)
    are_letters = bool(texts) and all(text.strip() in LETTERS for text in texts)
    if are_letters:
        return [
            f"{spec.name}: every ground truth is a letter, but its questions have no options, so that replies are "
            'compared as texts; give it `options` and `answer_is = "letter"`'
        ]
    return []


def judge_notice(spec: BenchmarkSpec, *, judged: bool) -> str:
    """Return a notice if the main score of a benchmark needs a judge model and the run has none; else an empty text.

    Args:
        spec: The benchmark, with the metrics that it is scored by.
        judged: Whether the run has a judge.
    """
    if judged or not spec.metrics:
        return ""
    [first, *others] = spec.metrics
    if find_metric(first).computed_over != "judge":
        return _published_judge_notice(spec)
    remedy = for_caller("--judge MODEL", "judge=MODEL")
    later = for_caller("`snellen score RUN --judge MODEL`", "sn.score(RUN, judge=MODEL)")
    lost = f"only its other metrics ({', '.join(others)})" if others else "no number"
    return (
        f"{spec.name}: only a judge gives its score ({first}); without {remedy} this run has {lost}. "
        f"Replies are stored, and {later} scores them later"
    )


def _published_judge_notice(spec: BenchmarkSpec) -> str:
    """Return a notice if the published number of a benchmark is a judge's and its main metric here is none; else an
    empty text.
    """
    published = published_number_of(spec)
    if published is None or published.judge is None or not published.judge.metric:
        return ""
    metric = published.judge.metric
    later = for_caller(
        f"`snellen score RUN --metric {metric} --judge MODEL`",
        f'sn.score(RUN, metrics=["{metric}"], judge=MODEL)',
    )
    return f"{spec.name}: its published number is a judge's ({metric}), which this run does not have; {later} adds it"
