"""Operators, comparisons, formatting, collections, items."""


def unary(x):
    return +x, -x, ~x, not x


def binary(a, b):
    return a + b, a - b, a * b, a / b, a // b, a % b, a @ b, a**b, a << b, a >> b, a & b, a | b, a ^ b


def in_place(a, b):
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
    a.x += b
    a[0] += b
    a[1:2] += b
    return a


def compare(a, b):
    if a < b or a <= b:
        return a == b
    if a != b and a > b:
        return a >= b
    return a < b < 3


def identity(a, b):
    return a is b, a is not b, a in b, a not in b


def formatted(x, width):
    return f"{x} {x!r} {x!s:>4} {x!a:{width}} {x:.3f}"


def built(a, b, args, more):
    literal = [1, 2, 3], {1, 2, 3}, {"a": 1, "b": 2, "c": 3}
    mixed = [a, b], {a, b}, {a: b}, {"a": a, "b": b}, (a, *args)
    return literal, mixed, [a, *args], {a, *args}, {"a": a, **more}


def unpacked(x):
    a, b = x
    c, *d, e = x
    return a, b, c, d, e


def items(x, i):
    x[i] = x[i + 1]
    x[i:] = x[:i]
    x[i : i + 4 : 2] = x[::2]
    del x[i], x.attribute
    x.attribute = x.other
    return x[..., None, 1:2]


def asserted(x):
    assert x > 0, "positive"
