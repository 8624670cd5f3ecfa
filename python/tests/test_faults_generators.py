"""Generators that nobody holds any more are closed as CPython closes them, whatever held them: each program is run plain and captured."""

import collections
import contextlib
import functools
import itertools
import sys

import oxytorch
import pytest
import torch
from test_faults_capture import same_in_all_calls, x


def named(tensor, log, name="g"):
    try:
        for n in range(3):
            yield tensor + n
    finally:
        log.append("closed " + name)


def parts(tensor):
    with torch.no_grad():
        yield tensor * 2
        yield tensor * 3


def by_enumerate(tensor, log):
    for _, part in enumerate(named(tensor, log)):
        break
    log.append("behind")
    return part


def by_zip(tensor, log):
    for part, _ in zip(named(tensor, log), [1]):
        break
    log.append("behind")
    return part


def by_a_generator_expression(tensor, log):
    part = next(q + 1 for q in named(tensor, log))
    log.append("behind")
    return part


def by_yield_from(tensor, log):
    def outer():
        yield from named(tensor, log)

    part = next(outer())
    log.append("behind")
    return part


def by_an_outer_generator(tensor, log):
    def outer():
        for part in named(tensor, log):
            yield part

    part = next(outer())
    log.append("behind")
    return part


def by_an_outer_generator_with_a_clause(tensor, log):
    def outer():
        try:
            for part in named(tensor, log, "inner"):
                yield part
        finally:
            log.append("closed outer")

    part = next(outer())
    log.append("behind")
    return part


def by_yield_from_in_a_clause(tensor, log):
    def outer():
        try:
            yield from named(tensor, log, "inner")
        finally:
            log.append("closed outer")

    part = next(outer())
    log.append("behind")
    left = outer()
    return part + next(left)


def held_in_order(tensor, log):
    a = zip(named(tensor, log, "a"), range(3))
    b = named(tensor, log, "b")
    c = named(tensor, log, "c")
    kept = [b]
    return next(c) + next(b) + next(a)[0]


def by_any(tensor, log):
    found = any(part is not None for part in named(tensor, log))
    log.append(found)
    return tensor * 2


def by_map(tensor, log):
    part = next(map(lambda q: q + 1, named(tensor, log)))
    log.append("behind")
    return part


def by_filter(tensor, log):
    part = next(filter(lambda q: q is not None, named(tensor, log)))
    log.append("behind")
    return part


def by_chain(tensor, log):
    part = next(itertools.chain(named(tensor, log), [tensor]))
    log.append("behind")
    return part


def by_a_context_that_is_never_left(tensor, log):
    @contextlib.contextmanager
    def context():
        try:
            yield tensor * 2
        finally:
            log.append("closed")

    manager = context()
    part = manager.__enter__()
    manager = None
    log.append("behind")
    return part


def by_arguments(tensor, log):
    def first(*args, **names):
        return next(args[0]) + next(names["g"])

    part = first(named(tensor, log, "a"), g=named(tensor, log, "b"))
    log.append("behind")
    return part


def by_a_list(tensor, log):
    held = [named(tensor, log)]
    part = next(held[0])
    held = None
    log.append("behind")
    return part


def left_by_the_outermost_frame(tensor, log):
    a = named(tensor, log, "a")
    b = named(tensor, log, "b")
    return next(b) + next(a)


def left_in_order(tensor, log):
    a = named(tensor, log, "a")
    b = named(tensor, log, "b")
    return next(a) + next(b)


def held_by_one_zip(tensor, log):
    for a, b, c in zip(*(named(tensor, log, name) for name in "abc")):
        break
    log.append("behind")
    return a + b + c


def held_by_a_zip_that_is_deleted(tensor, log):
    first, second = named(tensor, log, "a"), named(tensor, log, "b")
    pairs = zip(first, second)
    del first, second
    a, b = next(pairs)
    log.append("between")
    del pairs
    log.append("behind")
    return a + b


def held_by_one_list(tensor, log):
    generators = [named(tensor, log, name) for name in "abc"]
    y = sum(next(generator) for generator in generators)
    del generators
    log.append("behind")
    return y


def held_by_one_tuple(tensor, log):
    generators = named(tensor, log, "a"), named(tensor, log, "b")
    y = next(generators[1]) + next(generators[0])
    generators = None
    log.append("behind")
    return y


def left_by_an_inner_frame(tensor, log):
    def inner():
        a, b, c = (named(tensor, log, name) for name in "abc")
        return next(c) + next(a) + next(b)

    y = inner()
    log.append("behind")
    return y


def still_held(tensor, log):
    """Nothing is closed that is used again."""
    generator = named(tensor, log)
    pairs = enumerate(generator)
    first = next(pairs)
    pairs = None
    log.append("behind")
    return first[1] + next(generator) + next(generator)


def a_context_around_all(tensor, log):
    @contextlib.contextmanager
    def context(name):
        log.append("enter " + name)
        try:
            yield name
        finally:
            log.append("leave " + name)

    with context("a") as a, context("b"):
        log.append(a)
        for n, part in enumerate(named(tensor, log)):
            if n == 1:
                break
        log.append("inside")
    return part


@pytest.mark.parametrize(
    "function",
    [
        by_enumerate,
        by_zip,
        by_a_generator_expression,
        by_yield_from,
        by_an_outer_generator,
        by_an_outer_generator_with_a_clause,
        by_yield_from_in_a_clause,
        held_in_order,
        by_any,
        by_map,
        by_filter,
        by_chain,
        by_a_context_that_is_never_left,
        by_arguments,
        by_a_list,
        left_by_the_outermost_frame,
        left_in_order,
        held_by_one_zip,
        held_by_a_zip_that_is_deleted,
        held_by_one_list,
        held_by_one_tuple,
        left_by_an_inner_frame,
        still_held,
        a_context_around_all,
    ],
)
def test_generators_are_closed_whatever_held_them(function):
    same_in_all_calls(function, (x(), []), (x() - 100, []))


HOLDERS = {
    "a partial": lambda generator: functools.partial(print, generator),
    "a named argument of a partial": lambda generator: functools.partial(print, end=generator),
    "an exception": lambda generator: ValueError(generator),
    "a tuple in an exception": lambda generator: ValueError((1, generator)),
    "a set": lambda generator: {generator},
    "a deque": lambda generator: collections.deque([generator]),
    "a list in a dict": lambda generator: {"a": [generator]},
    "a method": lambda generator: generator.__next__,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_generators_are_closed_with_what_holds_them(holder):
    hold = HOLDERS[holder]

    def until_it_goes(tensor, log):
        generator = named(tensor, log)
        part = next(generator)
        held = hold(generator)
        del generator
        log.append("held")
        del held
        log.append("gone")
        return part

    def until_the_end(tensor, log):
        generator = named(tensor, log)
        held = hold(generator)
        return next(generator)

    def as_long_as_another_does(tensor, log):
        generator = named(tensor, log)
        part = next(generator)
        held, other = hold(generator), hold(generator)
        del generator, held
        log.append("held")
        other = None
        log.append("gone")
        return part

    for function in (until_it_goes, until_the_end, as_long_as_another_does):
        same_in_all_calls(function, (x(), []), (x() - 100, []))


def raised_with_it(tensor, log):
    generator = named(tensor, log)
    part = next(generator)
    try:
        raise ValueError(generator)
    except ValueError:
        generator = None
        log.append("caught")
    log.append("behind")
    return part


def left_by_an_exception(tensor, log):
    generator = named(tensor, log)
    raise ValueError(str(next(generator).shape))


def a_loop_left_by_an_exception(tensor, log):
    for part in named(tensor, log):
        raise ValueError(str(part.shape))


@pytest.mark.parametrize("function", [raised_with_it, left_by_an_exception, a_loop_left_by_an_exception])
def test_generators_are_closed_with_exceptions(function):
    same_in_all_calls(function, (x(), []), (x() - 100, []))


def closed_in_front_of_a_branch(tensor, log):
    generator = named(tensor, log)
    first = next(generator)
    print(end="")
    generator = None
    if first.sum() > 3:
        log.append("large")
    return first


def left_behind_a_branch(tensor, log):
    pairs = enumerate(named(tensor, log))
    first = next(pairs)[1]
    print(end="")
    if first.sum() > 3:
        log.append("large")
    pairs = None
    log.append("behind")
    return first


def held_in_a_list_across_a_break(tensor, log):
    generator = (q for q in named(tensor, log))
    first = next(generator)
    held = [generator, 1]
    print(end="")
    log.append("behind")
    return first + next(generator)


@pytest.mark.parametrize("function", [closed_in_front_of_a_branch, left_behind_a_branch, held_in_a_list_across_a_break])
def test_generators_are_closed_once_in_branches_that_come_later(function):
    same_in_all_calls(function, *((torch.ones(2) * k, []) for k in (1.0, -1.0, 2.0, 2.0)))


def first_of_enumerate(w):
    for _, _ in enumerate(parts(w)):
        break
    return w * 2


def first_of_an_expression(w):
    return next(q + 1 for q in parts(w)), w * 2


def first_of_a_zip(w):
    for _, _ in zip(parts(w), [1]):
        break
    return w * 2


def first_of_two(w):
    for _, _ in zip(parts(w), parts(w)):
        break
    return w * 2


@pytest.mark.parametrize("function", [first_of_enumerate, first_of_an_expression, first_of_a_zip, first_of_two])
def test_the_grad_mode_of_a_generator_ends_with_it(function):
    captured = oxytorch.compile(function)
    for _ in range(3):
        w = torch.ones(3, requires_grad=True)
        got, want = captured(w), function(w)
        assert torch.is_grad_enabled()
        pairs = zip(got, want) if isinstance(want, tuple) else [(got, want)]
        assert all(a.requires_grad == b.requires_grad and torch.equal(a, b) for a, b in pairs)


def raising(tensor, error):
    try:
        yield tensor * 2
    finally:
        raise error("of the clause")


def ignoring(tensor):
    while True:
        try:
            yield tensor * 2
        except GeneratorExit:
            pass


def left_with_an_error(tensor):
    part = next(raising(tensor, ValueError))
    return part + 1


def left_with_an_exit(tensor):
    for part in raising(tensor, SystemExit):
        break
    return part + 1


def left_though_it_goes_on(tensor):
    part = next(ignoring(tensor))
    return part + 1


@pytest.mark.parametrize("function", [left_with_an_error, left_with_an_exit, left_though_it_goes_on])
def test_what_a_clause_raises_then_is_reported(function, monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: reported.append((args.exc_type, str(args.exc_value))))

    def run(function):
        reported.clear()
        result = function(x())
        return result, list(reported)

    captured = oxytorch.compile(function)
    for _ in range(3):
        (got, told), (want, wanted) = run(captured), run(function)
        assert torch.equal(got, want) and told == wanted
