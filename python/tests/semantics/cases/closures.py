"""Closures, cells, nonlocals and globals."""

import functools
import typing

from ..case import case, made
from ..runner import MISSING
from ..values import x


@case(x)
def reads_an_outer_local(a):
    k = 3

    def inner():
        return a * k

    return inner()


@case(x)
def sees_later_assignment(a):
    def inner():
        return a + k

    k = 1
    first = inner()
    k = 2
    return first, inner()


@case(x)
def writes_nonlocal(a):
    count = 0

    def step():
        nonlocal count
        count += 1
        return a * count

    return step(), step(), count


@case(x)
def two_closures_share_a_cell(a):
    value = a

    def put(new):
        nonlocal value
        value = new

    def get():
        return value

    put(a + 1)
    return get(), value is get()


@case(x)
def cells_of_a_loop_are_one(a):
    functions = []
    for n in range(3):
        functions.append(lambda: a * n)
    return [function() for function in functions]


@case(x)
def default_freezes_the_loop_variable(a):
    functions = [lambda n=n: a * n for n in range(3)]
    return [function() for function in functions]


@case(x)
def cells_of_a_comprehension_are_one(a):
    return [function() for function in [lambda: a + n for n in range(3)]]


@case(x)
def unbound_cell(a):
    def inner():
        return later

    try:
        inner()
    except NameError as error:
        text = str(error)
    later = a
    return inner(), text


@case(x)
def unbound_local(a):
    if a is None:
        b = 1
    return b


@case(x)
def deleted_local(a):
    b = a
    del b
    return b


@case(x)
def deleted_cell(a):
    b = a

    def inner():
        return b

    first = inner()
    del b
    try:
        inner()
    except NameError as error:
        return first, str(error)


@case(x)
def unknown_global(a):
    return a + there_is_no_such_name  # noqa: F821


@case(x)
def returned_closure(a):
    def inner(b):
        return a, b

    return inner


@case(x)
def returned_closures_share(a):
    count = 0

    def up():
        nonlocal count
        count += 1
        return count

    def read():
        return count

    up()
    return up, read, count


@case(x)
def deletes_what_others_see(a):
    value = a + 1

    def get():
        return value

    before = get()
    del value
    try:
        get()
    except NameError as error:
        text = str(error)
    return before, text, get


@made(x, again=False)
def deletes_its_own_and_gets_another():
    value = 3

    def step(a):
        nonlocal value
        try:
            result = a * value
            del value
        except NameError as error:
            result = str(error)
            value = 4
        return result

    return step


@case(x)
def three_levels(a):
    def one():
        b = a + 1

        def two():
            c = b + 1

            def three():
                nonlocal b
                b = c * a
                return b

            return three(), b

        return two(), b

    return one()


@case(x)
def class_body_skips_to_the_function(a):
    k = 1

    class Holder:
        k = 2
        value = k

        def get(self):
            return k

    return a * Holder.value, Holder().get()


@case(x)
def argument_becomes_a_cell(a):
    def change():
        nonlocal a
        a = a + 1

    before = a
    change()
    return before is a, a


@made(x, again=False)
def counting_closure():
    count = 0

    def step(a):
        nonlocal count
        count += 1
        return a + count

    return step


@made(x)
def closure_holds_a_list():
    seen = []

    def step(a):
        seen.append(a)
        return a + 1

    return step


@made(x)
def closure_keeps_the_last_value():
    last = None

    def step(a):
        nonlocal last
        last = a * 2
        return last

    return step


def change_first_cell(function):
    function.__closure__[0].cell_contents = 10


@made(x, between=change_first_cell)
def closure_changes_from_outside():
    k = 2

    def step(a):
        return a * k

    return step


@made(x, between=lambda function: setattr(function, "__defaults__", (7,)))
def defaults_change_from_outside():
    def step(a, k=2):
        return a * k

    return step


@made(x, between=lambda function: setattr(function, "__code__", (lambda a: a * 100).__code__))
def code_changes_from_outside():
    def step(a):
        return a + 1

    return step


@made(x, again=False)
def function_counts_on_itself():
    def step(a):
        step.calls = getattr(step, "calls", 0) + 1
        return a * step.calls

    return step


@made(x, between=lambda function: setattr(function, "doubled", True))
def function_attribute_comes_later():
    def step(a):
        return a * 2 if hasattr(step, "doubled") else a, getattr(step, "other", None)

    return step


@case(x, state=lambda: {"FACTOR": 3})
def reads_a_global(a):
    return a * FACTOR  # noqa: F821


@case(x, state=lambda: {"COUNT": 0}, again=False)
def writes_a_global(a):
    global COUNT
    COUNT += 1
    return a + COUNT


@case(x, state=lambda: {"LAST": None})
def keeps_a_value_in_a_global(a):
    global LAST
    LAST = a * 2
    return LAST


@case(x, state=lambda: {"LOG": []})
def appends_to_a_global_list(a):
    LOG.append(a)  # noqa: F821
    return a + 1


@case(x, state=lambda: {"TABLE": {}})
def writes_to_a_global_dict(a):
    TABLE["last"] = a  # noqa: F821
    return TABLE["last"] is a  # noqa: F821


@case(x, state=lambda: {"CREATED": MISSING})
def creates_a_global(a):
    global CREATED
    CREATED = a
    return CREATED + 1


@case(x, state=lambda: {"DOOMED": 1})
def deletes_a_global(a):
    global DOOMED
    DOOMED = a
    del DOOMED
    return a + 1


@case(x, state=lambda: {"DOOMED_TWICE": 1}, again=False)
def deletes_a_global_that_is_gone(a):
    global DOOMED_TWICE
    del DOOMED_TWICE
    del DOOMED_TWICE


def set_global(name, value):
    return lambda _: globals().__setitem__(name, value)


@case(x, state=lambda: {"SCALE": 2}, between=set_global("SCALE", 5))
def global_number_changes(a):
    return a * SCALE  # noqa: F821


@case(x, state=lambda: {"helper": lambda v: v + 1}, between=set_global("helper", lambda v: v - 1))
def global_function_changes(a):
    return helper(a)  # noqa: F821


@case(x, state=lambda: {"OPTIONS": {"k": 1}}, between=lambda _: OPTIONS.update(k=9))  # noqa: F821
def global_dict_changes(a):
    return a * OPTIONS["k"]  # noqa: F821


@case(x, state=lambda: {"ITEMS": [1, 2]}, between=lambda _: ITEMS.append(3))  # noqa: F821
def global_list_grows(a):
    return a * len(ITEMS), sum(ITEMS)  # noqa: F821


@case(x, state=lambda: {"WEIGHT": x()}, between=lambda _: set_global("WEIGHT", x())(None))
def global_value_changes(a):
    return a * WEIGHT  # noqa: F821


@case(x, state=lambda: {"len": MISSING}, between=set_global("len", lambda box: 100))
def global_hides_a_builtin(a):
    return a * len([1, 2])


@case(x)
def globals_and_locals_as_dicts(a):
    b = 1
    names = sorted(locals())
    return names, "globals_and_locals_as_dicts" in globals(), a + b


@case(x)
def comprehension_does_not_leak(a):
    n = "outer"
    values = [a * n for n in range(2)]
    return values, n


@case(x, graphs=3)
def exec_sees_given_scope(a):
    scope = {"a": a}
    exec("b = a + 1", scope)
    return scope["b"], eval("a * 2", {"a": a})


@case(x, graphs=3)
def eval_sees_the_function(a):
    k = 2
    inner = lambda: k  # noqa: E731
    b = a * eval("k + 1")
    return eval("b + k", None), b, inner()


@case(x, graphs=3)
def eval_in_a_nested_call(a):
    def inner(c):
        return eval("c * 2")

    return inner(a) + eval("1")


@case(x, graphs=3)
def exec_changes_no_variable(a):
    k = 1
    exec("k = 100")
    exec("made_by_exec = k", globals(), {"k": k})
    return a * k


@case(x, graphs=2)
def eval_raises(a):
    try:
        return eval("missing + a")
    except NameError as error:
        return a + 1, str(error)


@case(x)
def names_of_variables(a):
    b = a + 1
    return dir(), sorted(vars()), b


@case(x, graphs=2)
def function_keeps_what_is_said_of_it(a):
    def inner(value: int) -> "text":
        """What it does."""
        return value

    @functools.wraps(inner)
    def outer(*values):
        return inner(*values)

    inner.note = a
    inner.__doc__, inner.__name__ = "another", "renamed"
    print("a break")
    said = inner.note, inner.__doc__, inner.__name__, inner.__annotations__, outer.__wrapped__ is inner, outer.__doc__
    return said, (outer.__name__, outer.__qualname__, outer.__annotations__)


@case(x)
def function_comes_out_with_its_attributes(a):
    def made(value: typing.Optional[int], other: "text" = 1) -> list[int]:
        return value

    made.note = [a]
    made.__annotations__["more"] = str
    result = functools.wraps(made)(lambda value: value)
    return made.__annotations__, made.note, result.__wrapped__ is made, made, result
