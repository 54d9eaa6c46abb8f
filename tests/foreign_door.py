"""A part of `make style`: code that goes around the doors for bytes from elsewhere.

    python tests/foreign_door.py [FOLDER...]

Files that users or others supply are opened by `snellen.common.foreign`, addresses by `snellen.common.addresses`, images
decoded by `snellen.common.decoding`, modules that a user names imported by `snellen.registry`. Anything else that opens,
fetches, decodes or imports is named here with the reason why its bytes are not from elsewhere, or why it may.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LAB = ROOT / "packages" / "snellen-lab" / "src"
TREES = (
    ROOT / "src" / "snellen",
    LAB,
    ROOT / "packages" / "snellen-server" / "src",
)

DOORS = {
    "common/foreign.py": "the door for files",
    "common/addresses.py": "the door for addresses",
    "common/decoding.py": "the door for images",
    "own_code.py": "the user's own code, which the registry would run; it is parsed and not run",
    "registry.py": "the door for modules that a user or a package names",
}

OWN = "modules of Snellen, by names that stand in its code"
OPTIONAL = "an optional dependency, by a name that stands in its code"
INSTALLED = "files of installed packages"
PACKED = "a file of this package"
MADE = "a file that Snellen made in a folder of its own"

EXCEPTIONS = {
    "__init__.py:__getattr__": OWN,
    "plugin_api.py:__getattr__": OWN,
    "extraction/__init__.py:__getattr__": OWN,
    "cli/__init__.py:import_target": "verbs of Snellen and of installed packages",
    "cli/streams.py:guard_streams": "the null device, in place of a closed stream",
    "cli/streams.py:drop_output": "the null device, in place of an output that takes no more",
    "runs/workers.py:": "the null device, in place of a worker's output",
    "common/degradation.py:_jpeg": "an image that Snellen encoded",
    "common/late.py:import_tqdm": OPTIONAL,
    "common/late.py:import_extra": OPTIONAL,
    "models/hf/load.py:import_transformers": OPTIONAL,
    "models/services.py:open_signing": OPTIONAL,
    "models/services.py:__init__": OPTIONAL,
    "models/services.py:open_vertex_headers": OPTIONAL,
    "models/vllm.py:open_vllm": OPTIONAL,
    "models/worker.py:_module": "the user's own model, named on the command line of `snellen worker`",
    "models/worker.py:_image": "bytes of a request, decoded with Pillow's warning of many pixels as an error",
    "models/object_digest.py:_code": INSTALLED,
    "models/object_digest.py:_module": INSTALLED,
    "models/object_digest.py:_imported_modules": INSTALLED,
    "extraction/registered.py:_digest_of_file": INSTALLED,
    "catalogue/loading.py:_suite_of_package": INSTALLED,
    "installation.py:origin": INSTALLED,
    "installation.py:_read_in_each": INSTALLED,
    "suites/modern/readers.py:charxiv_questions": PACKED,
    "reformulation/wordnet.py:_reader_class": "a method of nltk, which opens the WordNet that is installed",
    "report/rendering.py:_bytecode_cache": MADE,
    "common/sentence_embeddings.py:_open_store": MADE,
    "runs/earlier_answers.py:__init__": MADE,
    "viewing/index_database.py:open_index": MADE,
    "fetching/download.py:_fetch_rest": "opened for writing, at a place where it goes on",
    "formats/whole_files.py:sync_folder": "a folder, to be written to the disk",
    "report/figure_files.py:show": "a chart of its own, opened in the browser",
    "interchange/exports/packing.py:_write_zip": "opened for writing",
    "interchange/exports/packing.py:_add_file": "opened for writing",
    "interchange/exports/inspect_log.py:_write_part": "opened for writing",
    "runs/batch_ledger.py:add": "opened for appending; what it holds is read by read_file",
    "runs/run_store.py:_open": "opened for writing; what it holds is read by open_file",
    "runs/locks.py:_open_lock": "a lock, of which nothing is read",
    "runs/locks.py:is_locked": "a lock, of which nothing is read",
    "fetching/parts.py:_read_by_ranges": "ranges of a file at the hub, as long as its list says",
    "formats/xlsx_parts.py:parse_part": "a member of an archive whose sizes were checked",
    "snellen_lab/__init__.py:__getattr__": OWN,
    "snellen_lab/acuity/ideal.py:read": "an image that Snellen drew",
    "snellen_lab/rating_pages/feature.py:all_ratings": MADE,
    "snellen_server/hosting/contributions.py:clean_image": "bytes of a request, of which Pillow is asked for four forms",
    "snellen_server/hosting/credentials.py:open_key": "opened for writing; what it holds is read by read_file",
    "snellen_server/hosting/database.py:_folder": "revisions of features that are installed",
    "snellen_server/hosting/database.py:back_up": "the server's own database, and an archive that is written",
    "snellen_server/hosting/database.py:restore": "the database of a backup, unpacked to a file of its own",
    "snellen_server/hosting/services.py:_assets": INSTALLED,
    "snellen_server/hosting/services.py:_make_private_folder": "opened for writing",
}
"""By module and function, why a call is no way around the doors."""


def violations(folder: Path) -> Iterator[tuple[str, str, int, str]]:
    """Yield the module, the function, the line and the call of whatever opens, fetches, decodes or imports."""
    for path in sorted(folder.rglob("*.py")):
        module = path.relative_to(folder).as_posix()
        if module not in DOORS:
            source = path.read_text("utf-8")
            tree = ast.parse(source)
            # Walking through a whole tree takes long, and most modules open nothing.
            opened = _names_of_opened_files(tree) if "open_file" in source else set()
            for function, call in _calls(tree, ""):
                if _is_forbidden(call, opened):
                    yield module, function, call.lineno, ast.unparse(call.func)


def _calls(node: ast.AST, function: str) -> list[tuple[str, ast.Call]]:
    """The calls below a node, in order, each with the outermost function that it stands in."""
    found: list[tuple[str, ast.Call]] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, LEAVES):
            continue
        if isinstance(child, ast.Call):
            found.append((function, child))
        is_function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
        found += _calls(child, child.name if is_function and not function else function)
    return found


LEAVES = (ast.Name, ast.Constant, ast.expr_context)
"""Most nodes of a tree; nothing is called below them."""


FORBIDDEN = frozenset(
    {
        "open",
        "io.open",
        "os.open",
        "Image.open",
        "Pictures.open",
        "gzip.open",
        "bz2.open",
        "lzma.open",
        "tarfile.open",
        "zipfile.ZipFile",
        "gzip.GzipFile",
        "np.load",
        "numpy.load",
        "pickle.load",
        "pickle.loads",
        "torch.load",
        "sqlite3.connect",
        "pq.read_table",
        "pa.OSFile",
        "urlopen",
        "build_opener",
        "urlretrieve",
        "urllib.request.urlopen",
        "urllib.request.build_opener",
        "urllib.request.urlretrieve",
        "http.client.HTTPConnection",
        "http.client.HTTPSConnection",
        "requests.get",
        "httpx.get",
        "httpx.Client",
        "import_module",
        "importlib.import_module",
        "spec_from_file_location",
        "importlib.util.spec_from_file_location",
        "__import__",
        "runpy.run_path",
        "exec",
        "eval",
    }
)
"""Calls by their whole name."""
READS = frozenset({"read_text", "read_bytes", "exec_module"})
"""Methods of whatever object."""


UNPACKING = frozenset(
    {
        "gzip.open",
        "tarfile.open",
        "zipfile.ZipFile",
        "av.open",
        "pq.ParquetFile",
        "pa.memory_map",
    }
)
"""Calls that may be given a file which was opened by `open_file`, or a path that `regular_file` looked at."""


def _is_forbidden(call: ast.Call, opened: set[str]) -> bool:
    name = ast.unparse(call.func)
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if _is_packaged(call.func) or name == "foreign.read_text":
        return False
    if name in UNPACKING:
        given = [*call.args[:1], *(keyword.value for keyword in call.keywords)]
        return not any(_is_checked(value, opened) for value in given)
    if name in FORBIDDEN and name != "open":
        return True
    return method in READS or ("open" in (method, name) and _reads(call, method))


def _is_checked(value: ast.expr, opened: set[str]) -> bool:
    """Whether what a call is given was opened by `open_file`, or is made by a call of `regular_file`."""
    if isinstance(value, ast.Name):
        return value.id in opened
    calls = (node for node in ast.walk(value) if isinstance(node, ast.Call))
    return any(ast.unparse(call.func) == "regular_file" for call in calls)


def _names_of_opened_files(tree: ast.AST) -> set[str]:
    """The names that a module gives to what `open_file` opened."""
    return {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.context_expr, ast.Call)
        and ast.unparse(item.context_expr.func) == "open_file"
        and isinstance(item.optional_vars, ast.Name)
    }


def _is_packaged(function: ast.AST) -> bool:
    """Whether a chain of calls begins with the files of a package: `files("snellen.report").joinpath(...)`."""
    while isinstance(function, (ast.Attribute, ast.Call, ast.BinOp)):
        if isinstance(function, ast.Attribute):
            function = function.value
        elif isinstance(function, ast.BinOp):
            function = function.left
        elif isinstance(function.func, ast.Name):
            return function.func.id == "files"
        else:
            function = function.func
    return False


def _reads(call: ast.Call, method: str) -> bool:
    """Whether a file is opened for reading, or what it is opened for cannot be seen."""
    place = 0 if method else 1
    modes = [*call.args[place : place + 1], *(k.value for k in call.keywords if k.arg == "mode")]
    if not modes:
        return True
    mode = modes[0].value if isinstance(modes[0], ast.Constant) else "r"
    return not (isinstance(mode, str) and set(mode) & set("wax"))


def main(words: Sequence[str]) -> int:
    """Print what goes around the doors, and exceptions that nothing needs any more. Returns the exit code."""
    folders = tuple(map(Path, words)) or TREES
    used = set()
    faults = []
    for folder in folders:
        for module, function, line, call in violations(folder):
            if f"{module}:{function}" in EXCEPTIONS:
                used.add(f"{module}:{function}")
                continue
            faults.append(
                f"{folder / module}:{line}: {call}() in {function or 'the module'} goes around the doors for bytes from "
                "elsewhere; use open_file, read_file, read_text or open_gzip (snellen.common.foreign), open_address, "
                "opened_image or the registry, or name it in tests/foreign_door.py with the reason"
            )
    if folders == TREES:
        unused = EXCEPTIONS.keys() - used
        if not LAB.exists():
            unused = {name for name in unused if not name.startswith("snellen_lab/")}
        faults += [
            f"tests/foreign_door.py: nothing needs the exception {name}" for name in sorted(unused)
        ]
    for fault in faults:
        print(fault)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
