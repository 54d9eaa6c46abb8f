"""The pure-Python tokeniser against Stanford's program, where Java is, and against what that program gave."""

from __future__ import annotations

import importlib.util
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.metrics.ptb import caption_words, tokenize

GOLDEN = {
    "A man's hat isn't \"red\", it's 'blue'.": "a man 's hat is n't red it 's blue",
    "She can't or cannot; he won't, they're gonna.": "she ca n't or can not he wo n't they 're gon na",
    "T-shirt-wearing 3-year-old, well-lit two-tier-": "t-shirt-wearing 3-year-old well-lit two-tier",
    "Mr. Smith and Dr. Jones at 5 p.m. on Oct. 3rd": "mr. smith and dr. jones at 5 p.m. on oct. 3rd",
    "the U.S. Army, D.C.'s etc. on Main St.": "the u.s. army d.c. 's etc. on main st.",
    "bus No. 5 says no.": "bus no. 5 says no",
    "Option C. The dog is vitamin C. rich": "option c the dog is vitamin c. rich",
    "It costs $5.50, £3, €20 or 20¢ each, 50% off": "it costs $ 5.50 # 3 $ 20 or 20 cents each 50 % off",
    "US$5 #1 #ootd @nike me@mail.com www.foo.com": "us$ 5 # 1 #ootd @nike me@mail.com www.foo.com",
    "10:30 am, 10,000 people, 1/2 cup, 2½ cups, 5'10\" tall": "10:30 am 10,000 people 1/2 cup 2 1/2 cups 5 10 tall",
    "(left) [right] {up}": "-lrb- left -rrb- -lsb- right -rsb- -lcb- up -rcb-",
    "Wait... what?! No!! dog.The": "wait what ?! no !! dog.the",
    "rock 'n' roll o'clock y'all ma'am 'tis '90s 1990's": "rock 'n' roll o'clock y' all ma'am 't is '90s 1990 's",
    "“quoted” ‘single’ don’t — ok – so…": "quoted single do n't ok so",
    "and/or black/white AT&T R&B a&b C++ C#": "and/or black/white at&t r&b a & b c++ c#",
    "café naïve Zürich 日本 Привет": "café naïve zürich 日本 привет",
    "smile :) or :-( <3 😀 ❤ ™ 5°": "smile :-rrb- or :--lrb- < 3 ❤ ™ 5 °",
    "*star* _under_ a_b ~5 a+b -5 x-ray's": "* star * _ under _ a_b ~ 5 a + b -5 x-ray 's",
    "": "",
}


@pytest.mark.parametrize("caption", GOLDEN)
def test_tokens_are_those_that_the_coco_evaluation_gave(caption):
    assert " ".join(caption_words(caption)) == GOLDEN[caption]


def test_the_tokeniser_keeps_punctuation_that_caption_words_drops():
    assert tokenize("A dog, a cat.") == ["a", "dog", ",", "a", "cat", "."]
    assert caption_words("A dog, a cat.") == ["a", "dog", "a", "cat"]


plain = st.lists(st.sampled_from("a man red dogs runs beach snow".split()), max_size=10)


@given(plain)
def test_plain_words_are_their_own_tokens(words):
    assert caption_words(" ".join(words)) == words


@given(st.text(max_size=30))
def test_tokens_are_lower_case_without_blanks_and_never_fail(text):
    for token in tokenize(text):
        assert token and token == token.strip() and " " not in token
        assert token == token.lower()


@given(st.lists(st.text("ab'.,-5$ ", max_size=8), max_size=4))
def test_blanks_in_a_row_count_as_one(lines):
    text = " ".join(lines)
    assert tokenize(" ".join(text.split())) == tokenize(f" {' '.join(text.split())}  ")


PIECES = """
man dog child's boys' T-shirt teddy-bear jack-o'-lantern café jalapeño 3-year-old 50-foot SUV TV's
McDonald's Coca-Cola 1950s '60s 1960's U.S. D.C. Dr. Mt. St. 5th Ave. #23 7-Eleven AT&T R&B 747 A380
(white) [brown] is isn't can't cannot won't don’t it's they're he's I'd we've gonna sitting on
holding w/ red "big" 'small' “old” well-lit blue/green $5 $1,000.50 £20 €3.50 50% 20¢ 5° 1/2 3½
12:30 10:30am 5pm 1st 100+ 2x4 very-- nice... weird!! really?! ok; so: e.g. etc. vs. half-eaten,
over-sized 2010. 10-12 24/7 and/or A+ C++ :) ;) ❤ ™ – — - & @ me@mail.com @nike #ootd www.foo.com
naïve Zürich 日本 o'clock y'all ma'am 'em "STOP" "Stop!" STOP. Wait...what left, right). e-mail
""".split()


def realistic_captions(count: int) -> list[str]:
    draw = random.Random(11)
    fill = "a the in of and with two people next to a small wooden table".split()
    pick = [lambda: draw.choice(fill), lambda: draw.choice(PIECES)]
    return [
        " ".join(draw.choice(pick)() for _ in range(draw.randint(4, 14)))
        + draw.choice([".", "", " near them."])
        for _ in range(count)
    ]


def stanford_words(lines: list[str], folder: Path) -> list[list[str]]:
    """Words as pycocoevalcap has them; its own wrapper is avoided because it writes into its package."""
    package = importlib.util.find_spec("pycocoevalcap").submodule_search_locations[0]
    (folder / "captions.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    jar = Path(package, "tokenizer", "stanford-corenlp-3.4.1.jar")
    program = [
        "edu.stanford.nlp.process.PTBTokenizer",
        "-preserveLines",
        "-lowerCase",
        str(folder / "captions.txt"),
    ]
    command = [
        "java",
        "-Dfile.encoding=UTF-8",
        "-Dstdout.encoding=UTF-8",
        "-cp",
        str(jar),
        *program,
    ]
    output = subprocess.run(command, capture_output=True, check=True).stdout.decode("utf-8")
    dropped = "'' ' `` ` . ? ! , : - -- ... ;".split()
    return [
        [token for token in line.split() if token not in dropped] for line in output.splitlines()
    ]


@pytest.mark.skipif(shutil.which("java") is None, reason="waits for a Java runtime")
def test_at_least_999_of_1000_captions_have_the_words_of_the_java_tokeniser(tmp_path):
    lines = [*realistic_captions(4000), *filter(None, GOLDEN)]
    witness = stanford_words(lines, tmp_path)
    assert len(witness) == len(lines)
    different = [
        line for line, words in zip(lines, witness, strict=True) if caption_words(line) != words
    ]
    assert len(different) <= len(lines) / 1000, different[:5]
