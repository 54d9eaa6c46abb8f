"""Logs of votes: every form read, damaged rows counted, written and read again, frozen and checked, from the shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulated_arenas import Population, simulated_battles
from snellen.cli import main
from snellen.errors import DataError
from snellen_server.arena_ratings.log import (
    VOTED_AGAIN,
    Battle,
    VoteLog,
    battle_table,
    read_votes,
    vote_log,
    write_votes,
)
from snellen_server.arena_ratings.rating import (
    rate_votes,
    read_snapshot,
    snapshot_differences,
    write_snapshot,
)
from snellen_server.arena_ratings.votes import RatingSettings

QUICK = RatingSettings(resamples=50)


@pytest.fixture(scope="module")
def simulated() -> VoteLog:
    population = Population((-0.5, 0.0, 0.5), voters=30, votes=400)
    return VoteLog(simulated_battles(population, np.random.default_rng(1)))


def battles_of(table: pl.DataFrame) -> list[Battle]:
    """The battles of a table, in order."""
    return [Battle(**row) for row in table.iter_rows(named=True)]


def lines(path: Path, *rows: Any) -> Path:
    """JSON lines; a text stands as it is."""
    path.write_text(
        "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n", "utf-8"
    )
    return path


def side(model: str, *turns: str | None, **fields: Any) -> dict[str, Any]:
    """A side's state in FastChat's log: a system's turn that the visitors did not write, then theirs."""
    messages = [["USER", "earlier"], ["ASSISTANT", "talk"]]
    messages += [[("USER", "ASSISTANT")[place % 2], text] for place, text in enumerate(turns)]
    return {
        "conv_id": f"c-{model}",
        "model_name": model,
        "messages": messages,
        "offset": 2,
        **fields,
    }


def vote(
    kind: str, *states: dict[str, Any], models: tuple[Any, Any] = ("", ""), **fields: Any
) -> dict[str, Any]:
    return {
        "tstamp": 1683900000.5,
        "type": kind,
        "models": models,
        "states": states,
        "ip": "10.1.2.3",
        **fields,
    }


def test_conversations_of_fastchat_are_read_with_what_cannot_be_counted_by_reason(
    tmp_path: Path,
) -> None:
    one, other = side("vicuna", "Hi", "Hello"), side("koala", "Hi", "Hey", conv_id="c-2")
    shown = ("<h3>Model A: vicuna</h3>\n", "<h3>Model B: koala</h3>\n")
    log = read_votes(
        [
            lines(
                tmp_path / "2023-05-12-conv.json",
                {"tstamp": 1.0, "type": "chat", "model": "vicuna", "state": {}},
                vote("leftvote", one, other),
                vote("bothbad_vote", side("a", "Hi", "x"), other, models=("Model A", "Model B")),
                vote("tievote", side("vicuna", "Hi", "y", conv_id="c-3"), other, models=shown),
                vote("rightvote", one, other),  # the same conversation again
                vote("leftvote", one, other, models=("", "koala")),
                vote("leftvote", side("vicuna", "Hi", None, conv_id="c-4"), other),
                vote(
                    "leftvote",
                    side("vicuna", "Hi", "**API REQUEST ERROR** no", conv_id="c-5"),
                    other,
                ),
                vote("leftvote", one, other, models=(None, None)),
                {"tstamp": 2.0, "type": "upvote"},
                {"tstamp": 3.0, "type": "leftvote", "models": ["", ""]},
                vote("leftvote", one, other, models=("", "", "")),
                vote("leftvote", {**one, "messages": [["USER", "Hi", 3]], "offset": 0}, other),
                '{"tstamp": 4.0, "type": "leftv',
                "[1, 2]",
            )
        ]
    )
    assert log.left_out_votes == {
        "not a vote but a chat": 1,
        "not a vote but another event": 1,
        VOTED_AGAIN: 1,
        "the names shown differ from those of the conversations": 1,
        "a reply is missing": 1,
        "a reply is an error of the server": 1,
        "a model has no name": 1,
        "missing fields or wrong types": 3,
        "not a JSON object": 2,
    }
    assert log.row_count == 15 and log.forms == ("fastchat-conversations",)
    first, second, third = battles_of(log.battles)
    assert (first.left, first.right, first.outcome, first.time) == (
        "vicuna",
        "koala",
        "left",
        1683900000.5,
    )
    assert (first.prompt, first.left_reply, first.right_reply) == ("Hi", "Hello", "Hey")
    assert (second.outcome, second.anonymous, third.anonymous) == ("both bad", True, False)
    assert (
        first.voter == third.voter
        and "10.1.2.3" not in msgspec.json.encode([first, second, third]).decode()
    )


def cleaned(
    number: int, winner: str, judge: Any = "arena_user_10.0.0.1", **fields: Any
) -> dict[str, Any]:
    talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": f"reply {number}"}]
    row = {
        "question_id": f"q{number}",
        "model_a": "a",
        "model_b": "b",
        "winner": winner,
        "judge": judge,
        "turn": 1,
    }
    row |= {
        "anony": True,
        "language": "English",
        "tstamp": 1e9 - number,
        "conversation_a": talk,
        "conversation_b": talk,
    }
    return row | fields


def test_cleaned_battles_are_read_and_votes_of_judges_told_from_those_of_people(
    tmp_path: Path,
) -> None:
    rows = [
        cleaned(1, "model_a"),
        cleaned(2, "tie (bothbad)", "expert_1"),
        cleaned(3, "model_b", ["gpt-4", "pair-v2"]),
        cleaned(4, "both"),
        cleaned(5, "tie", model_a=""),
        cleaned(6, "tie", conversation_a=None, conversation_b=None, anony=False),
        {
            name: value
            for name, value in cleaned(7, "tie").items()
            if name not in ("question_id", "tstamp")
        },
        7,
    ]
    path = tmp_path / "clean_battle_20230522.json"
    path.write_text(json.dumps(rows, indent=2), "utf-8")
    log = read_votes([path], salt=b"1")
    assert log.left_out_votes == {
        "unknown outcome": 1,
        "a model has no name": 1,
        "not a JSON object": 1,
    }
    by_id = {battle.id: battle for battle in battles_of(log.battles)}
    assert list(by_id) == ["clean_battle_20230522.json:00000007", "q6", "q3", "q2", "q1"]  # by time
    assert [by_id[f"q{n}"].voter_kind for n in (1, 2, 3)] == ["person", "person", "judge"]
    assert (by_id["q3"].voter, by_id["q3"].outcome, by_id["q2"].outcome) == (
        "gpt-4 pair-v2",
        "right",
        "both bad",
    )
    assert (by_id["q1"].language, by_id["q1"].left_reply, by_id["q6"].left_reply) == (
        "English",
        "reply 1",
        None,
    )
    again, otherwise = read_votes([path], salt=b"1"), read_votes([path])
    assert log.battles.equals(again.battles) and not log.battles.equals(otherwise.battles)
    parquet = tmp_path / "battles.parquet"
    pl.DataFrame(
        [{k: v for k, v in row.items() if k != "judge"} for row in rows[:3]]
    ).write_parquet(parquet)  # type: ignore[union-attr]
    assert read_votes([parquet]).battles["outcome"].to_list() == ["right", "both bad", "left"]


def votes_of(rows: list[dict[str, Any]], path: Path) -> VoteLog:
    path.write_text(json.dumps(rows))
    return read_votes([path])


CLEAN = {
    "model_a": "m1",
    "model_b": "m2",
    "winner": "model_a",
    "tstamp": 1.0,
    "judge": "arena_user_1",
}


def test_all_words_for_two_bad_replies_are_known(tmp_path: Path) -> None:
    words = ("tie (bothbad)", "tie (both bad)", "both_bad", "bothbad")
    rows = [{**CLEAN, "winner": word, "tstamp": n} for n, word in enumerate(words)]
    log = votes_of(rows, tmp_path / "v.json")
    assert log.battles["outcome"].to_list() == ["both bad"] * 4
    assert not log.left_out_votes


@pytest.mark.parametrize("name", ["judge_hash", "evaluation_session_id"])
def test_voters_are_known_by_the_fields_of_later_logs(name: str, tmp_path: Path) -> None:
    rows = [
        {**{k: v for k, v in CLEAN.items() if k != "judge"}, "tstamp": n, name: f"h{n % 2}"}
        for n in range(4)
    ]
    assert votes_of(rows, tmp_path / "v.json").battles["voter"].n_unique() == 2


def test_a_vote_that_is_there_twice_counts_once_and_is_noted(tmp_path: Path) -> None:
    rows = [{**CLEAN, "tstamp": n} for n in range(3)]
    log = votes_of(rows * 2, tmp_path / "v.json")
    assert (log.battles.height, log.left_out_votes) == (3, {"voted again on the same battle": 3})
    nameless = [{k: v for k, v in CLEAN.items() if k not in ("judge", "tstamp")}] * 2
    assert votes_of(nameless, tmp_path / "w.json").battles.height == 2


def test_rows_that_the_log_itself_takes_out_are_counted_apart(tmp_path: Path) -> None:
    rows = [
        {**CLEAN, "question_id": f"q{n}", "dedup_tag": {"high_freq": True, "sampled": n > 0}}
        for n in range(3)
    ]
    log = votes_of(rows, tmp_path / "v.json")
    assert log.battles.height == 2
    assert log.left_out_votes == {"taken out by the log's own removal of duplicates (dedup_tag)": 1}


@pytest.mark.parametrize("ending", ["json", "csv"])
def test_a_column_for_each_outcome_is_read(ending: str, tmp_path: Path) -> None:
    outcomes = [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    names = ("winner_model_a", "winner_model_b", "winner_tie")
    rows = [
        {
            "id": n,
            "model_a": "m1",
            "model_b": "m2",
            "prompt": json.dumps(["a", "b"]),
            **dict(zip(names, outcome, strict=True)),
        }
        for n, outcome in enumerate(outcomes)
    ]
    path = tmp_path / f"v.{ending}"
    if ending == "json":
        path.write_text(json.dumps(rows))
    else:
        pl.DataFrame(rows).write_csv(path)
    log = read_votes([path])
    assert log.battles["outcome"].to_list() == ["left", "right", "tie"]
    assert log.battles["prompt"].to_list() == ["a\nb"] * 3


def test_logs_of_the_multimodal_arena_are_read_in_their_order(tmp_path: Path) -> None:
    row = {
        "image": [[[0, 1, 2]]],
        "text": "Which city?",
        "get_input": True,
        "VLP_names": ["owl", "otter"],
    }
    row["VLP_outputs"] = ["Rome", "Oslo"]
    log = read_votes(
        [
            lines(
                tmp_path / "2023-05-12-conversation.json",
                row | {"user_vote": "right"},
                row | {"user_vote": "bad", "image": [[[9, 9, 9]]]},
                row,
                row | {"user_vote": "left", "VLP_outputs": ["Rome", "no worker (error_code: 4)"]},
                row | {"user_vote": "up"},
            )
        ]
    )
    one, two = battles_of(log.battles)
    assert (one.left, one.right, one.outcome, one.prompt, one.voter) == (
        "owl",
        "otter",
        "right",
        "Which city?",
        None,
    )
    assert two.outcome == "both bad" and one.image != two.image and len(one.image or "") == 32
    assert log.left_out_votes == {
        "not a vote but a chat": 1,
        "a reply is missing or an error of the server": 1,
        "unknown outcome": 1,
    }


TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=5
).filter(str.strip)
BATTLES = st.builds(
    Battle,
    id=TEXT,
    left=TEXT.map(str.strip),
    right=TEXT.map(str.strip),
    outcome=st.sampled_from(["left", "right", "tie", "both bad"]),
    time=st.none() | st.floats(0, 2e9),
    propensity=st.none() | st.floats(0.001, 1),
    voter=st.none() | TEXT,
    anonymous=st.booleans(),
    left_reply=st.none() | TEXT,
    category=st.sampled_from(["", "charts"]),
)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
@given(rows=st.lists(BATTLES, min_size=1, max_size=5, unique_by=lambda battle: battle.id))
@settings(deadline=None, max_examples=12)
def test_what_is_written_is_read_again(
    ending: str, tmp_path_factory: pytest.TempPathFactory, rows: list[Battle]
) -> None:
    path = tmp_path_factory.mktemp("votes") / f"votes.{ending}"
    write_votes(path, battle_table(rows))
    log = read_votes([path])
    assert sorted(battles_of(log.battles), key=lambda row: row.id) == sorted(
        rows, key=lambda row: row.id
    )
    assert not log.left_out_votes and log.forms == ("snellen",)


def test_own_rows_that_are_no_battles_are_counted_in_either_form(tmp_path: Path) -> None:
    good = {"id": "1", "left": "a", "right": "b", "outcome": "left"}
    bad = [
        ("id", "", "no id"),
        ("left", "  ", "a model has no name"),
        ("propensity", 0.0, "propensity not in (0, 1]"),
    ]
    rows = [
        good,
        *({**good, "id": str(n), name: value} for n, (name, value, _) in enumerate(bad, 2)),
    ]
    expected = {reason: 1 for _, _, reason in bad}
    assert read_votes([lines(tmp_path / "v.jsonl", *rows)]).left_out_votes == expected
    path = tmp_path / "v.parquet"
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)
    assert read_votes([path]).left_out_votes == expected
    odd = lines(
        tmp_path / "odd.jsonl", good, {**good, "outcome": "draw"}, {**good, "colour": "red"}
    )
    assert read_votes([odd]).left_out_votes == {"missing fields or wrong types": 2}


def test_files_that_are_no_logs_are_refused_with_what_was_found(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR")
    pl.DataFrame({"left": ["a"], "right": ["b"], "outcome": ["left"], "x": [1]}).write_parquet(
        tmp_path / "x.parquet"
    )
    for path, fault in (
        (
            lines(tmp_path / "other.jsonl", {"question": 1}, {"question": 2}),
            "2 unknown form.*known forms are",
        ),
        (lines(tmp_path / "empty.jsonl"), "no votes .the file is empty"),
        (tmp_path / "missing.jsonl", "no such file"),
        (tmp_path / "votes.txt", "is a .jsonl, .json, .csv or .parquet file"),
        (tmp_path / "bad.parquet", "cannot be read as Parquet"),
        (tmp_path / "x.parquet", "column 'x' is not one of a battle's"),
    ):
        with pytest.raises(DataError, match=fault):
            read_votes([path])


def test_a_snapshot_is_computed_again_from_the_same_votes_and_tells_of_others(
    simulated: VoteLog, tmp_path: Path
) -> None:
    path = tmp_path / "snapshot.json"
    write_snapshot(path, rate_votes(simulated, QUICK))
    snapshot = read_snapshot(path)
    assert snapshot.rating == rate_votes(simulated, QUICK)
    assert snapshot_differences(snapshot, simulated) == ()
    [fault] = snapshot_differences(snapshot, VoteLog(simulated.battles.head(-1)))
    assert fault.startswith("the votes differ: 400 were rated then, 399 now")
    content = json.loads(path.read_text())
    content["rating"]["models"][0]["rating"] += 0.01
    content["software"]["numpy"] = "0.1"
    path.write_text(json.dumps(content))
    rating, software = snapshot_differences(read_snapshot(path), simulated)
    assert rating.startswith("model-02: rating was") and "numpy 0.1 then" in software
    path.write_text("{}")
    with pytest.raises(DataError, match="not a snapshot of ratings"):
        read_snapshot(path)


def test_the_command_imports_rates_freezes_and_checks(
    simulated: VoteLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    votes, snapshot, table = tmp_path / "v.jsonl", tmp_path / "s.json", tmp_path / "t.csv"
    write_votes(votes, simulated.battles)

    def run(*words: object, code: int = 0) -> str:
        with pytest.raises(SystemExit) as end:
            main(["arena", *map(str, words)])
        assert end.value.code == code
        caught = capsys.readouterr()
        return caught.out + caught.err

    shown = run("rate", votes, "--resamples", 50, "--snapshot", snapshot, "--csv", table)
    assert "1     model-02" in shown and "400 votes of" in shown and "the left side won" in shown
    assert table.read_text().startswith("model,group,rank,rating,low,high,votes")
    run("import", votes, tmp_path / "v.parquet")
    assert "the same ratings from the same 400 votes" in run(
        "rate", tmp_path / "v.parquet", "--check", snapshot
    )
    votes.write_bytes(
        votes.read_bytes()
        + votes.read_bytes().splitlines(keepends=True)[0].replace(b"battle-", b"new-")
    )
    assert "the votes differ" in run("rate", votes, "--check", snapshot, code=1)
    elo = [
        json.loads(line)
        for line in run("rate", votes, "--method", "elo", "--resamples", 2, "--json").splitlines()
    ]
    assert [row["model"] for row in elo] == ["model-02", "model-01", "model-00"]
    assert "left side: " in run(
        "rate", votes, "--method", "davidson", "--position", "--interval", "sandwich"
    )
    assert "model-00  model-01" in run("pairs", votes)
    assert "0 of 1" in run("voters", votes)


def test_a_model_between_two_groups_is_not_said_to_have_lost_or_won_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = ["ab", "ba", "cd", "dc", "am", "mc"]  # m lost to a and won against c
    battles = [
        Battle(id=str(n), left=won, right=lost, outcome="left", voter=str(n), time=float(n))
        for n, (won, lost) in enumerate(results)
    ]
    votes = tmp_path / "v.jsonl"
    write_votes(votes, vote_log(battles).battles)
    with pytest.raises(SystemExit):
        main(["arena", "rate", str(votes), "--resamples", "20"])
    shown = capsys.readouterr().out
    assert "not rated, because no chain of votes connects them with other models" in shown
    assert "in both directions: m\n" in shown
