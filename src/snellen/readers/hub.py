"""Files of a Hugging Face hub dataset at one commit, downloaded or from the local cache."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from snellen.catalogue import BenchmarkSpec
from snellen.errors import DataError, MissingExtraError
from snellen.progress_bars import import_tqdm

_COMMIT = re.compile(r"[0-9a-f]{40}")


def from_hub(spec: BenchmarkSpec, folder: Path | None = None, revision: str = "") -> tuple[BenchmarkSpec, Path]:
    """The benchmark with its hub dataset as the source, and the folder that holds the files.

    Files are fetched at `revision` (the entry's when empty) unless a folder is given; the built benchmark records
    their commit if it is known. Raises DataError when no dataset is known or it cannot be fetched.
    """
    if folder is None:
        hub = spec.hub
        folder, commit = fetch(hub.repo, [*hub.rows, *hub.pictures], revision or hub.revision)
    elif revision:
        raise DataError(f"{folder} is read as it is; leave the revision {revision!r} or the folder out")
    else:
        commit = folder.name if _COMMIT.fullmatch(folder.name) else ""
    return spec.from_hub(commit), folder


def fetch(repo: str, patterns: Sequence[str], revision: str = "") -> tuple[Path, str]:
    """The folder with a dataset's files that match `patterns`, and their commit.

    `revision` is a branch, tag or commit; the head of `main` when empty. With HF_HUB_OFFLINE=1 only the cache is
    used. Raises DataError when the files cannot be fetched.
    """
    import_tqdm()
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError:
        raise MissingExtraError("huggingface_hub", "hub", f"the dataset {repo}") from None
    try:
        folder = Path(
            snapshot_download(repo, repo_type="dataset", allow_patterns=list(patterns), revision=revision or None)
        )
    except LocalEntryNotFoundError:
        raise DataError(
            f"{repo}{'@' * bool(revision)}{revision} is not in the hub's cache, and the hub cannot be reached; "
            "download it where there is a network (`hf download --repo-type dataset`), or name a folder"
        ) from None
    except (HfHubHTTPError, HFValidationError, OSError, ValueError) as error:
        fault = " ".join(str(error).split())[:200]
        raise DataError(
            f"the dataset {repo} cannot be fetched from the hub ({fault}); check its name and revision"
        ) from None
    return folder, folder.name
