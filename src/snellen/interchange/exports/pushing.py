"""Pushes a dataset that was written to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

from snellen.common.late import import_hub
from snellen.common.paths import shell_word
from snellen.errors import DataError


def push_dataset(folder: Path, repository: str, *, private: bool) -> str:
    """Push the files of a dataset in one commit, and return the address of the commit.

    The repository is created if it does not exist, by the account that the tools of the hub use
    (`hf auth login`, HF_TOKEN).

    Args:
        folder: The folder with the files.
        repository: The name of the repository.
        private: Whether a new repository is private.

    Raises:
        DataError: The hub refuses; the message has its own words.
    """
    import_hub("--push")
    from huggingface_hub import HfApi

    hub = HfApi(library_name="snellen")
    try:
        hub.create_repo(repository, repo_type="dataset", private=private, exist_ok=True)
        commit = hub.upload_folder(
            repo_id=repository,
            repo_type="dataset",
            folder_path=folder,
            commit_message="Written by Snellen",
        )
    except (
        Exception
    ) as error:  # what a failed connection raises depends on the HTTP library of the hub's client
        fault = " ".join(str(error).split())[:300]
        raise DataError(
            f"{folder} is written, but cannot be pushed to {repository} ({fault}); see that `hf auth whoami` may write "
            f"there, or push it later: `hf upload {repository} {shell_word(folder)} --repo-type dataset`"
        ) from None
    return str(commit.commit_url)
