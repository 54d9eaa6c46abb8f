"""The published number of a benchmark: what has to be set to obtain it, and the replies that prove it.

A number is reproduced if published replies, scored by the entry, give the printed figure
(bench/reproductions.py). Without such replies it is Snellen's own number, however close its settings are.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct

from snellen.common.faults import names_of

OWN_NUMBER = "Snellen's own number"
"""How lists and reports mark a benchmark whose printed figures were not reproduced."""
OWN_WORDING = "Snellen's own wording"
"""How lists and reports mark a benchmark of which no prompt with a source is declared."""
OWN_DECODING = "Snellen's own decoding"
"""How lists, runs and reports mark a benchmark whose makers published no decoding."""
OWN_JUDGE_WORDING = "Snellen's own judge wording"
"""How lists, reports and cards mark a judged score whose prompt is not the published one."""
REPRODUCED_WITHIN = 0.1
"""Largest difference from a printed figure that counts as reproduced, in the unit of that figure."""


class PublishedJudge(Struct, frozen=True, forbid_unknown_fields=True):
    """The judge behind a published number.

    Examples:
        >>> PublishedJudge(model="gpt-4-0613", source="yuweihao/MM-Vet, mm-vet_evaluator.py").text
        ''
    """

    model: str = ""
    """The judge model, as its source names it; empty where the source names none."""
    source: str = ""
    """Repository, commit and file of the judge's prompt, or the paper and its section."""
    text: str = ""
    """The prompt, quoted where it is short; empty where it is only referenced by `source`."""
    licence: str = ""
    """The licence of a quoted prompt."""
    metric: Annotated[str, names_of("metrics")] = ""
    """Snellen's judged metric that follows it."""

    @property
    def is_quoted(self) -> bool:
        """Whether the metric shows its judge the published prompt. Otherwise the wording is Snellen's own."""
        return bool(self.licence)


class Reproduction(Struct, frozen=True, forbid_unknown_fields=True):
    """Published replies of a model with the figure that was printed for them.

    Examples:
        >>> Reproduction(model="GPT-4V", repository="owner/name", paths=("replies.json",), printed=67.3).unit
        'percent'
    """

    model: str
    """The model, as its source names it."""
    repository: str
    """The repository on GitHub that holds the replies: `owner/name`."""
    paths: tuple[str, ...]
    """Files of replies in it. The figure is that of all of them together."""
    printed: float
    """The printed figure, in `unit`."""
    rescored: float | None = None
    """What the entry's metric gives for these replies (bench/reproductions.py), in the same unit."""
    source: str = ""
    """Where the figure is printed: paper and table, or a file of a repository."""
    commit: str = ""
    """The commit of the repository in which the replies were found."""
    reader: str = "entry"
    """Who reads the replies: `entry`, by its rules; `makers`, if the files have the answers that their judge or parser
    took from the replies, or the marks that it gave them; or the name of a rule: of the group `extractors`, such as `legacy:exact-text`, or of another
    harness, as `snellen reconcile` knows it, such as `mmmu`."""
    reads: dict[str, str] = {}
    """What bench/reproductions.py has to know of the files, such as the field of the reply."""
    why: str = ""
    """Why the figures differ by more than a tenth of a point."""
    unit: Literal["percent", "points"] = "percent"
    """Percent of 100, or points on the benchmark's own scale."""

    @property
    def agrees(self) -> bool:
        """Whether the replies give the printed figure, within a tenth of a point."""
        if self.rescored is None:
            return False
        return round(abs(self.rescored - self.printed), 6) <= REPRODUCED_WITHIN


class PublishedNumber(Struct, frozen=True, forbid_unknown_fields=True):
    """The published number of a benchmark as data. A field that could not be verified is left out.

    Examples:
        >>> PublishedNumber(split="validation", aggregate="mean over questions").missing
        ('prompt', 'decoding', 'reproduction')
        >>> PublishedNumber(prompt="lmms-eval", prompt_by="lmms-eval").wording
        'lmms-eval'
    """

    prompt: Annotated[str, names_of("templates")] = ""
    """The set of `[prompts]` that asks as its makers do: `official`."""
    prompt_source: str = ""
    """Repository, commit and file of that wording, or the paper and its section."""
    prompt_by: str = ""
    """Whose wording it is where it is not the makers': the harness or the model's makers whose figures are printed
    with it, such as `lmms-eval` or `LLaVA-1.5`. Many makers published data alone."""
    no_prompt: str = ""
    """Why no prompt was published, where that is known: the makers train classifiers, for example."""
    decoding: str = ""
    """The makers' decoding in a few words, with its source. The set of `prompt` applies it."""
    no_decoding: str = ""
    """Why no decoding was published, where that is known: the makers' repository asks no model, for example. The
    longest reply is then Snellen's choice, and replies are greedy."""
    aggregate: str = ""
    """How the printed figure is made of the scores of questions."""
    aggregate_source: str = ""
    """Repository, commit and file of the code that makes it so; empty where none was read."""
    split: str = ""
    """The split that the printed figure covers."""
    extractor: Annotated[str, names_of("extractors")] = ""
    """How the makers read replies: a name of the group `extractors`; Snellen's standard rules where it is left out."""
    metrics: tuple[Annotated[str, names_of("metrics")], ...] = ()
    """The metrics of the printed figure, its headline first; those of the entry where they are left out."""
    headline: str = ""
    """The row that is the printed figure; that of the entry where it is left out."""
    judge: PublishedJudge | None = None
    """The judge, if the printed figure is one's."""
    differs: str = ""
    """What still differs from the published procedure, if anything is known."""
    reproductions: tuple[Reproduction, ...] = ()
    """Published replies that give their printed figure when the entry scores them."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Parts that nobody has verified yet, by name."""
        parts = {
            "prompt": self.prompt or self.no_prompt,
            "decoding": self.decoding or self.no_decoding,
            "aggregate": self.aggregate,
            "split": self.split,
            "reproduction": self.is_reproduced,
        }
        return tuple(name for name, value in parts.items() if not value)

    @property
    def wording(self) -> str:
        """Whose prompts `--as-published` uses: `makers`, the name of somebody else, or `Snellen's own wording`."""
        if not self.prompt:
            return OWN_WORDING
        return self.prompt_by or "makers"

    @property
    def judge_wording(self) -> str:
        """`Snellen's own judge wording` if the judged metric words its prompt itself, `makers` if it quotes the
        published one; empty without such a metric.
        """
        if self.judge is None or not self.judge.metric:
            return ""
        return "makers" if self.judge.is_quoted else OWN_JUDGE_WORDING

    @property
    def n_reproduced(self) -> int:
        """For how many of `reproductions` the replies give their printed figure."""
        return sum(reproduction.agrees for reproduction in self.reproductions)

    @property
    def is_reproduced(self) -> bool:
        """Whether published replies of at least one model give their printed figure."""
        return self.n_reproduced > 0

    @property
    def mark(self) -> str:
        """The mark of the number in lists: `reproduced (3 of 4)`, or Snellen's own if it was not reproduced."""
        if not self.is_reproduced:
            return OWN_NUMBER
        return f"reproduced ({self.n_reproduced} of {len(self.reproductions)})"
