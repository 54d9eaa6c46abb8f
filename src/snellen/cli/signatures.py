"""The flag --verify, by which a verb accepts only runs that a trusted person signed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from snellen.cli.flags import PATH
from snellen.cli.show import announce

verify_flag = click.option(
    "--verify",
    "signers",
    type=PATH,
    metavar="KEYS",
    help="Accept only runs signed by a key in this file of public keys.",
)


def verify_runs(runs: Sequence[Path], signers: Path | None, *, with_scores: bool) -> None:
    """Check who signed each of the runs, and print it. Does nothing if the user did not give `--verify`.

    Args:
        runs: Folders of runs.
        signers: File with the public keys that the user trusts; None without the flag.
        with_scores: Whether the scores must be signed, too, because the command shows them.

    Raises:
        DataError: A run is not signed, is signed by another key, or was changed after it was signed.
    """
    if signers is None:
        return
    from snellen.interchange.signing import signature_sentence, verify_run

    trusted_keys = signers.expanduser()
    for run in runs:
        announce(signature_sentence(verify_run(run, trusted_keys, with_scores=with_scores)))
