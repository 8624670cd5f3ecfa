"""What no graph can hold: printing, values that Python needs, numpy, functions of C; and both halves go on."""

import functools
import logging
import math
import sys
import time

import numpy
import torch

from ..case import case, made
from ..values import positive, x


@case(x, graphs=2)
def prints_text(a):
    b = a + 1
    print("shape", b.shape)
    return b * 2


@case(x, graphs=2)
def prints_a_tensor(a):
    b = a + 1
    print(b)
    return b * 2


@case(x, graphs=4)
def prints_in_a_loop(a):
    for n in range(3):
        a = a + n
        print(n)
    return a


@case(x, graphs=2)
def prints_in_a_nested_call(a):
    def inner(b):
        c = b * 2
        print("inside")
        return c + 1

    return inner(a + 1) - 3


@case(x, graphs=2)
def prints_in_a_method(a):
    return Talker(2)(a) + 1


class Talker:
    def __init__(self, k):
        self.k = k

    def __call__(self, a):
        self.last = a * self.k
        print("talk", self.k)
        return self.last + 1


@case(lambda: positive(2, 3), lambda: -positive(2, 3), graphs=2)
def branch_on_a_value(a):
    b = a * 2
    if b.sum() > 0:
        return b + 1
    return b - 1


@case(lambda: torch.tensor(3.0), lambda: torch.tensor(0.0), graphs=2)
def truth_of_a_tensor(a):
    return "yes" if a else "no"


@case(x, graphs=2)
def truth_of_many_elements(a):
    return bool(a)


@case(lambda: torch.tensor(3), lambda: torch.tensor(5), graphs=2)
def item(a):
    n = (a + 1).item()
    return a * n, n, type(n)


@case(x, graphs=2)
def item_of_many(a):
    return a.item()


@case(lambda: torch.tensor(2.5), lambda: torch.tensor(-1.5), graphs=4)
def conversions(a):
    return int(a), float(a), bool(a), a * 2


@case(lambda: torch.tensor(2), lambda: torch.tensor(1), graphs=2)
def tensor_as_index(n):
    return ["p", "q", "r"][n], n + 1


@case(lambda: torch.tensor(3), lambda: torch.tensor(2), graphs=2)
def tensor_as_range(n):
    return [k * 2 for k in range(n)]


@case(x, graphs=2)
def to_list(a):
    values = (a + 1).tolist()
    return a * len(values), values


# An array is memory that others may write: it is not looked into, and each call with one is a break.
@case(x, graphs=3)
def to_numpy(a):
    array = (a + 1).numpy()
    return a + float(array.sum()), array.shape


@case(x, graphs=4)
def there_and_back(a):
    array = (a * 2).numpy()
    back = torch.from_numpy(array + 1)
    return back * 2, back


@case(x, graphs=2)
def numpy_shares_memory(a):
    b = a.clone()
    array = b.numpy()
    b.add_(1)
    return b, array


@case(lambda: torch.tensor([1.0, -2.0, 3.0]), lambda: torch.tensor([-1.0, -2.0, -3.0]), graphs=2)
def non_zero(a):
    index = (a > 0).nonzero()
    return a[index.squeeze(1)], index.shape[0]


@case(lambda: torch.tensor([1.0, -2.0, 3.0]), lambda: torch.tensor([-1.0, -2.0, -3.0]), graphs=2)
def boolean_mask(a):
    return a[a > 0] * 2


@case(lambda: torch.tensor([3, 1, 3, 2]), graphs=2)
def unique(a):
    values, counts = torch.unique(a, return_counts=True)
    return values * 2, counts


@case(lambda: torch.tensor(6.0), lambda: torch.tensor(17.0), graphs=9)
def while_on_a_value(a):
    steps = 0
    while a > 1:
        a = a // 2
        steps += 1
    return a, steps


@case(lambda: positive(3), lambda: -positive(3), graphs=2)
def assertion_on_a_value(a):
    assert (a > 0).all(), "all must be positive"
    return a * 2


@case(lambda: positive(3), lambda: -positive(3), graphs=2)
def exception_on_a_value(a):
    b = a + 1
    if (a < 0).any():
        raise ValueError(f"negative in {tuple(a.shape)}")
    return b


@case(lambda: positive(3), lambda: -positive(3), graphs=2)
def caught_behind_a_break(a):
    log = []
    try:
        log.append("try")
        if a.sum() < 0:
            raise ValueError("negative")
        log.append("fine")
    except ValueError as error:
        log.append(str(error))
    finally:
        log.append("finally")
    return a + 1, log


@case(x, graphs=2)
def break_in_a_with_block(a):
    log = []
    with torch.no_grad(), Logged(log):
        b = a * 2
        print("in the block")
        c = b + 1
    return c, log, torch.is_grad_enabled()


class Logged:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")

    def __exit__(self, *_):
        self.log.append("exit")


@case(x, graphs=2, grad=True)
def break_under_no_grad(a):
    with torch.no_grad():
        print("grad", torch.is_grad_enabled())
        inside = torch.is_grad_enabled()
    return a + 1, inside, torch.is_grad_enabled()


@case(x, graphs=2)
def break_in_a_try_block(a):
    try:
        b = a + 1
        print("before")
        {}["none"]
    except KeyError:
        return b * 2
    finally:
        a.add_(1)


@case(x, graphs=3)
def break_in_a_comprehension(a):
    return [print(n) or a * n for n in range(2)]


@case(x, graphs=3)
def break_in_a_generator(a):
    def values():
        for n in range(2):
            print("yield", n)
            yield a * n

    return sum(values())


@case(x, graphs=3)
def break_in_a_key_function(a):
    def key(n):
        print("key", n)
        return -n

    return sorted([1, 2], key=key), a + 1


@case(x, graphs=3)
def break_in_a_property_and_init(a):
    thing = Noisy(a)
    return thing.value + 1


class Noisy:
    def __init__(self, a):
        print("init")
        self.a = a * 2

    @property
    def value(self):
        print("value")
        return self.a + 1


@case(lambda: ([], x()), graphs=2)
def effects_on_both_sides(box, a):
    box.append(a + 1)
    print(len(box))
    box.append(box[0] * 2)
    return box[1]


@case(lambda: (Talker(1), x()), graphs=2)
def attribute_across_a_break(thing, a):
    thing.value = a * 2
    print("between")
    thing.value = thing.value + 1
    return thing.value


@case(lambda: (lambda box: (box, box))([1]), graphs=2)
def aliases_across_a_break(p, q):
    inner = [p, q]
    print("between")
    inner[0].append(2)
    return q, inner[0] is inner[1], p is q


@case(x, graphs=2)
def iterator_across_a_break(a):
    it = iter([a, a + 1, a + 2])
    first = next(it)
    print("between")
    return first, next(it), list(it)


@case(x, graphs=2)
def generator_across_a_break(a):
    def values():
        for n in range(3):
            yield a * n

    it = values()
    first = next(it)
    print("between")
    return first, list(it)


@case(x, graphs=2)
def closure_across_a_break(a):
    n = 1

    def step():
        nonlocal n
        n += 1
        return a * n

    first = step()
    print("between", n)
    n = 10
    return first, step(), n


@case(x, graphs=2)
def loop_across_a_break(a):
    total = a
    for n, name in enumerate(["p", "q", "r"]):
        total = total + n
        if name == "q":
            print(name)
    return total


@case(x, graphs=2)
def in_place_across_a_break(a):
    b = a.clone()
    view = b[0]
    print("between")
    view.add_(1)
    return b, view


@case(x, graphs=2)
def argument_written_across_a_break(a):
    a.add_(1)
    print(a.sum())
    a.mul_(2)
    return a * 1


@made(x, graphs=2, again=False)
def nothing_runs_twice():
    counts = {"before": 0, "behind": 0}

    def step(a):
        counts["before"] = counts["before"] + 1
        b = a * 2
        print(counts["before"])
        counts["behind"] = counts["behind"] + 1
        return b + 1

    return step


@case(lambda: (x(), 1), lambda: (x(), 2), graphs=2)
def values_behind_a_break_are_guarded(a, n):
    print("n")
    return a * n


# A method of a class in C is found behind one break and called behind another; what it returns is another number in every call.
@made(lambda: x(3), graphs=3, again=False)
def result_of_a_break_is_used():
    pool = numpy.random.RandomState(0)

    def step(a):
        return a + int(pool.randint(0, 9))

    return step


@case(x, graphs=2)
def logging_call(a):
    logging.getLogger("semantics").warning("value %s", a.shape)
    return a + 1


@case(x, graphs=2)
def write_to_stdout(a):
    sys.stdout.write("written\n")
    return a + 1


@case(x, graphs=2)
def clock(a):
    start = time.perf_counter()
    return a + 1, isinstance(start, float)


@case(x, graphs=4, again=False)
def text_of_a_tensor(a):
    return str(a), f"{a[0, 0]}", repr(a + 1)


@case(lambda: torch.tensor(2.0), lambda: torch.tensor(3.0), graphs=2)
def format_of_a_number(a):
    return f"{a.item():.2f}", a + 1


@case(lambda: (x(), x()), graphs=2)
def equality_of_tensors(a, b):
    return torch.equal(a, b), a + b


@case(lambda: (x(), x()), graphs=2)
def closeness(a, b):
    return torch.allclose(a, a + 0), a * b


@case(lambda: torch.tensor([2, 3]), lambda: torch.tensor([3, 2]), graphs=2)
def sizes_from_a_tensor(sizes):
    p, q = sizes.tolist()
    return torch.zeros(p, q) + 1


@case(lambda: torch.tensor(4.0), graphs=2)
def math_of_a_tensor(a):
    return math.sqrt(a), a + 1


@case(x, graphs=2)
def membership(a):
    return 3.0 in a, a + 1


@case(lambda: (x(), numpy.float32(2.5)), lambda: (x(), numpy.float32(3.5)))
def numpy_scalars(a, s):
    return a * float(s), s + 1, type(s).__name__, isinstance(s, numpy.floating)


@case(lambda: (x(), numpy.int64(3)), lambda: (x(), numpy.int64(4)))
def numpy_integers(a, n):
    return a * int(n), n + 1, range(n)[-1], a.repeat(int(n), 1)


@case(lambda: (x(3), numpy.arange(3.0)), lambda: (x(3), numpy.arange(3.0) + 1), graphs=3)
def numpy_array_argument(a, array):
    return a + torch.from_numpy(array), array.sum(), array.shape


@case(lambda: (x(), numpy.float64(0.5)))
def numpy_times_tensor(a, s):
    return a * s, float(numpy.sqrt(4.0)), numpy.pi


@case(x, graphs=2)
def partial_across_a_break(a):
    scaled = functools.partial(torch.add, a * 2, alpha=3)
    scaled.note = "kept"
    print("between")
    return scaled(a), scaled.args[0], scaled.keywords, scaled.note
