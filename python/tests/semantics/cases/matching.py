"""Pattern matching."""

import dataclasses
import enum

from ..case import case
from ..values import x


@dataclasses.dataclass
class Point:
    x: object
    y: object


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Positional:
    __match_args__ = ("p", "q")

    def __init__(self, p, q):
        self.p, self.q = p, q


@case(lambda: (x(), 1), lambda: (x(), "two"), lambda: (x(), None), lambda: (x(), True), lambda: (x(), 4.0))
def literals(a, value):
    match value:
        case 1:
            return a
        case "two":
            return a * 2
        case None:
            return "none"
        case 4:
            return "four"
        case _:
            return "other"


@case(lambda: (x(), [1, 2]), lambda: (x(), (1,)), lambda: (x(), []), lambda: (x(), [1, 2, 3, 4]), lambda: (x(), "ab"))
def sequences(a, value):
    match value:
        case []:
            return "empty"
        case [one]:
            return a * one
        case [one, two]:
            return a * one + two
        case [first, *rest]:
            return first, rest
        case _:
            return "no sequence"


@case(lambda: (x(), {"k": 1, "m": 2}), lambda: (x(), {"k": 5}), lambda: (x(), {}), lambda: (x(), {"m": [1]}))
def mappings(a, value):
    match value:
        case {"k": 1, **rest}:
            return a, rest
        case {"k": n}:
            return a * n
        case {"m": [n]}:
            return n
        case {}:
            return "a mapping"


# A pattern asks whether a tensor is 0.
@case(lambda: Point(x(), 1), lambda: Point(0, x()), lambda: Point(2, 3), lambda: 7, graphs=2)
def classes(value):
    match value:
        case Point(x=0, y=y):
            return y
        case Point(x, 1):
            return x * 2
        case Point():
            return "some point"
        case int(n):
            return n


@case(lambda: (x(), 1), lambda: (x(), 2.5), lambda: (x(), "s"), lambda: (x(), [1]), lambda: (x(), {1: 2}))
def builtin_classes(a, value):
    match value:
        case int() | float():
            return a * value
        case str(text):
            return text
        case list(items):
            return items is value
        case dict():
            return "dict"


@case(lambda: (x(), 5), lambda: (x(), 50), lambda: (x(), -1))
def guards(a, n):
    match n:
        case n if n > 10:
            return a
        case n if n > 0:
            return a * n
        case _:
            return "negative"


@case(lambda: (x(), 1), lambda: (x(), 3), lambda: (x(), 5))
def alternatives(a, n):
    match n:
        case 1 | 2:
            return a
        case 3 | 4 as kept:
            return a * kept
        case other:
            return other


@case(lambda: (x(), Colour.RED), lambda: (x(), Colour.BLUE))
def constants(a, colour):
    match colour:
        case Colour.RED:
            return a
        case Colour.BLUE:
            return -a


@case(lambda: (x(), ["go", ("north", 2)]), lambda: (x(), ["go", ("south", 1)]), lambda: (x(), ["stop"]))
def nested(a, command):
    match command:
        case ["go", ("north" | "south" as where, n)]:
            return a * n, where
        case ["stop"]:
            return a


@case(lambda: (x(), {"kind": "layer", "sizes": [1, 2]}), lambda: (x(), {"kind": "act", "name": "relu"}))
def nested_mappings(a, config):
    match config:
        case {"kind": "layer", "sizes": [first, *_]}:
            return a * first
        case {"kind": "act", "name": str(name)}:
            return a, name


# A pattern asks whether a tensor is 1.
@case(lambda: Positional(x(), 1), lambda: Positional(1, x()), graphs=2)
def match_args(value):
    match value:
        case Positional(1, q):
            return q
        case Positional(p, q):
            return p, q


@case(x)
def match_args_too_many(a):
    match Positional(a, 1):
        case Positional(p, q, r):
            return p


@case(x)
def nothing_matches(a):
    match 3:
        case 4:
            return a


@case(x)
def binding_stays(a):
    match [a, 1]:
        case [p, 2]:
            pass
        case _:
            return p is a


@case(x)
def value_of_the_match(a):
    match a:
        case [*_]:
            return "sequence"
        case object(shape=_):
            return a * 2
        case _:
            return a + 1


@case(lambda: (x(), (1, (2, 3))), lambda: (x(), (1, 2)))
def tuples_of_tuples(a, value):
    match value:
        case (p, (q, r)):
            return a * p + q * r
        case (p, q):
            return a * p - q


@case(x)
def order_of_evaluation(a):
    log = []

    def subject():
        log.append("subject")
        return 5

    def check(n):
        log.append(n)
        return n == 2

    match subject():
        case 5 if check(1):
            return "first"
        case 5 if check(2):
            return a, log
