"""`snellen worker`"""

from __future__ import annotations

import click


@click.command()
@click.argument("target")
@click.option("--host", default="127.0.0.1", help="Address to listen on.  [127.0.0.1]")
@click.option("--port", default=9000, type=click.IntRange(0, 65535), help="Port, 0 for a free one.  [9000]")
@click.option("--name", default="", help="The model's name.  [the class's]")
def command(target: str, host: str, port: int, name: str) -> None:
    """Serve a model of your own, my_model.py:MyModel, to be evaluated as openai:MyModel@http://127.0.0.1:9000/v1.

    The class needs generate(messages, images, **decoding) and may have loglikelihood(messages, images,
    continuations). In an environment without Snellen the same file runs alone: python worker.py
    my_model.py:MyModel.
    """
    from snellen.models.worker import serve

    serve(target, host, port, name)
