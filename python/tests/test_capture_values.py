"""Objects of the standard library that never change (paths, fractions, decimals, dates), as keys and numbers, and sets of classes of the program's: no breaks."""

import datetime
import decimal
import fractions
import pathlib

import oxytorch
import pytest
import torch
from compare import assert_same


class Own(set):
    pass


class Frozen(frozenset):
    pass


PATH, DECIMAL, OWN = pathlib.Path("p"), decimal.Decimal("2.5"), Own([1, 2, 3])
TABLE = {PATH: 3.0, fractions.Fraction(1, 3): 4.0, decimal.Decimal("1.5"): 5.0, datetime.date(2020, 1, 1): 6.0}


def keys_of_the_programs(x):
    return x * TABLE[PATH] + TABLE.get(PATH, 0) + (PATH in TABLE) + (pathlib.Path("none") in TABLE)


def keys_that_are_made(x):
    return x * TABLE[pathlib.Path("p")] + TABLE[fractions.Fraction(2, 6)] + TABLE[datetime.date(2020, 1, 1)]


def dicts_that_are_made(x):
    table = {pathlib.Path("a") / "b": 1.0, fractions.Fraction(1, 2): 2.0}
    table[decimal.Decimal("0.1")] = 3.0
    return x * table[pathlib.Path("a/b")] + table[0.5] + len({PATH, pathlib.Path("p")})


def missing(x):
    try:
        return x * TABLE[pathlib.Path("none")]
    except KeyError as error:
        return x, error.args


def numbers(x):
    return x * float(DECIMAL) + int(DECIMAL) + float(decimal.Decimal("0.1")) + float(fractions.Fraction(1, 2))


def sets_of_a_class(x):
    made = Own([1])
    made |= {2}
    made.add(3)
    return x * len(made | OWN), type(made | {4}), sorted(OWN & {1, 2}), sorted(OWN - made), made == {1, 2, 3}, made <= OWN, 2 in made


def frozen_sets_of_a_class(x):
    made = Frozen([1, 2])
    return x * len(made | {3}), type(made | {3}), made < Frozen([1, 2, 3]), made == {1, 2}, {made: 1}[frozenset({2, 1})]


CASES = [keys_of_the_programs, keys_that_are_made, dicts_that_are_made, missing, numbers, sets_of_a_class, frozen_sets_of_a_class]


@pytest.mark.parametrize("function", CASES, ids=lambda case: case.__name__)
def test_no_break(function):
    captured, x = oxytorch.compile(function, fullgraph=True), torch.ones(2)
    for _ in range(3):
        assert_same(captured(x), function(x))


def test_they_are_told_from_others(monkeypatch):
    table = {pathlib.Path("p"): 1.0, pathlib.Path("q"): 2.0}

    def function(x, path, amount):
        return x * table[path] + float(amount) + float(DECIMAL)

    captured, x = oxytorch.compile(function), torch.ones(2)
    for n, name in enumerate("pqpqp"):
        args = pathlib.Path(name), decimal.Decimal(n)
        assert_same(captured(x, *args), function(x, *args))
    monkeypatch.setitem(globals(), "DECIMAL", decimal.Decimal("7.5"))
    assert_same(captured(x, *args), function(x, *args))
    table[pathlib.Path("p")] = 9.0
    assert_same(captured(x, *args), function(x, *args))


def test_a_set_of_the_programs_is_looked_at_in_every_call():
    def function(x):
        return x * len(OWN | {7})

    captured, x = oxytorch.compile(function), torch.ones(2)
    try:
        for n in range(4):
            OWN.add(100 + n)
            assert_same(captured(x), function(x))
    finally:
        OWN.difference_update(range(100, 110))


def test_decimals_are_computed_with_the_settings_of_the_call():
    def function(x):
        return x * float(DECIMAL / 3), DECIMAL / 3, decimal.Decimal(1) / decimal.Decimal(3), -DECIMAL

    captured, x = oxytorch.compile(function), torch.ones(2)
    for digits in (28, 28, 2, 5, 1):
        with decimal.localcontext(prec=digits):
            assert_same(captured(x), function(x))


class Shifting(datetime.tzinfo):
    hours = 1

    def utcoffset(self, when):
        return datetime.timedelta(hours=self.hours)


ZONE = Shifting()
MOMENT, ZERO = datetime.datetime(2020, 1, 1, 12, tzinfo=ZONE), datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)


def test_a_zone_of_the_programs_is_asked_in_every_call():
    def function(x):
        return x * (MOMENT - ZERO).total_seconds()

    captured, x = oxytorch.compile(function), torch.ones(2)
    for hours in (1, 1, 2, 3):
        ZONE.hours = hours
        assert_same(captured(x), function(x))
