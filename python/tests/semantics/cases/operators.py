"""Operators that classes define."""

import operator

from ..case import ANY, case
from ..values import x


class Vector:
    """Every binary operator, with its name in a log."""

    def __init__(self, value, log=None):
        self.value, self.log = value, [] if log is None else log

    def _make(self, name, other, value):
        self.log.append(name)
        return Vector(value, self.log)

    def __add__(self, other):
        return self._make("add", other, self.value + getattr(other, "value", other))

    def __radd__(self, other):
        return self._make("radd", other, other + self.value)

    def __sub__(self, other):
        return self._make("sub", other, self.value - getattr(other, "value", other))

    def __rsub__(self, other):
        return self._make("rsub", other, other - self.value)

    def __mul__(self, other):
        return self._make("mul", other, self.value * getattr(other, "value", other))

    def __iadd__(self, other):
        self.log.append("iadd")
        self.value = self.value + getattr(other, "value", other)
        return self

    def __matmul__(self, other):
        return ("matmul", other)

    def __rmatmul__(self, other):
        return ("rmatmul", other)

    def __neg__(self):
        return self._make("neg", None, -self.value)

    def __pos__(self):
        return self._make("pos", None, self.value)

    def __invert__(self):
        return "inverted"

    def __abs__(self):
        return "absolute"

    def __mod__(self, other):
        return ("mod", other)

    def __floordiv__(self, other):
        return ("floordiv", other)

    def __truediv__(self, other):
        return ("truediv", other)

    def __pow__(self, other, modulo=None):
        return ("pow", other, modulo)

    def __rpow__(self, other):
        return ("rpow", other)

    def __lshift__(self, other):
        return ("lshift", other)

    def __rshift__(self, other):
        return ("rshift", other)

    def __and__(self, other):
        return ("and", other)

    def __or__(self, other):
        return ("or", other)

    def __ror__(self, other):
        return ("ror", other)

    def __xor__(self, other):
        return ("xor", other)

    def __divmod__(self, other):
        return ("divmod", other)


@case(x)
def add_and_friends(a):
    v = Vector(a)
    w = v + 1 - v * 2
    return w.value, v.log


@case(x)
def reflected(a):
    v = Vector(2)
    return (3 + v).value, (10 - v).value, 5**v, 1 | v, v.log


@case(x)
def in_place_own(a):
    v = Vector(a)
    kept = v
    v += 1
    return v is kept, v.value, v.log


@case(x)
def in_place_falls_back(a):
    v = Vector(a)
    kept = v
    v -= 1
    return v is kept, v.value, v.log


@case(x)
def unary(a):
    v = Vector(a)
    return (-v).value, (+v).value, ~v, abs(v), v.log


@case(x)
def rarer_binary(a):
    v = Vector(a)
    return v @ 1, 1 @ v, v % 2, v // 3, v / 4, v**5, v << 6, v >> 7, v & 8, v | 9, v ^ 10, divmod(v, 11), pow(v, 2, 3)


@case(x)
def not_supported(a):
    return Vector(a) < Vector(a)


@case(x)
def not_supported_binary(a):
    return [] - {}


@case(x)
def not_supported_in_place(a):
    box = []
    box -= 1
    return box


@case(x)
def not_supported_unary(a):
    return -"text"


class Polite:
    def __add__(self, other):
        return NotImplemented

    def __eq__(self, other):
        return NotImplemented

    __hash__ = None


class Taker:
    def __radd__(self, other):
        return "taken"


@case(x)
def not_implemented_asks_the_other(a):
    return Polite() + Taker(), Polite() == Polite(), Polite() != 3


@case(x)
def not_implemented_by_both(a):
    return Polite() + 3


@case(x)
def unhashable(a):
    return {Polite(): 1}


class Parent:
    def __add__(self, other):
        return "parent add"

    def __radd__(self, other):
        return "parent radd"


class Child(Parent):
    def __radd__(self, other):
        return "child radd"


@case(x)
def subclass_goes_first(a):
    return Parent() + Child(), Parent() + Parent(), Child() + Parent(), sum([Parent()], 5)


class Version:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return isinstance(other, Version) and self.n == other.n

    def __lt__(self, other):
        return self.n < other.n

    def __le__(self, other):
        return self.n <= other.n

    def __hash__(self):
        return hash(self.n)


@case(x)
def comparisons(a):
    p, q = Version(1), Version(2)
    return p == q, p != q, p < q, p <= q, p > q, p >= q, p == 1


@case(x)
def comparison_chain(a):
    log = []

    def note(n):
        log.append(n)
        return n

    return note(1) < note(3) < note(2) < note(5), log


@case(x)
def sorting_and_hashing(a):
    versions = [Version(n) for n in (3, 1, 2, 1)]
    return [v.n for v in sorted(versions)], min(versions).n, max(versions).n, len(set(versions)), versions.index(Version(2))


@case(x)
def in_uses_eq(a):
    return Version(2) in [Version(1), Version(2)], Version(2) in {Version(2): 1}, Version(9) not in (Version(1),)


class Box:
    def __init__(self, *items):
        self.items, self.log = list(items), []

    def __len__(self):
        return len(self.items)

    def __getitem__(self, key):
        self.log.append(("get", key))
        return self.items[key]

    def __setitem__(self, key, value):
        self.log.append(("set", key))
        self.items[key] = value

    def __delitem__(self, key):
        self.log.append(("del", key))
        del self.items[key]

    def __contains__(self, item):
        self.log.append("contains")
        return True

    def __iter__(self):
        return iter(self.items)

    def __reversed__(self):
        return "reversed"

    def __bool__(self):
        return len(self.items) > 1


@case(x)
def container_protocol(a):
    box = Box(a, 1, 2)
    box[0] = box[0] + 1
    box[1] += 5
    del box[2]
    return len(box), list(box), box.log, 99 in box, reversed(box)


@case(x)
def container_slices(a):
    box = Box(1, 2, 3)
    return box[1:], box[::2], box.log, a


@case(x)
def container_out_of_range(a):
    return Box(a)[4]


@case(x)
def truth(a):
    return bool(Box(1)), bool(Box(1, 2)), not Box(), "yes" if Box(1, 2) else "no", Box() or "empty", Box(1, 2) and "full"


class LengthOnly:
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n


@case(lambda: (x(), 0), lambda: (x(), 3))
def truth_by_length(a, n):
    return a if LengthOnly(n) else -a


@case(x)
def bad_length(a):
    return len(LengthOnly(-1))


class Odd:
    def __bool__(self):
        return 3


@case(x)
def bad_truth(a):
    return bool(Odd())


class Convertible:
    def __int__(self):
        return 3

    def __float__(self):
        return 2.5

    def __complex__(self):
        return 1j

    def __index__(self):
        return 1

    def __str__(self):
        return "text"

    def __repr__(self):
        return "<c>"

    def __format__(self, spec):
        return f"formatted {spec}"

    def __bytes__(self):
        return b"b"

    def __round__(self, n=None):
        return ("rounded", n)

    def __hash__(self):
        return 77


@case(x)
def conversions(a):
    c = Convertible()
    return int(c), float(c), complex(c), [10, 20][c], str(c), repr(c), f"{c:spec}", bytes(c), round(c, 2), hash(c), range(5)[c]


@case(x)
def format_of_own(a):
    c = Convertible()
    return f"{c} {c!s} {c!r} {c:>3}", "{} {!r}".format(c, c), "%s %r" % (c, c)


class Fallback:
    def __repr__(self):
        return "fallback"


@case(x)
def str_falls_back_to_repr(a):
    return str(Fallback()), f"{Fallback()}", [Fallback()].__repr__(), a


@case(x)
def texts_of_containers(a):
    items = [Fallback()]
    items.append((items, Fallback()))
    table = {"k": Fallback(), 2: [items]}
    return repr(items), str(items), f"{items}", str((Fallback(),)), repr(table), f"{table!s:>3}", a


@case(lambda: (x(), "{} {!r:>9}"), lambda: (x(), "{0} {1!s} {0}"), lambda: (x(), "{} {1}"), lambda: (x(), "{a} {{}} {b:}"), lambda: (x(), "{2}"))
def formats_of_own(a, text):
    return a, text.format(Fallback(), Fallback(), a=Fallback(), b=3)


@case(lambda: (x(), x()))
def operator_module(a, b):
    return operator.add(a, b), operator.mul(a, 3), operator.neg(a), operator.getitem([a, b], 1), operator.itemgetter(0, 1)([a, b])


@case(x)
def operator_getters(a):
    box = Box(a)
    return operator.attrgetter("items")(box), operator.methodcaller("__len__")(box), operator.is_(a, a), operator.truth(box)


@case(x)
def in_place_operators(a):
    n, s, box, flags = 7, "p", [1], {1, 2}
    kept = box
    n //= 2
    n **= 3
    n <<= 1
    n |= 1
    n ^= 3
    n %= 40
    s += "q"
    s *= 2
    box += (2,)
    box *= 2
    flags &= {2, 3}
    flags |= {9}
    return a * n, s, box, box is kept, flags


# `a and a` asks for the truth of a tensor.
@case(x, graphs=2)
def boolean_operators_return_operands(a):
    return a is (a and a if a is not None else None), 0 or [] or "last", 1 and [] and 3, not [], None or a


@case(x)
def conditional_expression(a):
    return a + 1 if a is not None else 0, "p" if [] else "q"


class Generic:
    def __class_getitem__(cls, key):
        return (cls.__name__, key)


@case(x)
def getitem_on_a_class(a):
    return Generic[int], list[int], dict[str, int].__args__, a


@case(x)
def matmul_in_place(a):
    v = Vector(a)
    v @= 3
    return v


class Number(int):
    def __index__(self):
        return 0


@case(x, graphs=ANY)
def index_that_is_a_number(a):
    return [a, a + 1, a + 2][Number(2)], (4, 5, 6)[Number(1)], "pqr"[Number(2)]


@case(lambda: (x(), Number(1)), lambda: (x(), Number(2)), graphs=ANY)
def index_that_is_a_number_from_outside(a, n):
    return [a, a + 1, a + 2][n], "pqr"[n]


class Joined:
    def __or__(self, other):
        return f"{type(self).__name__} or {type(other).__name__}"

    def __ror__(self, other):
        return f"{type(self).__name__} after {type(other).__name__}"


class JoinedAlike(Joined):
    pass


class JoinedOtherwise(Joined):
    def __ror__(self, other):
        return "otherwise"


@case(x)
def subclass_is_first_only_with_a_method_of_its_own(a):
    return a, Joined() | JoinedAlike(), JoinedAlike() | Joined(), Joined() | JoinedOtherwise()


class Refuses:
    def __iadd__(self, other):
        return NotImplemented

    def __add__(self, other):
        return ("added", other)

    def __ipow__(self, other):
        return NotImplemented


@case(x)
def in_place_methods_that_do_not_know(a):
    one = other = Refuses()
    one += a
    try:
        other **= 2
    except TypeError:
        other = "refused"
    return one, other
