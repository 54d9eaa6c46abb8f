"""`snellen export`, `pack`, `submit` and `publish`: runs for other tools, machines and servers."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

import click

from snellen import __version__
from snellen.api import export_benchmark
from snellen.building.benchmark import MANIFEST
from snellen.catalogue.forms import submission_writer
from snellen.cli.flags import PATH
from snellen.cli.show import announce, out
from snellen.common.late import import_hub
from snellen.errors import DataError
from snellen.experiments.results import Results
from snellen.interchange.exports.base import Exporter
from snellen.interchange.exports.packing import pack_runs
from snellen.interchange.exports.pushing import push_dataset
from snellen.interchange.predictions.publishing import (
    BoardHere,
    LeaderboardClient,
    PackedPredictions,
    pack_predictions,
)
from snellen.registry import find
from snellen.runs.run_folder import RECEIVED, read_manifest
from snellen.scoring.kept_scoring import load_scoring


@click.command()
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "--as", "form", help="Format: see `snellen list exporters`.  [samples; with --track none]"
)
@click.option("-o", "--output", type=PATH, help="File or folder to write.  [by run and form, here]")
@click.option(
    "--scoring", help="Scoring of the run: a folder under its `scores`.  [the standard one]"
)
@click.option("--pictures", is_flag=True, help="Include images if the format supports them.")
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
    scoring: str | None,
    pictures: bool,
    answers: bool,
    trackers: tuple[str, ...],
    push: str | None,
    private: bool,
) -> None:
    """Write scored RUNS for other tools, or as one table; or a built benchmark as a dataset.

    \b
      snellen export runs/x -o samples.parquet
      snellen export runs/x --as inspect -o logs
      snellen export runs/x --track mlflow:sqlite:///mlflow.db
      snellen export eyechart/shape --as dataset --push NAME/shapes --private

    Nothing is asked or scored: a run is written as `snellen score` left it. docs/exports.md shows all forms.
    """
    if private and not push:
        raise DataError("--private is of a repository that --push makes; name it too")
    form_name = form or "samples"
    exporter: Exporter = find("exporters", form_name)
    if push:
        if not exporter.for_hub:
            raise DataError(
                f"--push is for datasets of the hub, not for {form_name}; write them with --as dataset"
            )
        import_hub("--push")
    files: list[Path] = []
    if len(runs) == 1 and _is_benchmark(runs[0], exporter):
        if trackers:
            raise DataError(f"{runs[0]} is a benchmark, and --track logs runs")
        files = export_benchmark(runs[0], form_name, output, answers=answers)
    else:
        results = Results([load_scoring(Path(run), scoring) for run in runs])
        for target in trackers:
            for line in results.track(target):
                out.print(line, soft_wrap=True, markup=False)
        if form or output or not trackers:
            files = results.export(form_name, output, pictures=pictures, answers=answers)
    for path in files:
        out.print(str(path), soft_wrap=True)
    if push:
        folder = files[-1].parent  # that of the card
        out.print(push_dataset(folder, push, private=private), soft_wrap=True)


def _is_benchmark(name: str, exporter: Exporter) -> bool:
    """Whether a name is that of a built benchmark, and not of the folder of a run."""
    return (Path(name) / MANIFEST).exists() or (
        exporter.write_benchmark is not None and not Path(name).exists()
    )


@click.command()
@click.argument("runs", type=PATH, nargs=-1, required=True)
@click.option(
    "-o", "--output", type=PATH, help="Zip file to write.  [RUN.zip, of several runs.zip, here]"
)
@click.option("--pictures", is_flag=True, help="Include the images of the questions.")
@click.option(
    "--answers",
    is_flag=True,
    help="Include the answers and everything that contains them: reports, judge prompts.",
)
def pack_command(
    runs: tuple[Path, ...], output: Path | None, pictures: bool, answers: bool
) -> None:
    """Pack RUNS into one file to send: questions as asked, requests, replies and scores.

    \b
      snellen pack runs/x --pictures
      snellen pack runs/x runs/y --answers -o both-with-answers.zip

    Unpacked, each is a run that `snellen report` shows on any machine, without the benchmark. Answers are left out
    unless asked for; with them it can be scored again. docs/runs.md says more.
    """
    path = output or Path(f"{runs[0].resolve().name if len(runs) == 1 else 'runs'}.zip")
    packed = pack_runs(runs, path, pictures=pictures, answers=answers)
    if packed.left_out:
        announce(
            f"left out, because they show the right answers: {', '.join(packed.left_out)} (--answers packs them too); "
            "a reply that was scored as right still shows the answer of its question"
        )
    brought = [f"{packed.pictures:,} pictures"] if pictures else []
    brought += (
        [f"the answers of {', '.join(packed.answers) or 'none: they are hidden'}"]
        if answers
        else []
    )
    out.print(
        f"wrote {packed.path}: {', '.join([f'{packed.files:,} files', *brought])}", soft_wrap=True
    )
    unpack = shlex.join(("python", "-m", "zipfile", "-e", path.name, RECEIVED))
    announce(f"to open it on another machine: `{unpack}`, then `snellen view {RECEIVED}`")


@click.command()
@click.argument("run", type=PATH)
@click.option(
    "--format",
    "form",
    default="",
    help="Submission format of a suite.  [its own, or the only one]",
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=PATH,
    help="File to write: .xlsx, .tsv, .csv, .json or .jsonl.",
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
    run: Path, form: str, output: Path, benchmark: str, protocol: str, partial: bool
) -> None:
    """Write the replies of a RUN as the file that an evaluation server takes.

    \b
      snellen run MODEL mmbench/test-en -p 'circular?all_passes=true' --name x
      snellen submit runs/x -o x_MMBench_TEST_EN.xlsx

    One row per rotation, with the official file's own indexes, its options as that row shows them, and the reply. Every
    text is written unchanged and read back; what the form cannot hold is refused. docs/mmbench.md says more.
    """
    benchmarks = [benchmark] if benchmark else [use.name for use in read_manifest(run).benchmarks]
    submission = submission_writer(form, benchmarks)(
        run, output, benchmark=benchmark, protocol=protocol, partial=partial
    )
    if submission.missing:
        announce(f"left out: {submission.missing}")
    if submission.empty:
        announce(f"empty replies: {submission.empty:,}")
    out.print(
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
def publish_command(
    run: Path, url: str, board: str, protocol: str, is_public: bool, **declared: str
) -> None:
    """Submit a RUN to the leaderboard of a Snellen server, which scores it by answers that only it has.

    \b
      export SNELLEN_TOKEN=snl_...        # of your account's page, with the scope `submit`
      snellen publish runs/x --to https://HOST --public

    Replies are sent with the ids of their questions and the options in the order that was shown: no answers, scores,
    prompts or pictures.
    """
    token = os.environ.get(TOKEN, "").strip()
    if not token:
        raise DataError(
            f"the environment variable {TOKEN} is not set; put an API key of the server into it"
        )
    questions = {use.name: use.questions for use in read_manifest(run).benchmarks}
    client = LeaderboardClient(url, token)
    chosen = _board(client.boards(), board, questions)
    packed = pack_predictions(run, protocol, [benchmark.name for benchmark in chosen.benchmarks])
    _check_whole(packed, chosen)
    fields = {
        **declared,
        "model": declared["model"] or packed.manifest.model,
        "software": f"Snellen {__version__}, {packed.protocol}",
        "is_public": str(is_public).lower(),
    }
    submission = client.submit(chosen.name, packed.content, fields)
    out.print(
        f"{packed.rows:,} predictions sent to {chosen.title}: {client.url}{submission.address}",
        soft_wrap=True,
    )


def _board(boards: list[BoardHere], name: str, run_questions: Mapping[str, str]) -> BoardHere:
    """The board of this name, or the only one with the benchmarks of the run, with the same questions, of which a run
    has the digest by benchmark."""
    benchmark_names = set(run_questions)
    fitting = [
        candidate
        for candidate in boards
        if candidate.name == name
        or (not name and {b.name for b in candidate.benchmarks} == benchmark_names)
    ]
    if len(fitting) != 1:
        board_list = (
            "; ".join(
                f"{candidate.name} ({', '.join(b.name for b in candidate.benchmarks)})"
                for candidate in boards
            )
            or "none"
        )
        raise DataError(
            f"name the board that this run is for with --board; the server has {board_list}"
        )
    [board] = fitting
    for benchmark in board.benchmarks:
        questions = run_questions.get(benchmark.name)
        if questions is None:
            raise DataError(
                f"the board {board.name} asks for {benchmark.name}, which this run has not asked"
            )
        if questions[:12] != benchmark.questions:
            raise DataError(
                f"the server's {benchmark.name} has other questions ({benchmark.questions}) than this run asked "
                f"({questions[:12]}); build the same version and run it again"
            )
    return board


def _check_whole(packed: PackedPredictions, board: BoardHere) -> None:
    """Raises DataError for what the board would refuse: questions left out, or another number of replies to each."""
    for benchmark in board.benchmarks:
        if (count := packed.asked.get(benchmark.name, 0)) != benchmark.n_questions:
            raise DataError(
                f"the board {board.name} asks all {benchmark.n_questions:,} questions of {benchmark.name}, and this "
                f"run has asked {count:,}; run it without --limit and --where"
            )
    if packed.replies_each != (board.presentations,):
        counts = " or ".join(map(str, packed.replies_each))
        fitting = "vanilla" if board.presentations == 1 else f"instability?m={board.presentations}"
        raise DataError(
            f"the board {board.name} takes {board.presentations} of the replies to each question, and by "
            f"{packed.protocol} this run has {counts}; run it with -p '{fitting}'"
        )
