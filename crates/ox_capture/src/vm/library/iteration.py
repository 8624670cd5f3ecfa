"""Iteration: what asks an iterable that runs code, and how generators are thrown into, closed and let go."""

import sys

CLOSE_GIVES_A_VALUE = sys.version_info >= (3, 13)


def collect(iterable, limit):
    items = []
    for item in iterable:
        items.append(item)
        if len(items) == limit:
            break
    return items


def extended(items, more):
    items.extend(more)
    return items


def with_list(function, before, iterable, after, names):
    return function(*before, [item for item in iterable], *after, **names)


def grow(extend, grown, iterable):
    for item in iterable:
        extend(grown, [item])


def grow_dict(update, grown, pairs, names):
    for pair in pairs:
        update(grown, [pair])
    update(grown, **names)


def store_run(items, places, values):
    """Where the run begins and ends is settled before the values are asked for, or behind that by newer versions of CPython."""
    start, stop, step = places.indices(len(items))
    try:
        iterator = iter(values)
    except TypeError:
        iterator = None
    if iterator is None:
        raise TypeError(NO_RUN if step == 1 else "must assign iterable to extended slice")
    values = [value for value in iterator]
    if RUNS_ARE_SETTLED_LATE:
        start, stop, step = places.indices(len(items))
    if step < 0 and start < 0:
        # Nothing lies there, and as an index it would be the last.
        start, stop, step = 0, 0, 2
    run = slice(start, stop if stop >= 0 else None, step)
    if type(items) is list:
        items[run] = values
    else:
        list.__setitem__(items, run, values)


def are_runs_settled_late():
    items = [0, 1]

    def grows():
        items.append(2)
        yield 3

    items[2:] = grows()
    return items == [0, 1, 3]


def refusal_of_a_run():
    try:
        [][:] = 0
    except TypeError as error:
        return str(error)


RUNS_ARE_SETTLED_LATE = are_runs_settled_late()
NO_RUN = refusal_of_a_run()


def steps(iterator):
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        yield item


def next_or(iterator, default):
    try:
        return next(iterator)
    except StopIteration:
        return default


def until(function, sentinel):
    while True:
        item = function()
        if item is sentinel or sentinel == item:
            return
        yield item


# Generators.


# Thrown with an exception: what the generator waits for is not asked.
HERE = object()


def throw_into(generator, inner, error):
    try:
        if isinstance(error, GeneratorExit):
            close_awaited(inner)
        elif hasattr(inner, "throw"):
            return inner.throw(error)
    except BaseException as raised:
        error = raised
    return generator.throw(error, HERE)


def close_awaited(inner):
    if hasattr(inner, "close"):
        inner.close()


def close(generator):
    try:
        generator.throw(GeneratorExit)
    except GeneratorExit:
        return None
    except StopIteration as stop:
        return stop.value if CLOSE_GIVES_A_VALUE else None
    raise RuntimeError("generator ignored GeneratorExit")


def abandon(finalisers, *gone):
    for finalise, one in zip(finalisers, gone):
        try:
            if finalise is None:
                close(one)
            else:
                finalise(one)
        except BaseException as error:
            write_unraisable(error, finalise)
