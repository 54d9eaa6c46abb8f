"""`snellen batches`"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from snellen.cli.flags import PATH
from snellen.cli.show import console


@click.command()
@click.argument("run", type=PATH)
@click.option("--cancel", "cancels", is_flag=True, help="Cancel the batches that have not ended.")
def batches_command(run: Path, cancels: bool) -> None:
    """Show the progress of the batches of RUN, or cancel them.

    \b
      snellen batches runs/x
      snellen batches runs/x --cancel

    To fetch replies, repeat the command that submitted the batches. It also fetches those that were finished before you
    cancelled a batch, because you pay for them.
    """
    from snellen.models.batches import BatchingModel
    from snellen.models.loading import load_model
    from snellen.models.model_strings import model_string, says_batch
    from snellen.runs.batch_driver import batch_states
    from snellen.runs.batch_ledger import BatchLedger
    from snellen.runs.locks import locked_run
    from snellen.runs.run_folder import only_run_in, read_manifest

    run = only_run_in(run)
    strings = read_manifest(run).sessions[-1].models
    with locked_run(run):
        opened = [batch for batch in BatchLedger(run).unfetched() if batch.id]
        for role in dict.fromkeys(batch.submission.role for batch in opened):
            text = strings[role]
            if not says_batch(text):
                text = model_string(text, batch=True)
            model = cast(BatchingModel, load_model(text))
            own_batches = [batch for batch in opened if batch.submission.role == role]
            for batch, state in batch_states(model, own_batches, cancels=cancels):
                console.print(
                    f"{batch.id}: {state.service_status}, {state.finished:,} of {len(batch.keys):,} requests finished",
                    soft_wrap=True,
                )
    if not opened:
        console.print(f"{run}: no batch is open", soft_wrap=True)
