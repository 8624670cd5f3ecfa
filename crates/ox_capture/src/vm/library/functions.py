"""What CPython does in C with calls back into Python, written in Python.

The machine runs these in the place of the functions of C: then everything that is under way stands in frames, and a break may come anywhere
inside. Nothing here is seen by the program: not in tracebacks, and not in what it gets (see NATIVE in `iterators.py`).
"""

import operator
import sys

CLOSE_GIVES_A_VALUE = sys.version_info >= (3, 13)
EMPTY = "{}() iterable argument is empty" if sys.version_info >= (3, 12) else "{}() arg is an empty sequence"


# Attributes.


def attribute_or(get, args, owner, name, hook):
    try:
        return get(*args)
    except AttributeError:
        pass
    return hook(owner, name)


# Calls.


def called_from(function, /, *args, **names):
    return function(*args, **names)


def scripted(function):
    """A function of `torch.jit.script` as one of Python's: in the text of a graph, by which eager may have to run it, the other would be named as its class."""

    def ScriptFunction(*args, **names):
        return function(*args, **names)

    return ScriptFunction


def code_of_a_call():
    return compile("(0).__call__()", "", "eval")


def names_lacking(module, names):
    try:
        module.__path__
    except AttributeError:
        return ()
    return [name for name in names if name != "*" and not hasattr(module, name)]


def refused_import(module, name):
    """The error alone: a module without the name, in the place of one that was asked for it."""
    known = vars(module)
    like = type(sys)(known["__name__"])
    vars(like).update({key: known[key] for key in ("__spec__", "__file__") if key in known})
    names = {"__builtins__": {"__import__": lambda *args: like}}
    exec(f"from module import {name} as found", names)
    return names["found"]


# Iteration.


def collect(iterable, limit):
    items = []
    for item in iterable:
        items.append(item)
        if len(items) == limit:
            break
    return items


def extended(items, more):
    items.extend(more)
    return items


def with_list(function, before, iterable, after, names):
    return function(*before, [item for item in iterable], *after, **names)


def grow(extend, grown, iterable):
    for item in iterable:
        extend(grown, [item])


def grow_dict(update, grown, pairs, names):
    for pair in pairs:
        update(grown, [pair])
    update(grown, **names)


def store_run(items, places, values):
    """Where the run begins and ends is settled before the values are asked for, or behind that by newer versions of CPython."""
    start, stop, step = places.indices(len(items))
    try:
        iterator = iter(values)
    except TypeError:
        iterator = None
    if iterator is None:
        raise TypeError(NO_RUN if step == 1 else "must assign iterable to extended slice")
    values = [value for value in iterator]
    if RUNS_ARE_SETTLED_LATE:
        start, stop, step = places.indices(len(items))
    if step < 0 and start < 0:
        # Nothing lies there, and as an index it would be the last.
        start, stop, step = 0, 0, 2
    run = slice(start, stop if stop >= 0 else None, step)
    if type(items) is list:
        items[run] = values
    else:
        list.__setitem__(items, run, values)


def are_runs_settled_late():
    items = [0, 1]

    def grows():
        items.append(2)
        yield 3

    items[2:] = grows()
    return items == [0, 1, 3]


def refusal_of_a_run():
    try:
        [][:] = 0
    except TypeError as error:
        return str(error)


RUNS_ARE_SETTLED_LATE = are_runs_settled_late()
NO_RUN = refusal_of_a_run()


def steps(iterator):
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        yield item


def next_or(iterator, default):
    try:
        return next(iterator)
    except StopIteration:
        return default


# Thrown with an exception: what the generator waits for is not asked.
HERE = object()


def throw_into(generator, inner, error):
    try:
        if isinstance(error, GeneratorExit):
            close_awaited(inner)
        elif hasattr(inner, "throw"):
            return inner.throw(error)
    except BaseException as raised:
        error = raised
    return generator.throw(error, HERE)


def close_awaited(inner):
    if hasattr(inner, "close"):
        inner.close()


def close(generator):
    try:
        generator.throw(GeneratorExit)
    except GeneratorExit:
        return None
    except StopIteration as stop:
        return stop.value if CLOSE_GIVES_A_VALUE else None
    raise RuntimeError("generator ignored GeneratorExit")


def abandon(finalisers, *gone):
    for finalise, one in zip(finalisers, gone):
        try:
            if finalise is None:
                close(one)
            else:
                finalise(one)
        except BaseException as error:
            write_unraisable(error, finalise)


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


def refreshed(scope, now, gone):
    for name in gone:
        scope.pop(name, None)
    scope.update(now)
    return scope


def in_scope(function, code, names, scope, now, gone):
    return function(code, names, refreshed(scope, now, gone))


def until(function, sentinel):
    while True:
        item = function()
        if item is sentinel or sentinel == item:
            return
        yield item


# torch.


def recomputed(region, function, /, *args, **names):
    """`torch.utils.checkpoint.checkpoint`: what is recorded while this frame stands belongs to the region."""
    return function(*args, **names)


def checkpointed(function, /, *args, **names):
    """What torch's own checkpoint runs, and runs again."""
    return function(*args, **names)


def fills_its_memory(tensor):
    return tensor.storage_offset() == 0 and tensor.untyped_storage().nbytes() == tensor.nbytes


# Built-in functions.


def is_any(iterable):
    for item in iterable:
        if item:
            return True
    return False


def are_all(iterable):
    for item in iterable:
        if not item:
            return False
    return True


def add_all(items, total):
    for item in items:
        total = total + item
    return total


def extreme(iterable, key, greater, name, default):
    found = False
    for item in iterable:
        rank = item if key is None else key(item)
        if not found or (rank > best if greater else rank < best):
            found, chosen, best = True, item, rank
    if found:
        return chosen
    if default:
        return default[0]
    raise ValueError(EMPTY.format(name))


def reduce(function, iterable, *initial):
    iterator = None
    try:
        iterator = iter(iterable)
    except TypeError:
        pass
    if iterator is None:
        raise TypeError("reduce() arg 2 must support iteration")
    if initial:
        total = initial[0]
    else:
        for total in iterator:
            break
        else:
            raise TypeError("reduce() of empty iterable with no initial value")
    for item in iterator:
        total = function(total, item)
    return total


def sort_by(sort, iterable, key, reverse):
    items = [item for item in iterable]
    ranks = [key(item) for item in items]
    return [items[place] for place in sort(range(len(items)), key=ranks.__getitem__, reverse=reverse)]


def sort_in_place(sort, items, key, reverse):
    items[:] = sort(items, key=key, reverse=reverse)


def sort_objects(items, ranks, reverse):
    """As CPython sorts few: a run, then each further one where it belongs."""
    if reverse:
        items, ranks = items[::-1], ranks[::-1]
    length, run = len(items), 1
    if length > 1 and ranks[1] < ranks[0]:
        run = 2
        while run < length and ranks[run] < ranks[run - 1]:
            run += 1
        items = items[:run][::-1] + items[run:]
        ranks = ranks[:run][::-1] + ranks[run:]
    elif length > 1:
        run = 2
        while run < length and not ranks[run] < ranks[run - 1]:
            run += 1
    for place in range(run, length):
        item, rank = items[place], ranks[place]
        low, high = 0, place
        while low < high:
            middle = (low + high) // 2
            if rank < ranks[middle]:
                high = middle
            else:
                low = middle + 1
        items = items[:low] + [item] + items[low:place] + items[place + 1 :]
        ranks = ranks[:low] + [rank] + ranks[low:place] + ranks[place + 1 :]
    return items[::-1] if reverse else items


class Ranked:
    """What `functools.cmp_to_key` makes of an object."""

    __slots__ = ("obj", "compare")

    def __init__(self, obj, compare):
        self.obj = obj
        self.compare = compare

    def __lt__(self, other):
        return self.compare(self.obj, other.obj) < 0

    def __gt__(self, other):
        return self.compare(self.obj, other.obj) > 0

    def __eq__(self, other):
        return self.compare(self.obj, other.obj) == 0

    def __le__(self, other):
        return self.compare(self.obj, other.obj) <= 0

    def __ge__(self, other):
        return self.compare(self.obj, other.obj) >= 0


def cmp_to_key(mycmp):
    return lambda obj: Ranked(obj, mycmp)


# Containers of objects that are compared by methods of their own.


def contains(container, item):
    for other in container:
        if other is item or other == item:
            return True
    return False


def lacks(container, item):
    return not contains(container, item)


def count(container, item):
    number = 0
    for other in container:
        if other is item or other == item:
            number += 1
    return number


def index(container, item, complaint, start, stop):
    for place in range(*slice(start, stop).indices(len(container))):
        other = container[place]
        if other is item or other == item:
            return place
    raise ValueError(complaint.format(item))


def remove(container, item, complaint):
    del container[index(container, item, complaint, None, None)]


def difference(left, right):
    """The first place at which two sequences differ."""
    for place in range(min(len(left), len(right))):
        mine, other = left[place], right[place]
        if mine is not other and not mine == other:
            return place
    return None


def equal(left, right):
    if isinstance(left, list) and len(left) != len(right):
        return False
    return difference(left, right) is None and len(left) == len(right)


def unequal(left, right):
    return not equal(left, right)


def ordered(compare, left, right):
    place = difference(left, right)
    return compare(len(left), len(right)) if place is None else compare(left[place], right[place])


def equal_tables(left, right):
    if len(left) != len(right):
        return False
    for key, mine in left.items():
        if key not in right:
            return False
        other = right[key]
        if mine is not other and not mine == other:
            return False
    return True


def unequal_tables(left, right):
    return not equal_tables(left, right)


def indices(length, start, stop, step):
    """`slice.indices` of sizes."""
    if length < 0:
        raise ValueError("length should not be negative")
    step = 1 if step is None else step
    if step == 0:
        raise ValueError("slice step cannot be zero")
    low, high = (-1, length - 1) if step < 0 else (0, length)
    return (
        clipped(start, high if step < 0 else low, low, high, length),
        clipped(stop, low if step < 0 else high, low, high, length),
        step,
    )


def clipped(place, default, low, high, length):
    if place is None:
        return default
    if place < 0:
        return max(place + length, low)
    return min(place, high)


# The getters of the operator module.


def get_items(object, keys):
    return object[keys[0]] if len(keys) == 1 else tuple([object[key] for key in keys])


def get_attributes(object, names):
    found = []
    for name in names:
        value = object
        for part in name.split("."):
            value = getattr(value, part)
        found.append(value)
    return found[0] if len(found) == 1 else tuple(found)


def call_method(object, parts):
    return getattr(object, parts[0])(*parts[1:])


# Special methods: what one returned is what was asked for, or an error.


def shown(function, value):
    """The frame says what is being shown: `call_shown` looks for it."""
    return function(value)


def list_text(items):
    return "[" + ", ".join([repr(item) for item in items]) + "]"


def tuple_text(items):
    return "(" + ", ".join([repr(item) for item in items]) + (",)" if len(items) == 1 else ")")


def dict_text(table):
    return "{" + ", ".join([repr(key) + ": " + repr(value) for key, value in table.items()]) + "}"


def format_fields(befores, values, conversions, specs, tail):
    text = ""
    for before, value, conversion, spec in zip(befores, values, conversions, specs):
        if conversion == "s":
            value = str(value)
        elif conversion == "r":
            value = repr(value)
        elif conversion == "a":
            value = ascii(value)
        text += before + format(value, spec)
    return text + tail


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


def with_number(function, before, key, after):
    """What C asks an index for, or the parts of a slice."""
    key = of_numbers(key) if isinstance(key, slice) else operator.index(key)
    return function(*before, key, *after)


def of_numbers(bounds):
    """The step is asked for first."""
    step = number(bounds.step)
    if isinstance(step, int) and step == 0:
        raise ValueError("slice step cannot be zero")
    return slice(number(bounds.start), number(bounds.stop), step)


def fill_in(text, values, ways):
    return text % tuple([way(value) if way else value for way, value in zip(ways, values)])


def bounds_read(key, stack, bounds):
    numbers = [bounds[0].item()] if len(bounds) == 1 else stack(bounds).tolist()
    return bounds_read, key, numbers


def numbers_read(function, positional, named, places, stack, tensors):
    numbers = [tensors[0].item()] if len(tensors) == 1 else stack(tensors).tolist()
    for (argument, inside), number in zip(places, numbers):
        given = positional if isinstance(argument, int) else named
        if inside is None:
            given[argument] = number
        else:
            given[argument] = [*given[argument]]
            given[argument][inside] = number
    return function(*positional, **named)


def count_elements(mapping, iterable):
    for element in iterable:
        mapping[element] = mapping.get(element, 0) + 1


def missing(table, key, factory):
    value = factory()
    table[key] = value
    return value


def number_text(tensor, spec):
    """The number is read between two graphs, and the text is made of whatever it is then: asked for as a whole, each text would be traced anew."""
    return format(tensor.detach().item(), spec)


def formatted(method, value, spec):
    result = method(value, spec)
    if not isinstance(result, str):
        raise TypeError(f"__format__ must return a str, not {type(result).__name__}")
    return result


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


def is_one_of(function, object, classes):
    for one in classes:
        if function(object, one):
            return True
    return False


def asked(method, container, item):
    return True if method(container, item) else False


def asked_not(method, container, item):
    return False if method(container, item) else True


# Done for real, behind a break.


def is_not_in(container, item):
    return item not in container


# Stores that only C can make: calls, so that a break may stand there.


def for_real(function, *args):
    function(*args)


# A store between two graphs.


def between_graphs(function, *args):
    function(*args)


# Patterns.


MISSING = object()
MATCH_THEMSELVES = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


def match_keys(subject, keys):
    values, seen = [], []
    get = subject.get
    for key in keys:
        if key in seen:
            raise ValueError(f"mapping pattern checks duplicate key ({key!r})")
        seen.append(key)
        value = get(key, MISSING)
        if value is MISSING:
            return None
        values.append(value)
    return tuple(values)


def match_class(subject, cls, names, positional):
    if not isinstance(cls, type):
        raise TypeError("called match pattern must be a class")
    if not isinstance(subject, cls):
        return None
    found, seen = [], []
    if positional:
        own = getattr(cls, "__match_args__", None)
        itself = own is None and issubclass(cls, MATCH_THEMSELVES)
        if own is not None and type(own) is not tuple:
            raise TypeError(f"{cls.__name__}.__match_args__ must be a tuple (got {type(own).__name__})")
        allowed = 1 if itself else len(own or ())
        if allowed < positional:
            plural = "" if allowed == 1 else "s"
            raise TypeError(f"{cls.__name__}() accepts {allowed} positional sub-pattern{plural} ({positional} given)")
        if itself:
            found.append(subject)
        else:
            names = own[:positional] + names
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"__match_args__ elements must be strings (got {type(name).__name__})")
        if name in seen:
            raise TypeError(f"{cls.__name__}() got multiple sub-patterns for attribute {name!r}")
        seen.append(name)
        try:
            found.append(getattr(subject, name))
        except AttributeError:
            return None
    return tuple(found)


# `except*`, done by CPython itself: exceptions hold nothing that is computed later.


def group_match(error, kind):
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if any(issubclass(one, BaseExceptionGroup) for one in kinds):
        raise TypeError("catching ExceptionGroup with except* is not allowed. Use except instead.")
    if error is None:
        return None, None
    if isinstance(error, kind):
        return None, error if isinstance(error, BaseExceptionGroup) else BaseExceptionGroup("", [error])
    if isinstance(error, BaseExceptionGroup):
        return error.split(kind)[::-1]
    return error, None


def leaves(error):
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in leaves(inner)]


def end_of_groups(original, raised):
    raised = [error for error in raised if error is not None]
    if not raised:
        return None
    if not isinstance(original, BaseExceptionGroup):
        return raised[0]

    def traces(error):
        return [getattr(error, name, None) for name in ("__notes__", "__traceback__", "__cause__", "__context__")]

    def is_part(error):
        return all(mine is whole for mine, whole in zip(traces(error), traces(original)))

    again = {id(leaf) for error in raised if is_part(error) for leaf in leaves(error)}
    new = [error for error in raised if not is_part(error)]
    rest = original.split(lambda error: id(error) in again)[0] if again else None
    if not new:
        return rest
    new += [rest] if rest is not None else []
    return new[0] if len(new) == 1 else BaseExceptionGroup("", new)
