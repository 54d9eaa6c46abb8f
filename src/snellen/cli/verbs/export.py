"""`snellen export`, `pack`, `submit` and `publish`: runs for other tools, machines and servers."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from snellen import __version__
from snellen.api import export_benchmark
from snellen.building.benchmark import MANIFEST, Benchmark
from snellen.catalogue import entries
from snellen.catalogue.forms import submission_writer
from snellen.cli.flags import PATH, stored_scoring_flag
from snellen.cli.show import announce, announce_next, command_line, console
from snellen.cli.signatures import verify_flag, verify_runs
from snellen.common.late import import_hub
from snellen.common.paths import benchmark_folder, shell_word, slug
from snellen.errors import DataError, StoreError, UnknownNameError
from snellen.experiments.results import Results
from snellen.experiments.scored_folders import (
    check_named_once,
    open_stored,
    scoring_for_all,
    with_replies,
)
from snellen.formats.packed_files import RECEIVED
from snellen.formats.rows import is_row_file
from snellen.interchange.exports.base import Exporter
from snellen.interchange.exports.packing import pack_benchmark, pack_runs
from snellen.interchange.exports.pushing import push_dataset
from snellen.interchange.publishing import (
    BoardHere,
    LeaderboardClient,
    PackedPredictions,
    pack_predictions,
)
from snellen.registry import find_registered
from snellen.runs.finding import open_benchmark
from snellen.runs.run_folder import RUN_MANIFEST, only_run_in, read_manifest, runs_in
from snellen.scoring.kept_scoring import load_scoring
from snellen.scoring.run_scoring import missing_metric
from snellen.scoring.scored_run import ScoredRun


@click.command()
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "--as", "form", help="Format: see `snellen list exporters`.  [samples; with --track none]"
)
@click.option(
    "-o",
    "--output",
    type=PATH,
    help="File or folder to write.  [named after the run, or replies.SUFFIX for several, in this folder]",
)
@stored_scoring_flag
@click.option("--images", is_flag=True, help="Include images if the format supports them.")
@click.option(
    "--answers", is_flag=True, help="Include ground truth in formats meant for publication."
)
@click.option(
    "--track",
    "trackers",
    multiple=True,
    metavar="TRACKER:PLACE",
    help="Log to an experiment tracker: mlflow:URI, wandb:PROJECT, trackio:PROJECT. Repeat for "
    "more.",
)
@click.option(
    "--push",
    metavar="OWNER/NAME",
    help="Push the written dataset to this repository on the hub.",
)
@click.option("--private", is_flag=True, help="Make the repository created by --push private.")
def export_command(
    runs: tuple[str, ...],
    form: str | None,
    output: Path | None,
    stored_scoring: str | None,
    images: bool,
    answers: bool,
    trackers: tuple[str, ...],
    push: str | None,
    private: bool,
) -> None:
    """Export scored RUNS as one table or for other tools, or export a built benchmark as a dataset.

    \b
      snellen export runs/x -o samples.csv
      snellen export runs/x --as inspect -o logs
      snellen export runs/x --track mlflow:sqlite:///mlflow.db
      snellen export eyechart/shape --as dataset --push NAME/shapes --private

    The table has a row for each reply. The suffix of the file decides: .csv, .xlsx, .jsonl or .parquet. The command
    neither calls the model nor scores again: it writes what `snellen score` stored. docs/exports.md describes all
    formats.
    """
    if private and not push:
        raise DataError("--private applies to the repository that --push creates; add --push")
    form_name = form or "samples"
    if form_name in ("latex", "tex", "markdown", "md"):
        suffix = ".md" if form_name in ("markdown", "md") else ".tex"
        report = command_line("report", *map(str, runs), "-o", f"results{suffix}")
        raise DataError(
            f"an export has the replies; the numbers as a table are written by {report}"
        )
    exporter: Exporter = find_registered("exporters", form_name)
    if push:
        if not exporter.for_hub:
            raise DataError(
                f"--push uploads datasets to the hub, not {form_name}; add --as dataset"
            )
        import_hub("--push")
    files: list[Path] = []
    folders: list[Path] = []
    if exporter.write_benchmark is None and not trackers:
        _check_not_a_benchmark(runs, form_name)
    if len(runs) == 1 and _is_benchmark(runs[0], exporter):
        if trackers:
            raise DataError(f"{runs[0]} is a benchmark, but --track logs runs")
        files = export_benchmark(runs[0], form_name, output, answers=answers)
    else:
        folders = runs_in(runs)
        check_named_once(folders)
        folders = with_replies(folders, announce)
        results = Results(_scored_runs(folders, stored_scoring))
        for target in trackers:
            for line in results.track(target):
                console.print(line, soft_wrap=True, markup=False)
        if form or output or not trackers:
            files = results.export(form_name, output, images=images, answers=answers)
    for path in files:
        console.print(str(path), soft_wrap=True)
    if push:
        folder = files[-1].parent  # that of the card
        console.print(push_dataset(folder, push, private=private), soft_wrap=True)
    elif folders:
        report = command_line("report", *runs)
        announce_next(f"{report} writes the numbers with charts and samples")
    elif exporter.for_hub:
        again = command_line("export", *runs, "--as", form_name, "--push", "OWNER/NAME")
        announce_next(f"{again} uploads it to the hub")


def _scored_runs(folders: Sequence[Path], stored_scoring: str | None) -> list[ScoredRun]:
    """Return runs with the scores of their last scoring, and print which runs are left out.

    If there are several runs, those without scores or with a metric that is not installed are left out, because a single
    failed run should not prevent the export of the others.

    Args:
        folders: The folders of the runs.
        stored_scoring: The scoring that the user chose by `--scoring`. All runs must have it.

    Raises:
        StoreError: No run was scored, or a run lacks the chosen scoring.
    """
    if stored_scoring is not None or len(folders) == 1:
        return open_stored(folders, stored_scoring, announce)
    scored_folders: list[Path] = []
    for folder in folders:
        try:
            scored = load_scoring(folder)
        except StoreError as error:
            announce(f"left out: {error}")
            continue
        missing = missing_metric(scored)
        if missing:
            announce(f"left out: {folder}: {missing}")
        else:
            scored_folders.append(folder)
    if not scored_folders:
        raise StoreError(f"none of the {len(folders)} runs can be exported, for the reasons above")
    return open_stored(scored_folders, scoring_for_all(scored_folders, announce), announce)


def _is_benchmark(name: str, exporter: Exporter) -> bool:
    """Return whether an argument means a benchmark, and not the folder of a run.

    Args:
        name: The argument.
        exporter: The format. If it can write benchmarks, any name that is not an existing path counts as a
            benchmark.
    """
    if (Path(name) / MANIFEST).exists():
        return True
    return exporter.write_benchmark is not None and not Path(name).exists()


def _check_not_a_benchmark(names: Sequence[str], form_name: str) -> None:
    """Raise DataError if a name is that of a built benchmark, while the format can only write replies of runs.

    If the folder `runs` has a run of this name, the user probably means the run; then this check passes, and the
    next error names it.
    """
    for name in names:
        if Path("runs", name, RUN_MANIFEST).exists():
            continue
        is_built = (Path(name) / MANIFEST).exists() or (
            not Path(name).exists() and (benchmark_folder(name) / MANIFEST).exists()
        )
        if is_built:
            line = shlex.join(("snellen", "export", name, "--as", "dataset"))
            raise DataError(
                f"{name} is a built benchmark, but --as {form_name} writes the replies of runs; `{line}` writes its "
                "questions"
            )


@click.command()
@click.argument("runs", type=PATH, nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=PATH,
    help="Zip file to write.  [RUN.zip, or runs.zip for several runs, in this folder]",
)
@click.option("--images", is_flag=True, help="Include the images of the questions.")
@click.option(
    "--answers",
    is_flag=True,
    help="Include the answers and everything that contains them: reports, judge prompts.",
)
@click.option(
    "--sign",
    type=PATH,
    metavar="KEY",
    help="Sign with this SSH key, such as ~/.ssh/id_ed25519.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace the file even if it has answers that the new one leaves out, or something else.",
)
def pack_command(
    runs: tuple[Path, ...],
    output: Path | None,
    images: bool,
    answers: bool,
    sign: Path | None,
    force: bool,
) -> None:
    """Pack RUNS, or a built benchmark, into one file to share.

    \b
      snellen pack runs/x --images
      snellen pack runs/x runs/y --answers -o both-with-answers.zip
      snellen pack questions --answers
      snellen pack runs/x --sign ~/.ssh/id_ed25519

    The file contains the questions as sent, the requests, the replies and the scores. `snellen report` can show an
    unpacked run on any machine, without the benchmark. --answers includes the answers, so that others can score the run
    again. See docs/runs.md.

    A benchmark, given by its name or folder, is packed with its images, so that models can be run on it anywhere. If
    you leave the answers out, these runs can be scored only where the answers are. See docs/sharing.md.

    --sign adds the digest of each file and your signature. Who has your public key checks both with --verify, a flag of
    `snellen view`, `score` and `publish`. Signing uses the program ssh-keygen, and nothing is sent anywhere.
    """
    if sign is not None:
        sign = sign.expanduser()
    if len(runs) == 1 and not (runs[0] / RUN_MANIFEST).exists():
        benchmark = _built_benchmark(str(runs[0]))
        if benchmark is not None:
            _pack_benchmark(benchmark, output, answers=answers, sign=sign, may_replace=force)
            return
    _check_runs(runs)
    runs = tuple(runs_in(runs))
    check_named_once(runs)
    path = output or Path(f"{runs[0].resolve().name if len(runs) == 1 else 'runs'}.zip")
    packed = pack_runs(runs, path, images=images, answers=answers, sign=sign, may_replace=force)
    if packed.left_out:
        announce(
            f"not packed, because they reveal the correct answers: {', '.join(packed.left_out)} (--answers "
            "includes them); a reply scored as correct still reveals the answer to its question"
        )
    has_no_answers = not answers and "answers" not in packed.left_out
    contents = [f"{packed.files:,} files"]
    if images:
        contents.append(f"{packed.images:,} images")
    if answers and packed.answers:
        contents.append(f"the answers of {', '.join(packed.answers)}")
    elif answers:
        contents.append("no answers, because they are hidden")
    if sign is not None:
        contents.append("signed")
    console.print(f"wrote {packed.path}: {', '.join(contents)}", soft_wrap=True)
    unpack = shlex.join(("python", "-m", "zipfile", "-e", path.name, RECEIVED))
    if has_no_answers:
        names = " ".join(shell_word(f"{RECEIVED}/{run.resolve().name}") for run in runs)
        announce(
            "the answers are not on this machine; to have the replies scored, send the file to the author of the "
            f"questions, who runs `{unpack}`, then `snellen score {names}`"
        )
        return
    announce(f"to open it on another machine, run `{unpack}`, then `snellen view {RECEIVED}`")


def _check_runs(runs: Sequence[Path]) -> None:
    """Check that all paths to pack are runs.

    Raises:
        DataError: A path is a table, from which a benchmark must be built first; or one of several paths is a
            benchmark, which must be packed by itself.
    """
    for path in runs:
        if path.is_file() and is_row_file(path):
            word = shell_word(str(path))
            raise DataError(
                f"{path} is a table; first build a benchmark from it with `snellen build {word}`, then pack that: "
                f"`snellen pack {shell_word(path.stem)}`"
            )
    for path in runs:
        is_benchmark = (path / MANIFEST).exists() or (
            not (path / RUN_MANIFEST).exists() and (benchmark_folder(str(path)) / MANIFEST).exists()
        )
        if is_benchmark and len(runs) > 1:
            raise DataError(
                f"{path} is a benchmark, and only runs are packed together; pack it by itself: "
                f"`snellen pack {shell_word(str(path))}`"
            )


def _built_benchmark(name: str) -> Benchmark | None:
    """Return the benchmark with a name or in a folder; None if there is none.

    A benchmark of the catalogue that is not built yet is built now.
    """
    if Path(name).exists() and not (Path(name) / MANIFEST).exists():
        return None
    try:
        return open_benchmark(name, announce)
    except UnknownNameError:
        return None


def _pack_benchmark(
    benchmark: Benchmark,
    output: Path | None,
    *,
    answers: bool,
    sign: Path | None,
    may_replace: bool,
) -> None:
    """Pack a benchmark into a zip file, signed if `sign` is a key, and print how to unpack it elsewhere."""
    path = output or Path(f"{slug(benchmark.name)}.zip")
    packed = pack_benchmark(benchmark, path, answers=answers, sign=sign, may_replace=may_replace)
    contents = "with answers" if packed.has_answers else "without answers (--answers includes them)"
    if sign is not None:
        contents += ", signed"
    console.print(
        f"wrote {packed.path}: {benchmark.count():,} questions, {packed.images:,} images, {contents}",
        soft_wrap=True,
    )
    unpack = shlex.join(("python", "-m", "zipfile", "-e", path.name, RECEIVED))
    announce(
        f"to use it on another machine, run `{unpack}`, then `snellen run MODEL {RECEIVED}/{packed.folder}`"
    )


@click.command()
@click.argument("run", type=PATH)
@click.option(
    "--format",
    "form",
    default="",
    help="Submission format of a suite.  [the suite's own, or the only one]",
)
@click.option(
    "-o",
    "--output",
    type=PATH,
    help="File to write: .json, or a table (.xlsx, .tsv, .csv, .jsonl) if the format is one.",
)
@click.option("--benchmark", default="", help="Benchmark to use, if the run has several.")
@click.option(
    "--protocol",
    default="",
    help="Protocol to take the replies from.  [circular with all passes, circular, vanilla, "
    "likelihood]",
)
@click.option(
    "--partial", is_flag=True, help="Write the file even if rows are missing, and list them."
)
def submit_command(
    run: Path, form: str, output: Path | None, benchmark: str, protocol: str, partial: bool
) -> None:
    """Write the replies of a RUN to a file that you can submit to an evaluation server.

    \b
      snellen run MODEL mmbench/test-en -p 'circular?all_passes=true' --name x
      snellen submit runs/x -o x_MMBench_TEST_EN.xlsx
      snellen run MODEL docvqa-test --name y
      snellen submit runs/y -o y_docvqa.json

    MMBench's file has one row per rotation, with the index of the official file, the options in the order of that row,
    and the reply. The command reads the file back to check that every text is unchanged, and stops if the format cannot
    hold a text. The files of VQA v2, TextVQA, VizWiz, DocVQA, InfographicVQA, ST-VQA and MMMU have one answer per
    question. See docs/submit.md.
    """
    run = only_run_in(run)
    benchmarks = [benchmark] if benchmark else [use.name for use in read_manifest(run).benchmarks]
    write_submission = submission_writer(form, benchmarks)
    if output is None:
        name = shell_word(run.resolve().name)
        raise DataError(
            f"name the file to write: add -o {name}.json, or -o {name}.xlsx if the server takes a table (docs/submit.md)"
        )
    submission = write_submission(
        run, output, benchmark=benchmark, protocol=protocol, partial=partial
    )
    if not form and submission.benchmark not in entries():
        announce(
            f"{submission.benchmark} is a benchmark of your own, for which no server is known: the file has the columns of "
            "another benchmark's submissions; `snellen export` writes a plain table"
        )
    if submission.missing:
        announce(f"missing rows: {submission.missing}")
    if submission.empty:
        announce(f"empty replies: {submission.empty:,}")
    console.print(
        f"wrote {output}: {submission.rows:,} rows of {submission.benchmark} by {submission.protocol}",
        soft_wrap=True,
    )


TOKEN = "SNELLEN_TOKEN"  # noqa: S105


@click.command()
@click.argument("run", type=PATH)
@click.option(
    "--to", "url", required=True, metavar="URL", help="URL of the server, such as https://HOST."
)
@click.option(
    "--board", default="", help="Leaderboard to use.  [the one that has the benchmarks of the run]"
)
@click.option("--protocol", default="", help="Protocol to take the replies from.  [the only one]")
@click.option(
    "--model", default="", help="Name of the model on the leaderboard.  [the name in the run]"
)
@click.option("--organisation", default="", help="Organisation that made the model.")
@click.option("--parameters", default="", help="Size of the model, such as 7B.")
@click.option("--address", default="", help="URL of a paper or a model card.")
@click.option("--remark", default="", help="Note for readers.")
@click.option(
    "--public", "is_public", is_flag=True, help="Make the entry public when it is scored."
)
@verify_flag
def publish_command(
    run: Path,
    url: str,
    board: str,
    protocol: str,
    is_public: bool,
    signers: Path | None,
    **declared: str,
) -> None:
    """Submit a RUN to the leaderboard of a Snellen server, which scores it with answers that only the server has.

    \b
      export SNELLEN_TOKEN=snl_...        # from your account page, with the scope `submit`
      snellen publish runs/x --to https://HOST --public

    The command sends the replies, the ids of their questions, and the options in the order that the model saw. It does
    not send answers, scores, prompts or images.
    """
    run = only_run_in(run)
    verify_runs([run], signers, with_scores=False)
    token = os.environ.get(TOKEN, "").strip()
    if not token:
        raise DataError(
            f"the environment variable {TOKEN} is not set; set it to an API key of the server"
        )
    questions = {use.name: use.questions for use in read_manifest(run).benchmarks}
    client = LeaderboardClient(url, token)
    chosen_board = _board(client.boards(), board, questions)
    packed = pack_predictions(
        run, protocol, [benchmark.name for benchmark in chosen_board.benchmarks]
    )
    _check_complete(packed, chosen_board)
    fields = {
        **declared,
        "model": declared["model"] or packed.manifest.model,
        "software": f"Snellen {__version__}, {packed.protocol}",
        "is_public": str(is_public).lower(),
    }
    submission = client.submit(chosen_board.name, packed.content, fields)
    console.print(
        f"{packed.rows:,} predictions sent to {chosen_board.title}: {client.url}{submission.address}",
        soft_wrap=True,
    )


def _board(boards: list[BoardHere], name: str, run_questions: Mapping[str, str]) -> BoardHere:
    """Return the leaderboard for a run: the one of this name or, without a name, the only one with its benchmarks.

    Args:
        boards: The leaderboards of the server.
        name: The name that the user gave, or "".
        run_questions: For each benchmark of the run, the digest of its questions.

    Raises:
        DataError: No board or several boards fit, or the board has other questions.
    """
    fitting: list[BoardHere] = []
    descriptions: list[str] = []
    for candidate in boards:
        benchmark_names = [benchmark.name for benchmark in candidate.benchmarks]
        descriptions.append(f"{candidate.name} ({', '.join(benchmark_names)})")
        has_same_benchmarks = set(benchmark_names) == set(run_questions)
        if candidate.name == name or (not name and has_same_benchmarks):
            fitting.append(candidate)
    if len(fitting) != 1:
        board_list = "; ".join(descriptions) or "none"
        raise DataError(
            f"choose the leaderboard for this run with --board; the server has {board_list}"
        )
    [board] = fitting
    for benchmark in board.benchmarks:
        questions = run_questions.get(benchmark.name)
        if questions is None:
            raise DataError(
                f"the leaderboard {board.name} requires {benchmark.name}, which this run does not contain"
            )
        if questions[:12] != benchmark.questions:
            raise DataError(
                f"{benchmark.name} has different questions on the server ({benchmark.questions}) than in this run "
                f"({questions[:12]}); build the server's version and run it again"
            )
    return board


def _check_complete(packed: PackedPredictions, board: BoardHere) -> None:
    """Check that the predictions of a run have all that a leaderboard requires.

    Args:
        packed: The predictions.
        board: The leaderboard.

    Raises:
        DataError: Questions are missing, or the number of replies to each question is another one.
    """
    for benchmark in board.benchmarks:
        n_questions = packed.questions_by_benchmark.get(benchmark.name, 0)
        if n_questions != benchmark.n_questions:
            raise DataError(
                f"the leaderboard {board.name} requires all {benchmark.n_questions:,} questions of "
                f"{benchmark.name}, but this run contains {n_questions:,}; run it without --limit and --where"
            )
    if packed.replies_each != (board.presentations,):
        counts = " or ".join(str(count) for count in packed.replies_each)
        protocol = "vanilla"
        if board.presentations > 1:
            protocol = f"instability?m={board.presentations}"
        raise DataError(
            f"the leaderboard {board.name} accepts {board.presentations} replies to each question, but under "
            f"{packed.protocol} this run has {counts}; run it with -p '{protocol}'"
        )
