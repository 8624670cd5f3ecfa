"""Standard library: itertools, functools, collections.abc, copy, contextlib, typing, weakref and their like."""

import bisect
import collections.abc
import contextvars
import copy
import functools
import heapq
import inspect
import itertools
import json
import os
import random
import string
import typing
import warnings
import weakref

from ..case import ANY, case, made
from ..values import x


def pair():
    return x(), x()


@case(pair)
def chains(a, b):
    return list(itertools.chain([a], [b, 1])), list(itertools.chain.from_iterable([[a], [b]]))


@case(x)
def combinatorics(a):
    return list(itertools.product("pq", [1, 2])), list(itertools.combinations(range(3), 2)), list(itertools.permutations("ab")), a


@case(x)
def counting(a):
    return list(itertools.islice(itertools.count(3, 2), 3)), list(itertools.islice(itertools.cycle("pq"), 5)), list(itertools.repeat(a, 2))


@case(x)
def accumulating(a):
    return (
        list(itertools.accumulate([1, 2, 3])), list(itertools.accumulate([a, a, 1], lambda p, q: p + q)),
        list(itertools.accumulate([1, 2], initial=10)),
    )  # fmt: skip


@case(x)
def grouping(a):
    groups = [(key, list(values)) for key, values in itertools.groupby([1, 1, 2, 1], lambda n: n % 2)]
    return groups, list(itertools.pairwise([1, 2, 3])), list(itertools.zip_longest([1, 2], [a], fillvalue=0))


@case(x)
def selecting(a):
    return (
        list(itertools.takewhile(lambda n: n < 3, range(9))),
        list(itertools.dropwhile(lambda n: n < 3, range(5))),
        list(itertools.compress("abc", [1, 0, 1])),
        list(itertools.filterfalse(lambda n: n % 2, range(4))),
        list(itertools.starmap(lambda p, q: p * q, [(a, 2)])),
    )


@case(x)
def tee(a):
    p, q = itertools.tee([a, 1])
    return next(p) is a, list(q), list(p)


@case(pair)
def reduce(a, b):
    return functools.reduce(lambda p, q: p - q, [a, b, 1]), functools.reduce(lambda p, q: p + q, [], a) is a


@case(x)
def reduce_of_nothing(a):
    return functools.reduce(lambda p, q: p, [])


@case(x)
def wraps(a):
    def inner(v):
        "doc"
        return v + 1

    @functools.wraps(inner)
    def outer(*args):
        return inner(*args) * 2

    return outer(a), outer.__name__, outer.__doc__, outer.__wrapped__ is inner


@made(lambda: (x(), 3), lambda: (x(), 4))
def lru_cache():
    calls = []

    @functools.lru_cache(maxsize=None)
    def square(n):
        calls.append(n)
        return n * n

    def step(a, n):
        return a * square(n) + square(n), calls

    return step


class Ordered:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __lt__(self, other):
        return self.n < other.n


functools.total_ordering(Ordered)


@case(x)
def total_ordering(a):
    return Ordered(1) <= Ordered(2), Ordered(3) >= Ordered(2), Ordered(1) > Ordered(1), a


@functools.singledispatch
def kind_of(value):
    return "other"


@kind_of.register
def _(value: int):
    return "int"


@kind_of.register(list)
def _(value):
    return "list"


@case(x)
def single_dispatch(a):
    return kind_of(1), kind_of([]), kind_of("p"), a


def dispatched():
    @functools.singledispatch
    def dispatch(value, factor):
        return value * factor

    dispatch.register(collections.abc.Sized, lambda value, factor: len(value) * factor)
    return dispatch


def register_more(step):
    step.__closure__[0].cell_contents.register(dict, lambda value, factor: "dict")


@made(x, between=register_more)
def single_dispatch_learns():
    dispatch = dispatched()

    def step(a):
        return dispatch(a, factor=2), dispatch({1: 2}, 2), dispatch((1, 2), 3), dispatch.dispatch(dict) is not None

    return step


@case(x)
def cmp_to_key(a):
    return sorted([3, 1, 2], key=functools.cmp_to_key(lambda p, q: q - p)), a


@case(x)
def copies(a):
    box = [[a], {"k": [1]}]
    shallow, deep = copy.copy(box), copy.deepcopy(box)
    return shallow[0] is box[0], deep[0] is box[0], deep[0][0] is a, deep, copy.copy(3), copy.copy((1, box))[1] is box


class Copied:
    def __init__(self, a):
        self.a, self.items = a, [1]

    def __copy__(self):
        other = Copied(self.a)
        other.items = "copied"
        return other


@case(x)
def copy_protocol(a):
    thing = Copied(a)
    return copy.copy(thing).items, copy.copy(thing).a is a


@case(x)
def deepcopy_keeps_sharing(a):
    inner = [1]
    first, second = copy.deepcopy([inner, inner])
    return first is second, first is inner, a


@case(x)
def abstract_collections(a):
    return (
        isinstance([], collections.abc.Sequence), isinstance({}, collections.abc.Mapping),
        isinstance(3, collections.abc.Iterable), isinstance(len, collections.abc.Callable), a,
    )  # fmt: skip


class Mapping(collections.abc.MutableMapping):
    def __init__(self):
        self.data = {}

    def __getitem__(self, key):
        return self.data[key]

    def __setitem__(self, key, value):
        self.data[key] = value

    def __delitem__(self, key):
        del self.data[key]

    def __iter__(self):
        return iter(self.data)

    def __len__(self):
        return len(self.data)


@case(x)
def own_mapping(a):
    table = Mapping()
    table["p"] = a
    table.update(q=1)
    return table.get("p") is a, "q" in table, list(table.items())[1], table.pop("q"), len(table), table.setdefault("z", 5), dict(**table)


@case(x)
def user_dict(a):
    table = collections.UserDict(p=a)
    table["q"] = 1
    return table["p"] is a, dict(table), len(table)


@case(x, graphs=ANY)
def heaps_and_bisection(a):
    heap = [5, 1, 4]
    heapq.heapify(heap)
    heapq.heappush(heap, 0)
    return heapq.heappop(heap), heapq.nsmallest(2, heap), bisect.bisect([1, 3, 5], 3), a


VARIABLE = contextvars.ContextVar("VARIABLE", default=1)


@case(x)
def context_variable(a):
    token = VARIABLE.set(5)
    inside = VARIABLE.get()
    VARIABLE.reset(token)
    return a * inside, VARIABLE.get()


@case(x)
def typing_helpers(a):
    return typing.cast(int, a) is a, typing.Optional[int], typing.get_args(list[int]), typing.TYPE_CHECKING


@case(x, graphs=ANY)
def signatures(a):
    def inner(p, *, q=3):
        return p

    return list(inspect.signature(inner).parameters), inspect.isfunction(inner), inspect.isclass(int), a


@case(x, graphs=ANY)
def json_text(a):
    return json.dumps({"k": [1, None, True]}), json.loads('{"p": [1.5]}'), a


@case(x, graphs=ANY)
def environment(a):
    return a * len(os.environ.get("NOT_SET_ANYWHERE", "abc")), os.path.basename("/p/q.txt"), os.sep


@case(x, graphs=ANY, again=False)
def random_numbers(a):
    return a * random.randint(1, 10), random.random(), random.choice("pqr"), random.sample(range(9), 2)


@case(x, graphs=ANY)
def own_random_generator(a):
    generator = random.Random(3)
    return a * generator.randint(1, 10), generator.random()


@case(x, graphs=ANY)
def warning(a):
    warnings.warn("careful", UserWarning, stacklevel=1)
    return a + 1


@case(x, graphs=ANY)
def weak_references(a):
    thing = Copied(a)
    reference = weakref.ref(thing)
    alive = reference() is thing
    del thing
    return alive, reference() is None


@case(x, graphs=ANY)
def text_constants(a):
    return string.digits, string.capwords("p q"), a


def register(table):
    def decorator(function):
        table[function.__name__] = function
        return function

    return decorator


@case(x)
def registering_decorator(a):
    table = {}

    @register(table)
    def plus(v):
        return v + 1

    return table["plus"](a), list(table), table["plus"] is plus
