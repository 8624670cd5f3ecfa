"""Calls in all forms, and super."""


def plain(f, x):
    return f(x, 1)


def method(x):
    return x.sum(0).add(x)


def keywords(f, x):
    return f(x, 2, dim=0, keepdim=True)


def keyword_method(x):
    return x.sum(dim=0)


def a_global(x):
    return len(x)


def spread(f, args, kwargs):
    f(*args)
    f(1, *args, a=2, **kwargs)
    return f(**kwargs)


def result_of_a_call(f):
    return f()(1)(a=2)


@plain
@keywords(1, a=2)
def decorated():
    pass


class Base:
    def __init__(self, x):
        super().__init__()
        self.x = super().x
        super(Base, self).reset()
        self.y = super(Base, self).y


class Derived(Base, metaclass=type):
    pass
