"""Slices, unpacking and stars."""

import sys

from ..case import case
from ..values import x


def three():
    return x(), x(), x()


@case(three)
def swap(a, b, c):
    a, b, c = c, a, b
    return a - b * c


@case(three)
def unpack_nested(a, b, c):
    (p, (q, r)), s = (a, (b, c)), 1
    return p - q, r, s


@case(three)
def star_in_the_middle(a, b, c):
    first, *middle, last = [a, b, c, 1]
    return first is a, middle, last


@case(three)
def star_takes_nothing(a, b, c):
    p, q, r, *rest = a, b, c
    return rest, r is c


@case(three)
def star_too_few(a, b, c):
    p, q, r, s, *rest = a, b, c
    return p


@case(x)
def unpack_a_string_and_a_dict(a):
    p, q = "xy"
    r, s = {"k": 1, "m": 2}
    return a, p, q, r, s


@case(x)
def unpack_a_generator(a):
    p, *q = (a * n for n in range(3))
    return p, q


@case(x)
def unpack_not_iterable(a):
    p, q = 3
    return p


@case(x)
def unpack_into_attributes_and_items(a):
    box, table = [0, 0], {}
    box[0], table["k"], box[1] = a, a + 1, a + 2
    return box, table


@case(x)
def unpack_order(a):
    box = [0, 1]
    n = 0
    n, box[n] = 1, "set"
    return a, n, box


@case(x)
def chained_assignment(a):
    p = q = [a]
    q.append(1)
    return p is q, p


@case(x)
def slices_of_a_list(a):
    box = [a, 1, 2, 3, 4]
    return box[1:3], box[:2], box[-2:], box[::2], box[::-1], box[10:], box[:], box[:] is box, box[slice(1, 3)]


@case(x)
def slice_assignment(a):
    box = [0, 1, 2, 3, 4]
    box[1:3] = [a, a, a]
    box[::3] = ["p", "q"]
    del box[-1:]
    return box


@case(x)
def slice_assignment_wrong_size(a):
    box = [0, 1, 2, 3]
    box[::2] = [1]


@case(x)
def slice_zero_step(a):
    return [1, 2][::0]


@case(x)
def slices_of_others(a):
    return "hello"[1:-1], (1, 2, 3)[::-1], range(10)[2:8:3], b"abc"[:2], a


@case(x)
def delete_items(a):
    box = [a, 1, 2, 3]
    del box[0], box[1:2]
    return box


@case(x)
def star_in_displays(a):
    p, q = [a, 1], {"k": 2}
    return [*p, *q, 0], (*p,), {*q, "z"}, {**q, "k": 3, **{"m": 4}}


class Keys:
    def __getitem__(self, key):
        return key


@case(x)
def star_in_subscript(a):
    rest = (1, 2)
    return Keys()[0, *rest], Keys()[1:2, ...], Keys()[()], a


@case(x)
def slice_object(a):
    s = slice(1, None, 2)
    return s.start, s.stop, s.step, s.indices(5), s == slice(1, None, 2), a


@case(lambda: (x(), 2), lambda: (x(), 3))
def slice_by_argument(a, n):
    box = [a, 1, 2, 3]
    return box[:n], box[n:], box[-n]


@case(x)
def for_unpacks(a):
    total = a
    for n, (p, *q) in enumerate([(1, 2, 3), (4,)]):
        total = total + n * p + len(q)
    return total


@case(x)
def for_target_is_an_item(a):
    box = [0]
    for box[0] in range(3):
        pass
    return a, box


@case(lambda: [x(), x(), x()], lambda: [x(), x()])
def unpack_an_argument(box):
    first, *rest = box
    for other in rest:
        first = first + other
    return first, rest


@case(x)
def in_place_on_an_item(a):
    table, log = {"k": 1}, []

    def get():
        log.append("get")
        return table

    get()["k"] += 4
    return table, log, a


@case(x)
def returned_star(a):
    rest = [1, 2]
    return a, *rest


@case(x)
def walrus(a):
    if (n := len([1, 2, 3])) > 2:
        a = a * n
    while (n := n - 1) > 0:
        a = a + n
    return a, n, [m := 1, m + 1]


@case(lambda: (x(), [0, 1, 2, 3, 4]), lambda: (x(), (0, 1, 2, 3, 4)))
def bounds_and_steps_beyond_all_indices(a, items):
    steps = items[3 :: sys.maxsize], items[:: -sys.maxsize], items[1 :: 2**70], items[:: -(2**70)]
    return a, steps, items[-(2**128) : 3], items[3 : 2**145], items[2**70 : -(2**70) : -1]
