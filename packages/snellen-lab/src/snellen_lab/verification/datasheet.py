"""The datasheet of a built benchmark.

It says what the benchmark contains, how it was made, what was left out, what simple methods score
on it, and how far it can be trusted.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from msgspec import Struct

from snellen import DataError, JudgeSpec, ScoringSpec
from snellen.plugin_api import (
    SHARE,
    Announce,
    Benchmark,
    BenchmarkManifest,
    Cell,
    Estimate,
    LintMaterial,
    LintQuestion,
    NumberCell,
    ScoredRun,
    ShownItem,
    Table,
    aggregate_run,
    announce_nothing,
    as_scored_last,
    estimate_mean,
    evaluate_spec,
    example_questions,
    headline_metrics,
    open_answers,
    open_benchmark,
    percent_text,
    run_spec,
    slug,
)
from snellen_lab.linting import Finding, is_run_on, lint, text_only
from snellen_lab.verification.certificate import ERROR_LIMIT, Certificate, certify

ORACLE = "snellen:oracle"
ORACLE_LIMIT = 200
"""Samples that the oracle is asked: enough to see that right answers are read and scored as right."""
OF_LINT = {
    "majority-answer": "the answer most often correct for other images",
    "longest-option": "always the longest option",
    "shortest-option": "always the shortest option",
    "blind-reader": "a naive reader of options (form, positions, wording)",
    "question-reader": "a naive reader of the question",
    "constant-reply": "always the reply that most questions accept",
    "text-only": "",
}


class Baseline(Struct, frozen=True):
    """A score to compare models with: of a method that ignores the images, or of a perfect model."""

    name: str
    metric: str
    unit: str
    estimate: Estimate
    note: str = ""


def baselines(
    benchmark: Benchmark, choices: Sequence[LintQuestion], findings: Sequence[Finding]
) -> list[Baseline]:
    """Return the scores of the oracle, of guessing, of the first option, and of simple rules.

    The rules are those that lint measured.

    Args:
        benchmark: The benchmark.
        choices: Its questions with options.
        findings: Findings of lint, and of runs that showed no images.
    """
    lines = _oracle(benchmark) if benchmark.manifest.counts.answers else []
    if choices:
        chance = sum(question.chance for question in choices) / len(choices)
        guess = Estimate(chance, None, None, None, len(choices))
        lines.append(
            Baseline(
                "chance, each option equally likely",
                "accuracy",
                SHARE,
                guess,
                "computed, not measured",
            )
        )
        first = [float(0 in question.gold) for question in choices]
        estimate = estimate_mean(first, [question.group for question in choices])
        lines.append(Baseline("always the first option", "accuracy", SHARE, estimate))
    for finding in findings:
        if finding.check in OF_LINT and finding.estimate is not None:
            name = OF_LINT[finding.check] or finding.message.partition(":")[0]
            lines.append(Baseline(name, "accuracy", SHARE, finding.estimate))
    return lines


def _oracle(benchmark: Benchmark) -> list[Baseline]:
    """Return the score of a model that knows all answers; [] if it has no headline score.

    The model is run like any other. A score below 100% shows what the metric, or the reading of
    replies, costs even a perfect model.
    """
    limit = min(ORACLE_LIMIT, benchmark.count())
    with tempfile.TemporaryDirectory() as folder:
        spec = run_spec(
            {
                "models": (ORACLE,),
                "benchmarks": (str(benchmark.folder),),
                "runs": folder,
                "report": False,
                "limit": limit,
                "allow_same_requests": True,
            }
        )
        [finished] = evaluate_spec(spec)
        [scored] = finished.scored.benchmarks
        headlines = headline_metrics(scored)
        note = "" if limit == benchmark.count() else f"of {limit:,} samples"
        for row in aggregate_run(finished.scored):
            if row.slice or row.metric not in headlines or row.benchmark != benchmark.name:
                continue
            name = "the oracle, which knows all answers"
            return [Baseline(name, row.metric, row.unit, row.estimate, note)]
    return []


SET_APART = "set_apart.jsonl.gz"
MAX_SHOWN_VALUES = 12
"""Number of values of a tag, or of answers, that a table lists."""


class Datasheet(Struct, frozen=True):
    """The datasheet of a benchmark: its contents, baselines, removed questions, findings and certificate."""

    benchmark: Benchmark
    certificate: Certificate
    findings: tuple[Finding, ...]
    """Findings of lint, and of runs that showed no images."""
    baselines: tuple[Baseline, ...]
    contents: tuple[Table, ...]
    removals: tuple[Table, ...]
    examples: tuple[ShownItem, ...]

    @property
    def manifest(self) -> BenchmarkManifest:
        return self.benchmark.manifest

    @property
    def summary(self) -> str:
        """Return a few sentences: the benchmark's size, certificate, and bound on bad questions."""
        manifest = self.manifest
        counts = manifest.counts
        images = f"about {counts.images:,} images" if counts.images else "without images"
        sentences = [f"{counts.questions:,} {_form(manifest)} {images}.", self.certificate.sentence]
        if manifest.verification and manifest.verification.bound:
            sentences.append(manifest.verification.bound.sentence)
        return " ".join(sentences)

    def flat(self) -> dict[str, Any]:
        """Return the datasheet as a dict for programs, without tables and examples."""
        manifest = self.manifest
        return {
            "benchmark": manifest.spec.name,
            "version": manifest.version,
            "is_certified": self.certificate.is_certified,
            "error_limit": self.certificate.error_limit,
            "criteria": msgspec.to_builtins(self.certificate.criteria),
            "verification": msgspec.to_builtins(manifest.verification),
            "counts": msgspec.to_builtins(manifest.counts),
            "baselines": msgspec.to_builtins(self.baselines),
        }


def make_datasheet(
    benchmark: Benchmark, runs: Sequence[ScoredRun], error_limit: float
) -> Datasheet:
    """Return the datasheet of a built benchmark: its certificate, findings, contents and example questions.

    Args:
        benchmark: The benchmark.
        runs: Runs on it without images, which show what models score by text alone.
        error_limit: Largest acceptable share of bad questions, from 0 to 1.

    Raises:
        DataError: If a run is on another benchmark or another version of this one.
    """
    findings = lint(benchmark)
    text_only_findings: list[Finding] = []
    for run in runs:
        if not is_run_on(run, benchmark):
            names = ", ".join(use.name for use in run.manifest.benchmarks)
            raise DataError(
                f"{run.folder} is a run on {names}, not on {benchmark.name}; leave it out"
            )
        text_only_findings.extend(text_only(run).get(benchmark.name, []))
    all_findings = (*findings, *text_only_findings)
    material = LintMaterial.of(benchmark)
    return Datasheet(
        benchmark,
        certify(benchmark.manifest, findings, text_only_findings, error_limit),
        all_findings,
        tuple(baselines(benchmark, material.choices, all_findings)),
        tuple(_contents(material)),
        tuple(_removals(benchmark)),
        example_questions(benchmark, open_answers(benchmark.folder)),
    )


def _form(manifest: BenchmarkManifest) -> str:
    """Return the form of a benchmark's questions in words."""
    return {
        "choice": "multiple-choice questions",
        "text": "open questions",
        "dialogue": "questions in dialogues",
    }[manifest.spec.formulation]


# --- what is in it ---------------------------------------------------------------------------------------------------


def _contents(material: LintMaterial) -> Iterator[Table]:
    """Yield the tables of what a benchmark contains: counts, positions, answers, tags and images."""
    manifest = material.benchmark.manifest
    counts = manifest.counts
    groups = {question.group for question in material.questions}
    n_bytes = 0
    for path in material.benchmark.folder.rglob("*"):
        if path.is_file():
            n_bytes += path.stat().st_size
    rows: list[tuple[str, int | str]] = [
        ("questions", counts.questions),
        ("with a known answer", counts.answers),
        ("samples", counts.samples),
        ("images", counts.images),
        ("independent images or dialogues", len(groups)),
        ("examples set apart", counts.examples),
        ("size on disk", f"{n_bytes / 2**20:,.1f} MiB"),
    ]
    yield Table("Counts", ("what", "count"), tuple(rows))
    if material.choices:
        yield _positions(material.choices)

    answer_counts: Counter[str] = Counter()
    for question in material.questions:
        right_options = [question.folded[gold_index] for gold_index in question.gold]
        answer_counts.update(right_options or question.texts[:1])
    if answer_counts:
        yield _frequencies("Answers", "answer", answer_counts)
    for tag, values in manifest.tags.items():
        if values:
            yield _frequencies(f"By {tag}", tag, Counter(values))
    if material.pictures:
        yield _pictures(material)


def _positions(choices: Sequence[LintQuestion]) -> Table:
    """Return the table of how often the correct answer is at each position, by the number of options."""
    n_questions: Counter[int] = Counter()
    answers_by_count: dict[int, Counter[int]] = defaultdict(Counter)
    for question in choices:
        n_options = len(question.options)
        n_questions[n_options] += 1
        answers_by_count[n_options].update(question.gold)

    most_options = max(answers_by_count)
    letters = []
    for position in range(most_options):
        letters.append(chr(ord("A") + position) if position < 26 else str(position + 1))
    rows: list[tuple[Cell, ...]] = []
    for n_options, answers in sorted(answers_by_count.items()):
        cells: list[Cell] = [answers[position] for position in range(n_options)]
        empty_cells = [""] * (most_options - n_options)
        rows.append((f"{n_options} options", n_questions[n_options], *cells, *empty_cells))
    title = "Number of options, and position of the answer"
    return Table(title, ("options", "questions", *letters), tuple(rows))


def _frequencies(title: str, column: str, counts: Counter[str]) -> Table:
    """Return a table of the most frequent texts, with a last row for all others.

    Args:
        title: Title of the table.
        column: Heading of the column of texts.
        counts: Number of questions for each text.
    """
    rows: list[tuple[Cell, ...]] = []
    n_listed = 0
    for text, count in counts.most_common(MAX_SHOWN_VALUES):
        rows.append((text, count))
        n_listed += count
    n_others = len(counts) - MAX_SHOWN_VALUES
    if n_others > 0:
        rows.append((f"{n_others:,} others", counts.total() - n_listed))
    return Table(title, (column, "questions"), tuple(rows))


def _pictures(material: LintMaterial) -> Table:
    """Return the table of the widths and heights of a benchmark's images, with a note on their file formats."""
    images = list(material.pictures.values())
    widths = [image.width for image in images]
    heights = [image.height for image in images]
    rows = []
    for side, lengths in (("width", widths), ("height", heights)):
        rows.append((side, min(lengths), round(median(lengths)), max(lengths)))
    counts_by_format = Counter(image.media_type for image in images)
    formats = [f"{count:,} {media_type}" for media_type, count in counts_by_format.most_common()]
    header = ("side", "least", "median", "greatest")
    return Table("Images, in pixels", header, tuple(rows), notes=(", ".join(formats),))


# --- what was thrown out, and why ------------------------------------------------------------------------------------


def _removals(benchmark: Benchmark) -> Iterator[Table]:
    """Yield tables of what was left out between the source and the benchmark.

    They say how many samples each step left, what the checks of questions removed, and why distractors were rejected.
    """
    history = benchmark.manifest.build_info
    verification = benchmark.manifest.verification
    rows: list[tuple[Cell, ...]] = [("read from the source", history.read, "")]
    if history.complete != history.read:
        rows.append(("left after selection", history.complete, ""))
    if verification:
        rows.append(("candidates that were checked", verification.candidates, ""))
    chance_text = ""
    if history.chance is not None:
        lowest, highest = history.chance
        chance_text = f"drawn with a chance of {_range(lowest, highest)}"
    counts = benchmark.manifest.counts
    rows.append(("in the benchmark", counts.samples + counts.examples, chance_text))
    yield Table(
        "From the source to the benchmark",
        ("step", "samples", "how"),
        tuple(rows),
        notes=benchmark.manifest.warnings,
    )

    if verification and verification.checks:
        check_rows: list[tuple[Cell, ...]] = []
        for check in verification.checks:
            asked_models = ", ".join(check.by)
            check_rows.append(
                (
                    check.name,
                    check.checked,
                    check.failed,
                    check.repaired,
                    asked_models,
                    check.detail,
                )
            )
        check_header = ("check", "checked", "failed", "repaired", "by", "result")
        yield Table("Checks of questions", check_header, tuple(check_rows))
    reasons = _reasons_set_apart(benchmark)
    if reasons:
        yield _frequencies("Set apart, by reason", "reason", reasons)
    if history.rejected:
        most_frequent_first = sorted(
            history.rejected.items(), key=lambda reason_and_count: -reason_and_count[1]
        )
        rejected = tuple(most_frequent_first)
        yield Table("Distractor candidates left out", ("reason", "candidates"), rejected)


def _range(lowest_share: float, highest_share: float) -> str:
    """Return two shares as text, or as one if they are equal."""
    if lowest_share == highest_share:
        return percent_text(lowest_share)
    return f"{percent_text(lowest_share)} to {percent_text(highest_share)}"


def _reasons_set_apart(benchmark: Benchmark) -> Counter[str]:
    """Count the questions that were set apart for each reason."""
    counts: Counter[str] = Counter()
    for question in benchmark.set_apart():
        counts.update(dict.fromkeys(question.reasons).keys())
    return counts


# --- its tables ------------------------------------------------------------------------------------------------------


def baseline_table(lines: Sequence[Baseline]) -> Table:
    """Return the table of baselines: what a guess, a constant answer or a text-only model scores."""
    rows = tuple(
        (line.name, line.metric, NumberCell(line.unit, line.estimate), line.note) for line in lines
    )
    return Table("Baselines", ("who", "metric", "score", "note"), rows)


def lint_table(findings: Sequence[Finding]) -> Table:
    """Return a table of lint's findings, each with the number of questions that it concerns."""
    rows = []
    for finding in findings:
        count = ""
        if finding.total:
            count = f"{finding.count:,} of {finding.total:,}"
        rows.append((finding.severity, finding.check, count, finding.message))
    return Table("Lint's findings", ("severity", "check", "count", "finding"), tuple(rows))


def certificate_table(certificate: Certificate) -> Table:
    """Return the table of the certificate's criteria, and whether each is met."""
    rows = tuple(
        (criterion.name, "yes" if criterion.is_met else "no", criterion.rule, criterion.result)
        for criterion in certificate.criteria
    )
    return Table("Criteria of the certificate", ("criterion", "met", "rule", "found"), rows)


def source_table(manifest: BenchmarkManifest) -> Table:
    """Return the table of where a benchmark comes from: annotations, images, licence, files. Unknown facts are left out."""
    spec = manifest.spec
    drawn_from = ""
    if spec.source.reader == "built":
        drawn_from = spec.source.params.get("of", "")
    facts = {
        "title": spec.title,
        "annotations from": ", ".join(spec.origins),
        "images from": ", ".join(spec.image_sources),
        "licence": spec.licence or "not stated",
        "agreement": spec.agreement,
        "citation": spec.citation,
        "address": spec.url,
        "files": manifest.build_info.origin,
        "distractors written by": manifest.build_info.writer,
        "drawn from": drawn_from,
    }
    known_facts = [(name, text) for name, text in facts.items() if text]
    return Table("Sources", ("what", "said"), tuple(known_facts))


def digest_table(manifest: BenchmarkManifest) -> Table:
    """Return the table of the benchmark's version and of the digests of its files."""
    rows = [
        ("version (questions, answers, images)", manifest.version),
        ("questions without answers", manifest.questions),
    ]
    rows += [(f"SHA-256 of {name}", digest) for name, digest in sorted(manifest.files.items())]
    return Table("Version and digests", ("what", "digest"), tuple(rows))


def sheet_name(benchmark: Benchmark) -> Path:
    """Return the default file name of a datasheet."""
    return Path(f"{slug(benchmark.name)}.datasheet.html")


def datasheet(
    benchmark: str | Path,
    runs: Iterable[str | Path] = (),
    *,
    error_limit: float = ERROR_LIMIT,
    announce: Announce = announce_nothing,
) -> Datasheet:
    """Return the datasheet of a built benchmark: what it contains, and whether it is certified (docs/datasheets.md).

    Args:
        benchmark: Name or folder of the benchmark.
        runs: Folders of runs on it that showed no images.
        error_limit: Largest share of bad questions that a certified benchmark may have, with 95% confidence.
        announce: Receives lines for the user.

    Raises:
        UnknownNameError: If there is no such benchmark.
        DataError: If a run is on another benchmark, or on another version of this one.
    """
    folders = [Path(run) for run in runs]
    scored = as_scored_last(folders, ScoringSpec(), JudgeSpec(), announce)
    return make_datasheet(open_benchmark(str(benchmark)), scored, error_limit)
