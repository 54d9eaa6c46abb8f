"""Prompts do not depend on the day on which they are written."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch", reason="waits for torch")
pytest.importorskip("transformers", reason="waits for transformers")

import tiny_archs
from servers import Fault, error_body, start_server
from snellen.errors import ModelError
from snellen.models.loading import load_model
from snellen.models.template_dates import TODAY_NOTE, asks_for_date, chance_in
from test_openai import ask as ask_server
from test_openai import question
from tiny_archs import CHAT, Pictures, ask

PICTURES = Pictures()
RED = PICTURES.add("red")
# As Mistral Small 3.1 and Llama 3.2 ask for the date, each in its own form.
LIKE_MISTRAL = (
    "{%- set today = strftime_now('%Y-%m-%d') %}\n"
    "{%- set usual = 'The current date is ' + today + '.' %}\n"
    "{{- '<|system|>' + usual + '<|end|>' }}" + CHAT
)
LIKE_LLAMA = (
    "  {%- if not date_string is defined %}{%- if strftime_now is defined %}"
    '{%- set date_string = strftime_now("%d %b %Y") %}'
    "{%- else %}{%- set date_string = '26 Jul 2024' %}{%- endif %}{%- endif %}\n"
    "{{- '<|system|>The current date is ' + date_string + '.<|end|>' }}" + CHAT
)


@pytest.fixture(scope="module")
def model_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """The model of a folder with a chat template, by options of its string."""
    plain = tiny_archs.save("LLaVA", tmp_path_factory.mktemp("model") / "plain")

    def opened(template: str, options: str = "") -> Any:
        folder = tmp_path_factory.mktemp("dated") / "model"
        shutil.copytree(plain, folder)
        (folder / "chat_template.jinja").write_text(template)
        return load_model(f"hf:{folder}{options}")

    return opened


def on(day: datetime.datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the day be another one for transformers' `strftime_now`."""
    from transformers.utils import chat_template_utils

    class Day(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return day

    monkeypatch.setattr(chat_template_utils, "datetime", Day)


@pytest.mark.parametrize(
    ("template", "written", "chosen"),
    [(LIKE_MISTRAL, "2024-07-26", "2026-01-31"), (LIKE_LLAMA, "26 Jul 2024", "31 Jan 2026")],
    ids=["Mistral", "Llama"],
)
def test_a_prompt_has_the_declared_date_on_any_day(
    model_of: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    template: str,
    written: str,
    chosen: str,
) -> None:
    model = model_of(template)
    asked = ask("Which?", RED, continuations=("red", "dark green"))
    prompts, scores = [], []
    for day in (datetime.datetime(2026, 11, 28), datetime.datetime(2026, 11, 29)):
        on(day, monkeypatch)
        prompts.append(model._conversation.write(asked.messages).text)
        [scored] = model.loglikelihood([asked], PICTURES)
        scores.append([score.sum for score in scored.scores])
    start = f"<|system|>The current date is {written}.<|end|><|user|>"
    assert prompts == [f"{start}<image>Which?<|end|><|assistant|>"] * 2
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
    assert model.fingerprint()["date"] == "2024-07-26"

    other = model_of(template, "?date=2026-01-31")
    text = other._conversation.write(asked.messages).text
    assert text.startswith(f"<|system|>The current date is {chosen}.<|end|>")
    assert other.fingerprint()["date"] == "2026-01-31"


def test_a_template_without_a_date_is_rendered_as_it_is(model_of: Callable[..., Any]) -> None:
    model = model_of(CHAT)
    assert "date" not in model.fingerprint()
    assert not asks_for_date("{# strftime_now #}{{ 'strftime_now' }}")


def test_a_date_in_a_form_that_is_not_spelled_out_is_refused(model_of: Callable[..., Any]) -> None:
    template = "{%- set form = '%' ~ 'Y' %}{{ strftime_now(form) }}" + CHAT
    with pytest.raises(ModelError, match="the date is asked for in a form that is not spelled out"):
        model_of(template)


def test_what_is_no_date_is_refused(model_of: Callable[..., Any]) -> None:
    with pytest.raises(ModelError, match="date=tomorrow is not a date; write it like 2024-07-26"):
        model_of(LIKE_MISTRAL, "?date=tomorrow")


@pytest.mark.parametrize("draws", ["{{ ['a', 'b'] | random }}", "{{ lipsum(1) }}"])
def test_a_template_that_draws_at_random_is_refused(
    model_of: Callable[..., Any], draws: str
) -> None:
    assert chance_in("{{ random }} | random") == ""
    with pytest.raises(ModelError, match="is random"):
        model_of(draws + CHAT)


def test_a_served_llama_is_sent_the_declared_date() -> None:
    with start_server(flavour="vllm") as server:
        models = [
            load_model(f"openai:meta-llama/Llama-3.2-11B-Vision-Instruct@{server.url}"),
            load_model(f"openai:qwen@{server.url}"),
            load_model(f"openai:qwen@{server.url}?date=2026-01-31"),
        ]
        for model in models:
            ask_server(model, question())
        asked = [seen.asked.get("chat_template_kwargs") for seen in server.seen()]
    assert asked == [{"date_string": "26 Jul 2024"}, None, {"date_string": "31 Jan 2026"}]
    assert [model.fingerprint().get("date") for model in models] == [
        "26 Jul 2024",
        None,
        "31 Jan 2026",
    ]


def test_a_server_that_takes_no_settings_of_a_template_is_asked_without() -> None:
    refused = Fault(400, error_body("Unsupported parameter: 'chat_template_kwargs'.", "x"))
    with start_server(script=(refused,)) as server:
        [response] = ask_server(load_model(f"openai:llama-3.2@{server.url}"), question())
    assert response.error is None
    assert response.notes == ("chat_template_kwargs was not sent: the server rejects it",)


def test_a_served_model_that_writes_the_date_of_the_day_is_noted() -> None:
    with start_server(flavour="vllm") as server:
        name = f"openai:mistralai/Mistral-Small-3.1-24B@{server.url}"
        [noted] = ask_server(load_model(name), question())
        [plain] = ask_server(load_model(f"{name}?system=Be brief."), question())
    assert (noted.notes, plain.notes) == ((TODAY_NOTE,), ())
