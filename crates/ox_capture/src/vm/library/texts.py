"""Texts of containers, of numbers, and those that are put together of parts."""


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


def fill_in(text, values, ways):
    return text % tuple([way(value) if way else value for way, value in zip(ways, values)])


def number_text(tensor, spec):
    """The number is read between two graphs, and the text is made of whatever it is then: asked for as a whole, each text would be traced anew."""
    return format(tensor.detach().item(), spec)


def formatted(method, value, spec):
    result = method(value, spec)
    if not isinstance(result, str):
        raise TypeError(f"__format__ must return a str, not {type(result).__name__}")
    return result
