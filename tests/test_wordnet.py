"""Similar classes and words by WordNet, with NLTK's own measures as witnesses."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from snellen.errors import DataError
from snellen.reformulation import wordnet
from snellen.reformulation.wordnet import DEBIAN, WordNet, open_wordnet

nltk_data = pytest.importorskip("nltk.data", reason="waits for nltk")
nltk_wordnet = pytest.importorskip("nltk.corpus.reader.wordnet", reason="waits for nltk")

TENCH, GOLDFISH, SHARK, CRANE = "n01440764", "n01443537", "n01484850", "n03126707"


@pytest.fixture(scope="module")
def words() -> WordNet:
    try:
        return open_wordnet()
    except DataError as error:
        pytest.skip(f"waits for wordnet-base: {error}")


@pytest.fixture(scope="module")
def nouns(words: WordNet) -> list[str]:
    with words.reader.open("data.noun") as file:
        return [
            f"n{line[:8]}" for line in file if not line.startswith("  ")
        ]  # its licence is indented


def test_a_synset_is_found_by_the_id_that_imagenet_gives_it(words: WordNet) -> None:
    assert words.names(TENCH) == ("tench", "Tinca tinca")
    assert words.names(CRANE) == ("crane",)
    assert words.noun_synset("tench") == TENCH


@pytest.mark.parametrize(
    "wrong", ["n01440765", "n99999999", "n00000000", "v01440764", "n144", "", "tench"]
)
def test_an_id_that_points_nowhere_is_refused(wrong: str, words: WordNet) -> None:
    with pytest.raises(DataError, match=r"no noun|not a WordNet id"):
        words.names(wrong)


def test_a_word_that_is_no_noun_is_refused(words: WordNet) -> None:
    with pytest.raises(DataError, match="WordNet has no noun 'quickly'"):
        words.noun_synset("quickly")


def test_names_occur_in_tagged_texts_as_often_as_nltk_counts(
    words: WordNet, nouns: list[str]
) -> None:
    lemmas = [lemma for noun in nouns[::400] for lemma in words._synset(noun).lemmas()]
    counts = [nltk_wordnet.WordNetCorpusReader.lemma_count(words.reader, lemma) for lemma in lemmas]
    assert [lemma.count() for lemma in lemmas] == counts and len(set(counts)) > 5


places = st.integers(0, 82_114)
"""Which of WordNet 3.0's 82,115 nouns."""


def path_similarity(words: WordNet, first: str, second: str) -> float:
    return 1 / (1 + words._path_rank(first, second)[0])


def wup_similarity(words: WordNet, first: str, second: str) -> float:
    """Over the shortest path: 2 depth / (2 depth + d), the root having depth 1."""
    steps, depth = words._path_rank(first, second)
    return 2 * -depth / (2 * -depth + steps)


@settings(max_examples=300, deadline=None)
@given(first=places, second=places)
def test_path_similarity_is_nltks(
    first: int, second: int, words: WordNet, nouns: list[str]
) -> None:
    one, other = nouns[first], nouns[second]
    theirs = words._synset(one).path_similarity(words._synset(other))
    assert path_similarity(words, one, other) == pytest.approx(theirs)
    assert path_similarity(words, one, other) == path_similarity(words, other, one)
    assert path_similarity(words, one, one) == 1


@settings(max_examples=300, deadline=None)
@given(first=places, second=places)
def test_wu_and_palmers_similarity_is_nltks_where_there_is_one_way_up(
    first: int, second: int, words: WordNet, nouns: list[str]
) -> None:
    one, other = nouns[first], nouns[second]
    # With several ways up NLTK takes the hypernym that is deepest by its shortest way down, wherever it lies.
    assume(all(len(words._synset(synset).hypernym_paths()) == 1 for synset in (one, other)))
    theirs = words._synset(one).wup_similarity(words._synset(other))
    assert wup_similarity(words, one, other) == pytest.approx(theirs)


def test_neighbours_are_ranked_by_path_and_then_by_depth(words: WordNet) -> None:
    among = [CRANE, SHARK, TENCH, GOLDFISH, words.noun_synset("cat")]
    ranked = words.by_similarity(TENCH, among)
    assert [name for tier in ranked for name in tier] == [
        GOLDFISH,
        SHARK,
        words.noun_synset("cat"),
        CRANE,
    ]
    keys = [
        (-path_similarity(words, TENCH, t[0]), -wup_similarity(words, TENCH, t[0])) for t in ranked
    ]
    assert keys == sorted(keys)


@settings(max_examples=25, deadline=None)
@given(chosen=st.lists(places, min_size=2, max_size=30, unique=True))
def test_every_other_class_is_ranked_once_and_equals_share_a_tier(
    chosen: list[int], words: WordNet, nouns: list[str]
) -> None:
    among = [nouns[place] for place in chosen]
    ranked = words.by_similarity(among[0], among)
    assert sorted(name for tier in ranked for name in tier) == sorted(among[1:])
    for tier in ranked:
        assert len({path_similarity(words, among[0], name) for name in tier}) == 1
    assert words.by_similarity(among[0], reversed(among)) == tuple(
        tuple(reversed(tier)) for tier in ranked
    )


def test_related_words_are_neither_kinds_of_the_class_nor_what_it_is_a_kind_of(
    words: WordNet,
) -> None:
    tiers = words.related_words(words.noun_synset("horse"), 15)
    found = [word for tier in tiers for word in tier]
    assert found[0] == "mule" and {"cow", "deer"} <= set(found)
    assert not {"horse", "pony", "mare", "racehorse", "mammal", "animal"} & set(found)
    assert len(found) == len(set(found)) >= 15


def test_related_words_stop_when_there_are_enough(words: WordNet) -> None:
    few, many = (words.related_words(words.noun_synset("cat"), count) for count in (3, 30))
    assert few == many[: len(few)] == (("panther", "lion", "tiger"),)


def opened_at(root: Path, monkeypatch: pytest.MonkeyPatch) -> WordNet:
    """WordNet as found when Debian's is not there and NLTK knows the folder `root` alone."""
    monkeypatch.setattr(wordnet, "DEBIAN", root / "nowhere")
    monkeypatch.setattr(nltk_data, "path", [str(root)])
    return open_wordnet.__wrapped__()


def nltk_files(folder: Path) -> Path:
    """The folder `corpora/wordnet` as NLTK's download unpacks it."""
    target = folder / "corpora" / "wordnet"
    shutil.copytree(DEBIAN, target, ignore=shutil.ignore_patterns("bin", "pixmaps", "wnres"))
    lexnames = "".join(f"{number:02}\t{name}\t1\n" for number, name in enumerate(wordnet._LEXNAMES))
    (target / "lexnames").write_text(lexnames)
    return target


needs_debian = pytest.mark.skipif(not DEBIAN.exists(), reason="waits for wordnet-base")


@needs_debian
def test_nltks_download_is_found_unpacked_and_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = nltk_files(tmp_path)
    assert opened_at(tmp_path, monkeypatch).names(TENCH)[0] == "tench"
    with zipfile.ZipFile(target.with_suffix(".zip"), "w") as packed:
        for file in target.iterdir():
            packed.write(file, f"wordnet/{file.name}")
    shutil.rmtree(target)
    assert opened_at(tmp_path, monkeypatch).names(TENCH)[0] == "tench"


@pytest.mark.slow
@needs_debian
def test_wordnets_own_variable_names_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WNSEARCHDIR", str(nltk_files(tmp_path)))
    assert opened_at(tmp_path / "empty", monkeypatch).noun_synset("tench") == TENCH
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path))
    with pytest.raises(DataError, match=r"\$WNSEARCHDIR names .* no data.noun"):
        open_wordnet.__wrapped__()


@pytest.mark.slow
@needs_debian
def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = nltk_files(tmp_path)
    text = (
        (target / "data.adj").read_text().replace("WordNet 3.0 Copyright", "WordNet 3.1 Copyright")
    )
    (target / "data.adj").write_text(text)
    with pytest.raises(DataError, match=r"WordNet 3.1; the ids of classes are those of 3.0"):
        opened_at(tmp_path, monkeypatch)


def test_without_any_wordnet_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WNSEARCHDIR", raising=False)
    with pytest.raises(DataError, match=r"apt-get install wordnet-base.*nltk\.downloader wordnet"):
        opened_at(tmp_path, monkeypatch)
