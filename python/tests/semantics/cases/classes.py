"""Classes: methods, super, metaclasses, construction, classes that are made inside."""

import abc

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
def bound_method_equality(a):
    thing = Base(a)
    return thing.scaled == thing.scaled, thing.scaled is thing.scaled, thing.scaled.__func__ is Base.scaled


@case(lambda: (Base(x()), x()), lambda: (Derived(x()), x()), lambda: (Base(x(), 4), x()))
def method_by_class_of_the_argument(thing, a):
    return thing.scaled() + a, thing.describe()


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


@case(lambda: Base)
def captured_class_as_argument(cls):
    return cls(3).scaled(), cls.__name__


@made(lambda: (x(), 3))
def class_itself_is_captured():
    return Base
