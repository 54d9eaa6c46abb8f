"""The run store: nothing that was answered is lost, and what is wrong is said with file and line."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.errors import StoreError
from snellen.formats.whole_files import write_atomically
from snellen.records import (
    Decoding,
    Exchange,
    Failure,
    Message,
    Request,
    Response,
    Sample,
    TextPart,
    Variant,
)
from snellen.runs.journal import JournalReader, position_of, read_exchanges, read_journal
from snellen.runs.run_folder import (
    MANIFEST_COPY,
    RUN_FORMAT,
    RUN_MANIFEST,
    BenchmarkUse,
    RoleModel,
    RunManifest,
    journals,
    read_manifest,
    write_manifest,
)
from snellen.runs.run_store import RunStore
from snellen.runs.spec import QuestionSpec

P = "vanilla"


def ask(text: str, sample: str = "q", test: int = 0) -> Request:
    return Request("b", sample, Variant(test=test), (Message("user", (TextPart(text),)),))


def told(text: str, reply: str, sample: str = "q") -> Exchange:
    return Exchange(P, ask(text, sample), Response(text=reply))


def fill(folder: Path, count: int, worker: int = 0) -> Path:
    """A run folder with `count` exchanges in one journal."""
    with RunStore(folder, worker) as store:
        store.append(told(f"{worker}-{i}", f"reply {i}") for i in range(count))
    return folder / f"journal-{worker}.jsonl"


def replies(folder: Path) -> list[str | None]:
    return [exchange.response.text for exchange in read_exchanges(folder)]


def test_what_was_appended_is_found_in_this_and_in_the_next_session(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        store.append([told("What?", "a cat")])
        assert store.find(P, ask("What?")) == Response(text="a cat")
        assert store.find(P, ask("Which?")) is None
    with RunStore(tmp_path) as store:
        assert store.find(P, ask("What?")) == Response(text="a cat")
        assert (store.answered, store.failed) == ({}, {})
    assert len(replies(tmp_path)) == 1


def test_another_presentation_of_the_same_request_is_noted_once_as_reused(tmp_path: Path) -> None:
    for _ in range(2):
        with RunStore(tmp_path) as store:
            if not replies(tmp_path):
                store.append([told("What?", "a cat")])
            for test in (0, 1, 1):
                store.find(P, ask("What?", test=test))
            store.find("instability", ask("What?", sample="r"))
    exchanges = list(read_exchanges(tmp_path))
    assert [
        (e.protocol, e.request.sample_id, e.request.variant.test, e.reused) for e in exchanges
    ] == [
        (P, "q", 0, False),
        (P, "q", 1, True),
        ("instability", "r", 0, True),
    ]
    assert {e.response.text for e in exchanges} == {"a cat"}


def test_failures_are_kept_but_never_found(tmp_path: Path) -> None:
    failed = Exchange(P, ask("What?"), Response(error=Failure("timeout", "too late", 3)))
    with RunStore(tmp_path) as store:
        store.append([failed])
        assert store.find(P, ask("What?")) is None
        assert (store.answered, store.failed) == ({}, {"": 1})
    with RunStore(tmp_path) as store:
        assert store.find(P, ask("What?")) is None
        store.append([told("What?", "a cat")])
        assert store.find(P, ask("What?")) == Response(text="a cat")
    assert list(read_exchanges(tmp_path)) == [failed, told("What?", "a cat")]


def test_a_torn_last_line_is_cut_and_the_run_goes_on(tmp_path: Path) -> None:
    path = fill(tmp_path, 3)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert replies(tmp_path) == ["reply 0", "reply 1"]
    assert path.read_bytes() == whole[:-20], "reading changes nothing"
    with RunStore(tmp_path) as store:
        assert store.find(P, ask("0-2")) is None
        store.append([told("0-2", "again")])
    assert replies(tmp_path) == ["reply 0", "reply 1", "again"]


@given(st.integers(0, 3), st.integers(0, 500), st.lists(st.integers(1, 90_000), max_size=3))
def test_a_journal_cut_anywhere_loses_only_the_line_that_was_cut(
    tmp_path_factory: pytest.TempPathFactory, kept: int, cut: int, sizes: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    with RunStore(folder) as store:
        store.append(told(str(i), "é" * size) for i, size in enumerate(sizes))
    path = folder / "journal-0.jsonl"
    ends = [0, *(offset for offset, _ in read_journal(path)), path.stat().st_size]
    size = min(ends[min(kept + 1, len(ends) - 1)] + cut, path.stat().st_size)
    os.truncate(path, size)
    with RunStore(folder) as store:
        store.append([told("new", "new")])
    whole = sum(end <= size for end in ends[2:])
    assert [len(reply or "") for reply in replies(folder)] == [*sizes[:whole], 3]


@pytest.mark.parametrize(
    "garbage",
    [b"garbage\n", b"{}\n", b"\n", b'{"protocol": "p"}\n', b"\xff\xfe\n", b"\0" * 20 + b"\n"],
)
def test_a_corrupt_line_in_the_middle_is_named_with_its_file_and_line(
    garbage: bytes, tmp_path: Path
) -> None:
    path = fill(tmp_path, 3)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], garbage, *lines[1:]]))
    fault = r"journal-0.jsonl:2: not an exchange of this version .*; run `snellen mend .*` to move damaged lines aside"
    with pytest.raises(StoreError, match=fault) as caught:
        list(read_exchanges(tmp_path))
    assert "\n" not in str(caught.value)
    with pytest.raises(StoreError, match=fault):
        RunStore(tmp_path)
    path.write_bytes(b"".join(lines))
    RunStore(tmp_path).close()


def test_two_writers_of_one_journal_are_refused(tmp_path: Path) -> None:
    with (
        RunStore(tmp_path),
        pytest.raises(StoreError, match="is in use by another run; wait for it, or choose another"),
    ):
        RunStore(tmp_path)
    RunStore(tmp_path).close()


def test_workers_write_journals_of_their_own_and_read_all(tmp_path: Path) -> None:
    with RunStore(tmp_path, 0) as first, RunStore(tmp_path, 1) as second:
        first.append([told("a", "from 0")])
        second.append([told("b", "from 1")])
        assert first.find(P, ask("b")) is None, (
            "what another worker does now is seen by the next session"
        )
    fill(tmp_path, 2, worker=10)
    with RunStore(tmp_path, 2) as third:
        assert third.find(P, ask("a")) == Response(text="from 0")
        assert third.find(P, ask("b")) == Response(text="from 1")
        assert third.find(P, ask("10-1")) == Response(text="reply 1")
    assert len(journals(tmp_path)) == 4
    assert sorted(map(str, replies(tmp_path))) == ["from 0", "from 1", "reply 0", "reply 1"]


def test_more_journals_than_can_be_told_apart_are_refused(tmp_path: Path) -> None:
    for number in range(256):
        (tmp_path / f"journal-{number}.jsonl").touch()
    RunStore(tmp_path).close()
    with pytest.raises(StoreError, match="has 257 journals, more than 256"):
        RunStore(tmp_path, 256)


def test_lines_are_on_the_disk_before_append_returns_and_synced_by_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    now = 0.0
    with RunStore(tmp_path, clock=lambda: now) as store:
        monkeypatch.setattr("snellen.runs.run_store.os.fsync", synced.append)
        store.append([told("a", "1")])
        assert len(replies(tmp_path)) == 1
        assert synced == []
        now = 0.6
        store.append([told("b", "2")])
        assert len(synced) == 1
    assert len(synced) == 2


@contextmanager
def small_disk() -> Iterator[None]:
    """No file can be longer than 600 bytes: within the test alone, since pytest may be writing to a file too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_takes_no_more_is_one_line_and_keeps_the_whole_lines(tmp_path: Path) -> None:
    full = pytest.raises(StoreError, match=r"cannot write \(File too large\); choose")
    with small_disk(), RunStore(tmp_path) as store, full:
        for i in range(100):
            store.append([told(str(i), "x" * 50)])
    before = len(replies(tmp_path))
    assert before >= 2
    with small_disk(), pytest.raises(StoreError, match="cannot write"):
        write_atomically(tmp_path / "manifest.json", b"x" * 1000)
    assert [path.name for path in tmp_path.iterdir()] == ["journal-0.jsonl"]
    RunStore(tmp_path).close()
    assert len(replies(tmp_path)) == before


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        StoreError, match=r"cannot write .*; choose a folder you can write with runs=..."
    ):
        RunStore(tmp_path / "file")
    with pytest.raises(StoreError, match=r"cannot write .*; choose a folder you can write$"):
        write_manifest(tmp_path / "file" / "run", a_manifest())


# --- the manifest ------------------------------------------------------------------------------------------------


def a_manifest(format: int = RUN_FORMAT) -> RunManifest:  # noqa: A002
    return RunManifest(
        format,
        "m",
        {"a": "1"},
        (BenchmarkUse("mine", "v1", "folder"),),
        (P,),
        "t",
        (QuestionSpec(models=("m",), limit=3),),
        {},
        {},
        "2026-01-01T00:00:00+00:00",
    )


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write_manifest(tmp_path, a_manifest())
    assert read_manifest(tmp_path) == a_manifest()
    assert sorted(path.name for path in tmp_path.iterdir()) == [MANIFEST_COPY, RUN_MANIFEST]


def test_a_file_is_written_into_folders_that_are_not_there_yet(tmp_path: Path) -> None:
    write_manifest(tmp_path / "runs" / "of" / "today", a_manifest())
    assert read_manifest(tmp_path / "runs" / "of" / "today") == a_manifest()


def test_a_build_fits_a_run_when_its_version_or_its_questions_are_the_same() -> None:
    use = BenchmarkUse("mine", "v1", "folder", questions="q1")
    assert use.matches_build("v1", "q2") and use.matches_build("v2", "q1")
    assert not use.matches_build("v2", "q2")
    assert not BenchmarkUse("mine", "v1", "folder").matches_build("v2", "")


def test_a_run_of_another_format_is_refused(tmp_path: Path) -> None:
    write_manifest(tmp_path, a_manifest(format=7))
    with pytest.raises(StoreError) as caught:
        read_manifest(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} is a run of format 7, but this version of Snellen reads 3; choose another name=..., "
        "or use the version that created it"
    )


def test_a_benchmark_of_a_manifest_was_asked_whole_under_all_protocols_unless_it_says_otherwise() -> (
    None
):
    least = msgspec.json.decode(
        b'{"name": "mine", "version": "v1", "folder": "f"}', type=BenchmarkUse
    )
    assert least == BenchmarkUse(
        "mine",
        "v1",
        "f",
        where="",
        limit=None,
        protocols=(),
        questions="",
        part=None,
        examples_from="",
        examples="",
        origin="",
    )
    assert RoleModel("judging", {}) == RoleModel(
        "judging", {}, fingerprint_after_session={}, answers_by_sample=False
    )


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, r"is not a run \(manifest.json is missing\)"),
        (b"{}", "is a run of format none"),
        (b"[]", r"manifest.json is damaged "),
        (b"not json", r"manifest.json is damaged "),
        (b'{"format": 3}', r"manifest.json is damaged .*missing required field"),
    ],
)
def test_a_folder_that_is_no_run_says_so(content: bytes | None, fault: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / RUN_MANIFEST).write_bytes(content)
    with pytest.raises(StoreError, match=fault):
        read_manifest(tmp_path)


def test_a_journal_is_json_lines_that_anyone_can_read(tmp_path: Path) -> None:
    path = fill(tmp_path, 2)
    first = msgspec.json.decode(path.read_bytes().splitlines()[0])
    assert first["protocol"] == P
    assert first["request"]["messages"][0] == {
        "role": "user",
        "content": [{"type": "text", "text": "0-0"}],
    }
    assert first["response"] == {"text": "reply 0"}


# --- answers of other runs ---------------------------------------------------------------------------------------


def test_an_answer_that_another_run_has_is_taken_over_and_not_counted_as_asked(
    tmp_path: Path,
) -> None:
    with RunStore(tmp_path / "first") as store:
        store.append(
            [
                told("What?", "a cat"),
                Exchange(P, ask("Where?"), Response(error=Failure("server", "500"))),
            ]
        )
    with RunStore(tmp_path / "second", earlier_runs=[tmp_path / "first"]) as store:
        assert store.find(P, ask("What?", "other sample")) == Response(text="a cat")
        assert store.find(P, ask("Where?")) is None
        assert (store.answered, store.failed) == ({}, {})
    [taken] = read_exchanges(tmp_path / "second")
    assert taken.reused and taken.request.sample_id == "other sample"
    with RunStore(tmp_path / "second") as store:
        assert store.find(P, ask("What?")) == Response(text="a cat")


def test_an_answer_of_one_s_own_goes_before_that_of_another_run(tmp_path: Path) -> None:
    for name, reply in (("first", "a cat"), ("second", "a dog")):
        with RunStore(tmp_path / name) as store:
            store.append([told("What?", reply)])
    with RunStore(tmp_path / "second", earlier_runs=[tmp_path / "first"]) as store:
        assert store.find(P, ask("What?", "new")) == Response(text="a dog")


def test_a_role_that_answers_by_sample_gives_no_answer_to_another_sample(tmp_path: Path) -> None:
    with RunStore(tmp_path / "first", by_sample=[""]) as store:
        store.append([told("What?", "a cat", sample="q")])
        assert store.find(P, ask("What?", sample="q", test=1)) == Response(text="a cat")
        assert store.find(P, ask("What?", sample="r")) is None
        assert (
            store.find(P, msgspec.structs.replace(ask("What?", sample="q"), benchmark="c")) is None
        )
    for by_sample, expected in (([""], None), (["judge"], Response(text="a cat"))):
        with RunStore(
            tmp_path / by_sample[0] / "next", by_sample=by_sample, earlier_runs=[tmp_path / "first"]
        ) as store:
            assert store.find(P, ask("What?", sample="r")) == expected


# --- what a session says of itself -------------------------------------------------------------------------------


def failed(text: str, detail: str) -> Exchange:
    return Exchange(P, ask(text), Response(error=Failure("server", detail)))


def test_reasons_of_failures_are_counted_and_from_the_hundredth_on_as_others(
    tmp_path: Path,
) -> None:
    with RunStore(tmp_path) as store:
        store.append(failed(str(i), f"line {i}") for i in range(103))
        store.append([failed("again", "line 0"), told("known", "a cat")])
        assert (store.failed, store.answered) == ({"": 104}, {"": 1})
        assert len(store.reasons) == 101 and store.reasons["other reasons"] == 3
        assert (store.reasons["server: line 0"], store.reasons["server: line 99"]) == (2, 1)


def test_what_came_for_one_request_is_shared_with_those_that_asked_the_same(tmp_path: Path) -> None:
    gone = Response(error=Failure("server", "gone"))
    with RunStore(tmp_path) as store:
        store.append([told("What?", "a cat"), Exchange(P, ask("Where?"), gone)])
        assert store.share(P, ask("What?", "r"), Response(text="a cat")) == Response(text="a cat")
        assert store.share(P, ask("Where?", "r"), gone) == gone
        assert (store.answered, store.failed) == ({"": 1}, {"": 1}), "what is shared was not asked"
        assert store.has_answered(P, ask("What?", "r")) and not store.has_answered(
            P, ask("Where?", "r")
        )
    shared = [one for one in read_exchanges(tmp_path) if one.request.sample_id == "r"]
    assert [(one.reused, one.response) for one in shared] == [
        (True, Response(text="a cat")),
        (True, gone),
    ]


def test_presentations_of_a_sample_are_counted_once_each_and_without_steps(tmp_path: Path) -> None:
    step = msgspec.structs.replace(ask("Think."), variant=Variant(step="think"))
    with RunStore(tmp_path) as store:
        store.append(
            [told("What?", "a cat"), told("What?", "a cat"), Exchange(P, step, Response(text="hm"))]
        )
        store.find(P, ask("What?", test=1))
        store.append([told("Where?", "there", sample="r")])
    for folder in (tmp_path, tmp_path):
        with RunStore(folder) as store:
            counts = [
                store.count_answered_presentations(P, Sample(name, "b")) for name in ("q", "r", "s")
            ]
            assert (
                counts == [2, 1, 0]
                and store.count_answered_presentations("circular", Sample("q", "b")) == 0
            )


# --- what is said of a folder that something happened to ---------------------------------------------------------


def test_a_folder_in_place_of_a_journal_is_said(tmp_path: Path) -> None:
    journal = tmp_path / "journal-0.jsonl"
    journal.mkdir()
    with pytest.raises(
        StoreError, match=rf"^{journal} is a folder, not a journal; run `snellen mend {tmp_path}`$"
    ):
        RunStore(tmp_path)
    with pytest.raises(
        StoreError,
        match=rf"^{journal}: cannot be read \(it is a folder, not a file\); run `snellen mend {tmp_path}` to move",
    ):
        replies(tmp_path)


def test_a_line_that_was_damaged_since_the_folder_was_opened_is_named(tmp_path: Path) -> None:
    path = fill(tmp_path, 3)
    with RunStore(tmp_path) as store:
        path.write_bytes(path.read_bytes().replace(b"reply 2", b"reply 9"))
        assert store.find(P, ask("0-1")) == Response(text="reply 1")
        with pytest.raises(
            StoreError,
            match=rf"^{path}:3: .*; run `snellen mend {tmp_path}` to move damaged lines aside$",
        ):
            store.find(P, ask("0-2"))


def test_the_number_of_a_damaged_line_is_found_in_a_journal_of_several_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fill(tmp_path, 9)
    monkeypatch.setattr("snellen.runs.journal.READ_AT_ONCE", 100)
    assert path.stat().st_size > 900
    lines = path.read_bytes().splitlines(keepends=True)
    offset = sum(map(len, lines[:7]))
    path.write_bytes(path.read_bytes().replace(b"reply 7", b"reply 9"))
    with (
        JournalReader([path]) as reader,
        pytest.raises(StoreError, match=rf"^{path}:8: the line has changed since"),
    ):
        reader.read(position_of(0, offset))


def test_a_journal_that_went_away_after_its_index_was_read_is_said(tmp_path: Path) -> None:
    path = fill(tmp_path, 3)
    with RunStore(tmp_path) as store:
        path.unlink()
        with pytest.raises(StoreError, match=rf"^{path}: cannot be read \(No such file"):
            store.find(P, ask("0-1"))


def test_a_journal_that_is_gone_is_said(tmp_path: Path) -> None:
    with pytest.raises(
        StoreError, match=r"cannot be read \(No such file or directory\); check its permissions"
    ):
        list(read_journal(tmp_path / "journal-0.jsonl"))


@pytest.mark.parametrize("content", [b"", b"\0" * 40, b"\0\n \n"])
def test_a_manifest_that_a_loss_of_power_emptied_is_said(content: bytes, tmp_path: Path) -> None:
    (tmp_path / RUN_MANIFEST).write_bytes(content)
    with pytest.raises(StoreError) as caught:
        read_manifest(tmp_path)
    fault = "is damaged (it is empty, perhaps because of a power failure)"
    advice = f"run `snellen mend {tmp_path}` to restore it"
    assert str(caught.value) == f"{tmp_path / RUN_MANIFEST} {fault}; {advice}"


def test_answers_without_their_manifest_are_not_called_lost(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    RunStore(folder).close()
    for filled in (False, True):
        with pytest.raises(StoreError) as caught:
            read_manifest(folder)
        again = "its journals contain replies: repeat the call of the run to resume it"
        again = again if filled else "make a run with sn.evaluate(MODEL, BENCHMARK)"
        assert str(caught.value) == f"{folder} is not a run (manifest.json is missing); {again}"
        fill(folder, 1)


def test_a_folder_in_place_of_a_journal_holds_no_answers(tmp_path: Path) -> None:
    (tmp_path / "run" / "journal-0.jsonl").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"\(manifest.json is missing\); make a run with"):
        read_manifest(tmp_path / "run")


# --- who answered ------------------------------------------------------------------------------------------------


def test_a_line_says_who_answered_and_another_model_is_refused(tmp_path: Path) -> None:
    manifest = a_manifest()
    assert list(manifest.authors) == [""] and manifest.authors[""].startswith("m#")
    with RunStore(tmp_path, authors=manifest.authors) as store:
        store.append([told("What?", "a cat")])
    write_manifest(tmp_path, manifest)
    [exchange] = read_exchanges(tmp_path)
    assert exchange.answered_by == manifest.authors[""]
    changes: list[dict[str, Any]] = [
        {"model": "n"},
        {"fingerprint": {"a": "2"}},
        {"templates": "u"},
        {"question_specs": (QuestionSpec(models=("m",), temperature=1.0),)},
        {"question_specs": (QuestionSpec(models=("m",), prefix=False),)},
        {"question_specs": (QuestionSpec(models=("m",), few_shot=2),)},
    ]
    others = [msgspec.structs.replace(manifest, **change) for change in changes]
    assert len({other.authors[""] for other in (manifest, *others)}) == len(changes) + 1
    for other in others:
        write_manifest(tmp_path, other)
        with pytest.raises(StoreError, match=r"journal-0.jsonl:1: "):
            replies(tmp_path)
    same = msgspec.structs.replace(
        manifest, software={"snellen": "9"}, started="later", notes=("x",)
    )
    assert same.authors == manifest.authors
    two, turned = ({name: name for name in names} for names in ("ab", "ba"))
    assert (
        len(
            {
                msgspec.structs.replace(manifest, fingerprint=facts).authors[""]
                for facts in (two, turned)
            }
        )
        == 1
    )


def test_other_models_answer_in_their_roles(tmp_path: Path) -> None:
    judge = RoleModel("judging", {"j": "1"}, answers_by_sample=True)
    manifest = msgspec.structs.replace(
        a_manifest(), roles={"judge": judge, "asker": RoleModel("asking", {})}
    )
    assert {role: name.partition("#")[0] for role, name in manifest.authors.items()} == {
        "": "m",
        "judge": "judging",
        "asker": "asking",
    }
    assert manifest.by_sample == {"judge"}
    assert msgspec.structs.replace(manifest, answers_by_sample=True).by_sample == {"", "judge"}


def test_predictions_made_elsewhere_were_asked_by_nobody() -> None:
    elsewhere = msgspec.structs.replace(a_manifest(), question_specs=())
    assert (elsewhere.is_imported, a_manifest().is_imported) == (True, False)
    assert (elsewhere.decoding, elsewhere.prefix, elsewhere.few_shot) == (Decoding(), False, ())
    spec = QuestionSpec(models=("m",), temperature=0.5, prefix=True, few_shot=2, few_shot_seed=7)
    asked = msgspec.structs.replace(a_manifest(), question_specs=(spec,))
    assert (asked.decoding.temperature, asked.prefix, asked.few_shot) == (0.5, True, (2, 0, 7))


def test_a_file_in_parts_is_whole_and_on_the_disk_before_it_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    was_there: list[bool] = []
    monkeypatch.setattr(
        "snellen.runs.run_store.os.fsync", lambda file: was_there.append((tmp_path / "f").exists())
    )
    write_atomically(tmp_path / "f", iter([b"one ", b"two"]))
    assert (tmp_path / "f").read_bytes() == b"one two"
    assert was_there == [False, True], "the file before it has its name, the folder after"
