"""Lists, dicts, sets, tuples and their relatives, and their methods."""

import collections
import copy
import dataclasses
import enum
import types
import typing

from ..case import case
from ..values import x


def pair():
    return x(), x()


# `count` asks whether a tensor is 1.
@case(pair, graphs=2)
def list_methods(a, b):
    box = [a]
    box.append(b)
    box.extend([1, a])
    box.insert(1, "mid")
    popped = box.pop()
    first = box.pop(0)
    box.reverse()
    return box, popped is a, first is a, box.count(1), len(box)


@case(x)
def list_of_numbers(a):
    box = [3, 1, 2, 1]
    box.remove(1)
    box.sort()
    kept = box.copy()
    box.clear()
    return a, box, kept, kept.index(2), kept == [1, 2, 3], kept < [1, 3], kept + [9], kept * 2


@case(x)
def list_sort_by_key(a):
    words = ["pear", "fig", "banana"]
    words.sort(key=len, reverse=True)
    return a, words, sorted(words, key=lambda word: word[-1])


@case(x)
def list_remove_missing(a):
    [1, 2].remove(3)


@case(x)
def list_pop_empty(a):
    return [].pop()


@case(x)
def list_index_out_of_range(a):
    return [a][3]


@case(x)
def list_index_of_wrong_type(a):
    key = "0"
    return [a][key]


@case(x)
def list_holds_itself(a):
    box = [a]
    box.append(box)
    return box, box[1] is box


@case(pair)
def list_from_iterables(a, b):
    return list((a, b)), list("pq"), list({"k": a}), list(range(3)), [*(a, b)]


@case(pair)
def list_multiplication_shares(a, b):
    rows = [[a]] * 3
    rows[0].append(b)
    return rows, rows[0] is rows[2]


@case(pair)
def dict_methods(a, b):
    table = {"p": a}
    table["q"] = b
    table.update(r=1, p=2)
    table.setdefault("s", []).append(a)
    got = table.get("zz", 5), table.pop("r"), table.pop("none", None), table.setdefault("q", 0) is b
    return table, got, list(table), len(table), "p" in table


@case(pair)
def dict_views(a, b):
    table = {"p": a, "q": b}
    keys = table.keys()
    table["r"] = 1
    return list(keys), keys & {"p", "z"}, list(table.values())[0] is a, [*table.items()][-1], "q" in keys


@case(x)
def dict_missing_key(a):
    return {"p": a}["q"]


@case(x)
def dict_delete(a):
    table = {"p": a, "q": 1}
    del table["p"]
    table["p"] = 2
    return list(table), table.popitem(), table


@case(x)
def dict_delete_missing(a):
    del {"p": a}["q"]


@case(x)
def dict_merge(a):
    first, second = {"p": a, "q": 1}, {"q": 2, "r": 3}
    merged = first | second
    first |= {"z": 0}
    return merged, first, {**first, **second, "last": a}, dict(first, k=1), dict([("m", 1)])


@case(x)
def dict_order(a):
    table = dict.fromkeys("cab", a)
    table["c"] = table.pop("c")
    return list(table), list(reversed(table)), table["a"] is table["b"]


@case(x)
def dict_of_mixed_keys(a):
    table = {1: "int", 1.0: "float", True: "bool", (1, 2): a, None: 0, "s": 1}
    return table, table[1], table[(1, 2)] is a


@case(x)
def dict_equality(a):
    return {"p": 1, "q": 2} == {"q": 2, "p": 1}, {} == [], {"p": [1]} != {"p": [2]}


@case(x)
def dict_unhashable_key(a):
    return {[]: a}


@case(x)
def set_methods(a):
    s = {3, 1}
    s.add(2)
    s.discard(9)
    s.update([5, 6])
    s.remove(1)
    return a, s, s | {9}, s & {2, 3}, s - {2}, s ^ {2, 100}, s <= {2, 3, 5, 6, 7}, s.isdisjoint({8}), len(s)


@case(x)
def set_remove_missing(a):
    {1}.remove(2)


@case(x)
def frozen_set(a):
    s = frozenset([1, 2, 2])
    return a, s, s | {3}, {s: 1}[frozenset([2, 1])], hash(s) == hash(frozenset((2, 1)))


@case(pair)
def tuple_operations(a, b):
    t = (a, b, 1)
    return t + (2,), t[1] is b, t[-1], len(t), (1, 2, 1).count(1), (1, 2) < (1, 3), () == tuple([]), t * 2


@case(x)
def tuple_is_fixed(a):
    t = (a, 1)
    t[0] = 2


@case(x)
def tuple_with_list_inside(a):
    t = ([a], 1)
    try:
        t[0] += [2]
    except TypeError as error:
        return t, str(error)


@case(pair)
def deque_methods(a, b):
    d = collections.deque([1, a], maxlen=3)
    d.append(b)
    d.append(4)
    d.appendleft(0)
    left, right = d.popleft(), d.pop()
    d.extend([7, 8])
    d.rotate(1)
    return d, left, right, d.maxlen, d[0], len(d)


@case(pair)
def ordered_dict(a, b):
    table = collections.OrderedDict(p=a, q=b)
    table["r"] = 1
    table.move_to_end("p")
    table.move_to_end("r", last=False)
    return table, list(table), table.popitem(last=False), table == {"q": b, "p": a} if isinstance(a, float) else None


@case(pair)
def default_dict(a, b):
    table = collections.defaultdict(list)
    table["p"].append(a)
    table["p"].append(b)
    table["q"]
    return table, "r" in table, table.get("r"), len(table)


@case(x)
def default_dict_with_lambda(a):
    table = collections.defaultdict(lambda: a + 1)
    return table["p"] is table["p"], table["p"], list(table)


@case(x)
def counter(a):
    counts = collections.Counter("abracadabra")
    counts.update("aa")
    return a, counts.most_common(2), counts["zz"], counts + collections.Counter(a=1), sum(counts.values())


@case(pair)
def chain_map(a, b):
    local, outer = {"p": a}, {"p": b, "q": 1}
    chain = collections.ChainMap(local, outer)
    chain["new"] = 5
    return chain["p"] is a, chain["q"], local, outer, sorted(chain)


Point = collections.namedtuple("Point", "p q", defaults=[3])


@case(pair)
def named_tuple(a, b):
    point = Point(a, q=b)
    p, q = point
    return point, point.p is a, point[1] is b, p is a, point._replace(q=1), Point(a), point._fields, point._asdict()


@case(x)
def named_tuple_wrong_arguments(a):
    return Point()


class Typed(typing.NamedTuple):
    p: object
    q: int = 2

    def scaled(self):
        return self.p * self.q


@case(x)
def typed_named_tuple(a):
    return Typed(a), Typed(a, 5).scaled(), isinstance(Typed(a), tuple)


@dataclasses.dataclass
class Record:
    p: object
    q: int = 3
    items: list = dataclasses.field(default_factory=list)

    def total(self):
        return self.p * self.q + len(self.items)


@dataclasses.dataclass
class Child(Record):
    r: object = None

    def __post_init__(self):
        self.r = self.p * 2


@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    n: int
    m: int = 0


@case(x)
def dataclass_made(a):
    record = Record(a, items=[a])
    record.items.append(1)
    return record, record.total(), Record(a).items is Record(a).items


@case(x)
def dataclass_post_init(a):
    child = Child(a, 5)
    return child, child.r, child.total()


@case(x)
def dataclass_functions(a):
    record = Record(1, 2)
    changed = dataclasses.replace(record, q=9)
    return changed, [field.name for field in dataclasses.fields(record)], dataclasses.is_dataclass(record), record == Record(1, 2), a


@case(x)
def dataclass_as_dict(a):
    return dataclasses.asdict(Record(1, items=[2])), dataclasses.astuple(Record(1)), repr(Record(1)), a


@case(x)
def dataclass_frozen(a):
    return Frozen(1) < Frozen(2), Frozen(1) == Frozen(1), hash(Frozen(1)) == hash(Frozen(1)), {Frozen(1): a}


@case(x)
def dataclass_frozen_is_fixed(a):
    Frozen(1).n = 2


@case(x)
def dataclass_missing_argument(a):
    return Record()


class Colour(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def lower(self):
        return self.name.lower()


class Bits(enum.Flag):
    A = enum.auto()
    B = enum.auto()


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 10


class Kind(str, enum.Enum):
    P = "p"


@case(lambda: (x(), Colour.RED), lambda: (x(), Colour.BLUE))
def enum_members(a, colour):
    scale = 2 if colour is Colour.RED else 3
    return a * scale, colour.value, colour.name, colour.lower, Colour(2), Colour["RED"] is Colour.RED, colour == Colour.RED


@case(x)
def enum_iteration(a):
    return [colour.name for colour in Colour], len(Colour), Colour.RED in Colour, list(Colour.__members__), a


@case(x)
def enum_unknown_value(a):
    return Colour(7)


@case(x)
def enum_relatives(a):
    return a * Level.HIGH, Level.LOW < Level.HIGH, Bits.A | Bits.B, Bits.A in (Bits.A | Bits.B), Kind.P == "p", Kind("p") is Kind.P


@case(x)
def enum_as_key(a):
    table = {Colour.RED: a, Colour.BLUE: a + 1}
    return table[Colour.RED] is a, table


@case(x)
def simple_namespace(a):
    space = types.SimpleNamespace(p=a, q=1)
    space.r = space.p + space.q
    return space, space.r, vars(space)


@case(lambda: ({"k": x()}, [x()]))
def argument_containers_are_written(table, box):
    table["new"] = box[0]
    table["k"] = table["k"] + 1
    box.append(table)
    box[0] = None
    return table


@case(lambda: {"p": 1, "q": 2}, lambda: {"p": 1, "r": 2}, lambda: {"q": 2, "p": 1}, lambda: {})
def dict_argument_is_guarded(table):
    return [(key, value * 2) for key, value in table.items()]


@case(lambda: [1, 2], lambda: [1, 3], lambda: [1, 2, 3], lambda: (1, 2))
def list_argument_is_guarded(numbers):
    return sum(numbers), len(numbers), type(numbers)


@case(lambda: ([x()], 0), lambda: ([x(), x()], 1))
def nested_argument(box, n):
    return {"deep": [{"deeper": box[n]}]}["deep"][0]["deeper"] * 2


@case(lambda: collections.OrderedDict(p=x(), q=x()), lambda: collections.OrderedDict(q=x(), p=x()))
def ordered_argument(table):
    return [key for key in table], table.popitem()


@case(lambda: collections.deque([x(), x()], maxlen=2))
def deque_argument(d):
    d.append(d[0] + 1)
    return d[0], list(d)


@case(lambda: collections.defaultdict(list))
def default_dict_argument(table):
    table["p"].append(len(table))
    return table["q"], len(table)


@case(lambda: Record(x(), 4), lambda: Record(x(), 5))
def dataclass_argument(record):
    record.items.append(record.p)
    return record.total()


@case(lambda: {1, 2, 3}, lambda: {1, 2})
def set_argument(s):
    s.add(10)
    return sum(s), 2 in s, len(s)


@case(x)
def bytes_and_arrays(a):
    b = bytearray(b"abc")
    b[0] = 122
    b.extend(b"!")
    return a, b, bytes(b), b"x" + b"y", b"abc"[1], memoryview(b)[1:3].tobytes()


@case(lambda: (x(), collections.OrderedDict(a=1, b=2)), lambda: (x(), dict(a=3)))
def list_grows_by_any_iterable(a, names):
    items = same = [0]
    items += names.values()
    items += names.keys()
    items += (n * 2 for n in range(3))
    items += {7: 8}
    items += "xy"
    try:
        items += 5
    except TypeError as error:
        items += [str(error)]
    return a + len(items), items, items is same


class Joins:
    def __iter__(self):
        return iter((1, 2))

    def __radd__(self, other):
        return ("joined", other)


@case(x)
def list_asks_the_other_side_first(a):
    items = [0]
    items += Joins()
    return a, items


def attributed():
    table = collections.OrderedDict(a=1)
    table.note = [1]
    return table


@case(lambda: (x(), attributed()), eager=True)
def copies_of_an_ordered_dict_with_attributes(a, table):
    made = attributed()
    return a, [(shallow.note is of.note, deep.note, deep.note is of.note) for of in (table, made) for shallow, deep in [both(of)]]


def both(table):
    return copy.copy(table), copy.deepcopy(table)


@case(x)
def defaults_by_keyword(a):
    table = collections.OrderedDict(a=a)
    given = table.setdefault("b", default=2), table.pop("none", default=3), table.pop(key="a"), table.setdefault(key="c")
    refused = []
    for refuses in (lambda: {}.get(1, default=3), lambda: {}.setdefault(1, default=3), lambda: {}.update([(1, 2)], [(3, 4)])):
        try:
            refuses()
        except TypeError as error:
            refused.append(str(error))
    return given, table, refused
