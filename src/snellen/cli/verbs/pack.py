"""`snellen pack`"""

from __future__ import annotations

from pathlib import Path

import click

from snellen.cli.show import announce, out
from snellen.interchange.exports.packing import pack_run


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The zip file to write.  [RUN.zip, here]")
@click.option("--pictures", is_flag=True, help="With the pictures of the questions.")
@click.option(
    "--answers", is_flag=True, help="With the answers, and what else holds them: reports, what judges were asked."
)
def command(run: Path, output: Path | None, pictures: bool, answers: bool) -> None:
    """Pack a RUN into one file to send: questions as asked, requests, replies and scores.

    \b
      snellen pack runs/x --pictures
      snellen pack runs/x --answers -o x-with-answers.zip

    Unpacked, it is a run that `snellen report` shows on any machine, without the benchmark. Answers are left out
    unless asked for; with them it can be scored again. docs/runs.md says more.
    """
    packed = pack_run(run, output or Path(f"{run.resolve().name}.zip"), pictures=pictures, answers=answers)
    if packed.left_out:
        announce(f"left out, as they hold golds: {', '.join(packed.left_out)} (--answers brings them)")
    brought = [f"{packed.pictures:,} pictures"] if pictures else []
    brought += [f"the answers of {', '.join(packed.answers) or 'none: they are hidden'}"] if answers else []
    out.print(f"wrote {packed.path}: {', '.join([f'{packed.files:,} files', *brought])}", soft_wrap=True)
