"""The words in which CPython refuses, and what its exceptions hold."""

from ..case import case
from ..values import x


def words(function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error)


@case(x)
def missing_keys_that_are_tuples(a):
    def refused(look):
        try:
            look({})
        except KeyError as error:
            return error.args

    def deletes(table):
        del table[1, 2]

    return a, refused(lambda table: table[1, 2]), refused(lambda table: table.pop((1, 2))), refused(deletes)


class Plain:
    pass


@case(x)
def unpacking_what_is_not_iterable(a):
    def two(value):
        first, second = value

    def some(value):
        first, *others = value

    return a, [words(unpack, value) for unpack in (two, some) for value in (5, None, Plain(), print)]


@case(x)
def arguments_that_do_not_fit(a):
    def function(one, two, /, three, *, four, five=5):
        return one

    return (
        a,
        words(function, one=1, two=2),
        words(function, 1, wrong=3, two=2),
        words(function, 1, 2, 3, 4, 5, 6, four=1),
        words(function, 1, 2, 3, 4, four=1, five=2),
        words(function, 1, 2, 3, 4),
        words(function, 1, 2, 3, 4, wrong=1),
    )


class Enters:
    def __enter__(self):
        return self


class Leaves:
    def __exit__(self, *error):
        return None


@case(x)
def half_a_context_manager(a):
    def use(manager):
        with manager:
            pass

    return a, words(use, Enters()), words(use, Leaves())


@case(x)
def contexts_hold_no_circle(a):
    one, other = ValueError("one"), KeyError("other")
    try:
        try:
            raise one
        except ValueError:
            raise other
    except KeyError:
        try:
            raise one
        except ValueError:
            pass
    return a, type(one.__context__).__name__, other.__context__


class Row(tuple):
    pass


class Number(float):
    pass


@case(x)
def arguments_that_constructors_of_c_refuse(a):
    refused = [
        words(constructor, *args, **named)
        for constructor, args, named in (
            (int, (), {"x": 1}),
            (float, (), {"x": 1}),
            (dict, ({}, {}), {}),
            (tuple, (), {"sequence": [1]}),
            (tuple, ([1], [2]), {}),
            (Row, (), {"sequence": [1]}),
            (Row, ([1],), {"other": 1}),
            (Row, ([1], [2]), {}),
            (Number, ("2",), {"other": 1}),
            (enumerate, (), {}),
            (enumerate, ([1], 2, 3), {}),
            (reversed, (), {}),
            (map, (int,), {}),
            (filter, (None,), {}),
            (zip, ([1],), {"other": 1}),
        )
    ]
    return a, refused, list(enumerate(iterable="ab", start=1))
