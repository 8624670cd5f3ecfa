"""Effects on objects outside of the function, in their order, once for each call."""

import collections
import types

from ..case import case, made
from ..values import x


class Thing:
    def __init__(self, **named):
        self.__dict__.update(named)


@case(lambda: (Thing(log=[]), x()))
def attribute_then_item(thing, a):
    thing.first = a
    thing.log.append(("first", thing.first is a))
    thing.second = thing.first + 1
    thing.log.append("second")
    return thing.second


@case(lambda: ([], x()))
def order_of_appends(box, a):
    for n in range(3):
        box.append(a * n)
    box.insert(0, "head")
    box.pop()
    return len(box)


@case(lambda: ({}, x()))
def dict_writes_in_order(table, a):
    table["p"] = a
    table["q"] = table["p"] + 1
    del table["p"]
    table["p"] = 3
    return list(table)


@case(lambda: ({"n": 1}, x()), lambda: ({"n": 2}, x()))
def counter_in_a_dict(table, a):
    table["n"] += 1
    return a * table["n"]


@case(lambda: ([3, 1, 2], x()))
def sort_in_place(box, a):
    box.sort()
    box.reverse()
    return box[0], a


@case(lambda: ([1, 2, 3, 4], x()))
def slices_in_place(box, a):
    box[1:3] = [a]
    del box[0]
    box += [5]
    return box


@case(lambda: ({1, 2}, x()))
def set_in_place(s, a):
    s.add(3)
    s.discard(1)
    s |= {7}
    return len(s), a


@case(lambda: (collections.deque(maxlen=2), x()))
def deque_in_place(d, a):
    d.append(a)
    d.append(a + 1)
    d.append(a + 2)
    return d[0]


@case(lambda: (Thing(inner=Thing(box=[])), x()))
def deep_effect(thing, a):
    thing.inner.box.append(a)
    thing.inner.value = thing.inner.box[-1] * 2
    return thing.inner.value


@case(lambda: (Thing(n=0), x()))
def effect_in_a_helper(thing, a):
    def step(k):
        thing.n += k
        return a * thing.n

    return step(1), step(2), thing.n


@case(lambda: (Thing(n=0, log=[]), x()))
def effect_in_a_generator(thing, a):
    def steps():
        for n in range(3):
            thing.n += n
            yield a * thing.n

    for value in steps():
        thing.log.append(value)
    return thing.n


@case(lambda: (Thing(log=[]), x()))
def effect_in_a_comprehension(thing, a):
    return [thing.log.append(n) or a * n for n in range(2)]


@case(lambda: ([], x()))
def effect_before_and_after_an_exception(box, a):
    try:
        box.append("before")
        {}["none"]
        box.append("never")
    except KeyError:
        box.append(a)
    finally:
        box.append("finally")
    return len(box)


@case(lambda: ([], x()))
def effect_then_uncaught(box, a):
    box.append(a + 1)
    box.append(1 // 0)


@case(lambda: (Thing(v=1), x()))
def write_then_read_then_write(thing, a):
    thing.v = a
    b = thing.v + 1
    thing.v = b
    c = thing.v * 2
    thing.v = None
    return b, c


@case(lambda: (Thing(v=1), x()))
def delete_then_read(thing, a):
    del thing.v
    return getattr(thing, "v", a) is a, hasattr(thing, "v")


@case(lambda: ([], x()))
def made_object_escapes(box, a):
    thing = Thing(a=a)
    box.append(thing)
    thing.late = a + 1
    return thing is box[0]


@case(lambda: ([], x()))
def made_list_escapes_and_changes(box, a):
    inner = [a]
    box.append(inner)
    inner.append(2)
    box.append(inner)
    return box[0] is box[1]


@case(lambda: ({}, x()))
def closure_escapes(table, a):
    n = 0

    def step():
        nonlocal n
        n += 1
        return n

    table["step"] = step
    step()
    return n, a


@case(lambda: (types.SimpleNamespace(n=1), x()))
def namespace(space, a):
    space.n += 1
    space.a = a
    return a * space.n


@made(x)
def module_attribute():
    module = types.ModuleType("settings")
    module.scale = 3

    def step(a):
        module.last = a
        return a * module.scale

    return step


@made(x, between=lambda function: setattr(function.__closure__[0].cell_contents, "scale", 7))
def module_attribute_changes():
    module = types.ModuleType("settings")
    module.scale = 3

    def step(a):
        return a * module.scale

    return step


@made(x)
def log_of_calls():
    log = []

    def step(a):
        log.append("begin")
        b = a * 2
        log.append(b)
        log.append("end")
        return b

    return step


@made(x, again=False)
def cache_fills():
    cache = {}

    def step(a):
        if "value" not in cache:
            cache["value"] = 5
        return a * cache["value"]

    return step


@made(lambda: (x(), 1), lambda: (x(), 2), again=False)
def cache_by_key():
    cache = {}

    def compute(n):
        if n not in cache:
            cache[n] = n * 10
        return cache[n]

    def step(a, n):
        return a * compute(n), len(cache)

    return step


@made(x, again=False)
def running_total():
    total = {"sum": 0}

    def step(a):
        total["sum"] = total["sum"] + a
        return total["sum"]

    return step


@made(x, again=False)
def queue_of_two():
    queue = collections.deque(maxlen=2)

    def step(a):
        queue.append(a)
        return list(queue)

    return step


@made(x, again=False)
def alternates():
    state = {"odd": False}

    def step(a):
        state["odd"] = not state["odd"]
        return a if state["odd"] else -a

    return step


@made(x, again=False)
def class_level_log():
    class Thing:
        log = []

        def step(self, a):
            self.log.append(a)
            return len(Thing.log) >= 1

    return Thing().step


# The first trace takes the number for a constant, the second sees that it changes.
@made(x, again=False)
def class_level_counter():
    class Thing:
        calls = 0
        factor = 2

        def step(self, a):
            type(self).calls += 1
            self.factor = 3
            return a * self.calls, type(self).factor

    return Thing().step


def change_class(step):
    type(step.__self__).last = "another"
    type(step.__self__).scale = lambda self: 5


@made(x, between=change_class)
def class_is_changed_by_others():
    class Thing:
        last = None

        def scale(self):
            return 3

        def step(self, a):
            Thing.last = (a, self.scale())
            return self.last[0] * self.last[1]

    return Thing().step


@made(x, again=False)
def class_attribute_of_a_base_is_covered():
    class Base:
        kept = None

    class Thing(Base):
        def step(self, a):
            before = self.kept
            type(self).kept = [a]
            return before is None, self.kept, Base.kept, hasattr(Base, "kept")

    return Thing().step


@made(x, graphs=2)
def class_attribute_around_a_break():
    class Thing:
        last = None

        def step(self, a):
            type(self).last = a + 1
            print("between")
            return self.last * 2, self.other()

        def other(self):
            del type(self).last
            type(self).last = None
            return type(self).last

    return Thing().step


@made(x)
def class_level_attribute():
    class Thing:
        last = None

        def step(self, a):
            type(self).last = a
            return self.last is a

    return Thing().step


@made(x)
def property_with_effects():
    class Thing:
        def __init__(self):
            self.reads = []

        @property
        def value(self):
            self.reads.append("read")
            return 3

        def step(self, a):
            return a * self.value + self.value

    return Thing().step


@case(lambda: (iter([1, 2, 3]), x()))
def iterator_moves(it, a):
    return a * next(it), next(it)


@case(lambda: ([1, 2, 3], x()), lambda: ([3, 2, 1], x()))
def pops_until_empty(box, a):
    while box:
        a = a * 2 + box.pop()
    return a


@case(lambda: ({"p": 1, "q": 2}, x()))
def clear_and_refill(table, a):
    old = dict(table)
    table.clear()
    table.update(old, r=a)
    return table.popitem()


@case(lambda: (bytearray(b"ab"), x()))
def bytes_in_place(b, a):
    b.append(99)
    return len(b), a
