"""Operators, formatting, collections, items."""

from math import *
import os.path as path
from os import sep as separator

version: int = 1
gone = 2
del gone


class Number:
    """Tells what was done with it."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


def operation(name, symbol):
    def method(self, other):
        return Number(f"({self} {symbol} {other})")

    method.__name__ = name
    setattr(Number, name, method)


for name, symbol in [
    ("add", "+"), ("and", "&"), ("floordiv", "//"), ("lshift", "<<"), ("matmul", "@"), ("mul", "*"), ("mod", "%"), ("or", "|"),
    ("pow", "**"), ("rshift", ">>"), ("sub", "-"), ("truediv", "/"), ("xor", "^"),
]:  # fmt: skip
    operation(f"__{name}__", symbol)
    operation(f"__i{name}__", symbol + "=")
for name, symbol in [("lt", "<"), ("le", "<="), ("eq", "=="), ("ne", "!="), ("gt", ">"), ("ge", ">=")]:
    operation(f"__{name}__", symbol)


def case_binary():
    a, b = Number("a"), Number("b")
    return [a + b, a - b, a * b, a / b, a // b, a % b, a @ b, a**b, a << b, a >> b, a & b, a | b, a ^ b]


def case_in_place():
    a, b = Number("a"), Number("b")
    a += b
    a -= b
    a *= b
    a /= b
    a //= b
    a %= b
    a @= b
    a **= b
    a <<= b
    a >>= b
    a &= b
    a |= b
    a ^= b
    return a


def case_compare():
    a, b = Number("a"), Number("b")
    return [a < b, a <= b, a == b, a != b, a > b, a >= b, a < b < a, 1 < 2 < 3, 1 < 3 < 2]


def case_unary():
    x = 5
    return +x, -x, ~x, not x, not []


def case_identity():
    a, b = [], [1]
    return a is b, a is not b, a is a, 1 in b, 1 not in b, 2 in b


def case_formatted():
    x, width = "\u00e9", 6
    return f"{x} {x!r} {x!s:>4} {x!a:{width}} {3.14159:.{2}f} {width}", f"{x}"


def case_built():
    a, b, more = 1, 2, {"c": 3}
    return [a, *more], {a, *[b]}, {"a": a, **more, "b": b}, (a, *[b, a]), {a: b, b: a}, [1, 2, 3], {1, 2, 3}, {"x": a, "y": b}


def case_unpacked():
    a, (b, c) = 1, [2, 3]
    d, *e, f = "wxyz"
    *g, h = "uv"
    a, b, c = c, a, b
    return a, b, c, d, e, f, g, h


def case_items():
    x = list(range(10))
    x[1] = x[2] + 10
    x[2:4] = x[:1]
    x[-2:] += [7]
    x[::3] = "abc"
    x[0] += "d"
    del x[5], x[1:2]
    return x, x[1:], x[::2], x[:-1]


def case_attributes():
    class Box:
        pass

    box = Box()
    box.a = 1
    box.a += 2
    box.b = box.a
    del box.a
    return vars(box)


def case_comprehensions():
    rows = [[1, 2], [3, 0]]
    x = "kept"
    flat = [x for row in rows for x in row if x]
    return flat, {k: v for k, v in rows}, {y % 2 for y in flat}, list(z + 1 for z in flat), x, [[y for y in r] for r in rows]


def case_imported():
    return floor(2.5), separator, path.join("a", "b"), version, __annotations__


def case_assertion():
    x = -1
    assert x > 0, f"not {x}"


def case_global_statements():
    global made
    made = 5
    result = made
    del made
    try:
        made
    except NameError as error:
        return result, str(error)


def case_unbound():
    if version > 5:
        x = 1
    return x


def case_deleted():
    x = 1
    del x
    del x
