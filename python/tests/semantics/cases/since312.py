"""What Python can say since 3.12."""

import typing

from ..case import case
from ..values import x


@case(x)
def generic_function(a):
    def first[T](items: list[T]) -> T:
        return items[0]

    return first([a]), [parameter.__name__ for parameter in first.__type_params__]


class Box[T]:
    def __init__(self, item: T):
        self.item = item

    def get(self) -> T:
        return self.item


@case(x)
def generic_class(a):
    return Box(a).get() is a, Box[int](a).get() is a, Box.__type_params__[0].__name__


@case(x)
def generic_class_inside(a):
    class Local[K, V](dict):
        def first(self) -> V:
            return next(iter(self.values()))

    return Local(k=a).first() is a


@case(x)
def type_alias(a):
    type Pair[T] = tuple[T, T]
    return a, Pair.__name__, Pair.__value__.__origin__ is tuple


@case(x)
def quotes_within_f_strings(a):
    table = {"k": 1}
    return a, f"{table["k"]} {f"{"nested"}"} {"\n".join(["p", "q"])}"


@case(x)
def comprehension_in_a_class_body(a):
    class Local:
        items = [a * n for n in range(2)]
        names = [name for name in ("p", "q")]

    return Local.items, Local.names


@case(x)
def comprehension_raises_and_restores(a):
    n = "outer"
    try:
        [1 / n for n in (1, 0)]
    except ZeroDivisionError:
        return a, n


@case(x)
def comprehension_sees_locals(a):
    b = 1
    return [sorted(name for name in locals() if name in ("a", "b", "n")) for n in range(1)], a * b


@case(x)
def override_decorator(a):
    class Parent:
        def get(self):
            return 1

    class Child(Parent):
        @typing.override
        def get(self):
            return super().get() + 1

    return a * Child().get(), Child.get.__override__
