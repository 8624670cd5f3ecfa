"""Built-in functions, and such of the standard library, that ask what they are given."""

import sys

EMPTY = "{}() iterable argument is empty" if sys.version_info >= (3, 12) else "{}() arg is an empty sequence"


def is_any(iterable):
    for item in iterable:
        if item:
            return True
    return False


def are_all(iterable):
    for item in iterable:
        if not item:
            return False
    return True


def add_all(items, total):
    for item in items:
        total = total + item
    return total


def extreme(iterable, key, greater, name, default):
    found = False
    for item in iterable:
        rank = item if key is None else key(item)
        if not found or (rank > best if greater else rank < best):
            found, chosen, best = True, item, rank
    if found:
        return chosen
    if default:
        return default[0]
    raise ValueError(EMPTY.format(name))


def reduce(function, iterable, *initial):
    iterator = None
    try:
        iterator = iter(iterable)
    except TypeError:
        pass
    if iterator is None:
        raise TypeError("reduce() arg 2 must support iteration")
    if initial:
        total = initial[0]
    else:
        for total in iterator:
            break
        else:
            raise TypeError("reduce() of empty iterable with no initial value")
    for item in iterator:
        total = function(total, item)
    return total


# Sorting.


def sort_by(sort, iterable, key, reverse):
    items = [item for item in iterable]
    ranks = [key(item) for item in items]
    return [items[place] for place in sort(range(len(items)), key=ranks.__getitem__, reverse=reverse)]


def sort_in_place(sort, items, key, reverse):
    items[:] = sort(items, key=key, reverse=reverse)


def sort_objects(items, ranks, reverse):
    """As CPython sorts few: a run, then each further one where it belongs."""
    if reverse:
        items, ranks = items[::-1], ranks[::-1]
    length, run = len(items), 1
    if length > 1 and ranks[1] < ranks[0]:
        run = 2
        while run < length and ranks[run] < ranks[run - 1]:
            run += 1
        items = items[:run][::-1] + items[run:]
        ranks = ranks[:run][::-1] + ranks[run:]
    elif length > 1:
        run = 2
        while run < length and not ranks[run] < ranks[run - 1]:
            run += 1
    for place in range(run, length):
        item, rank = items[place], ranks[place]
        low, high = 0, place
        while low < high:
            middle = (low + high) // 2
            if rank < ranks[middle]:
                high = middle
            else:
                low = middle + 1
        items = items[:low] + [item] + items[low:place] + items[place + 1 :]
        ranks = ranks[:low] + [rank] + ranks[low:place] + ranks[place + 1 :]
    return items[::-1] if reverse else items


class Ranked:
    """What `functools.cmp_to_key` makes of an object."""

    __slots__ = ("obj", "compare")

    def __init__(self, obj, compare):
        self.obj = obj
        self.compare = compare

    def __lt__(self, other):
        return self.compare(self.obj, other.obj) < 0

    def __gt__(self, other):
        return self.compare(self.obj, other.obj) > 0

    def __eq__(self, other):
        return self.compare(self.obj, other.obj) == 0

    def __le__(self, other):
        return self.compare(self.obj, other.obj) <= 0

    def __ge__(self, other):
        return self.compare(self.obj, other.obj) >= 0


def cmp_to_key(mycmp):
    return lambda obj: Ranked(obj, mycmp)
