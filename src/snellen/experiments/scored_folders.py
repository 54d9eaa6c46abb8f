"""Score the runs in folders, and store each scoring in the run's folder."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.analysis.aggregate import aggregate_run
from snellen.analysis.corrections import unused_audits
from snellen.analysis.sequential import open_by_width
from snellen.building.benchmark import Benchmark
from snellen.building.replaced_builds import other_source
from snellen.callers import for_caller, is_command_line, setting
from snellen.common.paths import shell_word
from snellen.common.record_fields import RecordField, record_fields
from snellen.errors import DataError, HookError, SnellenError, StoreError, UnknownNameError
from snellen.installation import LAB, sibling_install_line
from snellen.metrics.declaration import find_metric, judging_code
from snellen.metrics.kept_programs import programs_kept
from snellen.models.loading import find_opener, load_model, names_model
from snellen.models.model_strings import parse_spec, says_batch
from snellen.protocols.base import parse_protocol
from snellen.protocols.verdict import matching_prompt
from snellen.records import Result
from snellen.runs.finding import Announce, announce_nothing
from snellen.runs.journal import holds_replies
from snellen.runs.locks import is_locked, is_read_only
from snellen.runs.mending import count_lines_set_aside
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.run_folder import RUN_MANIFEST, RunManifest, journals, read_manifest
from snellen.runs.spec import JudgeSpec, ScoringSpec
from snellen.scoring.answers import changed_answers, has_answers
from snellen.scoring.code_digests import changed_names
from snellen.scoring.judges import JudgeEnsemble
from snellen.scoring.kept_scoring import (
    CHOSEN_STANDARD,
    STANDARD,
    ScoringSettings,
    are_opened_differently,
    are_scored_differently,
    change_note,
    changed_code,
    changed_since,
    find_scoring,
    have_standard_scores,
    keep_scoring,
    kept_settings,
    last_own_scoring,
    load_scoring,
    replies_when_scored,
    scoring_folder,
    scoring_names,
    scoring_note,
    scoring_settings,
    scoring_title,
    scorings_by_age,
    shared_last_scoring,
    stored_code,
)
from snellen.scoring.run_scoring import check_scoring, score_run, uses_judge
from snellen.scoring.scored_run import RunExtent, ScoredRun, unknown_suites


def check_judging(scoring: ScoringSpec, judge: JudgeSpec) -> None:
    """Raise UnknownNameError or DataError for scoring settings that cannot work.

    This is called before the run, so that nobody pays for replies or judges that cannot be used.
    """
    check_scoring(scoring, judged=bool(judge.models))
    matching_prompt(judge.prompt)
    if judge.calibrate and not registry.targets("calibrations"):
        raise UnknownNameError(
            f"the calibration of judges is part of another package: {sibling_install_line(LAB)}"
        )
    for model in judge.models:
        if not isinstance(model, str):
            continue
        spec = parse_spec(model)
        find_opener(spec)  # raises for an unknown kind of model
        if spec.scheme == "snellen" and spec.target == "oracle":
            raise DataError(
                f"{model}: the oracle knows answers of benchmarks and cannot judge; a judge is a model that reads "
                "text and follows a prompt, such as openai:NAME or hf:org/name, or in Python a function of "
                "(question, reply, reference)"
            )
        if says_batch(model):
            raise DataError(
                f"{model}: a judge is asked directly; remove batch=true from its model string"
            )


def check_judge_is_used(judge: JudgeSpec, judged_benchmarks: Iterable[bool]) -> None:
    """Raise DataError if a judge cannot change any score, so that its calls would be wasted.

    Args:
        judge: The judge.
        judged_benchmarks: For each benchmark, whether a judge can change its scores.
    """
    if judge.models and not judge.calibrate and not any(judged_benchmarks):
        raise DataError(
            f"{setting('judge', *judge.models[:1])} has no effect: the run has neither written replies to questions "
            f"with options nor a judged metric; remove it, or add {setting('metrics', 'judged_correct')}"
        )


def _judged_benchmarks(folder: Path, scoring: ScoringSpec) -> Iterator[bool]:
    """Yield, for each benchmark of a run, whether a judge model could change its scores."""
    manifest = read_manifest(folder)
    for use in manifest.benchmarks:
        opened = reopen_benchmark(use, folder)
        protocols = [parse_protocol(text) for text in use.protocols or manifest.protocols]
        yield uses_judge(opened.spec, opened.samples(use.selection), protocols, scoring)


def _announce_scorings(folders: Sequence[Path], announce: Announce) -> None:
    """Tell the user why runs are shown by standard settings although they have other scorings, and how to choose one.

    A scoring is the stored result of scoring a run with certain settings. A run may have several of
    them.
    """
    if are_scored_differently(folders):
        folders_by_title: dict[str, list[Path]] = {}
        for folder in folders:
            title = scoring_title(folder, last_own_scoring(folder))
            folders_by_title.setdefault(title, []).append(folder)
        if len(folders_by_title) > 1:
            latest: list[str] = []
            for title, members in folders_by_title.items():
                runs_text = str(members[0]) if len(members) == 1 else f"{len(members)} runs"
                latest.append(f"{runs_text} with {title}")
            announce(
                f"these runs were last scored in different ways ({', '.join(latest)}), so standard settings are used "
                f"for all; {setting('scoring', 'NAME')} chooses another scoring that all of them have"
            )
            return
        names = [last_own_scoring(folder) for folder in folders]
        if STANDARD in names:  # all of them are scored again now
            return
        codes = changed_code(zip(folders, names, strict=True))
        if codes:
            reason = f"by different code, because {', '.join(codes)} was changed in between"
        else:
            reason = "by code of your own, which not all of them have recorded, as earlier versions did not"
        settings = kept_settings(folders[0], names[0])
        again = _scoring_call(folders, settings)
        announce(
            f"these runs were last scored {reason}, so standard settings are used for all; to compare them by it, "
            f"score all of them again: {again}"
        )
        return
    for folder in folders:
        outdated = _outdated_scoring(folder)
        if outdated:
            announce(
                f"{folder}: {outdated}, so standard settings are used; to show it, score again"
            )
        elif any(scoring_names(folder)):
            announce(f"{folder}: {scoring_note(folder)}; {setting('scoring', 'NAME')} chooses one")


def _scoring_call(folders: Sequence[Path], settings: ScoringSettings) -> str:
    """Return the command, or the call in Python, that scores runs with some settings."""
    flags = scoring_words(settings.scoring, settings.judge)
    command = shlex.join(["snellen", "score", *map(str, folders), *flags])
    if flags:
        calls = ", ".join(f"sn.score({str(folder)!r}, ...)" for folder in folders)
        calls += " with the same settings"
    else:
        calls = ", ".join(f"sn.score({str(folder)!r})" for folder in folders)
    return for_caller(f"`{command}`", calls)


def _outdated_scoring(folder: Path) -> str:
    """Return what has changed since a run was scored with other than standard settings, as a part of a message.

    Empty if nothing has changed, or if the last scoring was by standard settings.
    """
    names = scorings_by_age(folder)
    if not names or names[-1] == STANDARD:
        return ""
    with suppress(StoreError):  # a damaged file
        change = changed_since(folder, names[-1])
        if change:
            return f"{change} since it was scored with {scoring_title(folder, names[-1])}"
    return ""


def scoring_words(scoring: ScoringSpec, judge: JudgeSpec) -> list[str]:
    """Return the command-line flags that name some scoring settings; [] for standard settings.

    Examples:
        >>> scoring_words(sn.ScoringSpec(metrics=("anls",)), sn.JudgeSpec())
        ['--metric', 'anls']
    """
    return [*_flags(scoring, but=()), *_flags(judge, but=("price",))]


def with_judged_rows(run: ScoredRun) -> ScoredRun:
    """Return a run with further rows: those of metrics that only a stored scoring by a judge has.

    A scoring that is older than some replies of the run is left out, and so is one by published
    rules.
    """
    rows = list(run.stored_rows if run.stored_rows is not None else aggregate_run(run))
    metrics = {row.metric for row in rows}
    added: list[Result] = []
    for name in filter(None, scoring_names(run.folder)):
        settings = kept_settings(run.folder, name)
        has_judging_function = any(map(judging_code, settings.scoring.metrics))
        is_judged = bool(settings.judge.models) or has_judging_function
        if settings.scoring.as_published or not is_judged:
            continue
        try:
            judged = load_scoring(run.folder, name)
        except SnellenError:  # it is stale or damaged, and the numbers of the run do not need it
            continue
        new_rows = [row for row in judged.stored_rows or () if row.metric not in metrics]
        metrics.update(row.metric for row in new_rows)
        added += new_rows
    return replace(run, stored_rows=(*rows, *added)) if added else run


def check_named_once(folders: Iterable[Path]) -> None:
    """Raise DataError if the same run is given twice, because its results would look like those of two runs."""
    named = Counter(folder.resolve() for folder in folders)
    for folder, count in named.items():
        if count > 1:
            raise DataError(f"{folder} is given more than once; give each run once")


def with_replies(folders: Sequence[Path], announce: Announce) -> list[Path]:
    """Return the runs that have replies, and tell the user about each run that is left out.

    A path that is not a run is returned as well, so that a later step reports it.

    Raises:
        StoreError: None of the runs has a reply.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, name="first", report=False)
        >>> [str(folder) for folder in with_replies([results.runs[0].folder], print)]
        ['runs/first']
    """
    kept: list[Path] = []
    for folder in folders:
        if not (folder / RUN_MANIFEST).exists() or holds_replies(folder):
            kept.append(folder)
            continue
        if len(folders) > 1:
            announce(f"{folder} is left out: none of its requests received a reply")
    if folders and not kept:
        again = for_caller("repeat its `snellen run` command", "repeat its call")
        names = ", ".join(map(str, folders))
        raise StoreError(f"{names}: no request received a reply; {again}")
    return kept


def score_folders(
    folders: Sequence[Path],
    scoring: ScoringSpec,
    judge: JudgeSpec,
    announce: Announce = announce_nothing,
    *,
    may_use_stored: bool = False,
    is_asked_for: bool = False,
) -> list[ScoredRun]:
    """Read and score runs. Judges are loaded once for all of them.

    Each scoring is stored in the run's folder (`snellen.scoring.kept_scoring`), unless the folder is read-only. A
    read-only folder, an incomplete run and an unknown suite are announced.

    Args:
        folders: The folders of the runs.
        scoring: How replies are scored.
        judge: Judges of replies.
        announce: Receives lines for the user.
        may_use_stored: Whether to return a stored scoring with the same settings if the ground truths are missing, as in
            a run from another machine.
        is_asked_for: Whether the user asked for scores by these settings, so that the run is shown with them from now
            on wherever no scoring is named.

    Raises:
        DataError: Ground truths are missing, and there is no stored scoring to return.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> [run] = score_folders([results.runs[0].folder], sn.ScoringSpec(), sn.JudgeSpec())
        >>> run.manifest.model
        'snellen:oracle'
    """
    runs = score_runs(
        folders,
        scoring,
        judge,
        announce,
        may_use_stored=may_use_stored,
        is_asked_for=is_asked_for,
    )
    for run in runs:
        for fault in unknown_suites(run):
            announce(f"{run.folder}: {fault}")
        _announce_stop(run, announce)
    return runs


def as_scored_last(
    folders: Sequence[Path],
    scoring: ScoringSpec,
    judge: JudgeSpec,
    announce: Announce,
    choice: str | None = None,
) -> list[ScoredRun]:
    """Return runs scored by the settings that the user named, or as they were scored last if none were named.

    A stored scoring is opened, so that neither a judge nor the code of a metric is needed. If the runs were scored last
    in different ways, they are scored by standard settings, because their numbers are shown beside each other.

    Args:
        folders: The folders of the runs.
        scoring: The scoring settings that the user named.
        judge: The judge settings that the user named.
        announce: Receives lines for the user: which scoring is shown, and how to show the others.
        choice: A stored scoring that all runs have, as `find_scoring` takes it.

    Raises:
        DataError: Both a stored scoring and scoring settings are named.
        StoreError: A run has no such scoring.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, extractor="strict", report=False)
        >>> [run] = as_scored_last([results.runs[0].folder], sn.ScoringSpec(), sn.JudgeSpec(), lambda line: None)
        >>> run.scoring.extractor
        'strict'
    """
    is_named = bool(judge.models) or scoring != ScoringSpec()
    if choice is not None:
        if is_named:
            flags = shlex.join(scoring_words(scoring, judge))
            raise DataError(
                f"{setting('scoring', choice)} shows scores that are stored, but {flags} scores again; remove one of them"
            )
        if choice not in (STANDARD, CHOSEN_STANDARD):
            return _open_and_announce(folders, choice, announce)
    elif not is_named and shared_last_scoring(folders) != STANDARD:
        return _open_and_announce(folders, None, announce)
    elif not is_named:
        _announce_scorings(folders, announce)
    return score_folders(folders, scoring, judge, announce, may_use_stored=True)


def _open_and_announce(
    folders: Sequence[Path], choice: str | None, announce: Announce
) -> list[ScoredRun]:
    """Open a stored scoring of each run as `open_stored` does, and announce incomplete runs.

    Raises:
        DataError: The user's own code was changed between these scorings, so that their numbers cannot be put beside
            each other.
    """
    change = _changed_functions(folders, choice)
    if change:
        raise DataError(change)
    runs = open_stored(folders, choice, announce)
    for run in runs:
        _announce_stop(run, announce)
    return runs


def scoring_for_all(folders: Sequence[Path], announce: Announce) -> str | None:
    """Return the stored scoring with which runs are opened together if the user names none.

    Runs whose last scorings have different settings are opened by standard settings, which is announced, because their
    numbers are put beside each other. Nothing is scored.

    Args:
        folders: The folders of scored runs.
        announce: Receives lines for the user.

    Returns:
        The scoring, as `find_scoring` takes it; None if each run is opened as it was scored last.
    """
    if not are_opened_differently(folders):
        return None
    said = "these runs were last scored in different ways"
    if have_standard_scores(folders):
        announce(
            f"{said}, so standard settings are used for all; {setting('scoring', 'NAME')} chooses another scoring that "
            "all of them have"
        )
        return CHOSEN_STANDARD
    again = for_caller("`snellen score`", "sn.score")
    announce(
        f"{said}, and not all have scores by standard settings: compare their numbers only after you have scored all "
        f"of them in the same way ({again})"
    )
    return None


def is_scored_again(folders: Sequence[Path]) -> bool:
    """Return whether runs must be scored again before their numbers can be compared.

    They must if they were last scored in different ways, or if their replies or ground truths have
    changed since they were scored.

    Raises:
        StoreError: A folder is not a scored run, or a file is damaged.
    """
    if are_opened_differently(folders):
        return True
    for folder in folders:
        read_manifest(folder)
        if changed_since(folder, find_scoring(folder)):
            return True
    return False


def open_stored(
    folders: Sequence[Path], choice: str | None, announce: Announce = announce_nothing
) -> list[ScoredRun]:
    """Read a stored scoring of each run, and tell the user which one it is and what has changed since then.

    Nothing is scored again.

    Args:
        folders: The folders of the runs.
        choice: The name of the scoring, as `find_scoring` takes it; None for the one that the user
            asked for last.
        announce: Receives the lines for the user. A run that is shown by standard settings and has
            not changed needs none.

    Raises:
        StoreError: A run has no such scoring, or received replies since.
        DataError: A folder is named twice.
    """
    check_named_once(folders)
    runs: list[ScoredRun] = []
    for folder in folders:
        runs.append(load_scoring(folder, choice))
        note = scoring_note(folder)
        if choice is not None:
            name = find_scoring(folder, choice)
            since = change_note(folder, name)
            is_plain = choice in (STANDARD, CHOSEN_STANDARD) and not since
            note = "" if is_plain else f"scored with {scoring_title(folder, name)}{since}"
        if note:
            announce(f"{folder}: {note}")
    change = _changed_functions(folders, choice)
    if change:
        announce(change)
    return runs


def _changed_functions(folders: Sequence[Path], choice: str | None) -> str:
    """Return a sentence if the user's own code was changed between stored scorings of runs; empty if not.

    Args:
        folders: The folders of the runs.
        choice: The scoring, as `find_scoring` takes it.
    """
    names = [find_scoring(folder, choice) for folder in folders]
    changed_functions = changed_code(zip(folders, names, strict=True))
    if not changed_functions:
        return ""
    again = _scoring_call(folders, kept_settings(folders[0], names[0]))
    return (
        f"the code of {', '.join(changed_functions)} has changed between the scorings of these runs: score all of them "
        f"again before you compare their numbers: {again}"
    )


@programs_kept()
def score_runs(
    folders: Sequence[Path],
    scoring: ScoringSpec,
    judge: JudgeSpec,
    announce: Announce,
    *,
    may_use_stored: bool = False,
    is_asked_for: bool = False,
) -> list[ScoredRun]:
    """Score runs like `score_folders`, but do not tell the user that a run is incomplete.

    It is for callers that score between two rounds of questions, when a run is incomplete on purpose.
    """
    check_named_once(folders)
    check_judging(scoring, judge)
    if judge.models:
        judged = chain.from_iterable(_judged_benchmarks(folder, scoring) for folder in folders)
        check_judge_is_used(judge, judged)
    judges = [load_model(model) for model in judge.models]
    settings = scoring_settings(scoring, judge, judges)
    runs = []
    for folder in folders:
        without_answers = _benchmarks_without_answers(folder)
        if without_answers:
            # Such a run cannot be scored again, so its stored scores are used.
            runs.append(
                _load_kept_scoring(folder, settings, without_answers, announce, may_use_stored)
            )
        else:
            panel = JudgeEnsemble(judges, folder, judge, announce) if judges else None
            runs.append(_score_folder(folder, settings, panel, announce, is_asked_for=is_asked_for))
        for sentence_part in unused_audits(runs[-1]):
            announce(f"{folder}: {sentence_part}: {sibling_install_line(LAB)}")
    if judges and judge.calibrate:
        for calibrate in registry.loadable("calibrations").values():
            for sentence in calibrate(judges, judge, announce):
                announce(sentence)
    return runs


def _announce_stop(run: ScoredRun, announce: Announce) -> None:
    """Tell the user how far an incomplete run has come, and how to continue it."""
    if run.extent is None or run.extent.is_whole:
        return
    advice = "repeat the call that created it to continue"
    if is_command_line() and not run.extent.undecided:
        command = command_to_go_on(run.folder, run.manifest)
        if command:
            advice = f"to continue: {command}"
    state = "is under way" if is_locked(run.folder) else "was stopped"
    announce(f"{run.folder} {state}: {run.extent.text}; {advice}")


def _score_folder(
    folder: Path,
    settings: ScoringSettings,
    panel: JudgeEnsemble | None,
    announce: Announce,
    *,
    is_asked_for: bool,
) -> ScoredRun:
    """Score one run and store its scores.

    If it is to be scored as in a paper, it is scored by the standard rules, too, and both results are stored.

    Args:
        folder: The folder of the run.
        settings: The scoring settings.
        panel: Judge models, if there are any.
        announce: Receives lines for the user.
        is_asked_for: As for `score_folders`.
    """
    uses = read_manifest(folder).benchmarks
    announce_changed_answers(folder, (reopen_benchmark(use, folder) for use in uses), announce)
    standard = _score_run(folder, settings.standard, panel)
    changed = changed_names(stored_code(folder, settings.standard.name), standard.code)
    if changed:
        announce(
            f"{folder}: {', '.join(changed)} has changed since the run was scored with it; the earlier values are "
            "replaced"
        )
    _check_replies_are_left(standard, announce)
    scored = _store_scores(standard, settings.standard, is_asked_for=is_asked_for)
    if settings.scoring.as_published:
        published = replace(_score_run(folder, settings, panel), counterpart=scored)
        scored = _store_scores(published, settings, is_asked_for=is_asked_for)
    if panel is not None and not panel.uses:
        announce(
            f"judge {panel.name}: nothing was left for it to read, because the extractor was sure of every reply; it "
            f"changes no number of {folder}"
        )
    if panel is not None and panel.uses and not any(use.calls for use in panel.uses):
        announce(
            f"judge {panel.name}: no call was made, because all its verdicts on {folder} were given earlier"
        )
    for metric in filter(judging_code, settings.scoring.metrics):
        announce(_marks_of_function(scored, metric))
    if is_read_only(folder):
        announce(f"{folder} is read-only; its scores are shown but not saved")
    return scored


def _marks_of_function(scored: ScoredRun, metric: str) -> str:
    """Return a sentence that says how many questions a judging function of the user has marked.

    It also names the metric that is the mean of these marks.
    """
    [name] = find_metric(metric).names
    scores = [score for benchmark in scored.benchmarks for score in benchmark.scores_of(name)]
    marked = sum(score.value is not None for score in scores)
    return (
        f"judge {judging_code(metric)}: {marked:,} marks for questions of {scored.folder}; the metric {name} is their "
        "mean"
    )


def _check_replies_are_left(scored: ScoredRun, announce: Announce) -> None:
    """Tell the user if a run has fewer replies than when it was last scored.

    Raises StoreError if a journal that was scored then is now empty or missing: scoring would
    replace the complete results.
    """
    folder = scored.folder
    before = replies_when_scored(folder)
    set_aside = count_lines_set_aside(folder)
    now = scored.distinct_requests + scored.reused
    if now >= before.count - set_aside:
        return
    fewer = (
        f"{folder}: its journals contain {now:,} replies, but it was scored with {before.count:,}"
    )
    left = {path.name for path in journals(folder) if path.stat().st_size}
    lost = sorted(before.journals - left)
    if lost and not set_aside:
        raise StoreError(
            f"{fewer}; {lost[0]} is empty or missing; nothing was scored and the results are unchanged: restore "
            "the file from a copy, or repeat the run's command to request what is missing"
        )
    announce(fewer)


def _score_run(folder: Path, settings: ScoringSettings, panel: JudgeEnsemble | None) -> ScoredRun:
    """Score a run, and mark it as incomplete while a stopping rule needs more replies."""
    try:
        scored = score_run(folder, settings.scoring, panel)
    except HookError as error:
        again = _scoring_call([folder], settings)
        raise HookError(
            f"{error}; the replies are stored: correct the problem, then {for_caller('run', 'call')} {again}"
        ) from error
    wanting = tuple(open_by_width(scored))
    undecided = scored.manifest.undecided
    if not wanting and not undecided:
        return scored
    extent = replace(scored.extent or RunExtent(), wanting=wanting, undecided=undecided)
    return replace(scored, extent=extent)


def _store_scores(scored: ScoredRun, settings: ScoringSettings, *, is_asked_for: bool) -> ScoredRun:
    """Store the scores of a run in its folder, unless that is read-only.

    If the run is scored as in a paper, its results by the standard rules are stored in front of the others.

    Returns:
        The run, with its results and with the folder in which they are stored.
    """
    if is_read_only(scored.folder):
        return scored
    rows = aggregate_run(scored)
    standard = scored.counterpart
    standard_rows: list[Result] = []
    standard_name = None
    if standard:
        standard_rows = aggregate_run(standard)
        standard_name = settings.standard.name
    keep_scoring(
        scored,
        settings,
        [*standard_rows, *rows],
        standard_name,
        is_asked_for=is_asked_for,
    )
    folder = scoring_folder(scored.folder, settings.name)
    return replace(scored, stored_rows=tuple(rows), stored_in=folder)


def _benchmarks_without_answers(folder: Path) -> list[str]:
    """Return the names of the benchmarks of a run whose ground truths exist, but not on this machine.

    [] if there are none.
    """
    uses = read_manifest(folder).benchmarks
    return [use.name for use in uses if not has_answers(reopen_benchmark(use, folder).folder)]


def _load_kept_scoring(
    folder: Path,
    settings: ScoringSettings,
    absent: Sequence[str],
    announce: Announce,
    may_use_stored: bool,
) -> ScoredRun:
    """Return the stored scoring of a run whose ground truths are missing.

    Args:
        folder: The folder of the run.
        settings: The scoring settings that the user asked for.
        absent: Names of the benchmarks whose ground truths are missing.
        announce: Receives a line for the user.
        may_use_stored: Whether a stored scoring may be returned instead of scoring.

    Raises:
        DataError: There is no stored scoring with these settings, or it may not be returned.
    """
    names = ", ".join(absent)
    is_kept = settings.name in scoring_names(folder)
    if not is_kept or not may_use_stored:
        opening = for_caller(
            f"`snellen report {shell_word(folder)}`", f"sn.load_run({str(folder)!r})"
        )
        remedy = f"use {opening} to show the saved scores, or " if is_kept else ""
        packing = for_caller(
            "`snellen pack --answers`", "on the command line: `snellen pack --answers`"
        )
        raise DataError(
            f"cannot score {folder}, because the answers of {names} are not available in the version that was "
            f"run{_describe_rebuilds(folder, absent)}: {remedy}rebuild that version (for your own table, from the table "
            f"as it was then), or pack the run with its answers ({packing})"
        )
    announce(
        f"{folder}: the answers of {names} are not available{_describe_rebuilds(folder, absent)}; these are the scores "
        "saved for these settings"
    )
    return load_scoring(folder, settings.name)


def announce_changed_answers(
    folder: Path, benchmarks: Iterable[Benchmark], announce: Announce
) -> None:
    """Announce the benchmarks whose ground truths have changed since the run."""
    changed = changed_answers(folder, benchmarks)
    if changed:
        names = ", ".join(changed)
        announce(
            f"{folder}: the answers of {names} have changed since the run; it is scored with the current ones"
        )


def _describe_rebuilds(folder: Path, names: Sequence[str]) -> str:
    """Return, in brackets, which benchmarks of a run have been rebuilt since; empty if none."""
    since = []
    for use in read_manifest(folder).benchmarks:
        with suppress(DataError):  # nothing is there, or it is damaged
            manifest = Benchmark(Path(use.folder)).manifest
            if use.name not in names or manifest.version == use.version:
                continue
            since.append(
                f"{use.name} was rebuilt since: the run used version {use.version}, now it is {manifest.version}"
            )
            sources = other_source(use.name, use.origin, manifest.build_info.origin)
            if sources:
                since.append(sources)
    return f" ({'; '.join(since)})" if since else ""


# --- the command that goes on with a run ------------------------------------------------------------------------------


def command_to_go_on(folder: Path, manifest: RunManifest) -> str:
    """Return the `snellen run` command that continues a run with the settings of its last session.

    Returns:
        The command; empty if the run was made by another program, or if its model is a Python object.
    """
    if not manifest.question_specs or not manifest.executed or not names_model(manifest.model):
        return ""
    question = manifest.question_specs[-1]
    execution = manifest.executed[-1]
    arguments = [
        manifest.model,
        *question.benchmarks,
        *_flags(question, but=("models", "benchmarks")),
    ]
    arguments += _flags(execution, but=("name", "runs", "moved"))
    runs = ["--runs", str(folder.parent)] if folder.parent != Path("runs") else []
    return shlex.join(["snellen", "run", *arguments, *runs, "--name", folder.name])


def _flags(record: Struct, but: tuple[str, ...]) -> Iterator[str]:
    """Yield the command-line arguments for those settings of a record that differ from their defaults.

    Args:
        record: The settings.
        but: Names of settings to leave out.
    """
    for name, field in record_fields(type(record)).items():
        value = getattr(record, name)
        if name not in but and value != field.default:
            yield from _arguments_of_field(field, value)


def _arguments_of_field(field: RecordField, value: Any) -> Iterator[str]:
    """Yield the command-line arguments that set a field to a value: `--limit` and `100`, or just `--no-report`.

    A judging function among the metrics has the flag --judge.
    """
    if isinstance(value, bool):
        yield field.flag if value else f"--no-{field.flag.removeprefix('--')}"
        return
    if isinstance(value, Mapping):
        values = [f"{key}={item}" for key, item in value.items()]
    elif field.is_table:
        values = [f"{name}={item}" for name, item in value]
    elif field.is_list:
        values = [str(item) for item in value]
    elif isinstance(value, tuple):
        values = [",".join(map(str, value))]
    else:
        values = [str(value)]
    for text in values:
        judging_function = judging_code(text)
        if judging_function:
            yield "--judge"
            yield judging_function
        else:
            yield field.flag
            yield text
