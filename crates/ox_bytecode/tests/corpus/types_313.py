"""Type parameters with defaults."""


class Box[T = int]:
    item: T
