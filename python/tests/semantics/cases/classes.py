"""Classes: attributes, methods, super, properties, descriptors, metaclasses, slots, construction."""

import abc
import contextlib
import functools

from ..case import case, made
from ..values import x


class Base:
    shared = 2

    def __init__(self, value, scale=1):
        self.value = value
        self.scale = scale

    def scaled(self):
        return self.value * self.scale

    def describe(self):
        return "base"

    @classmethod
    def double(cls, value):
        return cls(value, 2)

    @staticmethod
    def plus(p, q):
        return p + q

    @property
    def twice(self):
        return self.value * 2

    @twice.setter
    def twice(self, value):
        self.value = value / 2

    @twice.deleter
    def twice(self):
        self.value = None


class Derived(Base):
    shared = 3

    def __init__(self, value, *args, extra=0):
        super().__init__(value + 1, *args)
        self.extra = extra

    def scaled(self):
        return super().scaled() + self.extra

    def describe(self):
        return "derived of " + super().describe()

    @property
    def twice(self):
        return super().twice + 1

    @classmethod
    def double(cls, value):
        return super().double(value)


@case(x)
def instance_attributes(a):
    thing = Base(a)
    thing.more = a + 1
    thing.scale += 2
    return thing.value, thing.more, thing.scale, vars(thing)


@case(x)
def returned_instance(a):
    return Base(a * 2, 3)


@case(x)
def returned_instance_twice(a):
    thing = Base(a)
    return thing, [thing], {"thing": thing}


@case(x)
def methods(a):
    thing = Base(a, 3)
    method = thing.scaled
    return thing.scaled(), method(), Base.scaled(thing), method.__self__ is thing


@case(x)
def super_calls(a):
    thing = Derived(a, 2, extra=5)
    return thing.scaled(), thing.describe(), thing.value


@case(x)
def explicit_super(a):
    thing = Derived(a, 2, extra=5)
    return super(Derived, thing).scaled(), super(Derived, thing).describe()


@case(x)
def class_and_static_methods(a):
    return Base.double(a).scaled(), Derived.double(a).scaled(), Derived(a).plus(a, 1), Base.plus(a, 2)


@case(x)
def class_attributes(a):
    thing = Derived(a)
    before = thing.shared
    thing.shared = 10
    return a * before, thing.shared, Derived.shared, Base.shared


@made(x, between=lambda function: setattr(function.__closure__[0].cell_contents, "k", 5))
def class_attribute_changes_from_outside():
    class Holder:
        k = 1

    return lambda a: a * Holder.k


@case(x)
def class_attribute_is_written(a):
    Base.last = a
    result = Derived.last is a
    del Base.last
    return result, hasattr(Derived, "last")


@case(x)
def property_read_write_delete(a):
    thing = Base(a)
    first = thing.twice
    thing.twice = a * 8
    second = thing.value
    del thing.twice
    return first, second, thing.value


@case(x)
def property_overridden(a):
    return Derived(a).twice


@case(x)
def property_without_setter(a):
    Derived(a).twice = 3


@case(x)
def missing_attribute_text(a):
    return Base(a).nothing


@case(x)
def missing_class_attribute_text(a):
    return Base.nothing


@case(x)
def delete_missing_attribute(a):
    del Base(a).nothing


class Dynamic:
    def __init__(self, a):
        self.a = a
        self.log = []

    def __getattr__(self, name):
        if name.startswith("plus_"):
            return self.a + int(name[5:])
        raise AttributeError(f"no {name}")


@case(x)
def getattr_method(a):
    thing = Dynamic(a)
    return thing.plus_3, thing.a, hasattr(thing, "other"), getattr(thing, "other", 7)


class Nothing:
    def __get__(self, owner, kind=None):
        return self.nothing_of_the_kind


class Partly:
    """Getters that say that there is no such attribute: `__getattr__` is asked then."""

    nothing = Nothing()

    def __init__(self):
        self.asked = []

    @property
    def missing(self):
        self.asked.append("property")
        return self.no_such_thing

    @property
    def failing(self):
        raise ValueError("not an AttributeError")

    @functools.cached_property
    def cached(self):
        raise AttributeError("nor this")

    def __getattr__(self, name):
        self.asked.append(name)
        if name.startswith("no"):
            raise AttributeError(name)
        return len(name)


class Guarded(Partly):
    def __getattribute__(self, name):
        if name == "hidden":
            raise AttributeError(name)
        return super().__getattribute__(name)


@case(lambda: (x(), Partly()), lambda: (x(), Guarded()))
def getters_without_an_attribute(a, thing):
    found = [thing.missing, thing.cached, thing.hidden]
    with contextlib.suppress(AttributeError):
        found.append(thing.nothing)
    try:
        thing.failing
    except ValueError as error:
        found.append(str(error))
    try:
        thing.nothing
    except AttributeError as error:
        found.append((str(error), error.__context__))
    return a * found[0], found, thing.asked


@case(x)
def getattr_method_raises(a):
    return Dynamic(a).other


class Logging:
    def __init__(self):
        object.__setattr__(self, "log", [])

    def __setattr__(self, name, value):
        self.log.append(("set", name))
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        self.log.append(("del", name))
        super().__delattr__(name)

    def __getattribute__(self, name):
        if name == "secret":
            return "found"
        return super().__getattribute__(name)


@case(x)
def attribute_protocol(a):
    thing = Logging()
    thing.p = a
    thing.p += 1
    del thing.p
    return thing.log, thing.secret


class Typed:
    """A data descriptor."""

    def __init__(self, kind):
        self.kind = kind

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, thing, owner=None):
        return self if thing is None else getattr(thing, self.name)

    def __set__(self, thing, value):
        if not isinstance(value, self.kind):
            raise TypeError(f"{self.name} needs {self.kind.__name__}")
        setattr(thing, self.name, value)


class Lazy:
    """A descriptor without a setter: the instance's dict hides it."""

    def __init__(self, function):
        self.function = function

    def __get__(self, thing, owner):
        if thing is None:
            return self
        value = thing.__dict__[self.function.__name__] = self.function(thing)
        return value


class Described:
    count = Typed(int)

    def __init__(self, a):
        self.a = a
        self.calls = 0

    @Lazy
    def expensive(self):
        self.calls += 1
        return self.a * 2

    @functools.cached_property
    def cached(self):
        self.calls += 1
        return self.a * 3


@case(x)
def data_descriptor(a):
    thing = Described(a)
    thing.count = 4
    return a * thing.count, vars(thing)["_count"], Described.count.name


@case(x)
def data_descriptor_refuses(a):
    Described(a).count = "four"


@case(x)
def non_data_descriptor(a):
    thing = Described(a)
    first, second = thing.expensive, thing.expensive
    return first is second, thing.calls, first


@case(x)
def cached_property(a):
    thing = Described(a)
    return thing.cached is thing.cached, thing.calls, thing.cached


class Slotted:
    __slots__ = ("p", "q")

    def __init__(self, p):
        self.p = p


@case(x)
def slots(a):
    thing = Slotted(a)
    thing.q = thing.p + 1
    return thing.p, thing.q, hasattr(thing, "__dict__"), thing


@case(x)
def slot_that_is_empty(a):
    return Slotted(a).q


@case(x)
def slot_that_is_not_there(a):
    Slotted(a).r = 1


class Registry(type):
    known = {}

    def __new__(mcs, name, bases, names, **options):
        cls = super().__new__(mcs, name, bases, names)
        cls.options = options
        return cls

    def __call__(cls, *args, **kwargs):
        thing = super().__call__(*args, **kwargs)
        thing.through_meta = True
        return thing

    def __len__(cls):
        return 42


class Registered(metaclass=Registry, colour="red"):
    def __init__(self, a):
        self.a = a


@case(x)
def metaclass_call(a):
    thing = Registered(a)
    return thing.through_meta, thing.a is a, Registered.options, len(Registered), type(Registered) is Registry


@case(x)
def own_new(a):
    Single.kept = None
    return Single(a) is Single(a + 1), Single(a).value


class Single:
    kept = None

    def __new__(cls, value):
        if cls.kept is None:
            cls.kept = object.__new__(cls)
        return cls.kept

    def __init__(self, value):
        self.value = value


class Number(int):
    def __new__(cls, value, unit="m"):
        self = super().__new__(cls, value)
        self.unit = unit
        return self

    def __add__(self, other):
        return Number(int(self) + int(other), self.unit)


@case(x)
def subclass_of_int(a):
    n = Number(3, "s") + 4
    return a * n, n.unit, n == 7, isinstance(n, int), type(n).__name__


class Stack(list):
    def __init__(self, *items):
        super().__init__(items)
        self.pushed = 0

    def push(self, item):
        self.append(item)
        self.pushed += 1
        return self


@case(x)
def subclass_of_list(a):
    stack = Stack(1, a).push(a + 1)
    return stack, len(stack), stack[1] is a, stack.pushed


class Defaults(dict):
    def __missing__(self, key):
        self[key] = key * 2
        return self[key]


@case(x)
def subclass_of_dict(a):
    table = Defaults(p=a)
    return table["p"], table["xy"], table, table.get("none")


class NewReturnsOther:
    def __new__(cls, value):
        return [value]

    def __init__(self, value):
        raise RuntimeError("never")


@case(x)
def new_returns_something_else(a):
    return NewReturnsOther(a)


class InitReturns:
    def __init__(self):
        return 3  # noqa: PLE0101


@case(x)
def init_returns_something(a):
    return InitReturns()


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

    def describe(self):
        return self.area()


class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side * self.side


@case(x)
def abstract_base(a):
    return Square(a).describe(), isinstance(Square(a), Shape), issubclass(Square, Shape)


@case(x)
def abstract_cannot_be_made(a):
    return Shape()


class Left(Base):
    def describe(self):
        return "left " + super().describe()


class Right(Base):
    def describe(self):
        return "right " + super().describe()


class Diamond(Left, Right):
    def describe(self):
        return "diamond " + super().describe()


@case(x)
def diamond(a):
    return Diamond(a).describe(), [cls.__name__ for cls in Diamond.__mro__]


class Mixin:
    def __init__(self, *args, tag=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.tag = tag


class Tagged(Mixin, Base):
    pass


@case(x)
def cooperative_init(a):
    thing = Tagged(a, 3, tag="t")
    return thing.tag, thing.scaled()


class Plugin:
    plugins = []

    def __init_subclass__(cls, /, name="none", **kwargs):
        super().__init_subclass__(**kwargs)
        cls.name = name


@case(x)
def class_statement(a):
    class Local(Plugin, name="local"):
        factor = 3

        def scale(self, value):
            return value * self.factor

    return Local().scale(a), Local.name, Local.__name__, Local.__qualname__


@case(x)
def class_statement_with_closure(a):
    class Local:
        def get(self):
            return a

        def me(self):
            return __class__

    return Local().get() is a, Local().me() is Local


@case(x)
def class_statement_with_values(a):
    class Local:
        value = a * 2
        items = [a, 1]

    return Local.value, Local.items, Local().items is Local.items


@case(x)
def class_made_by_type(a):
    made = type("Made", (Base,), {"describe": lambda self: "made"})
    return made(a).describe(), made(a, 2).scaled()


@case(x)
def class_decorator(a):
    def tag(cls):
        cls.tag = "tagged"
        return cls

    @tag
    class Local:
        pass

    return a, Local.tag


@case(x)
def class_of_an_instance_changes(a):
    thing = Base(a)
    thing.__class__ = Left
    return thing.describe(), type(thing) is Left


@case(x)
def instance_dict_is_used(a):
    thing = Base(a)
    thing.__dict__["direct"] = a + 1
    return thing.direct, sorted(thing.__dict__), "value" in vars(thing)


@case(x)
def method_set_on_an_instance(a):
    thing = Base(a)
    thing.describe = lambda: "own"
    return thing.describe(), Base(a).describe()


@case(x)
def bound_method_equality(a):
    thing = Base(a)
    return thing.scaled == thing.scaled, thing.scaled is thing.scaled, thing.scaled.__func__ is Base.scaled


@case(x)
def name_mangling(a):
    thing = Private(a)
    return thing.get() is a, hasattr(thing, "__value"), thing._Private__value is a


class Private:
    def __init__(self, value):
        self.__value = value

    def get(self):
        return self.__value


@case(lambda: (Base(x()), x()), lambda: (Derived(x()), x()), lambda: (Base(x(), 4), x()))
def method_by_class_of_the_argument(thing, a):
    return thing.scaled() + a, thing.describe()


@case(lambda: Base(x()))
def attribute_of_an_argument_is_written(thing):
    thing.value = thing.value * 2
    thing.fresh = [thing.value]
    del thing.scale
    return thing.value


@made(x, again=False)
def bound_method_counts():
    class Counter:
        def __init__(self):
            self.n, self.last = 0, None

        def step(self, a):
            self.n += 1
            self.last = a * self.n
            return self.last

    return Counter().step


@made(x)
def callable_instance():
    class Scale:
        def __init__(self, k):
            self.k = k

        def __call__(self, a):
            return a * self.k

    return Scale(3)


@made(x, between=lambda function: setattr(function.__self__, "k", 10))
def attribute_changes_from_outside():
    class Scale:
        k = 3

        def step(self, a):
            return a * self.k

    return Scale().step


@made(x, between=lambda function: setattr(type(function.__self__), "helper", lambda self, a: a - 100))
def method_changes_from_outside():
    class Thing:
        def helper(self, a):
            return a + 1

        def step(self, a):
            return self.helper(a)

    return Thing().step


@made(x, between=lambda function: setattr(type(function.__self__), "value", property(lambda self: 9)))
def attribute_becomes_a_property():
    class Thing:
        def __init__(self):
            self.value = 3

        def step(self, a):
            return a * self.value

    return Thing().step


@case(lambda: Base)
def captured_class_as_argument(cls):
    return cls(3).scaled(), cls.__name__


@made(lambda: (x(), 3))
def class_itself_is_captured():
    return Base
