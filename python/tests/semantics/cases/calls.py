"""Calls and the binding of arguments."""

import functools

from ..case import call, case, made
from ..values import x


def pair():
    return x(), x()


@case(pair)
def positional(a, b):
    return a - b


@case(lambda: call(b=x(), a=x()), lambda: call(x(), b=x()))
def by_name(a, b):
    return a - b


@case(x, pair)
def default_value(a, b=2):
    return a * b


@case(lambda: call(x(), k=3), lambda: call(x(), k=4), lambda: call(x()))
def keyword_only(a, *, k=1):
    return a * k


@case(pair, lambda: (x(), x(), x()), x)
def star_args(a, *rest):
    for other in rest:
        a = a + other
    return a, len(rest), type(rest)


@case(lambda: call(x(), p=x(), q=2), lambda: call(x(), q=2, p=x()), lambda: call(x()))
def star_kwargs(a, **named):
    return a, list(named), named


@case(lambda: call(x(), x(), x(), k=1, z=x()))
def all_kinds(a, b=5, *rest, k, m=7, **named):
    return a + b, rest, k, m, named


@case(pair)
def positional_only_by_position(a, b):
    def inner(a, b, /):
        return a * 2 - b

    return inner(a, b)


@case(x)
def positional_only_name_goes_to_kwargs(a):
    def inner(a, /, **named):
        return a, named

    return inner(a, a=3)


@case(x)
def missing_argument(a):
    def inner(a, b):
        return a

    return inner(a)


@case(x)
def missing_two_arguments(a):
    def inner(a, b, c):
        return a

    return inner(a)


@case(x)
def missing_keyword_only(a):
    def inner(a, *, k):
        return a

    return inner(a)


@case(x)
def too_many_arguments(a):
    def inner(a):
        return a

    return inner(a, a)


@case(x)
def too_many_with_defaults(a):
    def inner(a, b=1):
        return a

    return inner(a, a, a)


@case(x)
def unexpected_keyword(a):
    def inner(a):
        return a

    return inner(a, k=1)


@case(x)
def argument_given_twice(a):
    def inner(a, b=2):
        return a

    return inner(a, a=a)


@case(x)
def positional_only_by_name_fails(a):
    def inner(a, /):
        return a

    return inner(a=a)


@case(lambda: call(x(), 1), lambda: call(x()), lambda: call(x(), 1, 2))
def own_binding_may_fail(a, b):
    return a * b


@case(pair)
def unpacked_call(a, b):
    def inner(*args, **kwargs):
        return args, kwargs

    return inner(*[a], *(b, 1), **{"p": a}, q=2, **{"r": b})


@case(x)
def unpacked_keyword_twice(a):
    def inner(**kwargs):
        return kwargs

    return inner(k=1, **{"k": 2})


@case(x)
def unpacked_mapping_needs_strings(a):
    def inner(**kwargs):
        return kwargs

    return inner(**{1: a})


@case(x)
def unpacked_range(a):
    def inner(*args, **kwargs):
        return sum(args) + sum(kwargs.values())

    first, second = range(2)
    one, *others = range(4)
    return a + inner(*range(3)) + max(*range(first, 5)) + dict([range(5, 7)])[5] + inner(*range(second, 4), k=one + len(others))


@case(x)
def unpacked_not_iterable(a):
    def inner(*args):
        return args

    return inner(*3)


@case(x)
def called_is_not_callable(a):
    number = 3
    return number(a)


@case(x)
def order_of_evaluation(a):
    log = []

    def note(name, value):
        log.append(name)
        return value

    def inner(*args, **kwargs):
        return args, kwargs

    result = note("f", inner)(note("a", a), *note("star", (1, 2)), k=note("k", 3), **note("named", {"m": 4}))
    return result, log


@case(x)
def defaults_are_evaluated_once(a):
    log = []

    def default():
        log.append("default")
        return a

    def inner(b=default()):
        return b + 1

    return inner(), inner(), log


@case(pair)
def mutable_default_lives_on(a, b):
    def inner(value, box=[]):  # noqa: B006
        box.append(value)
        return box

    first = inner(a)
    second = inner(b)
    return first is second, second


@made(x, again=False)
def default_of_the_captured_function():
    def counting(a, box=[]):  # noqa: B006
        box.append(len(box))
        return a + len(box), box

    return counting


@case(x)
def lambdas(a):
    double = lambda v: v * 2  # noqa: E731
    add = lambda v, *more, k=1: v + k + len(more)  # noqa: E731
    return double(a), add(a), add(a, 1, 2, k=5)


@case(lambda: (x(), 4), lambda: (x(), 2))
def recursion(a, n):
    def power(n):
        return 1 if n == 0 else a * power(n - 1)

    return power(n)


@case(lambda: (x(), 6))
def mutual_recursion(a, n):
    def even(n):
        return a if n == 0 else odd(n - 1)

    def odd(n):
        return -a if n == 0 else even(n - 1)

    return even(n), even(n - 1)


def factorial_of(n, a):
    return a if n <= 1 else factorial_of(n - 1, a) * n


@case(lambda: (4, x()), lambda: (3, x()))
def global_recursion(n, a):
    return factorial_of(n, a)


@case(x)
def decorated(a):
    def twice(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs), function(*args, **kwargs)

        return wrapper

    @twice
    @twice
    def plus(v, k=1):
        return v + k

    return plus(a, k=3), plus.__name__


@case(pair)
def partials(a, b):
    def inner(p, q, r=1, *, s=2):
        return p - q * r + s

    first = functools.partial(inner, a, s=5)
    second = functools.partial(first, b, r=3)
    return first(b), second(), second(s=1), second.args, second.keywords


class Thing:
    def scale(self, value, k):
        return value * k

    double = functools.partialmethod(scale, k=2)


@case(pair)
def partial_method(a, b):
    return Thing().double(a + b)


@case(pair)
def function_as_argument(a, b):
    def apply(function, *args):
        return function(*args)

    return apply(lambda p, q: p - q, a, b), apply(max, 1, 2), apply(apply, apply, lambda: a)


@case(x)
def function_attributes(a):
    def inner(v):
        inner.count += 1
        return v + inner.count

    inner.count = 0
    return inner(a), inner(a), inner.count, inner.__name__, inner.__defaults__


@case(x)
def returns_nothing(a):
    a + 1


@case(x)
def returns_early(a):
    for n in range(5):
        if n == 3:
            return a * n
    return a


@case(pair)
def returns_a_tuple(a, b):
    return a, (b, (a, b))


class Adder:
    def __init__(self, k):
        self.k = k

    def __call__(self, value, *, more=0):
        return value + self.k + more


@case(pair)
def call_on_an_instance(a, b):
    return Adder(a)(b), Adder(a)(b, more=1)


@case(pair)
def call_of_a_method_kept_aside(a, b):
    box = []
    push = box.append
    push(a)
    push(b)
    return box, push.__self__ is box


@case(x)
def annotations_do_not_run_in_bodies(a):
    b: "anything at all" = a + 1  # noqa: F722
    c: int
    return b


@case(lambda: (x(), [1, 2, 3]), lambda: (x(), [1, 2, 3, 4]), lambda: (x(), []))
def arguments_from_a_list(a, numbers):
    def inner(*numbers, scale=1):
        return a * sum(numbers) * scale

    return inner(*numbers), inner(*numbers, scale=2)


@case(lambda: call(x(), **{"not an identifier": 1}))
def odd_keyword(a, **named):
    return a, named


@case(lambda: call(x(), None), lambda: call(x(), x()))
def optional_argument(a, b=None):
    if b is None:
        b = a
    return a + b, a is b
