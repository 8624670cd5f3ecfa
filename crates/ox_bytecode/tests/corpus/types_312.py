"""Type parameters."""

type Pair[T] = tuple[T, T]


def first[T: int, *Ts, **P](x: T, y: T = 1, *, z=2) -> T:
    return x


class Stack[S: (int, str)]:
    items: list[S]

    def push(self, item: S) -> None:
        self.items.append(item)

    def pop[T](self, default: T | Missing) -> S | T:
        return self.items.pop() if self.items else default
