"""Functions with a cache: what they are made of runs where the program calls it and the cache has nothing, in every call."""

import functools

import pytest
import torch
from compare import assert_same
from oxytorch import _oxytorch


def compare(make, calls, **options):
    """`make` gives a function, and what tells of its cache. Both are made twice: one runs plain, one captured."""
    (plain, told), (function, told_of_ours) = make(), make()
    captured = _oxytorch.capture(function, **options)
    for args in calls:
        results = []
        for called in (plain, captured):
            try:
                results.append(called(*args))
            except ValueError as error:
                results.append(str(error))
        assert_same(results[1], results[0])
        assert told_of_ours() == told()
    return captured


def making(step, size=128, give=lambda n, runs: [n]):
    """A cached function that notes its runs, used by `step`."""

    def make():
        runs = []

        @functools.lru_cache(maxsize=size)
        def cached(n, *, scale=1):
            runs.append(n)
            return give(n * scale, runs)

        return functools.partial(step, cached, runs), lambda: (list(runs), cached.cache_info())

    return make


def t(n=3):
    return torch.arange(float(n))


def test_a_function_with_a_cache_runs_where_it_is_called():
    def step(cached, runs, a, n, flag):
        runs.append("before")
        out = a + cached(n)[0] if flag else a
        runs.append("behind")
        return out

    calls = [(3, True), (3, True), (4, False), (5, True), (5, True), (6, False), (7, True), (3, True)]
    compare(making(step), [(t(), *call) for call in calls])


def test_an_exception_is_not_kept():
    def give(n, runs):
        if len(runs) < 4 or n < 0:
            raise ValueError(len(runs))
        return [n]

    def step(cached, runs, a, n):
        try:
            return a + cached(n)[0]
        except ValueError as error:
            if n < 0:
                raise
            return a * 0 + int(str(error))

    compare(making(step, give=give), [(t(), n) for n in (3, 3, 3, 3, 3, 4, -1, -1, 5, -2)])


@pytest.mark.parametrize("size", [None, 128, 2, 1, 0])
def test_caches_of_all_sizes(size):
    def step(cached, runs, a, n):
        kept = cached(n)
        kept.append(1)
        again = cached(n)
        return a * len(kept), kept is again, a * cached(n, scale=2)[0]

    compare(making(step, size), [(t(), n) for n in (3, 3, 4, 3, 3, 4, 4)])


@pytest.mark.parametrize("size", [None, 128])
def test_a_cache_that_is_emptied(size):
    def step(cached, runs, a, clear):
        if clear:
            cached.cache_clear()
        return a * cached(3) + cached(3, scale=2)

    make = making(step, size, lambda n, runs: n + len(runs))
    compare(make, [(t(), clear) for clear in (False, False, True, False, False, True)])


def test_a_table_for_every_size():
    def step(cached, runs, a):
        return a * cached(a.shape[0]) + cached(2)[1]

    make = making(step, give=lambda n, runs: torch.ones(n).cumsum(0))
    captured = compare(make, [(t(n),) for n in (3, 3, 4, 5, 4, 6, 3)], fullgraph=True)
    assert captured.stats()["traced"] == 2


def test_a_cache_for_tensors():
    weight = torch.ones(3)

    def step(cached, runs, a):
        return a * cached(weight) + cached(a)

    first = t()
    compare(making(step, give=lambda n, runs: n * 2), [(first,), (first,), (t(),), (first,)])


def test_what_a_cache_has_is_no_trace_of_its_own():
    def step(cached, runs, a):
        return a * cached(3) + cached(4)

    captured = compare(making(step, give=lambda n, runs: n), [(t(),)] * 4, fullgraph=True)
    assert captured.stats()["traced"] == 1


class Asked:
    def __init__(self, number):
        self.number = number

    @functools.lru_cache(maxsize=2)
    def times(self, n):
        return self.number * n


def test_a_method_of_another_object_in_every_call():
    """It is no constant of a trace, which would hold it, too."""
    captured = _oxytorch.capture(lambda a, asked: a * asked.times(3) + 1)
    for number in range(12):
        assert captured(torch.ones(2), Asked(number)).tolist() == [3 * number + 1] * 2
    assert captured.stats()["traced"] <= 3
