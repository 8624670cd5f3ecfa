"""Iterators of built-in types and of itertools, as generators that the machine runs."""

import collections
import functools
import itertools
import os
import sys
import types


def mapped(function, iterator):
    for item in iterator:
        yield function(item)


def mapped_many(function, *iterators):
    for items in zip(*iterators):
        yield function(*items)


def filtered(function, iterator):
    for item in iterator:
        if function(item):
            yield item


def kept(iterator):
    for item in iterator:
        if item:
            yield item


def counted(iterator, number):
    for item in iterator:
        yield number, item
        number += 1


def zipped(*iterators):
    while iterators:
        items = []
        for iterator in iterators:
            try:
                items.append(next(iterator))
            except StopIteration:
                return
        yield tuple(items)


def by_items(sequence):
    place = 0
    while True:
        try:
            item = sequence[place]
        except (IndexError, StopIteration):
            return
        yield item
        place += 1


def backwards(sequence):
    return down_from(sequence, len(sequence))


def down_from(sequence, place):
    while place > 0:
        place -= 1
        try:
            item = sequence[place]
        except (IndexError, StopIteration):
            return
        yield item


def chain(*iterables):
    return chained(iter(iterables))


def chain_from_iterable(iterable):
    return chained(iter(iterable))


def chained(iterables):
    for iterable in iterables:
        for item in iterable:
            yield item


def islice(iterable, *limits):
    limits = slice(*limits)
    start, stop = limit(limits.start, 0), limit(limits.stop, None)
    if stop == -1:
        raise ValueError("Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if start < 0 or stop is not None and stop < 0:
        raise ValueError("Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    step = limit(limits.step, 1)
    if step < 1:
        raise ValueError("Step for islice() must be a positive integer or None.")
    return sliced(iter(iterable), start, stop, step)


def limit(value, default):
    """What is no number, or cannot say which, is refused as -1 is."""
    try:
        return default if value is None else operator.index(value)
    except BaseException:
        return -1


def sliced(iterator, start, stop, step):
    place, following = 0, start
    while True:
        try:
            while place < following:
                next(iterator)
                place += 1
            if stop is not None and place >= stop:
                return
            item = next(iterator)
        except StopIteration:
            return
        place += 1
        following += step
        if stop is not None and following > stop:
            following = stop
        yield item


def accumulate(iterable, func=None, *, initial=None):
    return accumulated(iter(iterable), func, initial)


def accumulated(iterator, func, initial):
    if initial is None:
        try:
            total = next(iterator)
        except StopIteration:
            return
    else:
        total = initial
    yield total
    for item in iterator:
        total = total + item if func is None else func(total, item)
        yield total


def groupby(iterable, key=None):
    return grouped(iter(iterable), key)


def grouped(iterator, key):
    exhausted = False

    def members(target):
        nonlocal item, rank, exhausted
        yield item
        for item in iterator:
            rank = item if key is None else key(item)
            if rank != target:
                return
            yield item
        exhausted = True

    try:
        item = next(iterator)
    except StopIteration:
        return
    rank = item if key is None else key(item)
    while not exhausted:
        target = rank
        group = members(target)
        yield rank, group
        if rank == target:
            for _ in group:
                pass


def takewhile(predicate, iterable):
    return taken(predicate, iter(iterable))


def taken(predicate, iterator):
    for item in iterator:
        if not predicate(item):
            return
        yield item


def dropwhile(predicate, iterable):
    return dropped(predicate, iter(iterable))


def dropped(predicate, iterator):
    for item in iterator:
        if not predicate(item):
            yield item
            break
    for item in iterator:
        yield item


def filterfalse(predicate, iterable):
    return rejected(predicate, iter(iterable))


def rejected(predicate, iterator):
    for item in iterator:
        if not (item if predicate is None else predicate(item)):
            yield item


def starmap(function, iterable):
    return spread(function, iter(iterable))


def spread(function, iterator):
    for items in iterator:
        yield function(*items)


def compress(data, selectors):
    return compressed(iter(data), iter(selectors))


def compressed(data, selectors):
    for item, wanted in zip(data, selectors):
        if wanted:
            yield item


def cycle(iterable):
    return cycled(iter(iterable))


def cycled(iterator):
    items = []
    for item in iterator:
        items.append(item)
        yield item
    while items:
        for item in items:
            yield item


def repeat(object, times=MISSING):
    return repeated(object, None if times is MISSING else operator.index(times))


def repeated(object, times=None):
    while times is None or times > 0:
        yield object
        if times is not None:
            times -= 1


def count_from(start=0, step=1):
    return counting(start, step)


def counting(start, step):
    while True:
        following = start + step
        yield start
        start = following


def pairwise(iterable):
    return paired(iter(iterable))


def paired(iterator):
    try:
        before = next(iterator)
    except StopIteration:
        return
    for item in iterator:
        yield before, item
        before = item


def batched(iterable, n):
    n = operator.index(n)
    if n < 1:
        raise ValueError("n must be at least one")
    return batches(iter(iterable), n)


def batches(iterator, n):
    while batch := tuple([item for item in sliced(iterator, 0, n, 1)]):
        yield batch


def zip_longest(*iterables, fillvalue=None):
    return filled([iter(iterable) for iterable in iterables], fillvalue)


def filled(iterators, fillvalue):
    alive = [True for _ in iterators]
    while True in alive:
        items = []
        for place in range(len(iterators)):
            item = fillvalue
            if alive[place]:
                try:
                    item = next(iterators[place])
                except StopIteration:
                    alive[place] = False
            items.append(item)
        if True in alive:
            yield tuple(items)


def tee(iterable, n=2):
    n = operator.index(n)
    if n < 0:
        raise ValueError("n must be >= 0")
    iterator, link = iter(iterable), [None, None]
    return tuple([teed(iterator, link) for _ in range(n)])


def teed(iterator, link):
    while True:
        if link[1] is None:
            try:
                link[0] = next(iterator)
            except StopIteration:
                return
            link[1] = [None, None]
        item, link = link
        yield item


# Which of these the machine runs for a callable of C.
STANDS_FOR = {
    functools.reduce: reduce,
    functools.cmp_to_key: cmp_to_key,
    os.fspath: fspath,
    collections._count_elements: count_elements,
    itertools.chain: chain,
    itertools.chain.from_iterable: chain_from_iterable,
    itertools.islice: islice,
    itertools.accumulate: accumulate,
    itertools.groupby: groupby,
    itertools.takewhile: takewhile,
    itertools.dropwhile: dropwhile,
    itertools.filterfalse: filterfalse,
    itertools.starmap: starmap,
    itertools.compress: compress,
    itertools.cycle: cycle,
    itertools.repeat: repeat,
    itertools.count: count_from,
    itertools.pairwise: pairwise,
    itertools.zip_longest: zip_longest,
    itertools.tee: tee,
}
if sys.version_info[:2] == (3, 12):  # later versions have an argument more
    STANDS_FOR[itertools.batched] = batched


# What leaves the machine: the iterator of C for one of these that has not begun, by the same arguments.
NATIVE = {
    mapped: map,
    mapped_many: map,
    filtered: filter,
    kept: lambda iterator: filter(None, iterator),
    counted: enumerate,
    zipped: zip,
    until: iter,
    by_items: iter,
    down_from: lambda sequence, place: reversed(sequence),
    steps: lambda iterator: iterator,
    chained: itertools.chain.from_iterable,
    sliced: itertools.islice,
    accumulated: lambda iterator, func, initial: itertools.accumulate(iterator, func, initial=initial),
    grouped: itertools.groupby,
    taken: itertools.takewhile,
    dropped: itertools.dropwhile,
    rejected: itertools.filterfalse,
    spread: itertools.starmap,
    compressed: itertools.compress,
    cycled: itertools.cycle,
    repeated: lambda object, times: itertools.repeat(object) if times is None else itertools.repeat(object, times),
    counting: itertools.count,
    paired: itertools.pairwise,
    filled: lambda iterators, fillvalue: itertools.zip_longest(*iterators, fillvalue=fillvalue),
}

# The classes that the program sees.
CLASSES = {function: native for function, native in NATIVE.items() if isinstance(native, type)} | {
    kept: filter,
    until: type(iter(int, 1)),
    by_items: type(iter(type("Sequence", (), {"__getitem__": None})())),
    down_from: reversed,
    chained: itertools.chain,
    accumulated: itertools.accumulate,
    repeated: itertools.repeat,
    filled: itertools.zip_longest,
}


# A generator that has begun leaves the machine as one of CPython's that asks it.


def outlive(inner):
    item = None
    while True:
        try:
            ask, given = inner.send, (yield item)
        except GeneratorExit:
            inner.close()
            raise
        except BaseException as error:
            ask, given = inner.throw, error
        try:
            item = ask(given)
        except StopIteration as stop:
            return stop.value


def iterator_behind(container, passed):
    iterator = iter(container)
    for _ in range(passed):
        next(iterator)
    return iterator


def begun(inner, name, qualname, code):
    outer = types.FunctionType(outlive.__code__.replace(co_name=name, co_filename=code.co_filename), {"__builtins__": __builtins__})
    generator = outer(inner)
    generator.__name__, generator.__qualname__ = name, qualname
    next(generator)
    return generator
