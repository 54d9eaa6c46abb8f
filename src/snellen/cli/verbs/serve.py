"""`snellen view` and `snellen worker`: what answers a browser, or runs elsewhere, until Ctrl-C."""

from __future__ import annotations

from pathlib import Path

import click

from snellen.cli.flags import PATH, IntegerParameter
from snellen.cli.show import console
from snellen.cli.signatures import verify_flag, verify_runs
from snellen.errors import ModelError


@click.command()
@click.argument("runs", nargs=-1, type=PATH)
@click.option(
    "--port", default=7878, type=IntegerParameter(0, 65535), help="Port, 0 for a free one.  [7878]"
)
@click.option("--open/--no-open", "opens", help="Open the page in a browser.  [no]")
@click.option(
    "--read-only", is_flag=True, help="Do not allow notes or starting runs from the pages."
)
@verify_flag
def view_command(
    runs: tuple[Path, ...], port: int, opens: bool, read_only: bool, signers: Path | None
) -> None:
    """Browse RUNS in local web pages: a table of runs, comparisons, and questions with their replies.

    Without RUNS, the pages show the runs in ./runs; a folder stands for all runs in it. Running evaluations are
    updated, and new runs appear. Only this machine can open the pages. From another machine, forward the port: ssh -L
    7878:127.0.0.1:7878 HOST. Everyone who opens the printed address can save names, tags, notes and labels, and can
    start, stop and resume runs.

    With --verify, the pages show the runs that are there at the start, if all of them are signed, and no others.
    """
    from snellen.viewing.library import RunLibrary, find_runs
    from snellen.viewing.local_pages import LocalPages, serve_pages
    from snellen.viewing.serving import open_listener

    if signers is not None:
        runs = tuple(find_runs(runs or (Path("runs"),))) or runs
        read_only = True
        verify_runs(runs, signers, with_scores=True)
    library = RunLibrary(runs or (Path("runs"),), may_be_empty=not runs and not read_only)
    pages = LocalPages(library, read_only=read_only)
    listener = open_listener(port)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/{f'?token={pages.secret}' if pages.secret else ''}"
    console.print(f"{address}  (Ctrl-C ends it)", soft_wrap=True)
    if opens:
        click.launch(address)
    serve_pages(pages, listener)


@click.command()
@click.argument("target")
@click.option("--host", default="127.0.0.1", help="Address to listen on.  [127.0.0.1]")
@click.option(
    "--port", default=9000, type=IntegerParameter(0, 65535), help="Port, 0 for a free one.  [9000]"
)
@click.option("--name", default="", help="Name of the model.  [the class's]")
def worker_command(target: str, host: str, port: int, name: str) -> None:
    """Serve your own model class, such as my_model.py:MyModel, so that it can be evaluated.

    The printed address is a model for `snellen run`: openai:MyModel@http://127.0.0.1:9000/v1. The class needs
    generate(messages, images, **decoding), and can have loglikelihood(messages, images, continuations). In an
    environment without Snellen, run the same file on its own: python worker.py my_model.py:MyModel.
    """
    from snellen.models.worker import serve

    try:
        serve(target, host, port, name)
    except SystemExit as ended:  # worker.py stands alone, and knows no errors of Snellen
        if isinstance(ended.code, str):
            raise ModelError(ended.code.removeprefix("worker: ")) from None
        raise
