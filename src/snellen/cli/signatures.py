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
    """Check the signatures of runs if the flag is given, and say who signed each of them.

    Args:
        runs: Folders of runs.
        signers: File of trusted public keys; None if the flag is not given, so that nothing is checked.
        with_scores: Whether stored scores must be the signed ones, because the verb shows them.

    Raises:
        DataError: A run is not signed, not by a key in the file, or differs from what was signed.
    """
    if signers is None:
        return
    from snellen.interchange.signing import signature_sentence, verify_run

    trusted_keys = signers.expanduser()
    for run in runs:
        announce(signature_sentence(verify_run(run, trusted_keys, with_scores=with_scores)))
