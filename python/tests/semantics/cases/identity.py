"""Identity: `is`, aliases between arguments, globals, locals and results."""

from ..case import call, case, made
from ..values import x


def same_twice():
    a = x()
    return a, a


def two():
    return x(), x()


class Node:
    def __init__(self, value, next=None):
        self.value, self.next = value, next


@case(x)
def argument_returned(a):
    return a


@case(x)
def argument_returned_in_containers(a):
    return [a, (a, {"k": a})], a


@case(x)
def same_value_returned_twice(a):
    b = a + 1
    return b, b, [b]


@case(x)
def equal_values_are_two_objects(a):
    return a + 1, a + 1


@case(same_twice, two)
def arguments_may_be_one(a, b):
    return a is b, a + b, [a, b]


@case(two, same_twice)
def arguments_may_become_one(a, b):
    if a is b:
        return a * 2
    return a - b


@case(x, state=lambda: {"KEPT": None})
def argument_kept_in_a_global(a):
    global KEPT
    KEPT = a
    return KEPT is a, a + 1


@made(x)
def argument_is_the_closed_value():
    kept = x()

    def step(a):
        return a is kept, kept, [kept]

    return step


@case(x)
def list_returned_twice(a):
    box = [a]
    return box, box, {"k": box}


@case(x)
def fresh_list_each_call(a):
    return [], [a], {}, set()


@case(lambda: [x()])
def list_argument_returned(box):
    return box, box[0]


@case(lambda: [x()])
def list_argument_copied(box):
    copy = list(box)
    copy.append(1)
    return copy, copy is box, copy[0] is box[0]


@case(lambda: [[x()]] * 2)
def argument_holds_one_list_twice(rows):
    rows[0].append(1)
    return rows[0] is rows[1], len(rows[1])


@case(lambda: (lambda box: (box, box))([x()]), lambda: ([x()], [x()]))
def list_arguments_may_be_one(p, q):
    p.append(1)
    return len(q), p is q


@case(lambda: (lambda box: (box, {"inner": box}))([x()]), lambda: ([x()], {"inner": [1]}))
def argument_inside_another(box, table):
    table["inner"].append(5)
    return len(box), table["inner"] is box


@case(x)
def cyclic_result(a):
    first = Node(a)
    second = Node(a + 1, first)
    first.next = second
    return first


@case(lambda: (lambda node: setattr(node, "next", node) or node)(Node(x())))
def cyclic_argument(node):
    return node.next.next is node, node.next.next.value + 1


@case(x)
def linked_list(a):
    head = None
    for n in range(3):
        head = Node(a * n, head)
    total = 0
    while head is not None:
        total, head = total + head.value, head.next
    return total


@case(lambda: Node(x(), Node(x())))
def linked_argument(node):
    values = []
    while node:
        values.append(node.value)
        node = node.next
    return values


@case(lambda: call(x(), None), lambda: call(x(), 0), lambda: call(x(), False), lambda: call(x(), ()))
def none_and_its_neighbours(a, value):
    if value is None:
        return "none"
    return (a, "false") if value is False else (a, "other", value == 0)


@case(x)
def singletons(a):
    return (
        None is None, ... is Ellipsis, NotImplemented is NotImplemented, tuple([]) is tuple(()), True is not False,
        type(None)() is None, a,
    )  # fmt: skip


@case(x)
def constants_of_the_code_are_one(a):
    def constant():
        return (1, "p")

    return constant() is constant(), a


@case(x)
def functions_made_anew(a):
    def make():
        return lambda: a

    return make() is make(), make()() is a


SENTINEL = object()


@case(lambda: (x(), SENTINEL), lambda: (x(), object()))
def sentinel(a, value):
    return a + 1 if value is SENTINEL else a


@case(lambda: (x(), len), lambda: (x(), sum), lambda: (x(), max))
def function_argument_by_identity(a, function):
    return a * function([1, 2, 3]), function is len


@case(lambda: (x(), lambda v: v + 1), lambda: (x(), lambda v: v * 2))
def python_function_argument(a, function):
    return function(a)


def made_function(k):
    return lambda v: v * k


@case(lambda: (x(), made_function(2)), lambda: (x(), made_function(5)))
def function_argument_with_another_cell(a, function):
    return function(a)


@case(lambda: (x(), Node), lambda: (x(), list))
def class_argument(a, cls):
    return cls([a])


@case(lambda: (x(), Node(1)), lambda: (x(), Node(2)))
def instance_argument(a, node):
    return a * node.value, node


@case(x)
def value_written_to_two_places(a):
    b = a * 2
    box, node = [b], Node(b)
    return box[0] is node.value, box, node


@case(lambda: (Node(x()), Node(None)))
def value_moves_between_arguments(p, q):
    q.value, p.value = p.value, q.value
    p.next = q
    return p, q.value


@case(lambda: (Node(x()), x()))
def old_value_is_returned(node, a):
    old = node.value
    node.value = a
    return old, node.value is a


@case(lambda: {"p": x()})
def swapped_in_a_dict(table):
    table["p"], table["q"] = table["p"] + 1, table["p"]
    return table["q"]


@case(lambda: ([1, 2, 3], [1, 2, 3]))
def equal_but_not_the_same(p, q):
    return p == q, p is q, p


@made(x, again=False)
def result_of_the_last_call():
    last = []

    def step(a):
        before = last[-1] if last else None
        last[:] = [a * 2]
        return before, last[0]

    return step


@made(x, again=False)
def result_appended_and_returned():
    results = []

    def step(a):
        results.append([a])
        return results[-1]

    return step


@made(lambda: [x()], again=False)
def keeps_the_argument():
    kept = []

    def step(box):
        kept.append(box)
        box.append(len(box))
        return kept[-1] is box

    return step


@case(lambda: (1000, 1000.5, "some text", (1, 2)))
def atoms_come_back(n, f, s, t):
    return n, f, s, t, [n, t]
