"""Iterators that a function makes, gives away and moves on behind a break: they stand where eager's stand, in every call."""

import itertools

import compare
import pytest
import torch

import oxytorch


class Holder:
    def __init__(self, number):
        self.number = number


def counting():
    n = 0
    while True:
        yield n
        n += 1


def echo():
    got = 0
    while True:
        got = (yield got) or got + 1


MADE = {
    "a list's": lambda: iter([1, 2, 3, 4, 5]),
    "a tuple's": lambda: iter((1, 2, 3, 4, 5)),
    "a range's": lambda: iter(range(1, 9)),
    "a dict's": lambda: iter({1: 2, 3: 4, 5: 6, 7: 8}),
    "from the end": lambda: reversed([1, 2, 3, 4, 5]),
    "generator expression": lambda: (n * 2 for n in range(9)),
    "generator": lambda: counting(),
    "enumerate": lambda: (n + m for n, m in enumerate([5, 6, 7, 8])),
    "zip": lambda: map(sum, zip([5, 6, 7, 8], [1, 2, 3, 4])),
    "map": lambda: map(lambda n: n + 1, [1, 2, 3, 4, 5]),
    "filter": lambda: filter(lambda n: n % 2, range(12)),
    "count": lambda: itertools.count(3),
    "cycle": lambda: itertools.cycle([1, 2, 3]),
    "slice": lambda: itertools.islice(itertools.count(3), 1, 9),
    "chain": lambda: itertools.chain([1, 2], [3, 4, 5]),
    "accumulate": lambda: itertools.accumulate([1, 2, 3, 4, 5]),
}


def one_break(x, holder, make):
    holder.items = make()
    next(holder.items)
    print(end="")
    return x + next(holder.items)


def two_breaks(x, holder, make):
    holder.items = make()
    print(end="")
    a = next(holder.items)
    print(end="")
    return x + a + next(holder.items)


def branch(x, holder, make):
    holder.items = make()
    next(holder.items)
    if x.sum() > 3:
        x = x + next(holder.items)
    return x + next(holder.items)


def not_moved_at_the_end(x, holder, make):
    holder.items = make()
    x = x + next(holder.items)
    print(end="")
    return x * 2


@torch.compiler.disable
def take_some(holder):
    for _ in range(1 + holder.number % 2):
        next(holder.items)


def moved_by_others(x, holder, make):
    holder.items = make()
    take_some(holder)
    return x + next(holder.items)


def moved_by_others_alone(x, holder, make):
    holder.items = make()
    next(holder.items)
    take_some(holder)
    print(end="")
    return x + 1


FUNCTIONS = [one_break, two_breaks, branch, not_moved_at_the_end, moved_by_others, moved_by_others_alone]


def same_calls(function, *args, calls=5):
    compiled = oxytorch.compile(function)
    for number in range(calls):
        x = torch.full((2,), float(number))
        theirs, ours = Holder(number), Holder(number)
        expected = function(x, theirs, *args)
        compare.assert_same(compiled(x, ours, *args), expected)
        assert list(itertools.islice(ours.items, 6)) == list(itertools.islice(theirs.items, 6)), f"call {number}"


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("made", MADE)
def test_an_iterator_that_was_given_away_goes_on(made, function):
    same_calls(function, MADE[made])


def test_a_generator_that_is_sent_values_goes_on():
    def f(x, holder):
        holder.items = echo()
        next(holder.items)
        print(end="")
        return x + holder.items.send(7)

    same_calls(f)


def test_an_iterator_inside_of_another_that_others_move():
    def f(x, holder):
        inner = iter([1, 2, 3, 4, 5, 6, 7])
        holder.items = (n * 2 for n in inner)
        take_some(holder)
        return x + next(inner)

    same_calls(f)


def test_a_loop_over_what_was_given_away():
    def f(x, holder):
        holder.items = iter([1, 2, 3, 4, 5, 6])
        for n in holder.items:
            print(end="")
            x = x + n
            if n == 3:
                break
        return x

    same_calls(f)


def test_an_iterator_that_is_at_its_end_stays_there():
    def f(x, holder):
        holder.items = iter([1, 2])
        for n in holder.items:
            x = x + n
        print(end="")
        return x + next(holder.items, 5)

    same_calls(f)
