"""Type parameters with defaults."""


class Box[T = int]:
    pass


def case_defaults():
    return Box.__type_params__[0].__default__
