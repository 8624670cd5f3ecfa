"""Containers of objects that are compared by methods of their own, or counted and made by them, and places in containers."""


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


def count_elements(mapping, iterable):
    for element in iterable:
        mapping[element] = mapping.get(element, 0) + 1


def missing(table, key, factory):
    value = factory()
    table[key] = value
    return value
