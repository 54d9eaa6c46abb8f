"""Sign packed runs with an SSH key, and check who signed a run.

A signed folder has two more files. `SHA256SUMS` lists the SHA-256 digest of each file in it, as the command `sha256sum`
writes such lists. `SHA256SUMS.sig` is the signature of this list by the program `ssh-keygen`, which signs commits of Git
in the same way. Snellen never sees a private key: `ssh-keygen` asks for its passphrase, or asks an agent or a hardware key.

Without Snellen, a signature is checked by two commands in the unpacked folder:

    sha256sum --check SHA256SUMS
    ssh-keygen -Y verify -f SIGNERS -I anna@example.org -n snellen -s SHA256SUMS.sig < SHA256SUMS
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct

from snellen import registry
from snellen.callers import for_caller
from snellen.common.foreign import open_file, read_file, read_text
from snellen.common.paths import shell_word
from snellen.errors import DataError, StoreError
from snellen.runs.own_questions import QUESTIONS
from snellen.runs.run_folder import JOURNALS, MANIFEST_COPY, RUN_MANIFEST
from snellen.scoring.kept_scoring import SCORING_FILES, SCORINGS

DIGESTS = "SHA256SUMS"
SIGNATURE = f"{DIGESTS}.sig"
NAMESPACE = "snellen"
"""What the signature is for: `ssh-keygen` rejects one that was made for something else, such as a commit."""
BLOCK = 1 << 20
MOST_SECONDS = 60
"""How long `ssh-keygen` may take to check a signature."""

_DIGEST_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")
_PUBLIC_KEY = re.compile(r"(ssh-|ecdsa-|sk-)\S+ \S+")
_PRINCIPAL = re.compile(r"[\w.@+-]+")


class SignedRun(Struct, frozen=True):
    """A run whose signature was checked."""

    folder: Path
    signer: str
    """The name that the file of signers gives to the key."""
    key: str
    """Fingerprint of the key, as `ssh-keygen -l` prints it."""
    files: int
    """How many files were compared with their digests."""


# --- signing ----------------------------------------------------------------------------------------------------------


def sign_folders(digest_by_place: Mapping[str, str], key: Path) -> dict[str, bytes]:
    """Return the lists of digests and their signatures, one pair for each folder of an archive.

    Args:
        digest_by_place: SHA-256 digest, in hexadecimal, by the path of a file in the archive: `FOLDER/FILE`.
        key: File of a private key, or of a public key whose private key an SSH agent holds.

    Returns:
        Contents of files by their paths in the archive.

    Raises:
        DataError: The key cannot be used, `ssh-keygen` is not installed, or a name contains a line break.
    """
    lines_by_folder: dict[str, list[str]] = {}
    for place, digest in sorted(digest_by_place.items()):
        folder, _, name = place.partition("/")
        if "\n" in name or "\\" in name:
            raise DataError(
                f"{name!r} has a line break or a backslash in its name; rename it to sign the run"
            )
        lines_by_folder.setdefault(folder, []).append(f"{digest}  {name}\n")

    contents: dict[str, bytes] = {}
    for folder, lines in lines_by_folder.items():
        digests = "".join(lines).encode()
        contents[f"{folder}/{DIGESTS}"] = digests
        contents[f"{folder}/{SIGNATURE}"] = _sign(digests, key)
    return contents


def check_key(key: Path) -> None:
    """Raise DataError unless `ssh-keygen` can sign with a key. Call this before work that takes long."""
    _sign(b"", key)


def _sign(content: bytes, key: Path) -> bytes:
    if not key.is_file():
        raise DataError(
            f"{for_caller('--sign ', '')}{key}: there is no such file; give an SSH key, or make one with `ssh-keygen -t ed25519`"
        )
    result = _ssh_keygen(["-Y", "sign", "-f", str(key), "-n", NAMESPACE], content, seconds=None)
    if result.returncode:
        raise DataError(
            f"{for_caller('--sign ', '')}{key}: ssh-keygen cannot sign with it ({_first_line(result.stderr)})"
        )
    return result.stdout


# --- checking ---------------------------------------------------------------------------------------------------------


def is_signed(run: Path) -> bool:
    """Return whether the folder of a run has a signature, which may be anybody's."""
    return (run / SIGNATURE).is_file()


def verify_run(run: Path, signers: Path, *, with_scores: bool = True) -> SignedRun:
    """Check that a run is as somebody signed it whose key is in a file.

    Files that Snellen reads must be those that were signed: neither changed nor missing nor added. These are the manifest,
    the journals, questions, images, answers, labels by people and the exchanges of judges.

    Args:
        run: Folder of the run, unpacked.
        signers: File of trusted keys: one public key (`ssh-ed25519 AAAA... anna@example.org`) per line, or the file
            `allowed_signers` that Git uses.
        with_scores: Whether stored scores must be the signed ones, too. Not needed if the run is scored again.

    Raises:
        DataError: The run has no signature, nobody in the file made it, or a file differs from what was signed.
    """
    if not is_signed(run):
        raise DataError(
            f"{run} is not signed ({SIGNATURE} is missing); ask its sender for `snellen pack RUN --sign KEY`"
        )
    try:
        digests = read_file(run / DIGESTS)
    except OSError as error:
        raise DataError(f"{run / DIGESTS} cannot be read ({error.strerror})") from None
    signer = _find_signer(run, digests, signers)
    signed_digests = dict(_parse_digests(run, digests))
    if RUN_MANIFEST not in signed_digests:
        raise DataError(
            f"{run}: its signature does not cover {RUN_MANIFEST}, so it is not that of a run"
        )

    n_compared = 0
    for name, digest in signed_digests.items():
        if not with_scores and _is_score(name):
            continue
        n_compared += 1
        _compare(run, name, digest)
    for name in sorted(_files_that_are_read(run, with_scores=with_scores)):
        if name not in signed_digests:
            raise DataError(
                f"{run}: {name} was added after the run was signed; unpack the signed file again into a new folder"
            )
    return SignedRun(run, signer, _fingerprint(run), n_compared)


def _compare(run: Path, name: str, digest: str) -> None:
    """Raise DataError unless a file has the digest that was signed."""
    try:
        found = digest_of_file(run / name)
    except OSError as error:
        raise DataError(f"{run}: {name} was signed but cannot be read ({error.strerror})") from None
    if found != digest:
        raise DataError(
            f"{run}: {name} has changed since the run was signed; unpack the signed file again into a new folder"
        )


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 digest of a file in hexadecimal. Raises OSError."""
    digest = hashlib.sha256()
    with open_file(path) as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _parse_digests(run: Path, content: bytes) -> Iterator[tuple[str, str]]:
    """Yield name and digest of each file in a list of digests. Raises DataError for a line that is not of this form."""
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
        match = _DIGEST_LINE.fullmatch(line)
        name = PurePosixPath(match[2]) if match else None
        if match is None or name is None or name.is_absolute() or ".." in name.parts:
            raise DataError(
                f"{run / DIGESTS}, line {number}: expected `DIGEST  FILE`, with a file in this folder"
            )
        yield name.as_posix(), match[1]


def _is_score(name: str) -> bool:
    return name in SCORING_FILES or name.startswith(f"{SCORINGS}/")


def _files_that_are_read(run: Path, *, with_scores: bool) -> set[str]:
    """Return the files in the folder of a run from which Snellen takes replies, questions, labels or scores."""
    patterns = [JOURNALS, "withdrawn-*", MANIFEST_COPY, "judge-*/**/*", f"{QUESTIONS}/**/*"]
    patterns += registry.loadable("packed_files").values()
    if with_scores:
        patterns += [*SCORING_FILES, f"{SCORINGS}/**/*"]
    files = set()
    for pattern in patterns:
        for path in run.glob(pattern):
            if not path.is_dir():
                files.add(path.relative_to(run).as_posix())
    return files


def _find_signer(run: Path, digests: bytes, signers: Path) -> str:
    """Return the name of who signed a list of digests. Raises DataError if it is nobody in the file of signers."""
    signature = str(run / SIGNATURE)
    with tempfile.TemporaryDirectory() as folder:
        allowed = Path(folder) / "allowed_signers"
        allowed.write_text(_allowed_signers(signers), "utf-8")
        found = _ssh_keygen(["-Y", "find-principals", "-s", signature, "-f", str(allowed)])
        names = found.stdout.decode("utf-8", "replace").splitlines()
        if found.returncode or not names:
            raise DataError(
                f"{run} was not signed by a key in {signers} ({_first_line(found.stderr)}); its key is "
                f"{_fingerprint(run)}"
            )
        check = [
            "-Y",
            "verify",
            "-f",
            str(allowed),
            "-I",
            names[0],
            "-n",
            NAMESPACE,
            "-s",
            signature,
        ]
        result = _ssh_keygen(check, digests)
    if result.returncode:
        reason = _first_line(result.stderr) or _first_line(result.stdout)
        raise DataError(f"{run}: the signature of {names[0]} does not fit {DIGESTS} ({reason})")
    return names[0]


def _allowed_signers(path: Path) -> str:
    """Return a file of trusted keys as `ssh-keygen` reads it: with a name before each key.

    A line that begins with the type of a key is a public key; its comment becomes the name.
    """
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise DataError(
            f"{for_caller('--verify ', '')}{path}: the file of trusted keys cannot be read ({reason})"
        ) from None
    lines = []
    for line in text.splitlines():
        if not _PUBLIC_KEY.match(line):
            lines.append(line)
            continue
        key_type, key, *comment = line.split(maxsplit=2)
        name = comment[0].strip() if comment else path.stem
        if not _PRINCIPAL.fullmatch(name):
            name = path.stem
        lines.append(f"{name} {key_type} {key}")
    return "".join(f"{line}\n" for line in lines)


def _fingerprint(run: Path) -> str:
    """Return the fingerprint of the key that made a signature, whether it is trusted or not."""
    arguments = ["-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(run / SIGNATURE)]
    result = _ssh_keygen(arguments, read_file(run / DIGESTS))
    match = re.search(rb"SHA256:\S+", result.stdout)
    return match[0].decode() if match else "unknown"


def _ssh_keygen(
    arguments: Sequence[str], content: bytes = b"", seconds: int | None = MOST_SECONDS
) -> subprocess.CompletedProcess[bytes]:
    """Run `ssh-keygen` with `content` as its input. Raises DataError if it is not installed."""
    command = ["ssh-keygen", *arguments]
    try:
        return subprocess.run(  # noqa: S603 - a fixed program, no shell
            command, input=content, capture_output=True, check=False, timeout=seconds
        )
    except FileNotFoundError:
        raise DataError(
            "ssh-keygen is not installed, which makes and checks signatures; install OpenSSH 8.2 or later"
        ) from None
    except subprocess.TimeoutExpired:
        raise StoreError(f"ssh-keygen did not answer within {MOST_SECONDS} seconds") from None


def _first_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[0] if lines else "it does not say why"


def signature_sentence(signed: SignedRun) -> str:
    """Return the sentence that tells a user of a checked signature."""
    return f"{shell_word(signed.folder)}: signed by {signed.signer} ({signed.key}), {signed.files:,} files unchanged"
