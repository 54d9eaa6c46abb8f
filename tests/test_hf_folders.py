"""Complete folders, processors included, of small random models: the fast adapter against the exact one."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="waits for torch")
pytest.importorskip("transformers", reason="waits for transformers")

from snellen.models.base import Model
from snellen.models.loading import load_model
from snellen.records import Decoding
from tiny_archs import PROCESSORS, Pictures, ask, save

FORMATS = {
    "LLaVA": "chat template",
    "PaliGemma": "format paligemma",
    "BLIP-2 OPT": "format blip-2",
    "BLIP-2 FlanT5": "format blip-2",
    "InstructBLIP Vicuna": "format instructblip",
    "InstructBLIP FlanT5": "format instructblip",
    "Florence-2": "format florence2",
    "Kosmos-2": "format kosmos-2",
    "GIT": "format git",
}
OPTIONS = ("red", "dark green", "(A) no")
PICTURES = Pictures()
IMAGES = [PICTURES.add(colour) for colour in ("red", "blue")]
Pair = tuple[str, Model, Model]
LIKE_ANOTHER = (
    "LLaVA-NeXT",
    "Idefics2",
    "Gemma 3",
    "BLIP-2 OPT",
    "InstructBLIP Vicuna",
    "InstructBLIP FlanT5",
)
"""Those of whose kind another is tried; the engine's own tests have all of them."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.slow] * (name in LIKE_ANOTHER)) for name in PROCESSORS
    ],
)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder: Path = save(request.param, tmp_path_factory.mktemp("model"))
    fast, exact = load_model(f"hf:{folder}?batch_size=5"), load_model(f"hf:{folder}?scoring=exact")
    assert isinstance(fast, Model)
    assert isinstance(exact, Model)
    return request.param, fast, exact


def test_a_checkpoint_without_a_chat_template_says_which_format_it_gets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, expected in FORMATS.items():
        if name not in ("LLaVA", "GIT"):
            continue
        caplog.clear()
        load_model(f"hf:{save(name, tmp_path / name)}?scoring=exact")
        said = f"has no chat template; prompts are written in the {expected}"
        assert (said in caplog.text) == (expected != "chat template")


def test_fast_scores_equal_exact_scores(pair: Pair) -> None:
    name, fast, exact = pair
    assert fast.fingerprint()["prompt"] == FORMATS.get(name, "format plain")
    assert fast.fingerprint()["scoring"] != exact.fingerprint()["scoring"] == "plain"
    asked = [
        ask(f"What colour is it{' now' * i}?", IMAGES[i % 2], continuations=OPTIONS)
        for i in range(5)
    ]
    for one, other in zip(
        fast.loglikelihood(asked, PICTURES), exact.loglikelihood(asked, PICTURES), strict=True
    ):
        assert one.error is None
        assert [score.tokens for score in one.scores] == [score.tokens for score in other.scores]
        assert max(abs(a.sum - b.sum) for a, b in zip(one.scores, other.scores, strict=True)) < 1e-4


@pytest.mark.parametrize("decoding", [Decoding(6), Decoding(6, temperature=0.8, top_p=0.9, seed=1)])
def test_fast_replies_equal_exact_replies(pair: Pair, decoding: Decoding) -> None:
    _, fast, exact = pair
    asked = [
        ask(f"What colour is it{' now' * i}?", IMAGES[i % 2], decoding=decoding) for i in range(5)
    ]
    asked.append(ask("What colour is it?", IMAGES[0], reply="It is", decoding=decoding))
    found = [(reply.text, reply.finish, reply.usage) for reply in fast.generate(asked, PICTURES)]
    assert found == [
        (reply.text, reply.finish, reply.usage) for reply in exact.generate(asked, PICTURES)
    ]


def test_a_question_without_a_picture_is_answered_or_fails_alone(pair: Pair) -> None:
    _, fast, _ = pair
    asked = [ask("What colour is it?", IMAGES[0]), ask("Is there no picture?")]
    first, second = fast.generate(asked, PICTURES)
    assert first.error is None
    assert second.text is not None or second.error is not None


def test_florence_reads_a_question_between_its_own_marks_alone(tmp_path: Path) -> None:
    model = load_model(f"hf:{save('Florence-2', tmp_path)}")
    encoder, conversation = model._encoder, model._conversation  # type: ignore[attr-defined]
    ids = encoder.encode(conversation.write(ask("What colour?", IMAGES[0]).messages), PICTURES).ids
    image, opening, closing = 5, 1, 2
    assert ids[:6] == (image,) * 5 + (opening,)
    assert ids[-1] == closing
    assert ids.count(opening) == ids.count(closing) == 1
