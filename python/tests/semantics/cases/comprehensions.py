"""Comprehensions, generators and iterators."""

from ..case import case, made
from ..values import x


def pair():
    return x(), x()


@case(x)
def list_comprehension(a):
    return [a * n for n in range(4) if n != 2]


@case(x)
def nested_comprehension(a):
    return [[a * n + m for m in range(n)] for n in range(3)]


@case(x)
def two_loops_in_one(a):
    return [a + n * m for n in range(3) for m in range(n) if n + m != 2]


@case(x)
def dict_comprehension(a):
    return {str(n): a * n for n in range(3)}


@case(x)
def set_comprehension(a):
    return a, {n % 3 for n in range(7)}


@case(x)
def generator_expression(a):
    return sum(a * n for n in range(4))


@case(x)
def generator_expression_takes_its_first_iterable_at_once(a):
    items = [1, 2]
    values = (a * n for n in items)
    items = [10]
    return list(values), items


@case(x)
def comprehension_over_a_dict(a):
    table = {"p": a, "q": a + 1}
    return [k for k in table], [v for v in table.values()], [(k, v) for k, v in table.items()]


@case(x)
def comprehension_with_walrus(a):
    found = [y for n in range(4) if (y := n * 2) > 2]
    return a, found, y


@case(x)
def comprehension_raises(a):
    return [a / [][n] for n in range(2)]


@case(x)
def simple_generator(a):
    def numbers():
        yield a
        yield a + 1

    return list(numbers()), tuple(numbers())


@case(x)
def generator_is_lazy(a):
    log = []

    def numbers():
        for n in range(3):
            log.append(n)
            yield a * n

    it = numbers()
    before = list(log)
    first = next(it)
    return before, first, list(log)


@case(x)
def generator_returns_a_value(a):
    def numbers():
        yield 1
        return a

    it = numbers()
    next(it)
    try:
        next(it)
    except StopIteration as stop:
        return stop.value is a


@case(x)
def next_with_default(a):
    it = iter([a])
    return next(it), next(it, "none"), next(it, None)


@case(x)
def next_raises(a):
    return next(iter([]))


@case(x)
def yield_from_delegates(a):
    def inner():
        yield a
        return a * 2

    def outer():
        result = yield from inner()
        yield result
        yield from [1, 2]

    return list(outer())


@case(pair)
def send_into_a_generator(a, b):
    def echo():
        got = yield a
        while got is not None:
            got = yield got + 1

    it = echo()
    return next(it), it.send(b), it.send(a), next(it, "end")


@case(x)
def send_too_early(a):
    def echo():
        yield a

    return echo().send(a)


@case(x)
def throw_into_a_generator(a):
    def guarded():
        try:
            yield a
        except ValueError as error:
            yield str(error)

    it = guarded()
    return next(it), it.throw(ValueError("thrown")), next(it, "end")


@case(x)
def throw_is_not_caught(a):
    def plain():
        yield a

    it = plain()
    next(it)
    it.throw(KeyError("k"))


@case(x)
def close_runs_finally(a):
    log = []

    def guarded():
        try:
            yield a
        finally:
            log.append("closed")

    it = guarded()
    next(it)
    it.close()
    return log, next(it, "end")


@case(x)
def stop_iteration_inside_becomes_an_error(a):
    def broken():
        yield a
        raise StopIteration

    return list(broken())


@case(x)
def infinite_generator(a):
    def count():
        n = 0
        while True:
            yield n
            n += 1

    total = a
    for n in count():
        if n == 4:
            break
        total = total + n
    return total


@case(x)
def generator_holds_state(a):
    def running(values):
        total = 0
        for value in values:
            total = total + value
            yield total

    return list(running([a, a, 1]))


@case(x)
def returned_generator(a):
    def numbers():
        yield a
        yield a + 1

    return numbers()


@case(x)
def returned_generator_half_used(a):
    def numbers():
        yield a
        yield a + 1
        yield a + 2

    it = numbers()
    next(it)
    return it


@case(x)
def returned_generator_expression(a):
    return (a * n for n in range(3))


@case(x)
def returned_list_iterator(a):
    it = iter([a, 1, 2])
    next(it)
    return it


@case(x)
def returned_zip(a):
    return zip([a, 1], "xy"), enumerate([a]), map(str, [1, 2]), reversed([a, 2])


@made(x)
def captured_generator_function():
    def numbers(a):
        for n in range(3):
            yield a * n

    return numbers


class Countdown:
    def __init__(self, n, a):
        self.n, self.a = n, a

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.a * self.n


@case(x)
def own_iterator(a):
    return list(Countdown(3, a)), [v for v in Countdown(2, a)]


class Sequence:
    def __init__(self, a):
        self.a = a

    def __getitem__(self, n):
        if n == 3:
            raise IndexError
        return self.a + n


@case(x)
def iteration_by_getitem(a):
    return list(Sequence(a)), [v for v in Sequence(a)]


@case(x)
def iter_with_sentinel(a):
    numbers = [1, 2, 3, 0, 5]
    return [a * n for n in iter(lambda: numbers.pop(0), 0)], numbers


@case(x)
def not_iterable(a):
    for n in 5:
        pass


@case(x)
def for_else(a):
    found = []
    for limit in (2, 9):
        for n in range(5):
            if n == limit:
                break
        else:
            found.append(limit)
    return a, found


@case(lambda: (x(), 3), lambda: (x(), 5))
def while_else(a, n):
    while n:
        n -= 1
        if n == 3:
            a = a * 10
            break
    else:
        a = a + 1
    return a


@case(x)
def continue_skips(a):
    for n in range(6):
        if n % 2:
            continue
        a = a + n
    return a


@case(x)
def loop_variable_stays(a):
    for n in range(3):
        pass
    return a * n


@case(lambda: [1, 2, 3])
def list_changes_while_iterated(items):
    seen = []
    for n in items:
        seen.append(n)
        if n == 1:
            items.append(9)
    return seen


@case(lambda: {"p": 1})
def dict_changes_while_iterated(table):
    for key in table:
        table[key + "x"] = 1


@case(x)
def iterator_is_shared(a):
    it = iter([a, 1, 2, 3])
    return list(zip(it, it)), list(it)


@case(lambda: iter([1, 2, 3]))
def argument_iterator_is_used_up(it):
    return next(it), list(it), list(it)


def numbers_from(a):
    yield a
    yield a + 1
    yield a + 2


@case(lambda: numbers_from(x()))
def argument_generator_is_used_up(it):
    first = next(it)
    return first, [value * 2 for value in it]


@case(x)
def starred_generator(a):
    def numbers():
        yield from (a, a + 1)

    return [*numbers(), *numbers()], {*range(2)}, (lambda *v: len(v))(*numbers())


@case(x)
def generators_chained(a):
    evens = (n for n in range(10) if n % 2 == 0)
    squares = (n * n for n in evens)
    return sum(a * n for n in squares)
