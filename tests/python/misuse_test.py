"""Tests of what `import weft` refuses: the table of misuse.py, at one and two ranks."""
import misuse
import pytest

import weft

DEADLINE_S = 60


@pytest.fixture(scope="module")
def two():
    """Results of two ranks."""
    return weft.spawn(misuse.ranked, 2)


def test_refused(two):
    wrong = []
    for place, found in (("one rank", misuse.outcomes()), *((f"rank {rank} of 2", found) for rank, (found, *_) in enumerate(two))):
        wrong += [f"{place}: {name}: {what or 'late'} ({seconds:.1f} s)" for name, (what, seconds) in found.items() if what or seconds > DEADLINE_S]
    assert not wrong, "\n".join(wrong)


def test_uneven_batches(two):
    """A rank with too few samples is told so; the other does not wait for ever, and both can go on with a new trainer."""
    for rank, (_, ((name, text, seconds), loss), _) in enumerate(two):
        assert name == ["CommError", "InputError"][rank] and "\n" not in text and seconds < DEADLINE_S and loss > 0, text


def test_unlike_data(two):
    """Data of another length, order or kind on one rank is refused on all, which can go on; so are forks of a rank."""
    forked = "this process was forked from a rank, whose connections it has; start another program instead (subprocess, weft.spawn)"
    for *_, (texts, steps) in two:
        assert texts == [
            "train(): rank 1 has 12 samples, shuffled, rank 0 has 16 samples, shuffled; give all ranks the same data",
            "train(): rank 1 has 16 samples, rank 0 has 16 samples, shuffled; give all ranks the same data",
            "train(): rank 1 has an iterable of batches, rank 0 has 16 samples, shuffled; give all ranks the same data",
            "evaluate(): rank 1 has 12 samples, rank 0 has 16 samples; give all ranks the same data", forked, forked] and steps == [1, 2]
