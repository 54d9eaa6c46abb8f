"""Runs that were asked are scored, and each scoring is kept in the run's folder; one that was stopped comes with the
command that goes on."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.analysis.aggregate import results_of
from snellen.analysis.corrections import unused_audits
from snellen.analysis.sequential import open_by_width
from snellen.building.benchmark import Benchmark
from snellen.common.paths import as_word
from snellen.common.record_fields import RecordField, record_fields
from snellen.errors import DataError, HookError, StoreError, UnknownNameError
from snellen.installation import LAB, sibling_install_line
from snellen.metrics.kept_programs import programs_kept
from snellen.models.loading import find_opener, load_model, names_model
from snellen.models.model_strings import parse_spec
from snellen.protocols.verdict import matching_prompt
from snellen.runs.finding import Announce, silent
from snellen.runs.locks import is_held, is_read_only
from snellen.runs.mending import count_lines_set_aside
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.run_folder import RunManifest, journals, read_manifest
from snellen.runs.spec import JudgeSpec, ScoringSpec
from snellen.scoring.answers import changed_answers, has_answers
from snellen.scoring.judges import JudgeEnsemble
from snellen.scoring.kept_scoring import (
    ScoringSettings,
    keep_scoring,
    load_scoring,
    replies_when_scored,
    scoring_folder,
    scoring_names,
    scoring_settings,
)
from snellen.scoring.run_scoring import check_scoring, score_run
from snellen.scoring.scored_run import RunExtent, ScoredRun, unknown_suites


def check_judging(scoring: ScoringSpec, judge: JudgeSpec) -> None:
    """Raise UnknownNameError or DataError for what scoring would refuse, before a model or a judge is asked."""
    check_scoring(scoring, judged=bool(judge.models))
    matching_prompt(judge.prompt)
    if judge.calibrate and not registry.targets("calibrations"):
        raise UnknownNameError(
            f"the calibration of judges comes with another package: {sibling_install_line(LAB)}"
        )
    for model in judge.models:
        if isinstance(model, str):
            find_opener(parse_spec(model))


def check_named_once(folders: Iterable[Path]) -> None:
    """Raise DataError for a run that is named more than once: two of its numbers would pass for those of two runs."""
    named = Counter(folder.resolve() for folder in folders)
    if repeated := next((folder for folder, times in named.items() if times > 1), None):
        raise DataError(f"{repeated} is named more than once; name each run once")


def score_folders(
    folders: Sequence[Path],
    scoring: ScoringSpec,
    judge: JudgeSpec,
    announce: Announce = silent,
    *,
    kept_will_do: bool = False,
) -> list[ScoredRun]:
    """Read and score runs; a judge is loaded once for all of them.

    Each scoring is kept in the run's folder (`snellen.scoring.kept_scoring`), unless that is read-only, which is
    announced, as is a run that has not come to its end, or is of a suite that is not known here. Where the answers are
    not at hand, as in a run from elsewhere, nothing can be scored, which raises DataError; or, if it will do, what was
    kept by the same settings is opened and that is announced.
    """
    runs = score_runs(folders, scoring, judge, announce, kept_will_do=kept_will_do)
    for run in runs:
        for fault in unknown_suites(run):
            announce(f"{run.folder}: {fault}")
        _announce_stop(run, announce)
    return runs


@programs_kept()
def score_runs(
    folders: Sequence[Path],
    scoring: ScoringSpec,
    judge: JudgeSpec,
    announce: Announce,
    *,
    kept_will_do: bool = False,
) -> list[ScoredRun]:
    """`score_folders` without a word about runs that have not come to their end, as one between two rounds has not."""
    check_named_once(folders)
    check_judging(scoring, judge)
    judges = [load_model(model) for model in judge.models]
    settings = scoring_settings(scoring, judge, judges)
    runs = []
    for folder in folders:
        if absent := _without_answers(folder):
            runs.append(_kept(folder, settings, absent, announce, kept_will_do))
        else:
            panel = JudgeEnsemble(judges, folder, judge, announce) if judges else None
            runs.append(_score_folder(folder, settings, panel, announce))
        for words in unused_audits(runs[-1]):
            announce(f"{folder}: {words}: {sibling_install_line(LAB)}")
    if judges and judge.calibrate:
        for calibrate in registry.loadable("calibrations").values():
            for sentence in calibrate(judges, judge, announce):
                announce(sentence)
    return runs


def _announce_stop(run: ScoredRun, announce: Announce) -> None:
    """Say of a run that has not come to its end how far it came, and which command goes on."""
    if run.extent is None or run.extent.is_whole:
        return
    command = "" if run.extent.undecided else command_to_go_on(run.folder, run.manifest)
    way_on = f"to go on: {command}" if command else "the call that made it goes on"
    state = "is under way" if is_held(run.folder) else "was stopped"
    announce(f"{run.folder} {state}: {run.extent.words}; {way_on}")


def _score_folder(
    folder: Path, settings: ScoringSettings, panel: JudgeEnsemble | None, announce: Announce
) -> ScoredRun:
    uses = read_manifest(folder).benchmarks
    announce_changed_answers(folder, (reopen_benchmark(use, folder) for use in uses), announce)
    standard = _score_run(folder, settings.standard.scoring, panel)
    _check_replies_are_left(standard, announce)
    scored = _keep(standard, settings.standard)
    if settings.scoring.as_published:
        published = replace(_score_run(folder, settings.scoring, panel), counterpart=scored)
        scored = _keep(published, settings)
    if is_read_only(folder):
        announce(f"{folder} is read-only: its scores are shown and not kept")
    return scored


def _check_replies_are_left(scored: ScoredRun, announce: Announce) -> None:
    """Say that a run has fewer replies than when it was last scored.

    Raises StoreError where a journal that was scored is empty or gone: the results of then are all that is left.
    """
    folder, before = scored.folder, replies_when_scored(scored.folder)
    set_aside = count_lines_set_aside(folder)
    now = scored.asked + scored.reused
    if now >= before.count - set_aside:
        return
    fewer = f"{folder}: its journals hold {now:,} replies, and it was scored with {before.count:,}"
    left = {path.name for path in journals(folder) if path.stat().st_size}
    lost = sorted(before.journals - left)
    if lost and not set_aside:
        raise StoreError(
            f"{fewer}; {lost[0]} is empty or gone, so nothing is scored and the results are left as they are: put it "
            "back from a copy, or give the run's command again, which asks what is missing"
        )
    announce(fewer)


def _score_run(folder: Path, scoring: ScoringSpec, panel: JudgeEnsemble | None) -> ScoredRun:
    """One that a rule is to stop has not ended while the rule wants more, though all that it was asked was answered."""
    try:
        scored = score_run(folder, scoring, panel)
    except HookError as error:
        raise HookError(
            f"{error}; the replies are kept: correct it, then `snellen score {as_word(folder)}` goes on"
        ) from error
    wanting, undecided = tuple(open_by_width(scored)), scored.manifest.undecided
    if not (wanting or undecided):
        return scored
    return replace(
        scored, extent=replace(scored.extent or RunExtent(), wanting=wanting, undecided=undecided)
    )


def _keep(scored: ScoredRun, settings: ScoringSettings) -> ScoredRun:
    """The results of a scoring as published hold those by the standard rules too, the first ones."""
    if is_read_only(scored.folder):
        return scored
    standard = scored.counterpart
    rows = results_of(scored)
    before = results_of(standard) if standard else []
    keep_scoring(scored, settings, [*before, *rows], settings.standard.name if standard else None)
    return replace(
        scored, kept_rows=tuple(rows), kept_in=scoring_folder(scored.folder, settings.name)
    )


def _without_answers(folder: Path) -> list[str]:
    """The benchmarks of a run whose answers are known, but not here."""
    uses = read_manifest(folder).benchmarks
    return [use.name for use in uses if not has_answers(reopen_benchmark(use, folder).folder)]


def _kept(
    folder: Path,
    settings: ScoringSettings,
    absent: Sequence[str],
    announce: Announce,
    will_do: bool,
) -> ScoredRun:
    names = ", ".join(absent)
    is_kept = settings.name in scoring_names(folder)
    if not (is_kept and will_do):
        remedy = (
            f"`snellen report {as_word(folder)}` shows the scores that were kept, or "
            if is_kept
            else ""
        )
        raise DataError(
            f"{folder} cannot be scored, as the answers of {names} are not here as they were when it was asked"
            f"{_built_since(folder, absent)}: {remedy}build that version again, of a table of your own from the table "
            "as it was then, or have the run packed with its answers (`snellen pack --answers`)"
        )
    announce(
        f"{folder}: the answers of {names} are not here; these are the scores that were kept by these settings"
    )
    return load_scoring(folder, settings.name)


def announce_changed_answers(
    folder: Path, benchmarks: Iterable[Benchmark], announce: Announce
) -> None:
    """Say which answers are others than when a run was asked."""
    if changed := changed_answers(folder, benchmarks):
        names = ", ".join(changed)
        announce(
            f"{folder}: the answers of {names} have changed since it was last asked; it is scored by those of now"
        )


def _built_since(folder: Path, names: Sequence[str]) -> str:
    """Which benchmarks have been built again where a run found them, in brackets; empty for none."""
    since = []
    for use in read_manifest(folder).benchmarks:
        with suppress(DataError):  # nothing is there, or it is damaged
            version = Benchmark(Path(use.folder)).manifest.version
            if use.name in names and version != use.version:
                since.append(
                    f"{use.name} has been built again: its version was {use.version} and is {version}"
                )
    return f" ({'; '.join(since)})" if since else ""


# --- the command that goes on with a run ------------------------------------------------------------------------------


def command_to_go_on(folder: Path, manifest: RunManifest) -> str:
    """`snellen run ...` as the last call of a run asked, which asks what is missing and scores.

    Empty for a run that was made elsewhere, or by objects of a program."""
    if not manifest.asked or not manifest.executed or not names_model(manifest.model):
        return ""
    question, execution = manifest.asked[-1], manifest.executed[-1]
    words = [manifest.model, *question.benchmarks, *_flags(question, but=("models", "benchmarks"))]
    words += _flags(execution, but=("name", "runs", "moved"))
    runs = ["--runs", str(folder.parent)] if folder.parent != Path("runs") else []
    return shlex.join(["snellen", "run", *words, *runs, "--name", folder.name])


def _flags(record: Struct, but: tuple[str, ...]) -> Iterator[str]:
    """The flags of the fields that are not at their default."""
    for name, field in record_fields(type(record)).items():
        value = getattr(record, name)
        if name not in but and value != field.default:
            yield from _words(field, value)


def _words(field: RecordField, value: Any) -> Iterator[str]:
    if isinstance(value, bool):
        yield field.flag if value else f"--no-{field.flag.removeprefix('--')}"
        return
    if isinstance(value, Mapping):
        values = [f"{key}={item}" for key, item in value.items()]
    elif field.is_table:
        values = [f"{name}={item}" for name, item in value]
    elif field.is_list:
        values = [str(item) for item in value]
    else:
        values = [",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
    for text in values:
        yield from (field.flag, text)
