from __future__ import annotations

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Barrier

import pytest
from tests.engine.hand_clock import HandClock

from redrive import Redrive
from redrive.clock import SYSTEM_CLOCK
from redrive.engine.ids import BlockRandom, Ids
from redrive.parts import parts_of

SEVERAL_BLOCKS = 2_000


def drawn_by_a_child(ids: Ids) -> list[int]:
    """Draw tokens in a forked child."""
    readable, writable = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads of the test runner exist
        child = os.fork()
    if child == 0:
        try:
            with os.fdopen(writable, "w") as pipe:
                pipe.write(" ".join(str(ids.token()) for _ in range(SEVERAL_BLOCKS)))
        finally:
            os._exit(0)
    os.close(writable)
    with os.fdopen(readable) as pipe:
        tokens = [int(token) for token in pipe.read().split()]
    os.waitpid(child, 0)
    return tokens


def test_forked_children_never_repeat_the_numbers_of_their_parent_or_of_each_other() -> None:
    ids = Ids(SYSTEM_CLOCK, BlockRandom())
    before = ids.token()  # the next caller gets the rest of the block
    first, second = drawn_by_a_child(ids), drawn_by_a_child(ids)
    own = [ids.token() for _ in range(SEVERAL_BLOCKS)]
    assert len(first) == len(second) == SEVERAL_BLOCKS
    assert len({before, *first, *second, *own}) == 1 + 3 * SEVERAL_BLOCKS


def test_threads_never_draw_the_same_number() -> None:
    ids, start = Ids(SYSTEM_CLOCK, BlockRandom()), Barrier(8)

    def draw() -> list[int]:
        start.wait()
        return [ids.token() for _ in range(SEVERAL_BLOCKS)]

    with ThreadPoolExecutor(8) as pool:
        drawing = [pool.submit(draw) for _ in range(8)]
    assert len({token for draws in drawing for token in draws.result()}) == 8 * SEVERAL_BLOCKS


@pytest.mark.parametrize("bits", [0, 1, 7, 53, 63, 68, 72, 73, 1_000])
def test_numbers_use_all_of_their_bits_and_no_more(bits: int) -> None:
    random = BlockRandom()
    numbers = [random.getrandbits(bits) for _ in range(SEVERAL_BLOCKS)]
    assert all(0 <= number < 1 << bits for number in numbers)
    for bit in range(bits):
        assert {number >> bit & 1 for number in numbers} == {0, 1}


def test_a_negative_number_of_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="non-negative"):
        BlockRandom().getrandbits(-1)


def test_floats_lie_between_0_and_1() -> None:
    random = BlockRandom()
    numbers = [random.random() for _ in range(SEVERAL_BLOCKS)]
    assert 0.0 <= min(numbers) < 0.1
    assert 0.9 < max(numbers) < 1.0


def test_an_application_draws_blocks_unless_it_is_given_random_numbers() -> None:
    assert type(parts_of(Redrive("sqlite://:memory:")).random) is BlockRandom
    given = Random(7)
    assert parts_of(Redrive("sqlite://:memory:", random=given)).random is given


def test_the_same_seed_makes_the_same_ids() -> None:
    clock = HandClock()
    first, second = (Ids(clock, Random(7)) for _ in range(2))
    assert [first.new() for _ in range(5)] == [second.new() for _ in range(5)]
    assert first.token() == second.token()


def test_ids_have_32_digits_and_sort_in_the_order_they_were_made() -> None:
    ids = Ids(SYSTEM_CLOCK, BlockRandom())
    made = [ids.new() for _ in range(SEVERAL_BLOCKS)]
    assert made == sorted(set(made))
    assert {len(made_id) for made_id in made} == {32}
