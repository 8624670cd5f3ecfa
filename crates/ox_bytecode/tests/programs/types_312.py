"""Type parameters."""

type Pair[T] = tuple[T, T]


def first[T: int, *Ts, **P](x: T, y: T = 1, *, z=2) -> T:
    return x, y, z


class Stack[S: (int, str)]:
    items: list[S]
    Missing = None

    def push(self, item: S) -> None:
        self.items = [item]

    def pop[T](self, default: T | Missing) -> S | T:
        return self.items.pop() if self.items else default


def case_functions():
    return first(1), first.__type_params__, first.__annotations__, first.__type_params__[0].__bound__


def case_classes():
    stack = Stack()
    stack.push(1)
    return stack.pop("d"), stack.pop("d"), Stack.__type_params__, Stack.__annotations__, Stack.pop.__annotations__, Stack.__orig_bases__


def case_constraints():
    return Stack.__type_params__[0].__constraints__


def case_aliases():
    return Pair.__name__, Pair.__value__, Pair.__type_params__
