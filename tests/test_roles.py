"""Other models of a run: who answers for a role, what is recorded of it, and what a later session must not change."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import reasoning_roles
import small
import snellen as sn
from reasoning_roles import PROTOCOL, ROLES, Actor, AsyncActor
from servers import rate_limited, start_server
from snellen import registry
from snellen.building.benchmark import Benchmark
from snellen.errors import DataError, ErrorBudgetError, ModelError, StoreError
from snellen.models.loading import load_model
from snellen.protocols.base import ProtocolSettings
from snellen.records import Failure, Message, Request, Response, TextPart, Usage, Variant
from snellen.runs.journal import read_exchanges
from snellen.runs.plan import plan_run
from snellen.runs.run_folder import read_manifest
from snellen.runs.runner import run_plan
from snellen.runs.spec import run_spec


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_request_to_the_evaluated_model_has_the_key_that_it_always_had() -> None:
    request = Request(
        "b", "s", Variant(labels=("A", "B")), (Message("user", (TextPart("What?"),)),)
    )
    assert (
        request.key == "86307c6c376a46da9cb900a19415cf88"
    )  # of the journals written before there were roles
    assert msgspec.json.encode(request) == (
        b'{"benchmark":"b","sample_id":"s","variant":{"labels":["A","B"]},'
        b'"messages":[{"role":"user","content":[{"type":"text","text":"What?"}]}]}'
    )
    assert (
        len(
            {
                request.key,
                replace(request, role="reasoner").key,
                replace(request, role="questioner").key,
            }
        )
        == 3
    )


Maker = Callable[[str], Any]


@pytest.mark.parametrize(
    ("main", "questioner", "reasoner"),
    [
        (Actor, Actor, Actor),
        (AsyncActor, AsyncActor, AsyncActor),
        (Actor, AsyncActor, AsyncActor),
        (AsyncActor, Actor, AsyncActor),
    ],
)
def test_models_in_batches_and_behind_a_network_play_together(
    main: Maker, questioner: Maker, reasoner: Maker, questions: Benchmark
) -> None:
    model, roles = (
        main(""),
        {"questioner": questioner("questioner"), "reasoner": reasoner("reasoner")},
    )
    results = sn.evaluate(
        model, str(questions.folder), ["vanilla", PROTOCOL], roles=roles, limit=6, name="run"
    )
    # Requests by role: six questions about few images, of which each model is asked each thing once.
    asked = Counter(key for actor in (model, *roles.values()) for key in actor.asked)
    assert set(asked.values()) == {1}
    by_role = {use.role: use.answered for use in results.runs[0].roles}
    assert by_role == {role: len(actor.asked) for role, actor in {"": model, **roles}.items()}
    scores = (Path("runs/run") / "scores.jsonl").read_bytes()
    plain = {role: Actor(role) for role in ROLES}
    sn.evaluate(
        Actor(), str(questions.folder), ["vanilla", PROTOCOL], roles=plain, limit=6, name="plain"
    )
    assert scores == (Path("runs/plain") / "scores.jsonl").read_bytes()
    assert [one.closed for one in (model, *roles.values()) if isinstance(one, AsyncActor)].count(
        0
    ) == 0


def test_one_model_may_have_several_roles_and_is_loaded_once(
    questions: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []

    class Everybody:
        fingerprint = "everybody"
        answers_by_sample = True

        def __init__(self) -> None:
            loaded.append(self)

        def generate(self, requests: list[Request], images: object) -> list[str]:
            return [reasoning_roles.reply_to(request) for request in requests]

    monkeypatch.setitem(registry._NAMES, "models", dict(registry._NAMES["models"]))
    registry.register("models", "everybody", lambda spec: load_model(Everybody()))
    roles = dict.fromkeys(ROLES, "everybody:x")
    sn.evaluate("everybody:x", str(questions.folder), PROTOCOL, roles=roles, limit=2, name="run")
    assert len(loaded) == 1


# --- the record --------------------------------------------------------------------------------------------------


def evaluated(questions: Benchmark, **roles: Any) -> sn.Results:
    cast = {role: Actor(role) for role in ROLES} | roles
    return sn.evaluate(Actor(), str(questions.folder), PROTOCOL, roles=cast, limit=2, name="run")


def test_the_manifest_names_the_models_and_resuming_with_another_is_refused(
    questions: Benchmark,
) -> None:
    evaluated(questions)
    manifest = read_manifest(Path("runs/run"))
    assert {role: (use.model, use.fingerprint) for role, use in manifest.roles.items()} == {
        role: (f"scripted {role}", {"declared": f"scripted {role}"}) for role in ROLES
    }
    assert manifest.question_specs[0].roles == (
        ("questioner", "scripted questioner"),
        ("reasoner", "scripted reasoner"),
    )
    before = (Path("runs/run") / "journal-0.jsonl").read_bytes()
    other = Actor("reasoner")
    other.fingerprint = "another"
    with pytest.raises(
        StoreError,
        match=r"contains a run with another reasoner \(declared was scripted reasoner, is an",
    ):
        evaluated(questions, reasoner=other)
    assert other.asked == [] and (Path("runs/run") / "journal-0.jsonl").read_bytes() == before
    evaluated(questions)
    assert (Path("runs/run") / "journal-0.jsonl").read_bytes() == before


def test_a_run_without_roles_may_grow_by_a_protocol_that_has_them(questions: Benchmark) -> None:
    sn.evaluate(Actor(), str(questions.folder), "vanilla", limit=2, name="run")
    assert read_manifest(Path("runs/run")).roles == {}
    evaluated(questions)
    assert set(read_manifest(Path("runs/run")).roles) == set(ROLES)


def test_other_roles_make_another_default_folder(questions: Benchmark) -> None:
    def folder(**roles: str) -> Path:
        spec = run_spec(
            {
                "models": ("snellen:uniform",),
                "benchmarks": (str(questions.folder),),
                "protocols": ("reasoning",),
                "roles": roles,
            }
        )
        return plan_run(spec).folder

    assert (
        len(
            {
                folder(questioner="snellen:uniform", reasoner=name)
                for name in ("snellen:always-a", "hf:a/b")
            }
        )
        == 2
    )


def test_a_missing_role_and_one_that_nobody_asks_are_one_line(questions: Benchmark) -> None:
    with pytest.raises(
        DataError,
        match=r"^reasoning needs a model for the role reasoner; name one with roles={'reasoner': MODEL}",
    ):
        sn.evaluate(
            Actor(), str(questions.folder), "reasoning", roles={"questioner": Actor("questioner")}
        )
    with pytest.raises(
        DataError,
        match=r"^no protocol of this run has the role critic; remove roles={'critic': \.\.\.}; known:",
    ):
        evaluated(questions, critic=Actor("critic"))
    with pytest.raises(
        DataError,
        match=r"^no protocol of this run has the role reasoner; remove roles={'reasoner': \.\.\.}$",
    ):
        sn.evaluate(
            Actor(), str(questions.folder), "vanilla", roles={"reasoner": Actor("reasoner")}
        )
    with pytest.raises(
        ModelError, match="scripted reasoner is an object in this process, which 2 workers cannot"
    ):
        sn.evaluate(
            "snellen:uniform",
            str(questions.folder),
            PROTOCOL,
            workers=2,
            roles={"questioner": "snellen:uniform", "reasoner": Actor("reasoner")},
        )
    assert not Path("runs").exists()


def test_a_model_that_cannot_reply_has_no_role(questions: Benchmark) -> None:
    class Scorer(Actor):
        kinds = frozenset({"loglikelihood"})

        def loglikelihood(self, requests: object, images: object) -> list[Response]:
            return []

        fingerprint = lambda self: {"scorer": "1"}  # type: ignore[assignment]  # noqa: E731

        def __init__(self) -> None:
            self.name, self.batch_size = "scorer", 4

    with pytest.raises(
        ModelError, match="scorer only scores options, but the role questioner needs replies"
    ):
        evaluated(questions, questioner=Scorer())


# --- failures ----------------------------------------------------------------------------------------------------


class Failing(Actor):
    def respond(self, request: Request) -> Response:
        return Response(error=Failure("server", "500"))


def test_the_error_budget_is_of_each_role_and_what_failed_is_asked_again(
    questions: Benchmark,
) -> None:
    with pytest.raises(ErrorBudgetError, match=r"^2 of 2 requests to the reasoner failed \(100.0%"):
        evaluated(questions, reasoner=Failing("reasoner"))
    failed = sn.score("runs/run")
    assert next(use.failed for use in failed.runs[0].roles if use.role == "reasoner") == 2
    [row] = [
        row
        for row in failed.rows
        if (row.metric, row.benchmark, row.slice) == ("accuracy", "mine", "")
    ]
    assert (row.estimate.value, row.estimate.errors) == (None, 2)
    [cost] = [
        row
        for row in failed.rows
        if (row.metric, row.benchmark, row.slice) == ("rounds_used", "mine", "")
    ]
    assert (cost.estimate.value, cost.estimate.errors) == (None, 2)
    before = {
        exchange.request.key
        for exchange in read_exchanges(Path("runs/run"))
        if not exchange.response.error
    }
    reasoner, model = Actor("reasoner"), Actor()
    cast = {"questioner": Actor("questioner"), "reasoner": reasoner}
    results = sn.evaluate(model, str(questions.folder), PROTOCOL, roles=cast, limit=2, name="run")
    assert not before & {*model.asked, *reasoner.asked, *cast["questioner"].asked}
    assert next(use.failed for use in results.runs[0].roles if use.role == "reasoner") == 0
    [row] = [
        row
        for row in results.rows
        if (row.metric, row.benchmark, row.slice) == ("accuracy", "mine", "")
    ]
    assert row.estimate.errors == 0


def test_a_protocol_that_asks_a_role_it_does_not_declare_is_one_line(
    questions: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Sly(ProtocolSettings, frozen=True):
        method = "generation"

        def applies(self, sample: sn.Sample) -> bool:
            return True

        def ask(self, sample: sn.Sample, prompt: Any, history: tuple[str, ...] = ()) -> Any:
            yield [
                replace(
                    prompt.generate(sample, Variant(template="choice.generation.0")), role="critic"
                )
            ]

    monkeypatch.setitem(registry._NAMES, "protocols", {**registry._NAMES["protocols"], "sly": Sly})
    with pytest.raises(ModelError, match="no model has the role critic"):
        sn.evaluate(Actor(), str(questions.folder), "sly", limit=1)


# --- the command line, workers, servers --------------------------------------------------------------------------


def test_flags_and_a_file_name_roles(
    questions: Benchmark, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("exam.toml").write_text(
        f'models = ["snellen:uniform"]\nbenchmarks = ["{questions.folder}"]\nprotocols = ["reasoning?rounds=1"]\n'
        'limit = 3\n[roles]\nquestioner = "snellen:uniform"\nreasoner = "snellen:uniform"\n'
    )
    code, _, said = small.command(
        capsys, "run", "exam.toml", "--name", "file", "--role", "reasoner=snellen:always-a"
    )
    assert code == 0, said
    manifest = read_manifest(Path("runs/file"))
    assert {role: use.model for role, use in manifest.roles.items()} == {
        "questioner": "snellen:uniform",
        "reasoner": "snellen:always-a",
    }
    assert "reasoner snellen:always-a: 3 requests" in said
    code, _, said = small.command(
        capsys, "run", "snellen:uniform", str(questions.folder), "--role", "reasoner"
    )
    assert code != 0 and said.splitlines()[-1].endswith(
        "write ROLE=MODEL, such as questioner=openai:NAME@URL"
    )


def test_workers_load_the_models_of_roles_too(questions: Benchmark) -> None:
    roles = {"questioner": "snellen:uniform", "reasoner": "snellen:always-a"}
    for name, workers in (("one", 1), ("two", 2)):
        sn.evaluate(
            "snellen:uniform",
            str(questions.folder),
            "reasoning?rounds=2",
            roles=roles,
            name=name,
            workers=workers,
        )
    assert _scores("one") == _scores("two")
    assert {
        use.role: use.answered > 0 for use in sn.score("runs/two").runs[0].roles
    } == dict.fromkeys(("", *ROLES), True)


def _scores(name: str) -> list[str]:
    return sorted((Path("runs") / name / "scores.jsonl").read_text().splitlines())


def test_roles_behind_servers_are_asked_over_http_and_their_tokens_counted(
    questions: Benchmark,
) -> None:
    concluded = "Analysis: it is one.\nAnswer: 2"
    with (
        start_server(reply="An animal.") as answerer,
        start_server(
            reply="Sub-question 1: Is it big? Sub-question 2: Is it red?",
            script=[rate_limited("0")],
        ) as asker,
        start_server(reply=concluded) as reasoner,
    ):
        results = sn.evaluate(
            f"openai:lvlm@{answerer.url}",
            str(questions.folder),
            "reasoning",
            limit=3,
            name="served",
            roles={"questioner": f"openai:a@{asker.url}", "reasoner": f"openai:b@{reasoner.url}"},
        )
        told = [
            seen.asked["messages"] for seen in reasoner.seen() if seen.path.endswith("completions")
        ]
    assert [[message["role"] for message in messages] for messages in told] == [
        ["system", "user"]
    ] * 3
    assert all("image_url" not in json.dumps(messages) for messages in told)
    uses = {use.role: use for use in results.runs[0].roles}
    assert (uses["reasoner"].answered, uses["reasoner"].usage) == (3, Usage(21, 9))
    assert (uses["questioner"].answered, uses["questioner"].failed) == (3, 0)
    # Each question: a caption, sub-questions, two sub-answers, a conclusion, at 10 tokens each.
    assert results.value("requests_used", benchmark="mine") == 5
    assert results.value("tokens_used", benchmark="mine") == 50
    assert results.value("rounds_used", benchmark="mine") == 1
    assert results.value("unparsed_rate", benchmark="mine") == 0


def test_planning_by_hand_needs_the_roles_too(questions: Benchmark) -> None:
    spec = run_spec(
        {
            "models": ("x",),
            "benchmarks": (str(questions.folder),),
            "protocols": ("reasoning",),
            "limit": 1,
            "name": "hand",
            "roles": {"questioner": "x", "reasoner": "x"},
        }
    )
    with pytest.raises(DataError, match="reasoning needs a model for the role questioner"):
        run_plan(load_model(Actor()), plan_run(spec))


def test_a_language_model_of_transformers_plays_a_role_and_is_shown_no_picture(
    questions: Benchmark, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers", reason="waits for transformers")
    import torch

    from tiny_archs import byte_level

    words = byte_level()
    words.chat_template = (
        "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
    )
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    ends = {
        "bos_token_id": words.bos_token_id,
        "eos_token_id": words.eos_token_id,
        "pad_token_id": words.pad_token_id,
    }
    made = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(vocab_size=len(words), **sizes, **ends)
    )
    made.save_pretrained(tmp_path / "llama")
    words.save_pretrained(tmp_path / "llama")
    llama = f"hf:{tmp_path / 'llama'}"
    results = sn.evaluate(
        "snellen:uniform",
        str(questions.folder),
        "reasoning?rounds=2&role_tokens=8",
        roles={"questioner": llama, "reasoner": llama},
        limit=2,
        name="llama",
    )
    uses = {use.role: use for use in results.runs[0].roles}
    assert all(
        uses[role].failed == 0 and uses[role].answered > 0 and uses[role].usage for role in ROLES
    )
    # What it cannot do is said, request by request.
    seen = sn.evaluate(
        llama, str(questions.folder), "vanilla", limit=1, name="blind", error_budget=1
    )
    [exchange] = read_exchanges(Path("runs/blind"))
    assert exchange.response.error and "reads only text" in exchange.response.error.detail
    assert seen.value("accuracy", benchmark="mine") is None
