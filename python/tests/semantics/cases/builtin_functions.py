"""Built-in functions, with Python functions as their arguments too."""

import dataclasses

from ..case import ANY, case
from ..values import x


def pair():
    return x(), x()


@case(pair)
def zip_and_enumerate(a, b):
    return list(zip([a, b], range(5))), list(enumerate([a, b], 3)), [p + q for p, q in zip([a], [b])], list(zip())


@case(x)
def zip_strict(a):
    return list(zip([a], [1, 2], strict=True))


@case(x)
def unzip(a):
    return list(zip(*[(a, 1), (a + 1, 2)]))


@case(pair)
def map_and_filter(a, b):
    return (
        list(map(lambda v: v * 2, [a, b])), list(map(lambda p, q: p - q, [a], [b])), list(filter(None, [0, 1, "", "p"])),
        [*filter(lambda n: n > 1, range(4))],
    )  # fmt: skip


@case(x)
def map_is_lazy(a):
    log = []
    values = map(log.append, [1, 2])
    before = list(log)
    list(values)
    return before, log, a


@case(x)
def sorted_with_key(a):
    rows = [("p", 2), ("q", 1), ("r", 2)]
    return sorted(rows, key=lambda row: row[1]), sorted(rows, key=lambda row: -row[1]), sorted("hello", reverse=True), a


@case(x)
def sorted_key_is_called_in_order(a):
    log = []

    def key(n):
        log.append(n)
        return -n

    return sorted([2, 3, 1], key=key), log, a


@case(x)
def sorted_keeps_values(a):
    values = [a, a + 1, a + 2]
    order = [2, 0, 1]
    return [v for _, v in sorted(zip(order, values), key=lambda both: both[0])]


@case(x)
def sorted_fails(a):
    return sorted([1, "p"])


@case(x)
def sort_key_raises(a):
    return sorted([1, 2], key=lambda n: 1 / 0)


@case(x)
def any_and_all(a):
    log = []

    def note(n):
        log.append(n)
        return n

    return any(note(n) for n in (0, 1, 2)), all(note(n) for n in (1, 0, 2)), log, any([]), all([]), a


@case(x)
def min_and_max(a):
    return (
        min(3, 1), max([1, 5, 2]), min("p", "q"), max([], default=a) is a, min([-3, 2], key=abs), max({"k": 1, "m": 2}),
        min((2, "x"), (1, "y")),
    )  # fmt: skip


@case(x)
def min_of_nothing(a):
    return min([])


@case(pair)
def sums(a, b):
    return sum([a, b]), sum([a, b], 1), sum(range(5)), sum(v for v in (a, b)), sum([], 7)


@case(x)
def reversed_things(a):
    return list(reversed([a, 1])), list(reversed("pq")), list(reversed(range(3))), list(reversed({"k": 1, "m": 2})), [*reversed((1, 2))]


@case(x)
def iter_and_next(a):
    it = iter([a, 1])
    first = next(it)
    return first is a, list(it), next(it, "done"), iter(it) is it


@case(lambda: (x(), 1), lambda: (x(), "p"), lambda: (x(), None), lambda: (x(), [1]))
def isinstance_by_argument(a, value):
    if isinstance(value, (int, float)):
        return a * value
    if isinstance(value, str):
        return value
    return a if value is None else -a


@case(x)
def isinstance_of_unions(a):
    return (
        isinstance(1, int | str), isinstance(None, int | None), issubclass(bool, int), isinstance(a, object),
        isinstance([], (dict, (list,))),
    )  # fmt: skip


@case(x)
def isinstance_fails(a):
    return isinstance(1, 2)


class Thing:
    kind = "thing"

    def __init__(self, a):
        self.a = a


@case(x)
def getattr_and_friends(a):
    thing = Thing(a)
    setattr(thing, "more", a + 1)
    found = getattr(thing, "a") is a, getattr(thing, "none", 5), hasattr(thing, "kind"), hasattr(thing, "none")
    delattr(thing, "more")
    return found, vars(thing), "more" in dir(thing)


@case(x)
def getattr_fails(a):
    return getattr(Thing(a), "none")


@case(lambda: (x(), "a"), lambda: (x(), "b"))
def getattr_by_argument(a, name):
    thing = Thing(a)
    thing.b = a * 2
    return getattr(thing, name)


@case(x)
def type_of_things(a):
    return type(1), type([]).__name__, type(Thing(a)) is Thing, type(None), type(type), Thing.__name__, type(a) is a.__class__


@case(x)
def type_of_the_value(a):
    return type(a), type(a + 1) is type(a), isinstance(a + 1, type(a))


@case(x)
def callables(a):
    return callable(len), callable(3), callable(lambda: 0), callable(Thing), callable(Thing(a))


@case(x, graphs=ANY, again=False)
def ids(a):
    b = a
    return id(a) == id(b), id(a) == id(a + 1), id([]) is None


@case(x)
def absolute(a):
    return abs(-3), abs(-2.5), abs(3 + 4j), abs(a)


@case(x)
def lengths(a):
    return len([a]), len("pq"), len({}), len(range(5)), len((1, 2)), len({1, 1})


@case(x)
def length_fails(a):
    return len(3)


@case(x)
def slices_and_ranges(a):
    return slice(1, 2), list(range(5, 0, -2)), range(3) == range(0, 3), a


@case(x)
def constructors(a):
    return list(), dict(), set(), tuple(), str(), int(), float(), bool(), complex(), bytes(), frozenset(), a


@case(x)
def dict_constructor(a):
    return dict(p=a), dict([("q", 1)], r=2), dict({"s": 3}), dict(zip("pq", (1, 2)))


@case(x)
def dict_constructor_fails(a):
    return dict([1, 2])


@case(lambda: "text", graphs=3)
def print_goes_out(text):
    print("one", text, sep="-", end="!\n")
    print()
    return text


@case(x)
def object_identity(a):
    p, q = object(), object()
    return p is p, p == q, p != q, {p: 1}[p], a


@case(x)
def hash_and_eq(a):
    return hash(3) == hash(3.0), hash("p") == hash("p"), hash(None) == hash(None), hash(Thing) == hash(Thing), a


@case(x)
def hash_fails(a):
    return hash([])


@case(x)
def super_long_sum(a):
    total = 0
    for n in range(200):
        total += n if n % 3 else -n
    return a * total


@case(x)
def nested_functional(a):
    return list(map(lambda pair: pair[0] * pair[1], zip([a, a + 1], map(lambda n: n + 1, filter(lambda n: n % 2, range(4))))))


@case(x)
def map_with_methods(a):
    return list(map(str.upper, "pq")), list(map(len, ["p", "qq"])), list(map([1, 2].__getitem__, [1, 0])), list(map(Thing, [a]))[0].a is a


@case(x, graphs=ANY)
def repr_and_ascii(a):
    return repr([1, "p", None]), repr("it's"), ascii("ü"), repr(Thing), repr(range(3)), repr({"k": {1}}), a


@case(x, graphs=ANY)
def input_from_dir(a):
    return [name for name in dir(Thing(1)) if not name.startswith("_")], a


@case(x)
def vars_of_a_class(a):
    return Thing.__dict__["kind"], "a" in vars(Thing), sorted(n for n in vars(Thing) if not n.startswith("_")), a


@case(x)
def aiter_is_not_iter(a):
    return hasattr(a, "__aiter__"), hasattr([], "__iter__"), hasattr({}, "keys")


@case(x)
def divmod_and_pow(a):
    return divmod(7, 3), divmod(-7.5, 2), pow(2, 5), pow(2, -1), pow(7, -1, 11), a


@case(x)
def all_of_a_chain(a):
    return all(isinstance(v, (int, str)) for v in (1, "p")), any(v is a for v in [1, a]), a in [1, 2] if isinstance(a, float) else None


@case(x)
def breakpoint_free_memory(a):
    values = [a + n for n in range(3)]
    del values[1]
    return values


class Hashed:
    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return self.number


@case(x)
def hashes_of_all_sizes(a):
    return a, [hash(Hashed(number)) for number in (0, -1, True, 2**61 - 1, 2**62 + 3, -(2**63), 2**63, 2**70 + 3)]


@dataclasses.dataclass(frozen=True)
class Point:
    name: str = "name"
    number: float = 2.5


@case(x)
def hash_of_a_dataclass(a):
    return a, [hash(Point(number=n)) == hash(("name", n)) for n in range(8)], frozenset({1}) is frozenset(frozenset({1}))


@case(lambda: (x(), 2.5))
def numbers_by_keyword(a, number):
    return a, complex(real=number, imag=2), complex(imag=1), str(object=number), int("11", base=2), dict(one=1, two=a)
