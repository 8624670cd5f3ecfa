"""Attributes: of instances and classes, properties, descriptors, slots, and what changes them from outside."""

import contextlib
import functools

from ..case import case, made
from ..values import x
from .classes import Base, Derived


@case(x)
def instance_attributes(a):
    thing = Base(a)
    thing.more = a + 1
    thing.scale += 2
    return thing.value, thing.more, thing.scale, vars(thing)


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
def name_mangling(a):
    thing = Private(a)
    return thing.get() is a, hasattr(thing, "__value"), thing._Private__value is a


class Private:
    def __init__(self, value):
        self.__value = value

    def get(self):
        return self.__value


@case(lambda: Base(x()))
def attribute_of_an_argument_is_written(thing):
    thing.value = thing.value * 2
    thing.fresh = [thing.value]
    del thing.scale
    return thing.value


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


class Checked:
    def __set_name__(self, owner, name):
        self.name = name

    def __set__(self, instance, value):
        if value is None:
            raise ValueError(self.name)
        instance.__dict__[self.name] = value


class Holder:
    value = Checked()
    other = Checked()

    def __init__(self, value):
        self.value = value


@case(x)
def descriptor_for_writing_alone(a):
    held = Holder(a)
    held.value = held.value + 1
    return held.value, held.other is Holder.__dict__["other"]
