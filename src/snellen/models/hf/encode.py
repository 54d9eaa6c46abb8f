"""Prompt text and pictures to token ids and tensors, and the boundary where a continuation begins.

A continuation is never tokenised alone: "(A" may be one token after "is " and two after "is (".
Prompt and continuation are tokenised together, and separated by their character offsets.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

from snellen.common.decoding import decode_image
from snellen.common.images import Images
from snellen.models.base import NO_CONTINUATIONS
from snellen.models.hf.conversation import ChatPrompt, Clip
from snellen.records import ImageRef

Tensors = dict[str, Any]
OTHER_WORDS = "the processor writes the prompt with other tokens than the tokenizer does"
LAST = 8
"""Tokens at the end of a prompt by which it is recognised."""
CONTROL_BYTE = re.compile(r"<0x[01][0-9A-F]>")
"""A piece that a SentencePiece vocabulary has for a byte that is not text. It is one token wherever it stands."""
KEPT_PICTURES = 64
"""The largest number of pictures that are kept (decoded and as pixels), and of pictures that are expected, unless an
encoder is told to keep more."""
PREPARING = max(1, min(4, (os.cpu_count() or 1) // 2))
"""Threads that make expected pictures ready, at most: decoding and resizing one takes tens of milliseconds."""
KEPT_CLIPS = 4
"""The largest number of clips that are kept as pixels, of which each has many frames."""
TICKS = 1000
"""A processor counts a clip's frames at so many a second, so that it knows the time of each to the millisecond."""


@dataclass(frozen=True)
class EncodedPrompt:
    """A prompt as the model takes it: ids, and all other inputs with a batch dimension of 1."""

    ids: tuple[int, ...]
    extras: Tensors
    digests: tuple[str, ...] = ()
    """Digests of the images, then of the clips that are given as video."""
    notes: tuple[str, ...] = ()
    """Notes on how the prompt was made, which a response to it carries."""
    per_token: frozenset[str] = frozenset()
    """Names of the inputs with one entry per token: [1, tokens, ...]."""
    clips: int = 0
    """How many of the digests are those of clips."""

    @cached_property
    def form(self) -> str:
        """Number of pictures and clips, and names, number formats and shapes of all inputs but the ids, without the
        number of rows and of tokens.

        Prompts of one form can share a batch without padding anything but tokens.
        """
        forms = [f"{len(self.digests)} seen"]
        for name, value in sorted(self.extras.items()):
            skipped = 2 if name in self.per_token else 1
            forms.append(f"{name} {_form_of(value, skipped)}")
        return "; ".join(forms)


def _form_of(value: Any, skipped: int) -> str:
    """Number format and shape of a tensor without its first `skipped` dimensions; kind and parts of anything else."""
    if hasattr(value, "shape"):
        return f"{value.dtype} {tuple(value.shape[skipped:])}"
    if isinstance(value, (list, tuple)):
        parts = ", ".join(_form_of(part, 0) for part in value)
        return f"{type(value).__name__} ({parts})"
    return type(value).__name__


@dataclass(frozen=True)
class Visuals:
    """What a prompt shows, decoded."""

    pictures: Sequence[Any] = ()
    clips: Sequence[Sequence[Any]] = ()
    times: Sequence[Sequence[float]] = ()
    """For each clip the seconds at which its frames stand, ascending."""

    @property
    def are_empty(self) -> bool:
        return not self.pictures and not self.clips

    def copies(self) -> Visuals:
        """The same with copies of all pictures."""
        clips = [[frame.copy() for frame in clip] for clip in self.clips]
        return Visuals([picture.copy() for picture in self.pictures], clips, self.times)

    def inputs(self) -> dict[str, Any]:
        """How a processor is given them. The frames are those that the benchmark shows, so it is to choose none."""
        arguments: dict[str, Any] = {"images": list(self.pictures) or None}
        if self.clips:
            videos = [list(clip) for clip in self.clips]
            arguments |= {
                "videos": videos,
                "video_metadata": list(map(_metadata, self.times)),
                "do_sample_frames": False,
            }
        return arguments


def _metadata(times: Sequence[float]) -> dict[str, Any]:
    """What a processor is told of a clip, whose last frame lasts as long as those before it on average."""
    duration = (times[-1] - times[0]) * len(times) / (len(times) - 1)
    return {
        "fps": TICKS,
        "frames_indices": [round(time * TICKS) for time in times],
        "total_num_frames": round(duration * TICKS),
        "duration": duration,
    }


def _clip_digest(clip: Clip) -> str:
    frames = [(frame.digest, frame.time) for frame in clip.frames]
    return "clip " + hashlib.blake2b(repr(frames).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class ContinuedPrompt:
    """A prompt and its continuations. `tails[i]` are the tokens scored for continuation i."""

    context: EncodedPrompt
    tails: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class TokenizedText:
    """Token ids with their character ends; `closing` counts the special tokens at the end."""

    ids: tuple[int, ...]
    ends: tuple[int, ...]
    closing: int = 0


def continuation_boundary(texts: Sequence[TokenizedText], characters: int) -> int:
    """Number of leading context tokens: all texts share them, and none reaches past `characters`.

    A token that straddles the boundary belongs to the continuation. If it straddles for one
    continuation and not for another, both are scored from the earlier token, so that all scores are
    of the same text given the same context.
    """
    first = texts[0].ids
    count = min(
        next((i for i, end in enumerate(text.ends) if end > characters), len(text.ids))
        for text in texts
    )
    for text in texts[1:]:
        count = next((i for i in range(count) if text.ids[i] != first[i]), count)
    return count


def as_long_as(extras: Tensors, length: int) -> frozenset[str]:
    """Names of the inputs that have as many entries as a prompt has tokens."""
    shapes = {name: tuple(getattr(value, "shape", ())) for name, value in extras.items()}
    return frozenset(name for name, shape in shapes.items() if shape[:2] == (1, length))


@dataclass(frozen=True)
class Pixels:
    """What an image processor makes of one picture, and how it was passed."""

    depth: int
    settings: Tensors
    features: Any


class PixelCache:
    """Wraps an image processor, or a video processor, and caches its output for each picture or clip.

    A processor computes pixels once per prompt, even if 20 prompts show the same picture.
    """

    def __init__(self, processor: Any, keep: int, names: dict[int, str]) -> None:
        """`names` are the digests of decoded pictures by their `id`, for as long as the caller keeps the pictures."""
        self._processor = processor
        self._cached: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._names = names
        self._keep = keep
        self._call: tuple[int, dict[str, Any]] | None = None
        """How deep in lists the last single picture was passed, and with which settings."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)

    @property
    def is_known(self) -> bool:
        """Whether the processor is transformers' own, which keeps nothing from one call to the next."""
        return type(self._processor).__module__.startswith("transformers.")

    def __call__(self, images: Any = None, *args: Any, **settings: Any) -> Any:
        digests = self._named(images)
        if args or digests is None:
            return self._processor(images, *args, **settings)
        if (depth := _depth_of_one(digests)) is not None:
            self._call = depth, settings
        key = _pixel_key(digests, settings)
        if key not in self._cached:
            self._keep_pixels(key, self._processor(images, **settings))
        self._cached.move_to_end(key)
        features = self._cached[key]
        # Some processors take entries out of the mapping; Idefics' gives a tensor.
        kind: Any = type(features)
        return kind(dict(features)) if isinstance(features, Mapping) else features

    def tiles(self, picture: Any) -> list[Any]:
        """What the processor makes of a picture: arrays of channels x height x width. None where it makes something
        else than pixels, tiles or patches in the order of Qwen2-VL."""
        features: Any = (
            {} if self._processor is None else self._processor([picture], return_tensors="pt")
        )
        if "pixel_values" not in features:
            return []
        pixels = features["pixel_values"].float().numpy()
        if pixels.ndim >= 4 and pixels.shape[-3] == 3:
            return list(pixels.reshape(-1, *pixels.shape[-3:]))
        grid = features.get("image_grid_thw")
        return (
            [] if grid is None else [_picture_of_patches(pixels, grid[0].tolist(), self._processor)]
        )

    def compute(self, picture: Any) -> Pixels | None:
        """Pixels of a single picture, passed like the last one; None before there was one. Changes no state, so another
        thread may call it."""
        if self._call is None:
            return None
        depth, settings = self._call
        return Pixels(depth, settings, self._processor(_nested(picture, depth), **settings))

    def keep(self, digest: str, pixels: Pixels) -> None:
        """Cache what `compute` has made of the picture with this digest."""
        digests = _nested(digest, pixels.depth, tuple)
        self._keep_pixels(_pixel_key(digests, pixels.settings), pixels.features)

    def _keep_pixels(self, key: tuple[Any, ...], features: Any) -> None:
        self._cached[key] = features
        while len(self._cached) > self._keep:
            self._cached.popitem(last=False)

    def _named(self, images: Any) -> Any:
        """The nested digests of nested pictures, or None when one of them is unknown."""
        if isinstance(images, (list, tuple)):
            digests = tuple(self._named(image) for image in images)
            return None if None in digests else digests
        return self._names.get(id(images))


def _pixel_key(digests: Any, settings: Tensors) -> tuple[Any, ...]:
    return (digests, repr(sorted(settings.items(), key=lambda item: item[0])))


def _depth_of_one(digests: Any) -> int | None:
    """How deep in lists a single picture is; None for several."""
    depth = 0
    while isinstance(digests, tuple):
        if len(digests) != 1:
            return None
        depth, digests = depth + 1, digests[0]
    return depth


def _nested(value: Any, depth: int, form: type[list[Any]] | type[tuple[Any, ...]] = list) -> Any:
    for _ in range(depth):
        value = form([value])
    return value


class Encoder:
    """Turns prompts into model inputs for one processor."""

    def __init__(
        self,
        processor: Any,
        inputs: frozenset[str] | None = None,
        closes: bool = False,
        complete: bool = False,
        keep: int = KEPT_PICTURES,
    ) -> None:
        """`inputs`: the inputs that the model names; others that the processor makes are left out. None: all are taken.

        `closes`: a prompt keeps its closing token, as an encoder's text does. `complete`: a prompt has all its special
        tokens, and the tokenizer adds none. `keep`: so many pictures are kept, and expected, at most.
        """
        self._closes, self._complete, self._keep = closes, complete, keep
        self._processor = processor
        self._named = inputs
        for name in inputs or ():
            # What a processor makes on demand alone, such as the kinds of tokens (Cosmos 3), is asked for.
            if getattr(processor, f"return_{name}", None) is False:
                setattr(processor, f"return_{name}", True)
        self._per_token: dict[frozenset[str], frozenset[str]] = {}
        self.tokenizer = getattr(processor, "tokenizer", processor)
        self._names: dict[int, str] = {}
        self._pixels = PixelCache(processor.image_processor, keep, self._names)
        processor.image_processor = self._pixels
        if getattr(processor, "video_processor", None) is not None:
            processor.video_processor = PixelCache(
                processor.video_processor, KEPT_CLIPS, self._names
            )
        self._decoded: OrderedDict[str, tuple[Any, tuple[str, ...]]] = OrderedDict()
        self._lookahead = Lookahead(self._prepared, keep, PREPARING)
        self._aligned = bool(getattr(self.tokenizer, "is_fast", False))
        self._placeholder = str(getattr(processor, "image_token", None) or "<image>")
        self._reserved = frozenset(
            (
                *getattr(self.tokenizer, "all_special_ids", ()),
                *getattr(self.tokenizer, "added_tokens_decoder", ()),
            )
        )
        """Tokens that stand for something else than text."""
        self._lists_text = False
        """Whether a text without pictures is passed in a list."""

    def encode(self, prompt: ChatPrompt, images: Images) -> EncodedPrompt:
        """The prompt as tensors. Raises ValueError for a prompt that the processor refuses."""
        visuals, notes = self._visuals(prompt, images)
        ids, extras = self._process(visuals, prompt.text)
        spelled = self._spell(prompt.text)
        if not self._has_words(prompt, spelled, ids) and visuals.are_empty:
            # IDEFICS-1's processor takes a text alone for a list of characters, whose blanks it strips.
            self._lists_text = True
            ids, extras = self._process(visuals, prompt.text)
        if not self._has_words(prompt, spelled, ids):
            raise ValueError(OTHER_WORDS)
        digests = (*(image.digest for image in prompt.images), *map(_clip_digest, prompt.clips))
        per_token = self._entries_per_token(visuals, prompt.text, len(ids), extras)
        encoded = EncodedPrompt(ids, extras, digests, notes, per_token, len(prompt.clips))
        # "[SEP]" or "</s>" would end the text; some processors omit it, some do not.
        closed = spelled.closing and ids[-spelled.closing :] == spelled.ids[-spelled.closing :]
        return (
            truncate(encoded, len(ids) - spelled.closing)
            if closed and not self._closes
            else encoded
        )

    def _has_words(self, prompt: ChatPrompt, spelled: TokenizedText, ids: Sequence[int]) -> bool:
        """Whether the processor wrote all words of a prompt: its tokens, but those that stand for something else, occur in
        `ids` in order. Of a prompt with pictures those after the last of them, where it is known what stands for one.

        An encoder's text may be written otherwise on purpose: Florence-2's processor spells tasks out.
        """
        if self._closes or prompt.clips:
            return True
        start = 0
        if prompt.images:
            if self._named is None:  # foreign code may write pictures in any way
                return True
            before, placeholder, _ = prompt.text.rpartition(self._placeholder)
            start = len(before) + len(placeholder)
        reserved = self._reserved
        remaining = iter(ids)
        for token, end in zip(spelled.ids, spelled.ends, strict=True):
            if token in reserved or (self._aligned and end <= start):
                continue
            if token not in remaining:  # which takes all up to the token
                return False
        return True

    def repeats(self, prompt: ChatPrompt, images: Images) -> bool:
        """Whether the processor gives the same output for a prompt a second time, from copies of its pictures, whose
        pixels are not kept. One that crops, flips or splits words at random makes an answer depend on chance."""
        visuals, _ = self._visuals(prompt, images)
        first, again = (self._process(visuals.copies(), prompt.text) for _ in range(2))
        return first[0] == again[0] and _alike(first[1], again[1])

    def _visuals(self, prompt: ChatPrompt, images: Images) -> tuple[Visuals, tuple[str, ...]]:
        """What a prompt shows, with notes on it and on how its pictures were converted."""
        notes = dict.fromkeys(prompt.notes)

        def shown(image: ImageRef) -> Any:
            picture, picture_notes = self._picture(image, images)
            notes.update(dict.fromkeys(picture_notes))
            return picture

        pictures = [shown(image) for image in prompt.images]
        clips = [[shown(frame) for frame in clip.frames] for clip in prompt.clips]
        return Visuals(pictures, clips, [clip.times for clip in prompt.clips]), tuple(notes)

    def continue_with(
        self, prompt: ChatPrompt, encoded: EncodedPrompt, continuations: Sequence[str]
    ) -> ContinuedPrompt:
        """Context and scored tokens of each continuation; all share one context. Raises ValueError for none."""
        _require_some(continuations)
        opened = prompt.text + prompt.added
        alone = self._spell(opened)
        spelled = [self._spell(prompt.with_reply(text)) for text in continuations]
        unclosed = [replace(text, ids=text.ids[: len(text.ids) - text.closing]) for text in spelled]
        # What the template puts before a reply is not part of it, but for a token that reaches into the reply.
        separated = not any(text[:1].isspace() for text in continuations)
        count = continuation_boundary(unclosed, len(opened) + len(prompt.join) * separated)
        prompt_ids = alone.ids[: len(alone.ids) - alone.closing]
        shared_length = next(
            (i for i in range(min(count, len(prompt_ids))) if prompt_ids[i] != unclosed[0].ids[i]),
            min(count, len(prompt_ids)),
        )
        dropped = len(prompt_ids) - shared_length
        shared = truncate(encoded, len(encoded.ids) - dropped)
        # Compare at least the last token: a processor may have added tokens of its own.
        if encoded.ids[-max(dropped, 1) :] != prompt_ids[-max(dropped, 1) :]:
            if not self._marks_reply(encoded.ids, prompt_ids):
                raise ValueError(
                    "the processor ends the prompt with other tokens than the tokenizer does"
                )
            return ContinuedPrompt(
                encoded,
                _nonempty([self._words(prompt.with_reply(t), opened) for t in continuations]),
            )
        context = extend(shared, unclosed[0].ids[shared_length:count], 0)
        return ContinuedPrompt(context, _nonempty([text.ids[count:] for text in unclosed]))

    def require_beginning(self, text: str, whole: str) -> None:
        """Raise ValueError unless the tokens of `text` are the first tokens of `whole`, which begins with that text."""
        ids, after = self._spell(text), self._spell(whole)
        tokens = ids.ids[: len(ids.ids) - ids.closing]
        if after.ids[: len(tokens)] != tokens:
            raise ValueError(
                f"the reply that ends in {text[-30:]!r} cannot be scored: its end and what the chat template puts "
                f"behind it ({whole[len(text) :][:30]!r}) are one token"
            )

    def _marks_reply(self, ids: Sequence[int], prompt_ids: Sequence[int]) -> bool:
        """Whether the processor puts a control token behind the prompt, as Fuyu's and Chameleon's do, so that no part
        of a reply merges with the prompt's last word. Fuyu's is the piece of a control byte, which its tokenizer does
        not call special."""
        end = tuple(prompt_ids[-LAST:])
        special = (
            ids[-1] in self.tokenizer.all_special_ids
            or ids[-1] in getattr(self.tokenizer, "added_tokens_decoder", {})
            or CONTROL_BYTE.fullmatch(str(self.tokenizer.convert_ids_to_tokens(ids[-1])))
            is not None
        )
        return special and tuple(ids[-len(end) - 1 : -1]) == end

    def _words(self, text: str, opened: str) -> tuple[int, ...]:
        """Tokens of what follows `opened` in `text`, spelled alone."""
        return tuple(self.tokenizer(text[len(opened) :], add_special_tokens=False)["input_ids"])

    def reply_with(self, encoded: EncodedPrompt, continuations: Sequence[str]) -> ContinuedPrompt:
        """The same for an encoder-decoder, where the scored text is the decoder's and starts afresh."""
        _require_some(continuations)
        spelled = [self._spell(text) for text in continuations]
        return ContinuedPrompt(
            encoded, _nonempty([text.ids[: len(text.ids) - text.closing] for text in spelled])
        )

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def _process(self, visuals: Visuals, text: str) -> tuple[tuple[int, ...], Tensors]:
        """Ids and all other inputs of the model, as the processor makes them."""
        # Otherwise the processor's own default: Florence-2's adds the tokens around a question itself.
        settings: dict[str, bool] = (
            {} if self._adds_specials(text) else {"add_special_tokens": False}
        )
        given = [text] if self._lists_text and visuals.are_empty else text
        inputs = self._processor(**visuals.inputs(), text=given, return_tensors="pt", **settings)
        ids = tuple(inputs.pop("input_ids")[0].tolist())
        dropped = ("attention_mask", "labels")
        kept_names = inputs if self._named is None else self._named & inputs.keys()
        return ids, {
            name: inputs[name] for name in inputs if name in kept_names and name not in dropped
        }

    def _entries_per_token(
        self, visuals: Visuals, text: str, length: int, extras: Tensors
    ) -> frozenset[str]:
        """Names of the inputs with one entry per token: as long as the ids, and also when the text is longer."""
        names = frozenset(extras)
        if names not in self._per_token:
            longer_ids, longer = self._process(visuals, f"{text} one two three")
            grown = (
                as_long_as(longer, len(longer_ids))
                if len(longer_ids) != length
                else frozenset(names)
            )
            self._per_token[names] = as_long_as(extras, length) & grown
        return self._per_token[names]

    def _picture(self, image: ImageRef, images: Images) -> tuple[Any, tuple[str, ...]]:
        """The picture as the model is shown it, with notes on its conversion."""
        if image.digest not in self._decoded:
            picture, notes, pixels = self._lookahead.take(image) or _decoded(image, images, None)
            self._decoded[image.digest] = picture, notes
            self._names[id(picture)] = image.digest
            if pixels is not None:
                self._pixels.keep(image.digest, pixels)
            while len(self._decoded) > self._keep:
                del self._names[id(self._decoded.popitem(last=False)[1][0])]
        self._decoded.move_to_end(image.digest)
        return self._decoded[image.digest]

    def expect(self, pictures: Sequence[ImageRef], images: Images) -> None:
        """Prepare pictures in the background that will be encoded soon."""
        for image in pictures:
            if image.digest not in self._decoded:
                self._lookahead.expect(image, images)

    def _prepared(
        self, image: ImageRef, images: Images
    ) -> tuple[Any, tuple[str, ...], Pixels | None]:
        """What `_picture` needs, made in another thread, in which code of unknown origin is not run."""
        return _decoded(image, images, self._pixels if self._pixels.is_known else None)

    def _adds_specials(self, text: str) -> bool:
        """Whether the tokenizer should add special tokens: not if the template already wrote the opening token."""
        opening = getattr(self.tokenizer, "bos_token", None)
        return not (self._complete or (opening and text.startswith(opening)))

    def seen_pixels(self, picture: Any) -> list[Any]:
        """What the image processor leaves of a picture."""
        return self._pixels.tiles(picture)

    def _spell(self, text: str) -> TokenizedText:
        spelled = self.tokenizer(
            text,
            add_special_tokens=self._adds_specials(text),
            return_special_tokens_mask=True,
            return_offsets_mapping=self._aligned,
        )
        ids, special = spelled["input_ids"], spelled["special_tokens_mask"]
        closing = next((i for i, flag in enumerate(reversed(special)) if not flag), 0)
        # Without offsets every token may be context; the boundary is then where the texts diverge.
        ends = [end for _, end in spelled["offset_mapping"]] if self._aligned else [0] * len(ids)
        return TokenizedText(tuple(ids), tuple(ends), closing)


def _decoded(
    image: ImageRef, images: Images, pixels: PixelCache | None
) -> tuple[Any, tuple[str, ...], Pixels | None]:
    """A picture as the model is shown it, notes on its conversion, and its pixels if there is a processor for them."""
    decoded = decode_image(images.read(image), f"image {image.digest[:12]}")
    picture = decoded.upright
    return picture, decoded.notes, None if pixels is None else pixels.compute(picture)


def _require_some(continuations: Sequence[str]) -> None:
    if not continuations:
        raise ValueError(NO_CONTINUATIONS)


def _picture_of_patches(pixels: Any, grid: Sequence[int], processor: Any) -> Any:
    """The picture (channels x height x width) whose patches stand in rows, one merged block after the other."""
    _, rows, columns = grid
    merged, side = processor.merge_size, processor.patch_size
    blocks = pixels.reshape(rows // merged, columns // merged, merged, merged, 3, -1, side, side)
    blocks = blocks[:, :, :, :, :, 0]  # a still picture stands there twice
    return blocks.transpose(4, 0, 2, 5, 1, 3, 6).reshape(3, rows * side, columns * side)


def _alike(first: Any, second: Any) -> bool:
    """Whether two outputs of a processor are equal."""
    import torch

    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        return first.dtype == second.dtype and torch.equal(first, second)
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(
            _alike(first[name], second[name]) for name in first
        )
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        return len(first) == len(second) and all(map(_alike, first, second))
    return bool(first == second)


def _nonempty(tails: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    for i, tail in enumerate(tails):
        if not tail:
            raise ValueError(f"continuation {i} has no tokens; there is nothing to score")
    return tuple(tails)


def truncate(encoded: EncodedPrompt, length: int) -> EncodedPrompt:
    """The first `length` tokens."""
    if length >= len(encoded.ids):
        return encoded
    extras = {
        name: value[:, :length] if name in encoded.per_token else value
        for name, value in encoded.extras.items()
    }
    return replace(encoded, ids=encoded.ids[:length], extras=extras)


def extend(encoded: EncodedPrompt, ids: Sequence[int], token_type: int) -> EncodedPrompt:
    """The prompt with plain-text `ids` appended, which see the images that the last token sees.

    An input that labels tokens, [1, tokens], is 0 for text, and `token_type` in `token_type_ids`; one that says what
    each token sees, [1, tokens, images, ...], is repeated.
    """
    if not ids:
        return encoded
    extras = dict(encoded.extras)
    for name in encoded.per_token:
        last = extras[name][:, -1:]
        if last.ndim == 2:
            last = last.new_full((1, 1), token_type if name == "token_type_ids" else 0)
        extras[name] = _append(extras[name], last, len(ids))
    return replace(encoded, ids=(*encoded.ids, *ids), extras=extras)


def _append(values: Any, last: Any, times: int) -> Any:
    import torch

    return torch.cat([values, last.expand(-1, times, *last.shape[2:])], dim=1)


# --- pictures made ready in threads of their own while the model works on those before them --------------------------


P = TypeVar("P")


class Lookahead(Generic[P]):
    """Prepares up to `most` pictures that are expected; of more, the first expected are given up.

    Its threads, `threads` at most, live as long as there are pictures to make ready.
    """

    def __init__(
        self, prepare: Callable[[ImageRef, Images], P], most: int, threads: int = 1
    ) -> None:
        self._prepare, self._most, self._threads = prepare, most, threads
        self._coming: OrderedDict[str, Future[P]] = OrderedDict()
        self._waiting: deque[tuple[Future[P], ImageRef, Images]] = deque()
        self._lock = threading.Lock()
        self._working = 0

    def expect(self, image: ImageRef, images: Images) -> None:
        """Start on a picture as soon as those expected before it are ready."""
        if image.digest in self._coming:
            return
        coming = self._coming[image.digest] = Future()
        while len(self._coming) > self._most:
            self._coming.popitem(last=False)[1].cancel()
        with self._lock:
            self._waiting.append((coming, image, images))
            begins = self._working < self._threads
            self._working += begins
        if begins:
            threading.Thread(target=self._work, name="snellen-pictures", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._working -= 1
                    return
                coming, image, images = self._waiting.popleft()
            if coming.set_running_or_notify_cancel():
                try:
                    coming.set_result(self._prepare(image, images))
                except BaseException as error:  # kept for whoever takes the picture
                    coming.set_exception(error)

    def take(self, image: ImageRef) -> P | None:
        """What was prepared, given out once. None if nothing was prepared, not even begun, or if that failed: then the
        caller prepares the picture itself, and sees why."""
        coming = self._coming.pop(image.digest, None)
        if coming is None or coming.cancel() or coming.exception() is not None:
            return None
        return coming.result()
