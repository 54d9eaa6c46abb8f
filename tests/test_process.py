"""A library call leaves the process as it was: what others in it rely on is theirs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = '''
import asyncio, csv, decimal, faulthandler, gc, locale, logging, os, random, resource, signal, socket, sys, tempfile
import threading, warnings

# Imported first: what another package sets when it is imported is its own (rich draws a random number).
for name in %s:
    try:
        __import__(name)
    except ImportError:
        pass


def settings():
    """Whatever in a process is everybody's, by name."""
    loaded = sys.modules
    image, image_file = loaded["PIL.Image"], loaded["PIL.ImageFile"]
    values = {
        "garbage collector": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.get_debug(), gc.callbacks),
        "csv's limit": csv.field_size_limit(),
        "recursion limit": sys.getrecursionlimit(),
        "digits of whole numbers": sys.get_int_max_str_digits(),
        "thread switches": sys.getswitchinterval(),
        # torch writes one name of its own when parts of it are first used.
        "environment": {name: text for name, text in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"},
        "folder": os.getcwd(),
        "locale": locale.setlocale(locale.LC_ALL),
        "warnings": [str(entry) for entry in warnings.filters],
        "showwarning": warnings.showwarning,
        "signals": {number: signal.getsignal(number) for number in sorted(signal.valid_signals())},
        "excepthooks": (sys.excepthook, threading.excepthook, sys.unraisablehook, sys.displayhook),
        "tracing": (sys.gettrace(), sys.getprofile(), threading.gettrace()),
        "standard streams": (sys.stdin, sys.stdout, sys.stderr, sys.stdout.encoding, sys.stdout.errors),
        "import path": (sys.path, sys.meta_path, sys.path_hooks),
        "random": random.getstate(),
        "decimal": str(decimal.getcontext()),
        "root logger": (logging.root.level, logging.root.handlers, logging.root.manager.disable),
        "logger class": logging.getLoggerClass(),
        "sockets": socket.getdefaulttimeout(),
        "temporary folder": tempfile.tempdir and None,
        "limits": [resource.getrlimit(which) for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS)],
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "event loop": (type(asyncio.get_event_loop_policy()), asyncio.get_event_loop_policy()._local._loop),
        "faults": faulthandler.is_enabled(),
        "pictures": (image.MAX_IMAGE_PIXELS, image_file.LOAD_TRUNCATED_IMAGES, image_file.MAXBLOCK),
    }
    if numpy := loaded.get("numpy"):
        values["numpy"] = (numpy.geterr(), numpy.get_printoptions(), str(numpy.random.get_state()))
    if torch := loaded.get("torch"):
        values["torch"] = (
            torch.get_num_threads(), torch.get_num_interop_threads(), torch.get_default_dtype(),
            torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled(), torch.random.initial_seed(),
            torch.random.get_rng_state().tolist(), torch.get_float32_matmul_precision(),
        )
    if transformers := loaded.get("transformers"):
        shown = transformers.utils.logging
        values["transformers"] = (shown.get_verbosity(), shown.is_progress_bar_enabled())
    return {name: repr(value) for name, value in values.items()}


asyncio.set_event_loop(asyncio.new_event_loop())
gc.set_threshold(701, 11, 12)
before = settings()
%s
after = settings()
print([(name, before[name], after[name]) for name in before if before[name] != after[name]])
'''
CALLS = """
import snellen

made = snellen.build("mine.tsv", to="mine", no_images=True)
snellen.build("eyechart/shape", to="shape")
class Served:
    name, kinds, concurrency = "served", frozenset({"generate"}), 2
    def fingerprint(self):
        return {}
    async def ask(self, request, images):
        await asyncio.sleep(0)
        return snellen.Response(text="the first, I think")
    async def close(self):
        pass
snellen.evaluate(Served(), "./mine", name="served", report=True)
snellen.evaluate("snellen:uniform", ["./mine", "./shape"], ["circular", "likelihood"], limit=9, name="r", workers=2)
results = snellen.score("runs/served", judge=snellen.Scripted(lambda request: "A"), metrics="anls")
for name in ("r.html", "r.md", "r.csv", "r.json"):
    results.report(name)
results.table()
"""
WITH_TORCH = """
import snellen

snellen.evaluate("snellen:tiny", "eyechart/shape", ["vanilla", "likelihood"], limit=3, name="tiny", temperature=0.7)
"""
PICTURES = ("PIL.Image", "PIL.ImageFile")
PACKAGES = (*PICTURES, "rich.style", "numpy", "pandas", "polars", "pyarrow")
OF_MODELS = ("torch", "transformers")
"""Loaded by a model in this process alone (`tests/test_imports.py`); what it takes longest to load."""
CHANGES = "import csv, gc\ncsv.field_size_limit(10**9)\ngc.disable()\n"


def changed_by(calls: str, folder: Path, packages: tuple[str, ...] = PACKAGES) -> list[str]:
    """Names of the settings that differ after some calls in a process of their own, where these packages are loaded."""
    rows = [
        "question\tA\tB\tanswer\timage",
        *(f"Which is {i}?\tthe first\tthe second\tA\t" for i in range(20)),
    ]
    (folder / "mine.tsv").write_text("\n".join(rows) + "\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM % (packages, calls)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [name for name, _, _ in ast.literal_eval(done.stdout.splitlines()[-1])]


def test_building_running_scoring_and_reporting_change_no_setting_of_the_process(
    tmp_path: Path,
) -> None:
    assert changed_by(CALLS, tmp_path) == []


@pytest.mark.slow
def test_a_model_in_this_process_changes_no_setting_of_it(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="waits for torch")
    assert changed_by(WITH_TORCH, tmp_path, (*PACKAGES, *OF_MODELS)) == []


def test_a_changed_setting_is_seen(tmp_path: Path) -> None:
    assert changed_by(CHANGES, tmp_path, PICTURES) == ["garbage collector", "csv's limit"]
