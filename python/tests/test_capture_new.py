"""`__new__` written in Python: a break inside goes on where it stood, and what comes behind it is CPython's."""

import warnings

import oxytorch
import pytest
import torch
from capturing import outcome, x


class Noted:
    """What it prints is a break; the first argument is the class."""

    def __new__(cls, size, *, scale=1.0):
        made = super().__new__(cls)
        print("made", cls.__name__)
        made.scale = scale
        return made

    def __init__(self, size, *, scale=1.0):
        self.size = size


class Started(Noted):
    def __init__(self, size, *, scale=1.0):
        super().__init__(size, scale=scale)
        print("started")
        self.size = size * 2


class Other:
    def __new__(cls, value):
        print("another thing")
        return value

    def __init__(self, value):
        raise AssertionError("it is none of the class")


def both(function, *args, capsys):
    """Thrice, with what was printed."""
    captured = oxytorch.compile(function)
    for _ in range(3):
        want = outcome(function, *args), capsys.readouterr().out
        got = outcome(captured, *args), capsys.readouterr().out
        torch.testing.assert_close(got[0][0], want[0][0])
        assert got[0][1] == want[0][1] and got[1] == want[1]
    return captured


@pytest.mark.parametrize("cls, breaks", ((Noted, 1), (Started, 2)))
def test_a_break_in_new(cls, breaks, capsys):
    def uses(a):
        b = a + 1
        made = cls(3, scale=2.0)
        return b * made.size * made.scale

    captured = both(uses, x(), capsys=capsys)
    stats = captured.stats()
    assert len(stats["breaks"]) == breaks and stats["traced"] == 1 and stats["ops"] == 3


def test_a_new_that_makes_something_else(capsys):
    def uses(a):
        return Other(a + 1) * 2

    assert both(uses, x(), capsys=capsys).stats()["ops"] == 2


def test_an_init_that_refuses_behind_a_break(capsys):
    def uses(a):
        try:
            Noted(a + 1, wrong=2)
        except TypeError:
            a = a * 3
        try:
            Started("a", scale=a)
        except ValueError:
            return a
        return a * 2

    both(uses, x(), capsys=capsys)


def test_a_new_that_is_waited_for(capsys):
    def uses(a):
        made = sorted([2, 1], key=lambda n: Noted(n).size)
        return a * made[0] + max(map(lambda n: Started(n).size, (1, 2)))

    both(uses, x(), capsys=capsys)


def test_containers_with_a_new_of_their_own(capsys):
    class Pair(tuple):
        def __new__(cls, first, second):
            print("a pair")
            return super().__new__(cls, (first + 1, second))

    class Bag(dict):
        def __new__(cls, *args, **named):
            print("a bag")
            return super().__new__(cls)

    def uses(a):
        pair = Pair(a, a * 2)
        bag = Bag(first=pair[0], second=3)
        return pair[0] + pair[1] + bag["first"] * bag["second"]

    both(uses, x(), capsys=capsys)


def test_deprecated_classes():
    """They warn in `__new__`, as `torch.cuda.amp.autocast` does."""

    def halves(a):
        with torch.cpu.amp.autocast():
            b = a @ a
        with torch.cuda.amp.autocast(enabled=False):
            return b @ b

    a = torch.randn(4, 4)
    captured = oxytorch.compile(halves)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        want = halves(a)
        for _ in range(3):
            torch.testing.assert_close(captured(a), want)
    assert want.dtype == torch.bfloat16
    assert [warning.category for warning in told] == [FutureWarning] * 8
    assert captured.stats()["breaks"] == [] and captured.stats()["ops"] > 0
