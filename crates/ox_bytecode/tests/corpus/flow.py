"""Branches and loops."""


def branches(x, y):
    if x and y:
        return 1
    elif x is None or y is not None:
        return 2
    z = x or y
    return (x and y) if not z else (z if z is None else 3)


def while_loops(x):
    while x:
        x -= 1
        if x == 3:
            continue
        if x == 2:
            break
    else:
        return 0
    while True:
        x += 1
        if x is None:
            return x
        while x is not None:
            x = None


def backward(x, y):
    while x is None:
        y()
    while y is not None:
        x()
    while not x:
        y()
    while x:
        y()


def for_loops(xs):
    total = 0
    for x in xs:
        for y in x:
            if y:
                break
            total += y
        else:
            continue
        break
    for _ in xs:
        return total
    return None


def endless():
    while True:
        pass


def matched(x):
    match x:
        case 0 | 1:
            return "small"
        case [a, b, *rest] if rest:
            return a, b
        case {"key": value, **others}:
            return value, others
        case complex(real=r) | list([r]):
            return r
        case str() as text:
            return text
        case None:
            return None
        case _:
            return x


def many_branches(x):
    """Jumps that need an EXTENDED_ARG."""
    for i in x:
        if i:
            x.a(1, 2, 3).b(1, 2, 3).c(1, 2, 3).d(1, 2, 3).e(1, 2, 3).f(1, 2, 3).g(1, 2, 3).h(1, 2, 3)
            x.a(1, 2, 3).b(1, 2, 3).c(1, 2, 3).d(1, 2, 3).e(1, 2, 3).f(1, 2, 3).g(1, 2, 3).h(1, 2, 3)
            x.a(1, 2, 3).b(1, 2, 3).c(1, 2, 3).d(1, 2, 3).e(1, 2, 3).f(1, 2, 3).g(1, 2, 3).h(1, 2, 3)
        else:
            x.i()
    return x
