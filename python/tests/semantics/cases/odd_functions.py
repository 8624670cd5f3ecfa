"""Odd things to capture: what is no plain function, what has no source, what is very long or never returns."""

import functools
import operator

from ..case import ANY, call, case, made
from ..values import x


@made(lambda: [1, 2], lambda: [1, 2, 3])
def builtin_function():
    return len


@made(lambda: (x(), x()))
def operator_function():
    return operator.add


@made(x)
def method_of_a_list():
    box = []
    return box.append


@made(lambda: "text")
def method_of_a_class_in_c():
    return str.upper


@made(lambda: 3, lambda: "7", lambda: "seven")
def class_in_c():
    return int


class Thing:
    def __init__(self, a, k=1):
        self.value = a * k

    def scaled(self, k):
        return self.value * k

    @classmethod
    def of(cls, a):
        return cls(a, 2)

    @staticmethod
    def plus(a, b=1):
        return a + b


@made(lambda: (x(), 3), lambda: (x(), 4))
def class_in_python():
    return Thing


@made(x)
def class_method():
    return Thing.of


@made(x, lambda: (x(), 2))
def static_method():
    return Thing.plus


@made(lambda: 3)
def bound_method():
    return Thing(x()).scaled


@made(lambda: (Thing(2), 3), lambda: (Thing(3), 3))
def unbound_method():
    return Thing.scaled


@made(x, lambda: call(x(), k=4))
def partial():
    return functools.partial(lambda a, b, k=1: a * b + k, 3, k=2)


@made(x)
def partial_of_a_partial():
    inner = functools.partial(lambda *values, **named: (values, named), 1, p=2)
    return functools.partial(inner, 3, p=4, q=5)


@made(x)
def wrapped():
    def inner(a):
        return a * 2

    @functools.wraps(inner)
    def outer(*args, **kwargs):
        return inner(*args, **kwargs) + 1

    return outer


@made(lambda: 3, lambda: 4)
def cached():
    return functools.lru_cache(lambda n: [n])


@made(x)
def without_source():
    scope = {}
    exec("def made(a, k=3):\n    return [a * k, k]", scope)
    return scope["made"]


@made(x)
def lambda_in_a_list():
    return [lambda a: a + 1, lambda a: a * 3][1]


@made(x, lambda: (x(), 2))
def evaluated_lambda():
    return eval("lambda a, k=1: a * k")


@made(x)
def very_long():
    lines = ["def made(a):", *[f"    a = a + {n % 3}" for n in range(300)], "    return a"]
    scope = {}
    exec("\n".join(lines), scope)
    return scope["made"]


@made(x)
def many_jumps():
    lines = ["def made(a):", "    n = 0", *[f"    if n % 7 != {n % 7}: n += 1" for n in range(1500)], "    return a * n"]
    scope = {}
    exec("\n".join(lines), scope)
    return scope["made"]


@made(lambda: tuple(range(300)))
def many_arguments():
    scope = {}
    exec(f"def made({', '.join(f'a{n}' for n in range(300))}): return a0 + a299", scope)
    return scope["made"]


@made(x)
def generator_function():
    def numbers(a):
        yield a
        yield a + 1

    return numbers


@made(lambda: (x(), 4), lambda: (x(), 2))
def recursive_function():
    def power(a, n):
        return 1 if n == 0 else a * power(a, n - 1)

    return power


@made(lambda: 1, graphs=ANY, eager=True)
def endless_recursion():
    def forever(n):
        return forever(n + 1)

    def step(n):
        try:
            return forever(n)
        except RecursionError as error:
            return type(error)

    return step


# Coroutines are CPython's: making one is a break, and so is running it.
@made(x, graphs=3)
def coroutine_function():
    async def later(a):
        return a + 1

    def drive(a):
        coroutine = later(a)
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value

    return drive


@made(x)
def coroutine_function_itself():
    async def later(a):
        return a + 1

    return later


@made(x, graphs=3)
def awaits_another():
    async def inner(a):
        return a * 2

    async def outer(a):
        return await inner(a) + await inner(a + 1)

    def drive(a):
        try:
            outer(a).send(None)
        except StopIteration as stop:
            return stop.value

    return drive


@made(x, graphs=3)
def asynchronous_generator():
    async def numbers(a):
        for n in range(2):
            yield a * n

    async def collect(a):
        return [value async for value in numbers(a)]

    def drive(a):
        try:
            collect(a).send(None)
        except StopIteration as stop:
            return stop.value

    return drive


@made(lambda: (x(), False), lambda: (x(), True))
def interrupted_call():
    def step(a, stop):
        b = a * 2
        if stop:
            raise KeyboardInterrupt
        return b + 1

    return step


@made(lambda: (x(), 0), lambda: (x(), 1), lambda: (x(), 2))
def other_kinds_of_results():
    """With a handler of groups; whoever cannot capture it must still give each call its own result."""

    def step(a, n):
        result = a if n == 0 else [a, n]
        try:
            if n == 1:
                raise ValueError(n)
        except* ValueError:
            result = "group"
        return result

    return step


@case(x, graphs=ANY)
def frames_are_looked_at(a):
    import sys

    frame = sys._getframe()
    return frame.f_code.co_name, a + 1


@case(x, graphs=ANY)
def traceback_names_the_function(a):
    import traceback

    def broken():
        raise ValueError("here")

    try:
        broken()
    except ValueError as error:
        return [entry.name for entry in traceback.extract_tb(error.__traceback__)][-1], a


@case(lambda: call(x(), self=1, function=2, args=3, kwargs=4))
def names_that_a_wrapper_may_use(a, **named):
    return a, named


@case(lambda: call(x(), **{f"name{n}": n for n in range(50)}))
def many_keywords(a, **named):
    return a * len(named), named["name49"]
