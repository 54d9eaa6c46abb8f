"""Look at the places that benchmarks are fetched from, without fetching the files.

    python maintenance/places.py                      # all places of the catalogue
    python maintenance/places.py reform-eval modern   # those of some suites or benchmarks
    python maintenance/places.py --write              # and add what is new to the lock

Prints a state for each place. The exit code is 2 if one has changed or vanished.

| state | meaning |
|---|---|
| `fine` | it exists, and nothing contradicts the lock; the line also names the commit that `main` is at |
| `moved` | the server names another lasting address: change the entry |
| `gated` | you have to sign in or accept terms |
| `changed` | another size or digest than in the lock, or a web page where data should be |
| `vanished` | the file, the dataset, the commit or the files that the entry reads are gone |
| `cannot be reached` | the server does not answer, or answers with an error: try again later |
"""

from __future__ import annotations

import argparse
import http
import http.client
import itertools
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.message import Message
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import msgspec
import tomli_w
from msgspec import Struct
from msgspec.structs import replace

from snellen import __version__
from snellen.catalogue import BenchmarkSpec, entries, select
from snellen.catalogue.places import (
    LOCK,
    HubSource,
    KnownDataset,
    KnownFile,
    Lock,
    ManualSource,
    UrlSource,
    fits,
    known_file,
    read_lock,
)
from snellen.cli.show import show_table
from snellen.common.addresses import open_address
from snellen.common.foreign import Allowance
from snellen.common.late import import_hub
from snellen.errors import DataError
from snellen.fetching.download import FetchError, check_kind, unreached
from snellen.fetching.sources import source_places
from snellen.fetching.user_callbacks import is_offline

if TYPE_CHECKING:
    from huggingface_hub.hf_api import DatasetInfo

PATIENCE = 30.0
"""Seconds that a server may take for its answer."""
HEAD_BYTES = 1 << 20
"""Most bytes of what is looked at of an answer."""
AT_ONCE = 8
State = Literal["fine", "moved", "gated", "changed", "vanished", "cannot be reached"]
_NO_HEAD = (
    http.HTTPStatus.FORBIDDEN,
    http.HTTPStatus.METHOD_NOT_ALLOWED,
    http.HTTPStatus.NOT_IMPLEMENTED,
)
"""Where one byte is asked for instead; addresses that are signed for GET forbid HEAD."""


class SourceStatus(Struct, frozen=True):
    """What one place says."""

    state: State
    told: str = ""
    """What was found, in words."""
    known: KnownFile | KnownDataset | None = None
    """What the lock should say about it from now on; None where that stays as it is."""


class Address(Struct, frozen=True):
    """An address of a file, or of a page on which people find it, and what is known of what is there."""

    url: str
    known: KnownFile | None
    """None for a page."""
    is_mirror: bool = False

    @property
    def name(self) -> str:
        return self.url

    def look(self) -> SourceStatus:
        return _look_at_address(self)


class Dataset(Struct, frozen=True):
    """A dataset of the hub, what is known of it, and the patterns of the files that benchmarks read."""

    repo: str
    known: KnownDataset
    revision: str = ""
    patterns: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.repo}{f'@{self.revision}' if self.revision else ''}"

    def look(self) -> SourceStatus:
        return _look_at_dataset(self)


Seen = Address | Dataset


def look_at_places(
    specs: Iterable[BenchmarkSpec], lock: Lock
) -> list[tuple[Seen, tuple[str, ...], SourceStatus]]:
    """Each place of the benchmarks once, in their order, with the benchmarks that use it and with what it reports.

    Raises DataError where the network is forbidden, MissingExtraError where a dataset is among them and the hub's
    client is not installed.
    """
    if is_offline():
        raise DataError("places are looked at over the network, which HF_HUB_OFFLINE forbids")
    places: dict[str, Seen] = {}
    benchmarks: dict[str, dict[str, None]] = {}
    for spec in specs:
        for place in _places(spec, lock):
            places[place.name] = _joined(places.get(place.name), place)
            benchmarks.setdefault(place.name, {})[spec.name] = None
    if any(isinstance(place, Dataset) for place in places.values()):
        import_hub("looking at datasets of the hub")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        looks = list(pool.map(lambda place: place.look(), places.values()))
    return [
        (place, tuple(benchmarks[place.name]), look)
        for place, look in zip(places.values(), looks, strict=True)
    ]


def updated(lock: Lock, looks: Iterable[tuple[Seen, SourceStatus]], date: str) -> Lock:
    """The lock, updated by places that are as they should be; entries of the others stay, for somebody to look into."""
    files, hub = dict(lock.files), dict(lock.hub)
    for place, look in looks:
        if isinstance(look.known, KnownFile) and isinstance(place, Address) and not place.is_mirror:
            files[place.url] = replace(
                look.known, date=date, rests_on=_reached(look.known.rests_on)
            )
        elif (
            isinstance(look.known, KnownDataset)
            and isinstance(place, Dataset)
            and not place.revision
        ):
            hub[place.repo] = replace(look.known, date=date, rests_on=_reached(look.known.rests_on))
    return replace(lock, files=files, hub=hub)


def _reached(rests_on: str) -> str:
    return rests_on.replace("not reached", "reached") or "reached"


def _places(spec: BenchmarkSpec, lock: Lock) -> Iterable[Seen]:
    for place in source_places(spec):
        match place:
            case UrlSource():
                for file in place.files:
                    content = known_file(file, lock)
                    yield Address(file.url, content)
                    yield from (Address(mirror, content, is_mirror=True) for mirror in file.mirrors)
            case HubSource():
                facts = lock.hub.get(place.repo) or KnownDataset()
                yield Dataset(place.repo, facts, place.revision, place.patterns)
            case ManualSource():
                yield Address(place.url, None)


def _joined(earlier: Seen | None, place: Seen) -> Seen:
    """One place from what two benchmarks say about it."""
    if isinstance(earlier, Dataset) and isinstance(place, Dataset):
        return replace(earlier, patterns=tuple(dict.fromkeys((*earlier.patterns, *place.patterns))))
    if (
        isinstance(earlier, Address)
        and isinstance(place, Address)
        and (earlier.known or earlier.is_mirror)
    ):
        return earlier if not earlier.is_mirror else place
    return place


# --- addresses ---------------------------------------------------------------------------------------------------


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows with the same method, and notes whether a server called the new address permanent."""

    has_moved = False

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        self.has_moved |= code in (
            http.HTTPStatus.MOVED_PERMANENTLY,
            http.HTTPStatus.PERMANENT_REDIRECT,
        )
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None:
            request.method = req.get_method()
        return request


def _look_at_address(address: Address) -> SourceStatus:
    redirects = _Redirects()
    try:
        try:
            final, headers = _request(address.url, redirects, "HEAD", {})
        except urllib.error.HTTPError as error:
            error.close()
            if error.code not in _NO_HEAD:
                raise
            final, headers = _request(address.url, redirects, "GET", {"Range": "bytes=0-0"})
        if address.known:
            check_kind(address.url, headers)
    except urllib.error.HTTPError as error:
        error.close()
        return _refused(error.code)
    except FetchError:
        return SourceStatus("changed", "a page for people stands where data should be")
    except (OSError, http.client.HTTPException) as error:
        return SourceStatus("cannot be reached", str(unreached(address.url, error)))
    size = _size(headers) if address.known else 0
    if address.known and size and address.known.size and size != address.known.size:
        return SourceStatus("changed", f"it has {size:,} bytes, not {address.known.size:,}")
    facts = replace(address.known, size=address.known.size or size) if address.known else None
    shown_size = f"{size:,} bytes" if size else ""
    where = final.partition("?")[0]
    if redirects.has_moved:
        return SourceStatus("moved", f"to {where}", facts)
    return SourceStatus(
        "fine",
        ", ".join(filter(None, (shown_size, f"at {where}" if final != address.url else ""))),
        facts,
    )


def _request(
    url: str, redirects: _Redirects, method: Literal["HEAD", "GET"], more: Mapping[str, str]
) -> tuple[str, Message]:
    """The final address and a server's headers for it; the content is not read. Raises OSError."""
    headers = {"User-Agent": f"snellen/{__version__}", "Accept-Encoding": "identity", **more}
    request = urllib.request.Request(url, headers=headers, method=method)
    with open_address(
        request, Allowance(HEAD_BYTES, PATIENCE, url), redirects, silence=PATIENCE
    ) as reply:
        return reply.url, reply.headers


def _size(headers: Message) -> int:
    whole = str(headers.get("Content-Range", "")).rpartition("/")[2]
    length = whole or str(headers.get("Content-Length", ""))
    return int(length) if length.isdecimal() else 0


def _refused(code: int) -> SourceStatus:
    match code:
        case 401 | 403:
            return SourceStatus("gated", f"it wants a sign-in ({code})")
        case 404 | 410:
            return SourceStatus("vanished", f"it answers {code}")
        case _:
            return SourceStatus("cannot be reached", f"it answers {code}")


# --- datasets ----------------------------------------------------------------------------------------------------


def _look_at_dataset(place: Dataset) -> SourceStatus:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    hub, commit = HfApi(), place.revision or place.known.commit
    try:
        dataset = hub.dataset_info(
            place.repo, revision=commit or None, files_metadata=True, timeout=PATIENCE
        )
        newest = hub.dataset_info(place.repo, timeout=PATIENCE).sha if commit else dataset.sha
    except GatedRepoError:
        return SourceStatus("gated", "its terms are to be accepted")
    except RevisionNotFoundError:
        return SourceStatus("vanished", f"there is no commit {commit}")
    except RepositoryNotFoundError:
        return SourceStatus("vanished", "there is no such dataset, or it is private")
    except HfHubHTTPError as error:
        return SourceStatus("cannot be reached", " ".join(str(error).split())[:200])
    except (
        Exception
    ) as error:  # what a failed connection raises depends on the HTTP library of the hub's client
        return SourceStatus(
            "cannot be reached", " ".join(str(error).split())[:200] or type(error).__name__
        )
    return _compared(place, dataset, newest or "")


def _compared(place: Dataset, dataset: DatasetInfo, newest: str) -> SourceStatus:
    """What the hub says about a dataset, compared with what is known about it."""
    files = _files_of(place, dataset)
    if missing := [
        pattern for pattern in place.patterns if not any(fits(name, (pattern,)) for name in files)
    ]:
        return SourceStatus("vanished", f"it has no file called {', '.join(missing)}")
    changed = [
        name
        for name, file in place.known.files.items()
        if name in files and _differs(file, files[name])
    ]
    if changed and place.known.commit in (dataset.sha, ""):
        return SourceStatus("changed", f"other bytes than known in {', '.join(changed)}")
    facts = replace(
        place.known,
        commit=place.known.commit or newest,
        licence=place.known.licence or _licence(dataset),
        gated=bool(dataset.gated),
        files={**place.known.files, **files},
    )
    remarks = [f"commit {(dataset.sha or '')[:7]}"]
    if newest and newest != dataset.sha:
        remarks.append(f"main is at {newest[:7]}")
    if dataset.id != place.repo:
        return SourceStatus("moved", ", ".join([f"to {dataset.id}", *remarks]), facts)
    return SourceStatus("gated" if dataset.gated else "fine", ", ".join(remarks), facts)


def _files_of(place: Dataset, dataset: DatasetInfo) -> dict[str, KnownFile]:
    """The files that benchmarks read, with size and, where the hub gives it, SHA-256."""
    files = {}
    for file in dataset.siblings or ():
        if fits(file.rfilename, place.patterns):
            facts = place.known.files.get(file.rfilename, KnownFile())
            digest = file.lfs.sha256 if file.lfs else facts.sha256
            files[file.rfilename] = replace(facts, size=file.size or facts.size, sha256=digest)
    return files


def _differs(locked: KnownFile, current: KnownFile) -> bool:
    return bool(
        (locked.size and current.size and locked.size != current.size)
        or (locked.sha256 and current.sha256 and locked.sha256 != current.sha256)
    )


def _licence(dataset: DatasetInfo) -> str:
    licence: Any = dataset.card_data.get("license") if dataset.card_data else ""
    return ", ".join(map(str, licence)) if isinstance(licence, list) else str(licence or "")


# --- the lock ----------------------------------------------------------------------------------------------------


def lock_text(lock: Lock, comment: str = "") -> str:
    """A lock as it stands in its file: tables by name and keys sorted, below lines of comment."""
    tables = tomli_w.dumps(msgspec.to_builtins(lock, order="sorted"))
    return "\n\n".join(filter(None, [comment, tables]))


def write_lock(path: Path, lock: Lock) -> None:
    """Write a lock; the comment at the top of a file that is there stays."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    comment = "\n".join(itertools.takewhile(lambda line: line.startswith("#"), lines))
    path.write_text(lock_text(lock, comment), "utf-8")


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="benchmarks, globs or suites (default: all)")
    parser.add_argument("--lock", type=Path, default=LOCK, help="the lock to compare and write")
    parser.add_argument("--write", action="store_true", help="write what is found into the lock")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    given = parser.parse_args(words)

    specs = {spec.name: spec for name in given.names for spec in select(name)} or entries()
    lock = read_lock(given.lock) if given.lock.exists() else Lock()
    looks = look_at_places(specs.values(), lock)

    rows = []
    for place, benchmarks, look in looks:
        rows.append((look.state, place.name, look.told, ", ".join(benchmarks)))
    show_table("places", ("state", "place", "found", "benchmarks"), rows, given.json)
    if given.write:
        today = datetime.now(UTC).date().isoformat()
        write_lock(given.lock, updated(lock, ((place, look) for place, _, look in looks), today))
    return 2 if any(look.state in ("changed", "vanished") for _, _, look in looks) else 0


if __name__ == "__main__":
    raise SystemExit(main())
