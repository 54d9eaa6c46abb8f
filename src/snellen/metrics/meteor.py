"""METEOR 1.5, by its own Java program as the package pycocoevalcap carries it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from snellen.errors import DataError
from snellen.metrics._java import jar
from snellen.metrics.captions import CorpusScore, References, Tokens, check_paired, tokenize


def meteor(replies: Sequence[str], references: References, *, tokens: Tokens = "standard") -> CorpusScore:
    """METEOR (Denkowski and Lavie 2014) in English with its default weights, in [0, 1].

    Weighted F of aligned words (exact, stem, synonym, paraphrase; the best reference counts) times a
    penalty for fragmentation; `value` pools statistics over the corpus, so it is not the mean of
    `per_caption`. One process scores the whole corpus. Raises MissingExtraError without Java or
    pycocoevalcap, DataError as the other caption metrics do.
    """
    java, program = jar("meteor/meteor-1.5.jar", "METEOR")
    check_paired(replies, references)
    command = [java, "-Dfile.encoding=UTF-8", "-Xmx2G", "-jar", str(program), "-", "-", "-stdio", "-l", "en", "-norm"]
    with subprocess.Popen(  # noqa: S603 - a jar of an installed package, no shell
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
    ) as process:
        statistics = [
            _ask(process, " ||| ".join(["SCORE", *(_line(text, tokens) for text in (*captions, reply))]))
            for reply, captions in zip(replies, references, strict=True)
        ]
        values = [float(_ask(process, " ||| ".join(["EVAL", *statistics])))]
        values += [float(_read(process)) for _ in statistics]
    return CorpusScore(values[-1], tuple(values[:-1]))


def _ask(process: subprocess.Popen[str], line: str) -> str:
    if process.stdin is not None:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    return _read(process)


def _read(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline() if process.stdout is not None else ""
    if not line:
        raise DataError("METEOR: its Java program ended without an answer; run `java -jar` on it to see why")
    return line.strip()


def _line(caption: str, tokens: Tokens) -> str:
    return " ".join(tokenize(caption, tokens)).replace("|||", "")
