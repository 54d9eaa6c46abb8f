"""Find questions that are identical for a model but have different answers.

A model is shown the images, the context, the question with its options and, in a dialogue, the earlier rounds. If all
of this is equal and the correct answers differ, no reply can be correct for all of these questions.

Hidden answers of questions with images count as equal. Hidden answers of questions without images count as different.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from snellen.records import Answer, IndistinguishableQuestion, Sample

_encode = msgspec.json.Encoder().encode


class IndistinguishableFinder:
    """Finds questions that look the same to a model but have different answers.

    It needs 24 bytes of memory for each question.
    """

    def __init__(self) -> None:
        # Each array has an item for each question; each round of a dialogue is a question.
        self._content_digests = array("Q")
        self._answer_digests = array("Q")
        self._sample_indices = array("Q")

    def note(self, sample: Sample, golds: Sequence[Answer], replies: Sequence[str]) -> None:
        """Remember the questions of a sample, to compare them with those of all other samples.

        Args:
            sample: The sample.
            golds: Its correct answers. A question without one has a hidden answer.
            replies: The published replies of a dialogue, which a model sees in later rounds.
        """
        gold_by_turn = {gold.turn: gold for gold in golds}
        sample_index = self._sample_indices[-1] + 1 if self._sample_indices else 0
        image_digests = [image.digest for image in sample.images]
        # The digest of a round includes that of all rounds before it.
        content = _digest((image_digests, sample.context))
        for turn, question in enumerate(sample.rounds):
            previous_reply = ""
            if replies and turn > 0:
                previous_reply = replies[turn - 1]
            content = _digest((content, question, previous_reply))
            answer = _answer_digest(sample, turn, gold_by_turn.get(turn))
            self._content_digests.append(content)
            self._answer_digests.append(answer)
            self._sample_indices.append(sample_index)

    def questions(self, ids: Sequence[str]) -> Iterator[IndistinguishableQuestion]:
        """Yield the questions that look the same as another one with a different answer, group by
        group.

        Args:
            ids: Ids of the samples, in the order in which they were noted.
        """
        groups = self._equal_questions()
        if not groups:
            return
        first_question_of_sample: dict[int, int] = {}
        for index, sample_index in enumerate(self._sample_indices):
            first_question_of_sample.setdefault(sample_index, index)
        for group_number, indices in enumerate(groups):
            # Questions with the same answer are of one kind. Kinds are numbered as they first appear in the group.
            kind_by_answer: dict[int, int] = {}
            for index in indices:
                answer = self._answer_digests[index]
                next_kind = len(kind_by_answer)
                kind = kind_by_answer.setdefault(answer, next_kind)
                sample_index = self._sample_indices[index]
                turn = index - first_question_of_sample[sample_index]
                yield IndistinguishableQuestion(ids[sample_index], turn, group_number, kind)

    def _equal_questions(self) -> list[list[int]]:
        """Return groups of questions that look the same to a model but do not all have the same answer, as lists of indices."""
        repeated: set[int] = set()
        for content, next_content in pairwise(sorted(self._content_digests)):
            if content == next_content:
                repeated.add(content)
        if not repeated:
            return []

        indices_by_content: dict[int, list[int]] = defaultdict(list)
        for index, content in enumerate(self._content_digests):
            if content in repeated:
                indices_by_content[content].append(index)
        groups: list[list[int]] = []
        for indices in indices_by_content.values():
            answers = {self._answer_digests[index] for index in indices}
            if len(answers) > 1:
                groups.append(indices)
        return groups


def _answer_digest(sample: Sample, turn: int, gold: Answer | None) -> int:
    """Return a number that is the same for two questions if their correct answers are the same.

    For a question with an image, a hidden answer counts as the same as any other hidden answer. For
    one without images, it counts as different from all others.

    Args:
        sample: The sample.
        turn: The index of the question in a dialogue, otherwise 0.
        gold: The correct answer; None if it is hidden.
    """
    if gold is not None:
        return _digest((sorted(gold.options), sorted(gold.texts)))
    if sample.images:
        return _digest(None)
    return _digest((sample.id, turn))


def _digest(content: object) -> int:
    """Return a hash of 64 bits of any content that can be written as JSON.

    Among a million different questions, two have the same hash in one build out of 40 million.
    """
    digest = hashlib.blake2b(_encode(content), digest_size=8).digest()
    return int.from_bytes(digest)
