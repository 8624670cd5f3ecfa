"""NumPy's arrays that a function makes from what it knows: data like any other, and constants of the graph."""

import numpy
import torch

from ..case import case
from ..values import x


@case(x)
def plan_of_blocks(a):
    lengths = numpy.array([4, 8, 12]) // 4
    rows = [numpy.zeros((5, int(numpy.sum(lengths[:2]))), dtype=numpy.int32) for _ in range(2)]
    for n, row in enumerate(rows):
        rows[n] = row[1:-1, :] + n
    index = torch.tensor(numpy.stack(rows), dtype=torch.long)
    return a.sum() + index, index.shape


@case(lambda: (x(), 3), lambda: (x(), 4))
def size_from_an_argument(a, n):
    return a + torch.tensor(numpy.arange(n, dtype=numpy.float32)).sum(), numpy.linspace(0, 1, n)


@case(x)
def types_of_tensors(a):
    kinds = [numpy.float64, numpy.float32, numpy.int64, numpy.int32, numpy.uint8, numpy.bool_, numpy.float16]
    return [torch.tensor(numpy.array([[1, 0, 2]], dtype=kind)) for kind in kinds], torch.tensor(numpy.array(2.5)), a + 1


@case(x)
def operators(a):
    b = numpy.arange(6.0).reshape(2, 3)
    b += 1
    b[0, 1] = -7
    b[:, 2] *= 2
    c = -b @ b.T
    return a * float(c.sum()), b, c, (b > 2).any(), b.mean(axis=0), b.dtype == numpy.float64, b.shape, len(b)


@case(x)
def walks_over_rows(a):
    table = numpy.ones((3, 2))
    for n, row in enumerate(table):
        row *= n
    flat = numpy.arange(3)
    seen = []
    for value in flat:
        flat[2] = 9
        seen.append(value)
    return a + 1, table, seen, [int(value) for value in flat]


@case(x, graphs=5)
def views_stay_views_behind_a_break(a):
    table = numpy.zeros((3, 4))
    row, column, back = table[1], table[:, 2], table[::-1, ::2]
    b = a + 1
    print("now")
    row[0] = 5
    column[2] = 7
    back[0, 1] = 9
    return b * 2, table, row, column, back


@case(lambda: (x(), 1), lambda: (x(), 2), graphs=2)
def seed_and_draw(a, seed):
    numpy.random.seed(seed)
    drawn = numpy.random.permutation(8)
    return a + 1, drawn


@case(lambda: (x(), 1), lambda: (x(), 2))
def seed_alone(a, seed):
    numpy.random.seed(seed)
    return a * 2


@case(lambda: (x(3), numpy.arange(3.0)), lambda: (x(3), numpy.arange(3.0) + 1), graphs=8)
def from_outside_and_made(a, array):
    return a + torch.tensor(array + numpy.ones(3)), numpy.sum(array), array * numpy.arange(3)


@case(x)
def wrong_shapes(a):
    try:
        numpy.ones((2, 3)) @ numpy.ones((2, 3))
    except ValueError:
        b = a + 1
    try:
        if numpy.arange(3) > 1:
            pass
    except ValueError as error:
        return b, str(error)


@case(x, graphs=2)
def an_empty_array(a):
    return a + 1, torch.tensor(numpy.zeros((0, 3), dtype=numpy.int32)), numpy.zeros((2, 0)).sum()


@case(x, graphs=3, eager=True)
def objects_in_an_array(a):
    return a + 1, numpy.array([None, "a"], dtype=object).tolist(), numpy.array(["x", "yy"]).tolist()


@case(x)
def numbers_of_arrays(a):
    half = numpy.float64(0.5)
    return a * half, torch.tensor(half).dtype, torch.tensor([half, half]).dtype, torch.tensor(numpy.int32(3)).dtype


@case(x, graphs=3)
def arrays_with_tensors(a):
    weights = numpy.arange(4, dtype=numpy.float32)
    return torch.from_numpy(weights) + a, torch.as_tensor(weights).shape
