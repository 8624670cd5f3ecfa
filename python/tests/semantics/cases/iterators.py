"""Iterators and generators: what they are, what they see of their dict, what they handle, where they end."""

import collections
import itertools
import sys
import types

from ..case import case
from ..values import x


@case(x)
def generator_is_a_generator(a):
    def numbers():
        yield a

    made = numbers()
    return isinstance(made, types.GeneratorType), type(made) is types.GeneratorType, made.__class__.__name__


@case(x)
def iterators_have_their_classes(a):
    many = (zip(), enumerate(()), map(int, ()), filter(None, ()), reversed([]), itertools.chain(), itertools.islice((), 1))
    of_containers = [iter(of) for of in ([], (), range(2), "text", b"bytes", {1}, {}, {}.values(), {}.items())]
    of_ordered = iter(collections.OrderedDict(a=1).items())
    return a, [type(made).__name__ for made in (*many, *of_containers, of_ordered)]


@case(x)
def values_are_read_when_their_turn_comes(a):
    table, seen = {"a": a, "b": 1}, []
    for key, value in table.items():
        table["b"] = a + 1
        seen.append((key, value))
    for value in table.values():
        table["b"] = 7
        seen.append(value)
    return seen


@case(lambda: (x(), {"a": 1, "b": 2, (1, 2): 3}), graphs=4)
def values_are_read_behind_a_break(a, table):
    seen = []
    for value in table.values():
        print("value")
        table[1, 2] = 50
        seen.append(value)
    return a, seen


@case(x)
def values_of_an_ordered_dict(a):
    table, seen = collections.OrderedDict(a=1, b=2, c=3), []
    table.move_to_end("a")
    for key, value in table.items():
        table["a"] = a * 2
        seen.append((key, value))
    return seen


@case(x)
def keys_change_during_iteration(a):
    table = {0: a, 1: a + 1}
    for key in table:
        del table[key]
        table[key + 7] = a
    return table


@case(x)
def size_changes_during_iteration(a):
    table = {0: a}
    for _ in table.values():
        table[1] = a


@case(lambda: (x(), 1), lambda: (x(), 2))
def ordered_dict_changes_during_iteration(a, number):
    table = collections.OrderedDict((n, a) for n in range(number))
    for _ in table:
        table["b"] = a
    return table


@case(x)
def dict_iterators_come_out(a):
    table = {"a": a, "b": 1}
    begun = iter(table.items())
    next(begun)
    return iter(table), iter(table.values()), begun


def handles_and_yields(log):
    try:
        raise KeyError("inside")
    except KeyError:
        yield 1
        log.append(type(sys.exception()).__name__)
        yield 2
        raise


@case(x)
def what_a_generator_handles_is_its_own(a):
    log = []
    numbers = handles_and_yields(log)
    next(numbers)
    log.append(sys.exception())
    try:
        raise ValueError("outside")
    except ValueError as error:
        log += [error.__context__, next(numbers), type(sys.exception()).__name__]
    try:
        next(numbers)
    except KeyError as error:
        log += [error.args, error.__context__]
    return a, log


@case(x, graphs=4)
def what_a_generator_handles_behind_breaks(a):
    log = []
    numbers = handles_and_yields(log)
    next(numbers)
    try:
        print("first")
        raise ValueError("outside")
    except ValueError:
        print("second")
        log += [next(numbers), type(sys.exception()).__name__]
        try:
            next(numbers)
        except KeyError as error:
            log.append(type(error.__context__).__name__)
    return a, log, sys.exception()


@case(x)
def generator_sees_what_its_caller_handles(a):
    def looks():
        while True:
            yield type(sys.exception()).__name__

    names = looks()
    seen = [next(names)]
    try:
        raise ValueError("outside")
    except ValueError:
        seen.append(next(names))
    return a, seen, next(names)


@case(x)
def what_is_thrown_has_what_the_generator_handles_for_context(a):
    def handles():
        try:
            raise KeyError("inside")
        except KeyError:
            try:
                yield
            except ValueError as error:
                yield type(error.__context__).__name__

    def waits():
        try:
            yield
        except ValueError as error:
            yield error.__context__

    seen = []
    for made in (handles(), waits()):
        next(made)
        try:
            raise IndexError("outside")
        except IndexError:
            seen.append(made.throw(ValueError("thrown")))
    return a, seen


class Endless:
    def __getitem__(self, place):
        return place * 10


@case(x)
def items_are_asked_one_by_one(a):
    seen = []
    for item in Endless():
        if item > 30:
            break
        seen.append(a + item)
    return seen


class Asked:
    def __init__(self):
        self.log = []

    def __len__(self):
        return 3

    def __getitem__(self, place):
        self.log.append(place)
        if place >= 3:
            raise IndexError
        return place * 10


@case(x)
def sequence_by_items(a):
    asked = Asked()
    begun = iter(asked)
    seen = [next(begun)]
    asked.log.append("between")
    seen += begun
    first, *others = Asked()
    return a, seen, asked.log, list(reversed(asked)), asked.log, first, others, 20 in asked, type(begun).__name__


@case(x)
def stop_iteration_ends_iterators_of_c(a):
    numbers = iter(range(3))

    def stops(n):
        if n == 2:
            raise StopIteration
        return True

    until = list(iter(lambda: next(numbers), 7))
    return a, until, list(map(stops, range(5))), list(filter(stops, range(5))), list(itertools.takewhile(stops, range(5)))


@case(x)
def sentinel_is_found_by_identity(a):
    odd = float("nan")
    values = iter([1.0, odd, 2.0])
    return a, list(iter(lambda: next(values), odd))


@case(lambda: (x(), {"".join(["k", "ey"]): 1, (1, "".join(["k", "ey"])): 2}), graphs=4)
def keys_that_are_equal_behind_a_break(a, table):
    seen = []
    for key, value in table.items():
        print(key)
        seen.append(value)
    return a, seen


def delegates(log, inner):
    try:
        value = yield from inner
        log.append(("returned", value))
        yield value
    except KeyError as error:
        log.append(("outer", error.args))
        yield "outer"
    finally:
        log.append("outer is left")


def answers(log, again):
    try:
        yield 1
    except ValueError as error:
        log.append(("inner", error.args))
        if again:
            yield again
        return "caught"
    except IndexError:
        raise KeyError("from inner")
    finally:
        log.append("inner is left")


@case(x)
def throw_goes_to_the_innermost_generator(a):
    log, seen = [], []
    for again, error in ((None, ValueError("v")), ("again", ValueError), (None, IndexError), (None, TypeError)):
        made = delegates(log, delegates(log, answers(log, again)))
        seen.append(next(made))
        try:
            seen.append(made.throw(error))
            seen += made
        except TypeError:
            seen.append("not caught")
    return a, seen, log


@case(x)
def close_begins_with_the_innermost_generator(a):
    log = []
    closed, thrown = (delegates(log, answers(log, None)) for _ in range(2))
    next(closed), next(thrown)
    closed.close()
    try:
        thrown.throw(GeneratorExit)
    except GeneratorExit:
        log.append("exit")
    iterated = delegates(log, iter([1, 2]))
    next(iterated)
    try:
        iterated.throw(ValueError("v"))
    except ValueError:
        log.append("list")
    return a, log


class Ends:
    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration(42)


@case(x)
def iterator_of_the_programs_own_ends_with_a_value(a):
    def waits():
        return (a, (yield from Ends()))

    def outer():
        yield (yield from waits())

    return list(outer())
