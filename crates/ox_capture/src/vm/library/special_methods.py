"""Special methods: what one returned is what was asked for, or an error."""

import operator
import sys


def of_type(method, value, wanted, complaint):
    result = method(value)
    if not isinstance(result, wanted):
        raise TypeError(complaint.format(type(result).__name__))
    return result


def converted(kind, method, value, wanted, complaint):
    return kind(of_type(method, value, wanted, complaint))


def whole(method, value):
    return of_type(method, value, int, "__index__ returned non-int (type {})")


def number(value):
    return operator.index(value) if hasattr(value, "__index__") else value


def with_number(function, positional, names, place):
    """What C asks an index for, or the parts of a slice."""
    given = positional if isinstance(place, int) else names
    asked = given[place]
    given[place] = of_numbers(asked) if isinstance(asked, slice) else operator.index(asked)
    return function(*positional, **names)


def with_truth(function, positional, names, name):
    names[name] = True if names[name] else False
    return function(*positional, **names)


def of_numbers(bounds):
    """The step is asked for first."""
    step = number(bounds.step)
    if isinstance(step, int) and step == 0:
        raise ValueError("slice step cannot be zero")
    return slice(number(bounds.start), number(bounds.stop), step)


def length(method, value):
    result = method(value)
    if not isinstance(result, int):
        raise TypeError(f"'{type(result).__name__}' object cannot be interpreted as an integer")
    if result < 0:
        raise ValueError("__len__() should return >= 0")
    return result


def hashed(method, value):
    result = method(value)
    if not isinstance(result, int):
        raise TypeError("__hash__ method should return an integer")
    if -sys.maxsize - 1 <= result <= sys.maxsize:
        return -2 if result == -1 else int.__add__(result, 0)
    return hash(result)


def truth(method, value):
    result = method(value)
    if result is True or result is False:
        return result
    raise TypeError(f"__bool__ should return bool, returned {type(result).__name__}")


def truth_by_length(value):
    return len(value) != 0


def fspath(path):
    if isinstance(path, (str, bytes)):
        return path
    kind = type(path)
    if not hasattr(kind, "__fspath__"):
        raise TypeError(f"expected str, bytes or os.PathLike object, not {kind.__name__}")
    found = path.__fspath__()
    if isinstance(found, (str, bytes)):
        return found
    raise TypeError(f"expected {kind.__name__}.__fspath__() to return str or bytes, not {type(found).__name__}")


def operate(tries, complaint):
    for method, left, right in tries:
        result = method(left, right)
        if result is not NotImplemented:
            return result
    raise TypeError(complaint)


def operate_or_repeat(tries, repeat, row, number):
    for method, left, right in tries:
        result = method(left, right)
        if result is not NotImplemented:
            return result
    if not hasattr(number, "__index__"):
        raise TypeError(f"can't multiply sequence by non-int of type '{type(number).__name__}'")
    return repeat(row, operator.index(number))


def compare(tries, left, right):
    for method, one, other in tries:
        result = method(one, other)
        if result is not NotImplemented:
            return result
    return left is right


def unlike(tries, left, right):
    for method, one, other, is_equality in tries:
        result = method(one, other)
        if result is not NotImplemented:
            return not result if is_equality else result
    return left is not right


def asked(method, container, item):
    return True if method(container, item) else False


def asked_not(method, container, item):
    return False if method(container, item) else True


def is_one_of(function, object, classes):
    for one in classes:
        if function(object, one):
            return True
    return False
