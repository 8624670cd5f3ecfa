"""Branches, loops, patterns."""


def choose(x, y):
    if x and y:
        return "both"
    elif x is None or y is not None:
        return "second"
    z = x or y
    return (x and y) if not z else (z if z is None else 3)


def case_branches():
    values = [None, 0, 1, [], "a"]
    return [choose(x, y) for x in values for y in values]


def case_while():
    out, x = [], 6
    while x:
        x -= 1
        if x == 4:
            continue
        if x == 1:
            break
        out.append(x)
    else:
        out.append("never")
    while x is not None:
        x = None
    while not out[-1] == 3:
        out.pop()
    else:
        out.append("else")
    while x is None:
        x = out
    return out


def case_for():
    out = []
    for x in [[0, 0], [], [0, 3, 4], [9]]:
        for y in x:
            if y:
                break
            out.append((x, y))
        else:
            out.append("else")
            continue
        break
    for z in "ab":
        return out, z


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


def match(x):
    match x:
        case 0 | 1:
            return "small"
        case [a, b, *rest] if rest:
            return "list", a, b, rest
        case [single]:
            return "single", single
        case {"key": value, **others}:
            return "mapping", value, others
        case Point(0, y=yy):
            return "axis", yy
        case Point(a, b):
            return "point", a, b
        case str() as text:
            return "text", text
        case float(f):
            return "float", f
        case None:
            return "none"
        case _:
            return "other"


def case_patterns():
    subjects = [0, 1, 2, [1, 2, 3], [1, 2], [1], {"key": 1, "b": 2}, {}, Point(0, 5), Point(1, 2), "s", 2.5, None]
    return [match(s) for s in subjects]


def case_far():
    out = []
    for i in range(3):
        if i:
            out.append(i), out.append(i), out.append(i), out.append(i), out.append(i), out.append(i), out.append(i)
            out.append(i), out.append(i), out.append(i), out.append(i), out.append(i), out.append(i), out.append(i)
            out.append(i), out.append(i), out.append(i), out.append(i), out.append(i), out.append(i), out.append(i)
            out.append(i), out.append(i), out.append(i), out.append(i), out.append(i), out.append(i), out.append(i)
        else:
            out.append("zero")
    return out
