"""A break anywhere keeps both halves compiled, and nothing runs twice: side effects are counted, call after call."""

import contextlib
import functools
import io

import pytest
import torch
from oxytorch import _oxytorch


def nested_print(a):
    def inner(b):
        c = b + 1
        print("inner")
        return c * 2

    return inner(a * 3) - 1


def nested_item(a):
    def inner(b):
        n = (b * 0 + 2).sum().item()
        return b * n

    return inner(a + 1) + 1


def in_try_finally(a):
    b = a + 1
    try:
        print("try")
        b = b * 2
    finally:
        print("finally")
        b = b - 1
    return b


def in_a_handler(a):
    b = a + 1
    try:
        raise ValueError("v")
    except ValueError:
        print("handler")
        b = b * 3
    return b


def in_a_named_handler(a):
    try:
        [][a.shape[0]]
    except IndexError as error:
        print("handler", error)
        a = a * 2
    return a + 1


def in_a_generator(a):
    def numbers():
        for n in range(3):
            print("give", n)
            yield a * n

    total = a
    for item in numbers():
        total = total + item
    return total


def generator_across_a_break(a):
    def numbers():
        yield a
        yield a * 2
        yield a * 3

    it = numbers()
    first = next(it)
    print("between")
    return first + next(it) + sum(it)


CLEANED = []


class Told:
    def __enter__(self):
        CLEANED.append("in")

    def __exit__(self, *raised):
        CLEANED.append("out")


def two_and_clean_up(a):
    try:
        yield a
        yield a * 2
    finally:
        CLEANED.append(len(CLEANED))


def generator_that_cleans_up_behind_a_break(a):
    total = a
    for number in two_and_clean_up(a):
        print("between")
        total = total + number
    return total + len(CLEANED)


def generator_with_a_context_behind_a_break(a):
    def inner():
        with Told():
            yield a
            yield a + 1

    def numbers():
        try:
            yield from inner()
        finally:
            CLEANED.append(len(CLEANED))

    it = numbers()
    total = next(it)
    print("between")
    total = total + next(it)
    print("once more")
    return total + sum(it) + len(CLEANED)


def generator_that_is_closed_behind_a_break(a):
    it = two_and_clean_up(a)
    first = next(it)
    print("between")
    it.close()
    return first + len(CLEANED)


def in_a_comprehension(a):
    return torch.stack([a * n for n in range(3) if print("item", n) is None])


def in_a_generator_expression(a):
    return sum(a * n for n in range(3) if print("item", n) is None)


def in_a_sort_key(a):
    def rank(n):
        print("rank", n)
        return -n

    return a * sorted([1, 3, 2], key=rank)[0] + max([1, 2], key=rank)


def in_map_and_filter(a):
    def grow(n):
        print("grow", n)
        return a * n

    def wanted(n):
        print("wanted", n)
        return n != 2

    return sum(map(grow, filter(wanted, [1, 2, 3])))


def in_reduce(a):
    def join(left, right):
        print("join")
        return left + right

    return functools.reduce(join, [a, a * 2, a * 3])


def in_zip_and_enumerate(a):
    def numbers():
        for n in (1, 2):
            print("number", n)
            yield n

    total = a
    for place, (n, m) in enumerate(zip(numbers(), numbers())):
        total = total + place * n * m
    return total


class Sized:
    def __init__(self, n):
        self.n = n

    def __len__(self):
        print("len")
        return self.n

    def __bool__(self):
        print("bool")
        return self.n > 0

    def __add__(self, other):
        print("add")
        return Sized(self.n + other)

    def __lt__(self, other):
        print("lt")
        return self.n < other.n

    def __contains__(self, item):
        print("contains")
        return item == self.n

    def __iter__(self):
        print("iter")
        return iter(range(self.n))

    @property
    def twice(self):
        print("twice")
        return 2 * self.n

    @twice.setter
    def twice(self, value):
        print("set")
        self.n = value // 2


def in_special_methods(a):
    one, two = Sized(1), Sized(2)
    two.twice = 6
    if two and 3 in two and one < two:
        a = a * len(two + 1)
    first, *rest = two
    return a + one.twice + sum(rest) + sorted([two, one])[0].n


class Noisy:
    def __init__(self, swallows):
        self.swallows = swallows

    def __enter__(self):
        print("enter")
        return self

    def __exit__(self, kind, error, traceback):
        print("exit", kind, error, traceback is None)
        return self.swallows


def in_an_exit(a):
    with Noisy(False):
        a = a + 1
    try:
        with Noisy(False):
            a = a * 2
            raise KeyError("k")
    except KeyError:
        a = a + 1
    with Noisy(True):
        a = a * 3
        raise ValueError("v")
    return a


@contextlib.contextmanager
def noisy():
    print("enter")
    try:
        yield
    except ValueError:
        print("caught")
    finally:
        print("leave")


def in_a_context_manager(a):
    with noisy():
        a = a + 1
        raise ValueError("v")
    return a * 2


FUNCTIONS = [
    nested_print, nested_item, in_try_finally, in_a_handler, in_a_named_handler, in_a_generator, generator_across_a_break,
    generator_that_cleans_up_behind_a_break, generator_with_a_context_behind_a_break, generator_that_is_closed_behind_a_break,
    in_a_comprehension, in_a_generator_expression, in_a_sort_key, in_map_and_filter, in_reduce, in_zip_and_enumerate,
    in_special_methods, in_an_exit, in_a_context_manager,
]  # fmt: skip


def run(function, *args):
    printed = io.StringIO()
    CLEANED.clear()
    with contextlib.redirect_stdout(printed):
        result = function(*args)
    return result, (printed.getvalue(), [*CLEANED])


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_each_effect_once_and_both_halves_compiled(function, recwarn):
    captured = _oxytorch.capture(function)
    for call in range(4):
        a = torch.tensor([1.0, 2.0, 3.0]) + call
        (want, printed), (got, again) = run(function, a), run(captured, a)
        torch.testing.assert_close(got, want)
        assert again == printed
    stats = captured.stats()
    assert stats["traced"] == 1, captured.show()
    assert stats["segments"] > 1
    assert not [str(warning.message) for warning in recwarn if "runs as it is" in str(warning.message)]


def test_a_generator_that_outlives_the_call_cleans_up_when_it_goes():
    cleaned = []

    def numbers(a):
        try:
            yield a
            yield a * 2
        finally:
            cleaned.append(1)

    def function(a, kept):
        it = numbers(a)
        kept.append(it)
        first = next(it)
        print(end="")
        return first + 1

    captured = _oxytorch.capture(function)
    for call in range(4):
        kept = []
        captured(torch.ones(2) + call, kept)
        assert len(cleaned) == call and torch.equal(next(kept[0]), (torch.ones(2) + call) * 2)
        kept.clear()
        assert len(cleaned) == call + 1
