"""Calls: of what the program gives, and of what C is to do between two graphs; attributes and imports."""

import sys


def attribute_or(get, args, owner, name, hook):
    try:
        return get(*args)
    except AttributeError:
        pass
    return hook(owner, name)


def called_from(function, /, *args, **names):
    return function(*args, **names)


def scripted(function):
    """A function of `torch.jit.script` as one of Python's: in the text of a graph, by which eager may have to run it, the other would be named as its class."""

    def ScriptFunction(*args, **names):
        return function(*args, **names)

    return ScriptFunction


def code_of_a_call():
    return compile("(0).__call__()", "", "eval")


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


# Imports.


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


# Code that is run in a scope.


def refreshed(scope, now, gone):
    for name in gone:
        scope.pop(name, None)
    scope.update(now)
    return scope


def in_scope(function, code, names, scope, now, gone):
    return function(code, names, refreshed(scope, now, gone))


# torch.


def recomputed(region, function, /, *args, **names):
    """`torch.utils.checkpoint.checkpoint`: what is recorded while this frame stands belongs to the region."""
    return function(*args, **names)


def checkpointed(function, /, *args, **names):
    """What torch's own checkpoint runs, and runs again."""
    return function(*args, **names)


def fills_its_memory(tensor):
    return tensor.storage_offset() == 0 and tensor.untyped_storage().nbytes() == tensor.nbytes


# Numbers that are read between two graphs.


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
            items = [*given[argument]]
            items[inside] = number
            # A list with a tensor in it is the same to a subscript as a tuple; one of numbers is not.
            is_tuple = isinstance(given[argument], tuple) or function.__name__.strip("_") in ("getitem", "setitem")
            given[argument] = tuple(items) if is_tuple else items
    return function(*positional, **named)


# Done for real, behind a break.


def is_not_in(container, item):
    return item not in container


# Stores that only C can make: calls, so that a break may stand there.


def for_real(function, *args):
    function(*args)


# A store between two graphs.


def between_graphs(function, *args):
    function(*args)
