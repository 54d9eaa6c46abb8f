"""Clips that are given to a model as video: real small architectures, by generation and by likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("torch", reason="waits for torch")
pytest.importorskip("transformers", reason="waits for transformers")

import torch
import transformers as tf
from msgspec.structs import replace

from snellen.errors import ModelError
from snellen.models.hf.conversation import Clip, Conversation, with_clips
from snellen.models.hf.decoding import token_picker
from snellen.models.hf.load import HfOptions, LoadedModel
from snellen.models.hf.model import HFModel
from snellen.models.hf.reference import reference_reply, reference_scores
from snellen.records import ImagePart, ImageRef, Message, TextPart
from tiny_archs import CHAT, Pictures, ask
from tiny_registered import make_registered

TIMES = (0.0, 5.5, 11.0, 16.5)
"""So long that Qwen2.5-VL's places in time are behind all of the text's."""
REPLIES = ("red", "dark green")
ON_CLIPS = {
    "qwen2_vl": "tree, image shared",
    "qwen2_5_vl": "tree, image shared",
    "qwen3_vl": "tree, image shared",
    "llava_onevision": "tree, image shared",
    "internvl": "tree, image shared",
}


class Videos:
    """In the place of a video processor, which needs torchvision: the image processor's pixels, frame by frame."""

    model_input_names = ("pixel_values_videos",)

    def __init__(self, images: Any) -> None:
        self._images = images
        self.merge_size = getattr(images, "merge_size", 2)
        self.temporal_patch_size = getattr(images, "temporal_patch_size", 2)
        self.seen: list[tuple[int, dict[str, Any]]] = []
        """Of each clip the number of its frames, and what was told of it."""

    def __call__(self, videos: Any, video_metadata: Any, do_sample_frames: bool, **_: Any) -> Any:
        assert not do_sample_frames
        self.seen += [(len(clip), told) for clip, told in zip(videos, video_metadata, strict=True)]
        told = [tf.video_utils.VideoMetadata(**metadata) for metadata in video_metadata]
        form = self._patches if hasattr(self._images, "temporal_patch_size") else self._stacked
        return tf.BatchFeature({**form(videos), "video_metadata": told})

    def _pixels(self, frame: Any) -> Any:
        return self._images([frame], return_tensors="pt")

    def _stacked(self, videos: Any) -> dict[str, Any]:
        """[clips, frames, 3, height, width]"""
        frames = [
            [self._pixels(frame)["pixel_values"].flatten(0, -4)[0] for frame in clip]
            for clip in videos
        ]
        return {"pixel_values_videos": torch.stack([torch.stack(clip) for clip in frames])}

    def _patches(self, videos: Any) -> dict[str, Any]:
        """Patches through two frames each, as the Qwen-VL family has them; a still image's hold it twice."""
        patches, grids = [], []
        for clip in videos:
            made = [self._pixels(frame) for frame in (*clip, *clip[-1:] * (len(clip) % 2))]
            rows = [one["pixel_values"].unflatten(1, (3, 2, -1)) for one in made]
            patches += [
                torch.stack([first[:, :, 0], second[:, :, 1]], 2).flatten(1)
                for first, second in zip(rows[::2], rows[1::2], strict=True)
            ]
            grids.append([len(made) // 2, *made[0]["image_grid_thw"][0, 1:].tolist()])
        return {"pixel_values_videos": torch.cat(patches), "video_grid_thw": torch.tensor(grids)}


def opened(name: str, **options: Any) -> tuple[HFModel, Videos]:
    """A small model of type `name`, whose template has places for images and for video."""
    small = make_registered(name)
    processor = small.processor
    processor.video_processor = videos = Videos(processor.image_processor)
    # Between two images something stands, as in the templates of these models.
    picture = getattr(processor, "image_token", "<image>")
    marks = f"[{picture}]{{% elif c['type'] == 'video' %}}[{processor.video_token}]"
    processor.chat_template = CHAT.replace("<image>", marks)
    return HFModel(
        f"hf:{name}", LoadedModel(small.model, processor, {}), HfOptions(**options)
    ), videos


def clip(
    pictures: Pictures, colours: Sequence[str], times: Sequence[float] = TIMES
) -> list[ImageRef]:
    return [
        replace(pictures.add(colour), time=time)
        for colour, time in zip(colours, times, strict=True)
    ]


def test_frames_that_follow_one_another_are_one_clip_and_others_stay_pictures() -> None:
    pictures = Pictures()
    first, second = clip(pictures, ["red"] * 4), clip(pictures, ["blue"] * 2, (0.0, 3.25))
    still, words = ImagePart(pictures.add("green")), TextPart("then")
    parts = [
        *map(ImagePart, first),
        *map(ImagePart, second),
        still,
        ImagePart(first[1]),
        words,
        *map(ImagePart, second),
    ]
    assert list(with_clips(parts)) == [
        Clip(tuple(first)),
        Clip(tuple(second)),
        still,
        ImagePart(first[1]),
        words,
        Clip(tuple(second)),
    ]
    assert Clip(tuple(second)).times == (0.0, 3.25)


@pytest.fixture(scope="module", params=ON_CLIPS)
def asked(
    request: pytest.FixtureRequest,
) -> tuple[str, HFModel, Videos, Pictures, list[list[ImageRef]]]:
    model, videos = opened(request.param)
    pictures = Pictures()
    clips = [
        clip(pictures, ["red", "green", "blue", "white"]),
        clip(pictures, ["white", "blue", "green", "red"]),
    ]
    return request.param, model, videos, pictures, clips


def test_likelihoods_and_replies_about_clips_are_those_of_one_row_at_a_time(
    asked: tuple[str, HFModel, Videos, Pictures, list[list[ImageRef]]],
) -> None:
    name, model, _, pictures, clips = asked
    questions = ["Which colour comes first?", "And last?"]
    scored = [ask(text, *frames, continuations=REPLIES) for frames in clips for text in questions]
    responses = model.loglikelihood(scored, pictures)
    assert [response.error for response in responses] == [None] * 4
    prompts = [model._continued(request, pictures) for request in scored]
    assert all(prompt.context.clips == 1 == len(prompt.context.digests) for prompt in prompts)
    for response, tails in zip(responses, reference_scores(model._layout, prompts), strict=True):
        for score, tail in zip(response.scores, tails, strict=True):
            assert score.sum == pytest.approx(sum(tail), abs=1e-3)
    # What comes first changes what is said, so the clip is seen in its order.
    assert abs(responses[0].scores[0].sum - responses[2].scores[0].sum) > 0.01
    assert ON_CLIPS[name] in model._proofs["clips"].name

    written = [ask(text, *frames) for frames in clips for text in questions]
    rows = [model._encoded(request, pictures) for request in written]
    pick = token_picker(model._layout, model._prompter.tokens, written)
    longest = written[0].decoding.max_new_tokens
    replies = model._engine.generate(rows, pick, longest, model._proofs["clips"].replies)
    for row, tokens in zip(rows, replies, strict=True):
        assert max(reference_reply(model._layout, row, tokens).deficits) < 1e-3
    assert [reply.error for reply in model.generate(written, pictures)] == [None] * 4


def test_a_processor_is_told_the_time_of_each_frame(
    asked: tuple[str, HFModel, Videos, Pictures, list[list[ImageRef]]],
) -> None:
    _, model, videos, pictures, _ = asked
    frames = clip(pictures, ["red", "blue", "green"], (0.0, 1.25, 2.5))
    model.loglikelihood([ask("What?", *frames, continuations=REPLIES)], pictures)
    count, told = videos.seen[-1]
    assert count == 3
    assert [place / told["fps"] for place in told["frames_indices"]][:3] == [0.0, 1.25, 2.5]
    assert told["duration"] == 3.75 and told["total_num_frames"] == 3750


def test_the_manifest_says_how_clips_were_given(
    asked: tuple[str, HFModel, Videos, Pictures, list[list[ImageRef]]],
) -> None:
    _, model, _, pictures, clips = asked
    assert model.fingerprint()["clips"] == "as video"
    model.loglikelihood([ask("What?", *clips[0], continuations=REPLIES)], pictures)
    [line] = [line for line in model.findings() if line.startswith("clips")]
    assert line.startswith("clips were given as video in ") and "scored by tree" in line


def test_an_option_gives_frames_as_pictures() -> None:
    model, videos = opened("qwen2_vl", clips="images")
    pictures = Pictures()
    [response] = model.loglikelihood(
        [ask("What?", *clip(pictures, ["red", "green", "blue", "white"]), continuations=REPLIES)],
        pictures,
    )
    assert response.error is None and not videos.seen
    assert model.fingerprint()["clips"] == "as pictures"
    assert "clips were given as pictures in 1 request" in model.findings()


def test_pictures_and_a_clip_in_one_prompt_are_run_by_themselves() -> None:
    model, _ = opened("qwen2_vl")
    pictures = Pictures()
    request = ask(
        "Same?", pictures.add("blue"), *clip(pictures, ["red"] * 4), continuations=REPLIES
    )
    [response] = model.loglikelihood([request], pictures)
    prompt = model._continued(request, pictures)
    assert (prompt.context.clips, len(prompt.context.digests)) == (
        1,
        2,
    ) and "clips" not in model._proofs
    [tails] = reference_scores(model._layout, [prompt])
    assert [score.sum for score in response.scores] == pytest.approx(
        list(map(sum, tails)), abs=1e-3
    )


def test_clips_that_the_model_cannot_take_fail_with_the_way_out_and_are_tried_once() -> None:
    model, videos = opened("qwen2_vl")
    whole = videos._patches
    videos._patches = lambda clips: {
        **whole(clips),
        "pixel_values_videos": whole(clips)["pixel_values_videos"][:-4],
    }  # type: ignore[method-assign]
    pictures, tried = Pictures(), []
    for colours in (["red"] * 4, ["blue"] * 4):
        [response] = model.loglikelihood(
            [ask("What?", *clip(pictures, colours), continuations=REPLIES)], pictures
        )
        assert response.error is not None and response.error.detail.endswith("use ?clips=images")
        tried.append(len(videos.seen))
    assert tried[1] == tried[0] + 1


def test_a_model_that_takes_no_video_is_shown_pictures_and_refuses_to_be_given_video() -> None:
    small = make_registered("llava")
    conversation = Conversation(small.processor)
    assert not conversation.takes_video
    frames = clip(Pictures(), ["red"] * 4)
    prompt = conversation.write([Message("user", (*map(ImagePart, frames), TextPart("What?")))])
    assert prompt.images == tuple(frames) and not prompt.clips
    with pytest.raises(ModelError, match="does not support video; use clips=images"):
        HFModel("hf:llava", LoadedModel(small.model, small.processor, {}), HfOptions(clips="video"))
