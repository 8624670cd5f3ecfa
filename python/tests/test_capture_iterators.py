"""Iterators that a function makes, gives away and moves on behind a break: they stand where eager's stand, in every call."""

import collections
import functools
import itertools
import types

import compare
import pytest
import torch

import oxytorch
from capturing import check, x


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


def first_of(items):
    for n in items:
        return n


def from_inside(items):
    yield from items


# What takes one item or some, and leaves the rest.
TAKES = {
    "next": lambda items: next(items),
    "next with a default": lambda items: next(items, 7),
    "__next__": lambda items: items.__next__(),
    "iter": lambda items: next(iter(items)),
    "for": first_of,
    "zip": lambda items: sum(a for a, _ in zip(items, [1, 2])),
    "zip behind": lambda items: next(zip([1, 2], items, strict=True))[1],
    "enumerate": lambda items: next(enumerate(items))[1],
    "map": lambda items: next(map(float, items)),
    "in": lambda items: 4 in items,
    "any": lambda items: any(n > 2 for n in items),
    "yield from": lambda items: sum(from_inside(items)),
    "islice": lambda items: sum(itertools.islice(items, 2)),
    "list": lambda items: len(list(items)),
    "sum": lambda items: sum(items),
    "unpacking": lambda items: len([*items]),
    "arguments": lambda items: max(0, *items, 1),
    "set": lambda items: len(set(items)),
    "sorted": lambda items: len(sorted(items)),
    "deque": lambda items: len(collections.deque(items)),
    "keys": lambda items: len(dict.fromkeys(items)),
}
TO_THE_END = {"in", "yield from", "list", "sum", "unpacking", "arguments", "set", "sorted", "deque", "keys"}


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("by", ["a compiled function", "eager"])
def test_what_one_call_gave_away_goes_on_in_later_calls(by, made, take):
    if made in {"generator", "count", "cycle"} and take in TO_THE_END:
        pytest.skip("it has no end")

    def make(x, holder):
        holder.items = MADE[made]()
        return x + 1

    def use(x, holder):
        return x + TAKES[take](holder.items)

    def outcomes(make, use):
        for _ in range(2):
            holder = Holder(0)
            make(torch.zeros(2), holder)
            for _ in range(4):
                try:
                    yield use(torch.zeros(2), holder).tolist()
                except StopIteration:
                    yield "the end"
            yield list(itertools.islice(holder.items, 3))

    make(torch.zeros(2), Holder(0))
    maker = make if by == "eager" else oxytorch.compile(make)
    assert list(outcomes(maker, oxytorch.compile(use))) == list(outcomes(make, use))


def test_an_iterator_that_the_first_call_leaves_to_the_next_ones():
    def f(x, holder):
        if not hasattr(holder, "items"):
            holder.items = iter([1, 2, 3, 4, 5, 6])
        return x + next(holder.items)

    compiled, holder = oxytorch.compile(f), Holder(0)
    assert [compiled(torch.zeros(()), holder).item() for _ in range(5)] == [1, 2, 3, 4, 5]


def closing(log):
    got = 0
    try:
        while True:
            try:
                got = (yield got) or got + 1
            except ValueError:
                got = 100
    finally:
        log.append(got)


@pytest.mark.parametrize("begun", [False, True])
def test_a_generator_of_another_call_is_sent_values_and_closed(begun):
    def make(x, holder, log):
        holder.items = closing(log)
        if begun:
            next(holder.items)
            print(end="")
        return x

    def send(x, holder):
        return x + holder.items.send(5 if x.sum() > 0 else None)

    def throw(x, holder):
        return x + holder.items.throw(ValueError())

    def close(x, holder):
        holder.items.close()
        return x + next(holder.items, 9)

    def outcomes(make, send, throw, close):
        for _ in range(2):
            holder, log = Holder(0), []
            make(torch.zeros(2), holder, log)
            for number in range(4):
                yield send(torch.full((2,), float(number)), holder).tolist()
            for _ in range(3):
                yield throw(torch.zeros(2), holder).tolist()
                yield send(torch.zeros(2), holder).tolist()
            yield close(torch.zeros(2), holder).tolist(), list(log)
            yield close(torch.zeros(2), holder).tolist(), list(log)

    functions = [make, send, throw, close]
    assert list(outcomes(*map(oxytorch.compile, functions))) == list(outcomes(*functions))


def test_an_iterator_of_another_call_comes_out_as_it_is():
    def make(x, holder):
        holder.items = iter([1, 2, 3, 4, 5])
        return x

    def give(x, holder):
        return x + 1, holder.items

    holder, give = Holder(0), oxytorch.compile(give)
    oxytorch.compile(make)(torch.zeros(2), holder)
    for number in range(1, 4):
        items = give(torch.zeros(2), holder)[1]
        assert items is holder.items and next(items) == number


def grown(made):
    made.update(b=9) if isinstance(made, dict) else made.add(9) if isinstance(made, set) else made.append(9)


# What an iterator goes through, and the iterator.
ENDED = {
    "a list's": (lambda: [1], iter),
    "enumerate": (lambda: [1], enumerate),
    "zip": (lambda: [1], lambda made: zip(made, [5, 6, 7])),
    "from the end": (lambda: [1], reversed),
    "a dict's": (lambda: {"a": 1}, iter),
    "a dict's items": (lambda: {"a": 1}, lambda made: iter(made.items())),
    "a dict's values": (lambda: {"a": 1}, lambda made: iter(made.values())),
    "a set's": (lambda: {1}, iter),
    "a deque's": (lambda: collections.deque([1]), iter),
}


@pytest.mark.parametrize("breaks", [0, 1, 2])
@pytest.mark.parametrize("name", ENDED)
def test_an_iterator_that_has_ended_stays_ended(name, breaks):
    """Whatever comes to what it went through; a deque's says that the deque has changed."""
    make, iterator_of = ENDED[name]

    def f(x):
        made = make()
        items = iterator_of(made)
        count = len(list(items))
        if breaks > 0:
            print(end="")
        grown(made)
        if breaks > 1:
            print(end="")
        try:
            left = next(items, 0) == 0
        except RuntimeError as error:
            left = str(error)
        return x + count, left

    compiled = oxytorch.compile(f)
    for n in range(3):
        x = torch.full((2,), float(n))
        compare.assert_same(compiled(x), f(x))


class Alone:
    pass


NOT_ITERABLE = {
    "tuple": tuple,
    "sorted": sorted,
    "a loop": lambda value: [item for item in value],
    "given as arguments": lambda value: print(*value),
    "behind others": lambda value: print(1, *value),
    "given as names": lambda value: print(**value),
    "in a list": lambda value: [1, *value],
    "joined": lambda value: ",".join(value),
    "reduced": lambda value: functools.reduce(max, value),
    "its dict": lambda value: vars(value),
}
VALUES = {"object": Alone, "partial": lambda: functools.partial(max), "number": lambda: 1.5, "namespace": types.SimpleNamespace}


@pytest.mark.parametrize("use", NOT_ITERABLE)
@pytest.mark.parametrize("value", VALUES)
def test_what_is_not_iterable_is_refused_in_cpythons_words(use, value):
    def function(x):
        made = VALUES[value]()
        try:
            return x + 1, repr(NOT_ITERABLE[use](made))
        except TypeError as error:
            return x + 2, str(error)

    captured = oxytorch.compile(function)
    for _ in range(2):
        (got, words), (want, expected) = captured(torch.ones(2)), function(torch.ones(2))
        assert torch.equal(got, want)
        assert words == expected


def unpacked(x):
    (a,) = x[0]
    return a


SCALARS = [unpacked, lambda x: [*x[0]], lambda x: [q for q in x[0]], lambda x: list(x[0]), lambda x: (lambda *a: a)(*x[0])]


@pytest.mark.parametrize("function", SCALARS)
def test_a_tensor_without_dimensions_is_not_iterated(function):
    captured = oxytorch.compile(function)
    for _ in range(2):
        with pytest.raises(TypeError, match="^iteration over a 0-d tensor$"):
            captured(torch.arange(4.0))


def doubled(grown):
    yield grown[-1] * 2
    yield grown[-1] + len(grown)


def stops_halfway(grown):
    yield from doubled(grown)
    raise ValueError("enough")


def grows(t, kind, iterate):
    grown = kind([t, t + 1])
    try:
        grown.extend(iterate(grown))
    except ValueError as error:
        return list(grown), str(error)
    return list(grown)


@pytest.mark.parametrize("kind", [list, collections.deque])
@pytest.mark.parametrize(
    "iterate",
    [doubled, stops_halfway, lambda grown: (grown[-1] * n for n in (2, 3)), lambda grown: map(lambda n: grown[-1] + n, (1, 2))],
    ids=["generator", "raises", "expression", "map"],
)
def test_what_grows_by_an_iterable_that_looks_at_it(kind, iterate):
    check(lambda t: grows(t, kind, iterate), (x(3),))


def test_a_set_that_grows_by_an_iterable_that_looks_at_it():
    def grow(t):
        grown = {1}
        grown.update(len(grown) + 1 for _ in range(3))
        return t + sum(grown), sorted(grown)

    check(grow, (x(3),))


def test_an_iterator_that_ends_by_what_has_grown():
    class Until:
        def __init__(self, grown):
            self.grown = grown

        def __iter__(self):
            return self

        def __next__(self):
            if len(self.grown) > 3:
                raise StopIteration
            return self.grown[-1] * 2

    check(lambda t: grows(t, list, Until), (x(3),))


def test_a_dict_that_grows_by_an_iterable_that_looks_at_it():
    def grow(t):
        made = {0: t}
        made.update(((n + 1, f(made[max(made)])) for n, f in enumerate((torch.sin, torch.cos))), last=t + 1)
        return made

    check(grow, (x(3),))


def put_and_raise(run):
    yield run[-1] * 2
    raise ValueError("halfway")


def put_and_grow(run):
    run.append(run[-1] * 5)
    yield run[-1] + 1


PUT = {
    "generator": lambda run: (run[-1] * n for n in (2, 3)),
    "map": lambda run: map(lambda n: run[-1] + n, (1, 2)),
    "raises": put_and_raise,
    "grows the list": put_and_grow,
    "tensor": lambda run: run[0].new_ones(2, 3),
    "tensor without dimensions": lambda run: run[0].sum(),
}
PLACES = [slice(1, None), slice(0), slice(None), slice(-2, 1), slice(None, None, 2), slice(3, 1, -1), slice(0, 9, 4), slice(-10, None, -1)]


@pytest.mark.parametrize("values", PUT)
@pytest.mark.parametrize("places", PLACES, ids=str)
def test_a_run_of_a_list_is_replaced_by_what_runs_code(values, places):
    def put(t, run):
        run[:] = [t, t + 1, t + 2, t + 3]
        try:
            run[places] = PUT[values](run)
        except (TypeError, ValueError) as error:
            return run, str(error)
        return run

    check(lambda t: put(t, []), (x(3),))
    captured = check(put, (x(3), []))
    assert "run a graph" in captured.show()


class Listed(list):
    pass


class Storing(list):
    def __setitem__(self, place, value):
        super().__setitem__(place, value)


@pytest.mark.parametrize("values", PUT)
@pytest.mark.parametrize("kind", (list, Listed, Storing))
def test_the_method_of_lists_that_replaces_a_run(kind, values):
    def put(t):
        run, other = kind([t, t + 1, t + 2, t + 3]), kind([t * 2, t * 3, t * 4])
        try:
            list.__setitem__(run, slice(1, 3), PUT[values](run))
            other[:2] = PUT[values](other)
        except (TypeError, ValueError) as error:
            return list(run), list(other), str(error)
        return list(run), list(other), type(run)

    captured = check(put, (x(3),))
    assert "run a graph" in captured.show()
