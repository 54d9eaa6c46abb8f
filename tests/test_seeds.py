"""Generators by name: independent of order, process and the global generator."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.common.seeds import numpy_permutation, rng_for

names = st.lists(st.text(max_size=8) | st.integers(), max_size=4)


def draw(*name: str | int) -> float:
    return rng_for(*name).random()


@given(names)
def test_the_same_name_gives_the_same_numbers(name: list[str | int]) -> None:
    random.seed(1)
    first = draw(*name)
    random.seed(2)
    assert draw(*name) == first


@given(names, names)
def test_different_names_give_different_numbers(
    one: list[str | int], other: list[str | int]
) -> None:
    same = [str(part) for part in one] == [str(part) for part in other]
    assert (draw(*one) == draw(*other)) == same


def test_parts_of_a_name_do_not_run_together() -> None:
    assert draw("a", "bc") != draw("ab", "c")
    assert draw("a:1", "b") != draw("a", "1:b")


def test_numbers_are_the_same_on_any_machine_and_in_any_process() -> None:
    # The witness is frozen: a change of these numbers changes every benchmark and every presentation.
    code = "from snellen.common.seeds import rng_for; print(rng_for('eyechart', 'q1', 'order', 0).randrange(10**9))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(other.stdout) == rng_for("eyechart", "q1", "order", 0).randrange(10**9) == 55771581


def test_the_global_generator_is_left_alone() -> None:
    random.seed(5)
    wanted = random.random()
    random.seed(5)
    draw("anything")
    assert random.random() == wanted


@pytest.mark.parametrize("count", [0, 1, 2, 3, 64, 65, 2910])
@pytest.mark.parametrize("seed", [0, 1, 20230719, 2**32 - 1])
def test_a_permutation_of_numpy_is_drawn_without_numpy(count: int, seed: int) -> None:
    assert (
        numpy_permutation(count, seed) == numpy.random.RandomState(seed).permutation(count).tolist()
    )
