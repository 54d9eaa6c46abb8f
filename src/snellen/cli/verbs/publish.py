"""`snellen publish`"""

from __future__ import annotations

import os
from pathlib import Path

import click

from snellen import __version__
from snellen.cli.show import out
from snellen.errors import DataError
from snellen.interchange.predictions.publishing import BoardHere, LeaderboardClient, PackedPredictions, pack_predictions

TOKEN = "SNELLEN_TOKEN"  # noqa: S105


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--to", "url", required=True, metavar="URL", help="The server, such as https://HOST.")
@click.option("--board", default="", help="Which one.  [the one that has the benchmarks of the run]")
@click.option("--protocol", default="", help="Whose replies.  [the only one]")
@click.option("--model", default="", help="What to call the model.  [as the run does]")
@click.option("--organisation", default="", help="Whose model it is, as you declare it.")
@click.option("--parameters", default="", help="Its size, such as 7B.")
@click.option("--address", default="", help="Of a paper or a model card.")
@click.option("--remark", default="", help="What readers should know.")
@click.option("--public", "is_public", is_flag=True, help="Show the entry to everybody when it is scored.")
def command(
    run: Path,
    url: str,
    board: str,
    protocol: str,
    model: str,
    organisation: str,
    parameters: str,
    address: str,
    remark: str,
    is_public: bool,
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
        raise DataError(f"the environment variable {TOKEN} is not set; put an API key of the server into it")
    packed = pack_predictions(run, protocol)
    client = LeaderboardClient(url, token)
    chosen = _board(client.boards(), board, packed)
    fields = {
        "model": model or packed.manifest.model,
        "organisation": organisation,
        "parameters": parameters,
        "address": address,
        "remark": remark,
        "software": f"Snellen {__version__}, {packed.protocol}",
        "is_public": str(is_public).lower(),
    }
    submission = client.submit(chosen.name, packed.content, fields)
    out.print(f"{packed.rows:,} predictions sent to {chosen.title}: {client.url}{submission.address}", soft_wrap=True)


def _board(boards: list[BoardHere], name: str, packed: PackedPredictions) -> BoardHere:
    """The board of this name, or the only one with the benchmarks of the run, with the same questions."""
    benchmark_names = set(packed.questions)
    fitting = [
        candidate
        for candidate in boards
        if candidate.name == name or (not name and {b.name for b in candidate.benchmarks} == benchmark_names)
    ]
    if len(fitting) != 1:
        board_list = (
            "; ".join(f"{candidate.name} ({', '.join(b.name for b in candidate.benchmarks)})" for candidate in boards)
            or "none"
        )
        raise DataError(f"name the board that this run is for with --board; the server has {board_list}")
    [board] = fitting
    for benchmark in board.benchmarks:
        questions = packed.questions.get(benchmark.name)
        if questions is None:
            raise DataError(f"the board {board.name} asks for {benchmark.name}, which this run has not asked")
        if questions[:12] != benchmark.questions:
            raise DataError(
                f"the server's {benchmark.name} has other questions ({benchmark.questions}) than this run asked "
                f"({questions[:12]}); build the same version and run it again"
            )
    return board
