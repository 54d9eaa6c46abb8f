"""The records that flow through Snellen, from left to right, frozen and written once.

    Sample + Answer -> Request -> Response -> Prediction -> Score -> Estimate

A `Sample` has no answer field: answers live in a separate file that only scoring opens
(`snellen.scoring.answers`), so a test split with hidden answers runs through the same code.

Records never form reference cycles, so the garbage collector need not track them (`gc=False`): a scored run
holds hundreds of thousands, and tracking took a quarter of the time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from functools import cached_property
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from snellen.reasons import NEVER_ANSWERED, Reason

Box = tuple[float, float, float, float]
"""x, y, width, height in pixels of the stored image."""

Formulation = Literal["choice", "text", "dialogue"]
RequestKind = Literal["generate", "loglikelihood"]
"""What a request wants: a reply, or how likely each continuation is."""
Method = Literal["generation", "likelihood"]
"""How a protocol finds the model's choice: in its reply, or by the likelihood of each option."""
METHODS: tuple[Method, ...] = get_args(Method)
"""All methods, in the order of tables."""
Better = Literal["higher", "lower", "neither"]
"""Which values of a metric are better."""
Convention = Literal["standard", "as-published"]
MeanOver = Literal["", "questions", "benchmarks", "dimensions"]
"""What counts alike in a number of several benchmarks; empty for a number of one."""


class ImageRef(Struct, frozen=True, gc=False, omit_defaults=True):
    """An image by content: its bytes are stored once in a content-addressed store.

    Examples:
        >>> image = ImageRef("9f86d081", "image/png", width=640, height=480)
        >>> image.width, image.media_type
        (640, 'image/png')
    """

    digest: str
    """sha256 of the stored bytes, hexadecimal; of a degraded image of its source's digest and of what was done."""
    media_type: str
    width: int
    height: int
    source: ImageRef | None = None
    """The stored image that this one is made of, each time that it is read."""
    shown_as: str = ""
    """What is done to the source, in the words of `snellen.common.degradation`."""
    time: float | None = None
    """Of a frame: seconds from the beginning of its clip. None where the image is not a frame, or its time is not
    known."""


class Region(Struct, frozen=True, gc=False, omit_defaults=True):
    """A part of a sample's image that the question is about.

    Examples:
        >>> Region((10, 20, 110, 80), label="wren").label
        'wren'
    """

    box: Box
    label: str | None = None


class Turn(Struct, frozen=True, gc=False, omit_defaults=True):
    """One question of a dialogue.

    Examples:
        >>> Turn("Which colour?", ("red", "blue")).options
        ('red', 'blue')
    """

    question: str
    options: tuple[str, ...] = ()


class Sample(Struct, frozen=True, gc=False, omit_defaults=True):
    """One question about its images, or one dialogue (then `turns` holds the questions). It has no answer.

    Examples:
        >>> sample = sn.Sample("q1", "mine", "Which colour?", options=("red", "blue"))
        >>> sample.formulation
        'choice'
    """

    id: str
    benchmark: str
    question: str = ""
    images: tuple[ImageRef, ...] = ()
    options: tuple[str, ...] = ()
    context: str | None = None
    turns: tuple[Turn, ...] = ()
    regions: tuple[Region, ...] = ()
    group: str = ""
    """What related samples share, for ordering and clustered intervals; by default the image."""
    tags: dict[str, str] = {}
    rewordings: tuple[str, ...] = ()
    """Rewordings of the question; an instability run alternates between them."""

    @property
    def formulation(self) -> Formulation:
        if self.turns:
            return "dialogue"
        return "choice" if self.options else "text"

    @property
    def rounds(self) -> tuple[Turn, ...]:
        """The questions in order. A sample that is not a dialogue has one, which is made of its question and options."""
        return self.turns or (Turn(self.question, self.options),)


class Example(Sample, frozen=True, gc=False, omit_defaults=True):
    """A question set apart when its benchmark was built: it is never asked, but shown with its answer before others."""

    gold: tuple[int, ...] = ()
    """Right options by index."""
    texts: tuple[str, ...] = ()
    """Reference texts of an open question."""


class History(Struct, frozen=True, gc=False):
    """The replies in a dialogue's published history, turn by turn.

    Read only by a protocol with gold history.
    """

    sample_id: str
    replies: tuple[str, ...]


class Answer(Struct, frozen=True, gc=False, omit_defaults=True):
    """The gold of one question: correct options by index, or reference texts. Only scoring reads it.

    Examples:
        >>> Answer("q1", options=(1,), texts=("a dog",)).options
        (1,)
    """

    sample_id: str
    turn: int = 0
    options: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    relevance: tuple[float, ...] = ()
    """How right each option is according to people (VisDial's dense annotations); empty when not annotated."""
    tags: dict[str, str] = {}
    """Tags of the sample that tell something of its answers; what was scored is grouped by them as by the sample's."""
    candidates: tuple[str, ...] = ()
    """Answers published beside an open question, the right one among them, in the file's order."""
    judge_notes: dict[str, tuple[str, ...]] = {}
    """Texts for the prompt of a judge by name, such as the key steps of a solution. No model is shown them."""


class ItemDecision(Struct, frozen=True, gc=False, omit_defaults=True):
    """What was decided on a question before a benchmark was built of those that are good.

    Examples:
        >>> ItemDecision("q1", set_apart=("two options are the same",)).set_apart
        ('two options are the same',)
    """

    sample_id: str
    avoid: dict[str, str] = {}
    """Texts that must not be its distractors, each with the reason; where there are no others it is set apart."""
    set_apart: tuple[str, ...] = ()
    """Why it is not asked, distractors or not; empty for one that may be."""


class SetApartQuestion(Struct, frozen=True, gc=False, omit_defaults=True):
    """A question that is kept beside its benchmark with the reasons why it is never asked."""

    sample: Sample
    golds: tuple[Answer, ...]
    reasons: tuple[str, ...]


class RowRef(Struct, frozen=True, gc=False):
    """A row of a question's file: its `index` there, and which option of the sample it shows in each position."""

    index: str
    order: tuple[int, ...]


class SourceImages(Struct, frozen=True, gc=False, omit_defaults=True):
    """What the files of a question's images were called. The records stand in the order of the source."""

    sample_id: str
    names: tuple[str, ...] = ()
    """The last two parts of each path: `val2014/COCO_val2014_000000310196.jpg`; of a frame those of its clip, and its
    time in seconds from the clip's beginning: `videos/7.mp4#t=1.250`. None where no file held the image."""


class SourceRows(Struct, frozen=True, gc=False):
    """What is needed to write a question's file again: its rows there, and cells kept only for that."""

    sample_id: str
    rows: tuple[RowRef, ...]
    cells: dict[str, str] = {}


class IndistinguishableQuestion(Struct, frozen=True, gc=False):
    """A question of which a model is shown just what it is shown of others, although their answers differ."""

    sample_id: str
    turn: int
    group: int
    """The same number for questions that nothing tells apart."""
    kind: int
    """Questions of a group that have the same answer have the same kind; kinds are numbered as they appear."""


class Step(Struct, frozen=True, gc=False, omit_defaults=True):
    """Where a request stands on the way to an answer, in a protocol that needs several for one.

    Examples:
        >>> Step(0, "reasoning").purpose
        'reasoning'
    """

    number: int
    """From 1, in the order in which the protocol asks."""
    purpose: str
    """What is asked for, in words of the protocol: a caption, sub-questions ..."""
    round: int = 0
    """From 1; 0 before the first round."""


class Variant(Struct, frozen=True, gc=False, omit_defaults=True):
    """Which presentation of a sample a request is.

    Examples:
        >>> Variant(order=(1, 0), labels=("A", "B")) == Variant(order=(0, 1), labels=("A", "B"))
        False
    """

    test: int = 0
    """Number of the presentation within its protocol, from 0."""
    turn: int = 0
    template: str = ""
    order: tuple[int, ...] = ()
    """order[i] is the index in the sample of the option shown in position i."""
    labels: tuple[str, ...] = ()
    """labels[i] is the label of the option in position i; empty when options are not shown."""
    in_context: bool = False
    seed: int = 0
    wording: int = 0
    """Which wording of the question: 0 for the original, i for the sample's rewording i - 1."""
    baseline: str = ""
    """What replaces the image (text: nothing, blank: a grey image) in a request that measures how likely
    the options are without it."""
    step: Step | None = None
    """Which step on the way to an answer the request is; None for one whose response is the answer."""


class TextPart(Struct, frozen=True, gc=False, tag="text", tag_field="type"):
    """Words of a message.

    Examples:
        >>> TextPart("Is it day?").text
        'Is it day?'
    """

    text: str


class ImagePart(Struct, frozen=True, gc=False, tag="image", tag_field="type"):
    """An image in a message, at the place where it is shown.

    Examples:
        >>> image = ImageRef("9f86d081", "image/png", width=640, height=480)
        >>> Message("user", (ImagePart(image), TextPart("What is this?"))).text
        'What is this?'
    """

    image: ImageRef


Part = TextPart | ImagePart
Role = Literal["system", "user", "assistant"]


class Message(Struct, frozen=True, gc=False):
    """One turn of the conversation. A final assistant message is to be continued.

    Examples:
        >>> Message("user", (TextPart("Is it day?"),)).text
        'Is it day?'
    """

    role: Role
    content: tuple[Part, ...]

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content if isinstance(part, TextPart))


class Decoding(Struct, frozen=True, gc=False, omit_defaults=True):
    """How a reply is decoded. Greedy by default.

    Examples:
        >>> sn.Decoding(max_new_tokens=512, temperature=0.7).stop
        ()
    """

    max_new_tokens: int = 30
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    """The allowed replies; a server that takes a JSON schema is constrained to `{"verdict": one of them}`."""

    def __post_init__(self) -> None:
        # The key of a request is a digest of its JSON, and there 1 and 1.0 differ, as do a default value, which is
        # left out, and an equal number, which is not. So equal settings have to become the same objects.
        if self._is_plain():
            return
        for name, default in zip(self.__struct_fields__, self.__struct_defaults__, strict=True):
            value = type(default)(getattr(self, name))
            force_setattr(self, name, default if value == default else value)

    def _is_plain(self) -> bool:
        """Return whether no value has to be converted, which is the usual case and saves time.

        All values must have the right type already. In addition, a float that equals its default must be the same
        object as the default, so that it is left out of the JSON.
        """
        _, default_temperature, default_top_p, *_ = self.__struct_defaults__
        return (
            type(self.max_new_tokens) is type(self.seed) is int
            and type(self.temperature) is type(self.top_p) is float
            and type(self.stop) is type(self.choices) is tuple
            and (self.temperature != default_temperature or self.temperature is default_temperature)
            and (self.top_p != default_top_p or self.top_p is default_top_p)
        )


_encode = msgspec.json.Encoder(order="deterministic").encode


TOOL_CALLS = "tool_calls"
"""Why a reply ended that calls a tool and says nothing, as OpenAI's format has it."""

EVALUATED = ""
"""The role of the model that is evaluated. Other models of a run have roles with names: questioner, reasoner."""


def key_of(
    messages: object, kind: RequestKind, continuations: object, decoding: object, role: str
) -> str:
    """Return the key of a request, a digest of its role and of everything that the model sees.

    Args:
        messages: The messages, as records or as the JSON that they are written as (so for the next arguments).
        kind: What the request wants, a reply or likelihoods.
        continuations: The texts whose likelihood is wanted.
        decoding: How the reply is decoded.
        role: The role of the model. The evaluated model has the empty role, which does not enter the digest.

    Returns:
        32 hexadecimal digits.
    """
    parts: list[object] = [messages, kind, continuations, decoding]
    if role:
        parts.append(role)
    return hashlib.blake2b(_encode(parts), digest_size=16).hexdigest()


class Request(Struct, frozen=True, omit_defaults=True, dict=True):
    """One request to a model. `key` is a digest of the model's role and of everything that the model sees.

    Examples:
        >>> requests = []
        >>> model = sn.Scripted(lambda request: requests.append(request) or "(A)", fingerprint="A")
        >>> _ = sn.evaluate(model, "eyechart/shape", limit=1)
        >>> requests[0].benchmark, requests[0].kind
        ('eyechart/shape', 'generate')
    """

    benchmark: str
    sample_id: str
    variant: Variant
    messages: tuple[Message, ...]
    kind: RequestKind = "generate"
    continuations: tuple[str, ...] = ()
    """For log-likelihood: the texts to score, in the sample's order of options."""
    decoding: Decoding = Decoding()
    role: str = EVALUATED
    """Which model of the run is asked."""

    @cached_property
    def key(self) -> str:
        return key_of(self.messages, self.kind, self.continuations, self.decoding, self.role)

    @property
    def is_presentation(self) -> bool:
        """Whether its response is an answer, and neither a step nor a baseline."""
        return self.variant.step is None and not self.variant.baseline

    @property
    def images(self) -> tuple[ImageRef, ...]:
        """The images of all messages, in order."""
        images: list[ImageRef] = []
        for message in self.messages:
            for part in message.content:
                if isinstance(part, ImagePart):
                    images.append(part.image)
        return tuple(images)


IMPOSSIBLE = -1e30
"""Stands for a log-likelihood of minus infinity, probability zero, which JSON cannot write; it ranks last."""


class ContinuationScore(Struct, frozen=True, gc=False, omit_defaults=True):
    """Log-likelihood of one continuation, in nats, summed over its tokens. `IMPOSSIBLE` means a probability of zero.

    Examples:
        >>> sn.ContinuationScore(sum=-4.0, tokens=2).is_impossible
        False
    """

    sum: float
    tokens: int
    bytes: int = 0

    @property
    def is_impossible(self) -> bool:
        return self.sum <= IMPOSSIBLE


BATCH_PRICE_SHARE = 0.5
"""Share of the usual price that OpenAI and Anthropic bill for a token of a batch."""
BATCH_HOURS = 24
"""A batch that is not finished after so many hours expires: OpenAI's and Anthropic's limit."""


class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens that a request cost, as the model counts them; None where it does not say.

    Examples:
        >>> Response(text="(A)", usage=Usage(prompt_tokens=812, completion_tokens=3)).usage.completion_tokens
        3
    """

    prompt_tokens: int | None = None
    """All that were read, cached ones too."""
    completion_tokens: int | None = None
    """All that were written, reasoning too."""
    cached_tokens: int | None = None
    """Of those read, how many the server had read before."""
    reasoning_tokens: int | None = None
    """Of those written, how many were reasoning."""
    batch_prompt_tokens: int | None = None
    """Of those read, how many were in a batch, where a token costs half."""
    batch_completion_tokens: int | None = None
    """Of those written, how many were in a batch."""
    stored_tokens: int | None = None
    """Of those read, how many the server stored in its cache, which Anthropic bills at more than other tokens."""


def in_batch(usage: Usage) -> Usage:
    """Return a usage all of whose tokens were in a batch."""
    return replace(
        usage,
        batch_prompt_tokens=usage.prompt_tokens,
        batch_completion_tokens=usage.completion_tokens,
    )


class TokenLogprob(Struct, frozen=True, gc=False, omit_defaults=True):
    """A token of a reply with its log-probability in nats."""

    token: str
    logprob: float
    alternatives: tuple[tuple[str, float], ...] = field(default=(), name="others")
    """The most likely tokens at its place, with theirs."""


ErrorKind = Literal[
    "timeout",
    "connection",
    "rate_limit",
    "server",
    "bad_request",
    "auth",
    "refused",
    "malformed",
    "too_long",
    "model",
    "not recorded",
]


class Failure(Struct, frozen=True, gc=False, omit_defaults=True):
    """Why no response came. Never cached, never scored, always counted.

    Examples:
        >>> Response(error=Failure("timeout", "no reply within 60 s", attempts=3)).error.kind
        'timeout'
    """

    kind: ErrorKind
    detail: str
    attempts: int = 1


class Response(Struct, frozen=True, gc=False, omit_defaults=True):
    """Reply of a model: a text, one score per continuation, or a failure.

    Examples:
        >>> sn.Response(text="(A)", finish="stop").text
        '(A)'
    """

    text: str | None = None
    """The answer, without the reasoning before it."""
    reasoning: str | None = None
    """What the model thought aloud before it answered."""
    logprobs: tuple[TokenLogprob, ...] = ()
    """Of the reply's tokens, where the model was asked to keep them."""
    scores: tuple[ContinuationScore, ...] = ()
    likeliest_option: int | None = field(default=None, name="chosen")
    """The place of the most likely option in the order shown, where another toolkit kept only that of a likelihood."""
    finish: str | None = None
    usage: Usage | None = None
    seconds: float | None = None
    error: Failure | None = None
    notes: tuple[str, ...] = ()
    """Facts about how the request was sent, e.g. that the response prefix was dropped."""
    verdict: float | None = None
    """How right the file of predictions says that the reply is, from 0 to 1; None in a run of Snellen's own."""


class Exchange(Struct, frozen=True, gc=False, omit_defaults=True):
    """One line of a run's journal: a protocol's request and the response.

    Examples:
        >>> request = Request("animals", "q1", Variant(), ())
        >>> Exchange("vanilla", request, Response(text="(B)")).response.text
        '(B)'
    """

    protocol: str
    request: Request
    response: Response
    reused: bool = False
    """Whether the response was copied from an identical request of another presentation earlier in the run."""
    from_cache: bool = False
    """Whether the response is that of an earlier run, from the cache that this run was given."""
    answered_by: str = ""
    """The model that was asked, and a digest of all that its answers depend on (`RunManifest.authors`)."""


ReadingConfidence = Literal["certain", "likely"]
"""How plainly a reply names the option that rules read in it."""
ExtractionMethod = Literal[
    "label",
    "label+text",
    "text",
    "own rule",
    "verbatim",
    "likelihood",
    "tie",
    "semantic",
    "judge",
    "random guess",
]
"""How an answer was found.

By rules: `label` (its label), `label+text` (its label and its own text beside it), `text` (its text alone), `own rule`
(by a function that says no more than which option it is), `verbatim` (the reply to an open question, as it came). By
log-likelihood: `likelihood`, or `tie` where several options are exactly the most likely and the first of them counts.
After the rules: `judge`, and `random guess` (as published systems do); in runs of earlier versions also `semantic` (the
option nearest in meaning).
"""


SURE = 0.9
"""A reading that is less probable than this is unsure: a judge or a person should look at it."""


class Prediction(Struct, frozen=True, gc=False, omit_defaults=True):
    """How a response was read: an option by identity (never by its letter), or a text, or None.

    Examples:
        >>> prediction = Prediction("vanilla", "generation", "animals", "q1", Variant(), "key", choice=1)
        >>> prediction.choice
        1
    """

    protocol: str
    method: Method
    benchmark: str
    sample_id: str
    variant: Variant
    key: str
    choice: int | None = None
    text: str | None = None
    extraction_method: ExtractionMethod | None = None
    """How it was found; None when nothing was. A random guess may also fall on none of the options."""
    reason: Reason | None = None
    """Why nothing was found: the rules' reason, even if a judge found nothing in the reply either."""
    detail: str = ""
    """A short explanation for people: what decided, or what a judge said."""
    confidence: ReadingConfidence | None = None
    """How sure the rules are of the option that they read; None where they read none, or did not read."""
    probabilities: tuple[float, ...] = ()
    """For each option, by identity, and last for "gives no answer": how probable it is that the reply means it. Empty
    where `choice` has probability 1: a certain reading, a rule that knows no probabilities, a likelihood."""
    follows_format: bool = False
    """Whether the reply follows the requested format: it names one of the labels shown."""
    extractor_version: str = ""
    """Version of the extractor or of the likelihood rule."""
    error: Failure | None = None
    notes: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    """Under likelihood, each option's value by the rule, in the sample's order of options."""
    unparsed_text: str | None = None
    """The reply as it came, where it names no option."""
    mentioned: tuple[int, ...] = ()
    """All options that the reply names, by identity, where a published rule read it by which a mention is enough."""
    addresses_grader: str = ""
    """The words by which the reply speaks to whoever grades it, if it does; they change nothing of how it is read."""
    verdict: float | None = None
    """How right the file of predictions says that the reply is, from 0 to 1 (`Response.verdict`)."""

    @property
    def turn(self) -> int:
        return self.variant.turn

    @property
    def probability(self) -> float:
        """Probability of `choice` or, if it is None, that the reply gives no answer."""
        if not self.probabilities:
            return 1.0
        return self.probabilities[-1 if self.choice is None else self.choice]

    def probability_of(self, options: Collection[int]) -> float:
        """Return the probability that the reply means one of these options: its expected score if they are correct.

        If the reading is certain, it is 1.0 if `choice` is one of the options, and 0.0 otherwise.
        """
        if not self.probabilities:
            return float(self.choice in options)
        return sum(self.probabilities[option] for option in options)

    @property
    def is_unsure(self) -> bool:
        """Whether the reply may well mean something else than `choice`: its probability is below `SURE`."""
        return self.probability < SURE


class ReadingDoubt(Struct, frozen=True, gc=False):
    """How the value of a question depends on readings that are not certain."""

    expected: float
    """The expected value, by the probabilities of the readings."""
    variance: float
    """Variance of the value around it, if readings err independently of each other."""
    least: float
    """The value if every unsure reading is wrong."""
    most: float
    """The value if every unsure reading is right."""


class Score(Struct, frozen=True, gc=False, omit_defaults=True):
    """One metric on one question. A value of None is unscored, which is not wrong; `reason` says why.

    In a run made elsewhere what never came counts as not right: such a score has a value and a reason.

    Examples:
        >>> Score("vanilla", "generation", "animals", "q1", 0, "accuracy", 1.0).value
        1.0
    """

    protocol: str
    method: Method
    benchmark: str
    sample_id: str
    turn: int
    metric: str
    value: float | None
    reason: Reason | None = None
    detail: str = ""
    n_presentations: int = 1
    """Number of presentations that the value is the mean of."""
    steps: int = 0
    """Answers in a row that it takes, where that depends on the replies or the round: those that decided the value or,
    of a row that is `broken`, those before the first one that never came."""
    broken: bool = False
    """Whether there is no value because a row of answers broke off (`snellen.analysis.question_means`)."""
    doubt: ReadingDoubt | None = None
    """What the probabilities of its readings say of the value; None if all of them are certain."""

    @property
    def never_answered(self) -> bool:
        """Whether there is no value because no response arrived. This is an error, which does not count as unscored."""
        return self.value is None and self.reason in NEVER_ANSWERED

    @property
    def never_asked(self) -> bool:
        """Whether there is no value because the run has not asked the question yet. This is not an error."""
        return self.value is None and self.reason == "not asked"

    @property
    def absent(self) -> bool:
        """Whether an answer is missing for good and counts as wrong in the value, as in a run made elsewhere."""
        return self.value is not None and self.reason in NEVER_ANSWERED


class Estimate(Struct, frozen=True, gc=False):
    """A number with its uncertainty and the counts behind it."""

    value: float | None
    stderr: float | None
    low: float | None
    high: float | None
    n: int
    """Questions that were scored."""
    unscored: int = 0
    """Questions answered that the metric has no value for: the answer is hidden, or the metric is undefined."""
    errors: int = 0
    """Questions of which a request failed, so that they never got an answer."""
    groups: int = 0
    """Images, or dialogues, that the scored questions are about: the independent units."""
    least: float | None = None
    most: float | None = None
    """The value if every question without an answer had the least value that there is, and the greatest; None where all
    were answered, and for a metric without bounds or that is not a mean over questions."""
    absent: int = 0
    """Scored questions that were not answered in full, which counts as not right: in runs made elsewhere."""
    not_asked: int = 0
    """Questions that were not asked, or not to the end, as in a run that was stopped."""

    @property
    def unanswered(self) -> int:
        """Questions without an answer, whether they failed or were not asked."""
        return self.errors + self.not_asked

    @property
    def questions(self) -> int:
        """All questions that the number is about, with a value or without."""
        return self.n + self.unscored + self.unanswered

    @property
    def margins(self) -> tuple[float, float]:
        """Distances from the value down and up to the ends of its interval, neither of them negative.

        Examples:
            >>> below, above = Estimate(0.5, 0.05, 0.4, 0.62, 100).margins
            >>> round(below, 2), round(above, 2)
            (0.1, 0.12)
        """
        value = self.value or 0.0
        below = value - (self.low or 0.0)
        above = (self.high or 0.0) - value
        return max(0.0, below), max(0.0, above)

    def scaled(self, factor: float) -> Estimate:
        """Return the estimate in another unit: value, error and interval times a positive factor.

        Examples:
            >>> Estimate(0.5, 0.05, 0.4, 0.6, 100).scaled(100).high
            60.0
        """
        scaled_numbers: dict[str, float | None] = {}
        for name in ("value", "stderr", "low", "high", "least", "most"):
            number = getattr(self, name)
            scaled_numbers[name] = None if number is None else factor * number
        return replace(self, **scaled_numbers)


NO_SPREAD = 1e-12
"""Smaller standard errors are zero: only rounding keeps them from it."""
_RESULT_HINTS = {
    **dict.fromkeys(("score", "mean", "result", "headline"), "it is value"),
    **dict.fromkeys(
        ("p_value", "p", "pvalue", "significant"), "sn.compare(first, second) has p-values"
    ),
    **dict.fromkeys(
        ("std", "sem", "se", "error"),
        "stderr is the standard error of the value; scores() of the results has a value for each question",
    ),
    **dict.fromkeys(("interval", "confidence_interval", "conf_int"), "ci is the 95% interval"),
    **dict.fromkeys(("count", "num_samples", "size", "total"), "n is the number of questions"),
    **dict.fromkeys(("task", "dataset"), "it is benchmark"),
}
"""What to write instead of names that other libraries use."""


class Result(Struct, frozen=True, gc=False, omit_defaults=True):
    """One cell of the results: a metric of a model on a benchmark under a protocol.

    Examples:
        >>> estimate = Estimate(0.75, 0.05, 0.64, 0.83, 80)
        >>> result = Result("mine", "animals", "vanilla", "generation", "accuracy", estimate, unit="share")
        >>> result.value, result.ci, result.n
        (0.75, (0.64, 0.83), 80)
    """

    model: str
    benchmark: str
    protocol: str
    method: Method
    metric: str
    estimate: Estimate
    dimension: str = ""
    suite: str = ""
    slice: str = ""
    """`tag=value` when the number covers part of the benchmark, else empty."""
    unit: str = ""
    """What the value is counted in; `share` is of one."""
    better: Better = "higher"
    reason: Reason | None = None
    """Why there is no value, where the estimate's counts do not say."""
    detail: str = ""
    convention: Convention = "standard"
    """By whose rules: Snellen's, or those of the tables that the benchmark's suite published."""
    over: MeanOver = ""
    """Of a number of several benchmarks: what counts alike in it, as their suites declare."""
    members: str = ""
    """Of a number of several benchmarks: which entered it, with the part of their questions that was asked."""
    partial: str = ""
    """Of a number of several benchmarks: what of all that their suites name is not in it; empty when all is."""

    @property
    def value(self) -> float | None:
        return self.estimate.value

    @property
    def stderr(self) -> float | None:
        """Standard error of the value; None if all values are equal, because their spread cannot be estimated."""
        estimate = self.estimate
        shows_no_spread = estimate.stderr is not None and estimate.stderr < NO_SPREAD
        if shows_no_spread and estimate.low != estimate.high:
            return None
        return estimate.stderr

    @property
    def low(self) -> float | None:
        """Lower end of the 95% interval."""
        return self.estimate.low

    @property
    def high(self) -> float | None:
        """Upper end of the 95% interval."""
        return self.estimate.high

    @property
    def ci(self) -> tuple[float | None, float | None]:
        """The 95% interval."""
        return self.estimate.low, self.estimate.high

    @property
    def n(self) -> int:
        """Number of scored questions."""
        return self.estimate.n

    def __float__(self) -> float:
        """Return the value. Raises ValueError if there is none."""
        if self.value is None:
            raise ValueError(f"{self.metric} of {self.model} on {self.benchmark} has no value")
        return self.value

    def __getattr__(self, name: str) -> Any:
        """Raise AttributeError for an attribute that does not exist. The message says where to find what it may mean."""
        hint = _RESULT_HINTS.get(name, "")
        if not hint and name == self.metric:
            hint = "this row is of that metric: value, ci, stderr, n"
        if not hint:
            hint = "samples of the results has a row for each question and reply"
        raise AttributeError(f"'Result' object has no attribute {name!r}; {hint}")
