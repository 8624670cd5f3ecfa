"""What `case` and `except*` match."""

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
