"""Functions, closures, classes."""


def show(a, /, b, c=3, *args, d, e=5, **kwargs):
    return a, b, c, args, d, e, kwargs


def case_arguments():
    more, names = [7, 8], {"d": 1, "z": 2}
    return (
        show(1, 2, d=4),
        show(1, b=2, d=4, e=6, f=7),
        show(1, 2, 3, *more, **names),
        show(*more, c=9, **names),
        show(*more, *more, d=0),
        show.__name__.upper().replace("S", "T", 1),
        sorted("cab", reverse=True),
    )


def case_repeated_keyword():
    return show(1, 2, d=4, **{"d": 5})


def annotated(x: int, y: "str" = "y", *, z: float = 2.0) -> bool:
    return x, y, z


def case_function_attributes():
    return annotated.__annotations__, annotated.__defaults__, annotated.__kwdefaults__, annotated(1)


def counter(start, step=1, *, scale=2):
    total = start

    def inner(y=step):
        nonlocal total
        total += y * scale
        return total

    def remove():
        nonlocal total
        del total

    return inner, remove


def case_closure():
    inner, remove = counter(10)
    seen = [inner(), inner(5), inner()]
    remove()
    try:
        inner()
    except NameError as error:
        seen.append((type(error).__name__, str(error)))
    return seen


def case_empty_cell():
    def inner():
        return late

    try:
        late
    except UnboundLocalError as error:
        first = str(error)
    late = 1
    return first, inner()


def case_captured_in_a_comprehension():
    x = "outer"
    makers = [lambda: x for x in range(3)]
    return [m() for m in makers], x


def case_parameter_in_a_comprehension(x="outer"):
    seen = [[x, lambda: x][0] for x in range(3)]
    return seen, (lambda: x)()


def twice(function):
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs), function(*args, **kwargs)

    return wrapper


def named(name, *, prefix):
    def decorate(function):
        function.title = prefix + name
        return function

    return decorate


@twice
@named("n", prefix="p")
def decorated(x):
    return x


def case_decorators():
    return decorated(3)


class Base:
    kind = "base"

    def __init__(self, x):
        self.x = x

    def describe(self, *extra, **more):
        return self.kind, self.x, extra, more

    @property
    def double(self):
        return 2 * self.x

    @classmethod
    def make(cls, x):
        return cls(x)

    @staticmethod
    def plain(x):
        return x


class Derived(Base):
    def __init__(self, x):
        super().__init__(x + 1)
        self.own = super().double

    def describe(self, *extra, **more):
        return super().describe(*extra, y=1, **more), super(Derived, self).describe(2), super(Derived, self).double

    def method_with_cell(self):
        return (lambda: super(__class__, self).kind)(), __class__.__name__


def case_classes():
    d = Derived.make(1)
    return d.describe(1, z=2), d.own, d.double, Base.plain(4), d.plain(5), d.method_with_cell(), Derived.__mro__[1].__name__


def case_class_in_a_function():
    x, y = "outer", "y"

    class Inner:
        a = x
        x = "inner"
        b = x
        c = [y for _ in range(2)]
        first, *rest = [i for i in range(3)]

        def method(self):
            return x, self.x

    return Inner.a, Inner.b, Inner.c, Inner.first, Inner.rest, Inner().method()


def case_class_reads_closure():
    x = "outer"

    class Inner:
        y = x

    return Inner.y


def case_metaclass():
    class Meta(type):
        def __new__(meta, name, bases, namespace, **kwargs):
            made = super().__new__(meta, name, bases, namespace)
            made.options = kwargs
            return made

    class Made(metaclass=Meta, option=1):
        pass

    return Made.options


def case_shadowed_super():
    def super(*args):
        return Shadow

    class Shadow:
        name = "shadow"

    class Inner:
        def method(self):
            return super().name

    return Inner().method()
