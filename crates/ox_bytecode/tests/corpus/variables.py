"""Where names live."""

import os
import os.path as path
from os import path as other, sep
from os import *

count: int = 0
del count


def globals_():
    global made, gone
    made = 1
    del gone
    return made


def locals_(x):
    y = x
    del y
    if x:
        z = 1
    return x + z


def swapped(a, b):
    a, b = b, a
    c = d = a
    return a, b, c, d


def closure(x, step=1, *, scale: float = 2.0) -> float:
    total = 0

    def inner(y):
        nonlocal total
        total += x * y + scale
        return total

    def remove():
        nonlocal total
        del total

    return inner, remove, lambda: x


def class_in_a_function(x):
    class Inner:
        y = x
        x = 1
        copies = [x for _ in range(3)]

        def method(self):
            return __class__

    return Inner


def read_in_a_class(x):
    class Inner:
        y = x

    return Inner


def chained_comprehensions(rows):
    flat = [x for row in rows for x in row if x]
    pairs = {k: v for k, v in flat}
    unique = {x for x in flat}
    lazy = (x + 1 for x in flat)
    return flat, pairs, unique, lazy


def captured_in_a_comprehension(x):
    makers = [lambda: x for x in range(3)]
    return makers, x


class Body:
    """A name that may be the class's or the module's."""

    names = [count for count in range(3)]
    first, *rest = names
