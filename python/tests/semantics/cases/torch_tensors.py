"""Tensors in all kinds of places: containers, attributes, closures, results; their attributes and identity."""

import collections
import dataclasses

import torch

from ..case import ANY, case, made
from ..values import x


def pair():
    return x(), x()


@case(pair)
def arithmetic(a, b):
    return a + b - a * 2, -a, a / 2, 1 - b, a**2, a // 2, a % 3, abs(b)


@case(pair)
def comparisons(a, b):
    return a == b, a < b, a >= 1, a != b, (a > 0) & (b > 0), ~(a > 0)


@case(lambda: torch.arange(6), lambda: torch.arange(6, dtype=torch.int32))
def integers(n):
    return n + 1, n // 4, n % 4, n << 1, n & 3, n ^ 1, n.float() / 2, n / 2


@case(x, lambda: x().double(), lambda: x().to(torch.int64), lambda: x().bool())
def dtype_is_guarded(a):
    return a + 1, a.dtype, a.is_floating_point()


@case(x, lambda: x(3, 2), lambda: x(6), lambda: x(1, 2, 3), lambda: x(0, 3))
def shape_is_guarded(a):
    return a.sum(), a.shape, a.dim(), a.numel(), a.size(0), a.size(), a.ndim, len(a)


@case(x, lambda: x(3, 2).t(), lambda: x(2, 6)[:, ::2], lambda: x(3).expand(2, 3))
def strides_are_guarded(a):
    return a + 1, a.stride(), a.is_contiguous(), a.contiguous(), a.storage_offset()


@case(x)
def attributes(a):
    return a.dtype, a.device, a.shape, a.requires_grad, a.layout, a.is_leaf, a.itemsize, a.is_sparse, a.is_cuda, a.T, a.grad, a.device.type


@case(lambda: x(2, 3, 4))
def shape_arithmetic(a):
    b, n, c = a.shape
    rows = a.shape[0] * a.shape[1]
    return a.reshape(rows, c), a.shape[-1] // 2, a.shape[:-1] + (7,), (*a.shape[:2], 2), tuple(a.shape), list(a.size()), a.shape.numel()


@case(x)
def size_objects(a):
    size = torch.Size([1, 2]) + torch.Size([3])
    return a.shape == (2, 3), a.shape == torch.Size([2, 3]), size, type(size[1:]), type(a.shape), size.numel(), 3 in a.shape, str(a.shape)


@case(lambda: x(2, 3, 4))
def indexing(a):
    return a[0], a[:, 1], a[..., -1], a[1:, ::2], a[:, None], a[0, 1, 2], a[-1][0]


@case(lambda: (x(4), torch.tensor([0, 2])), lambda: (x(4), torch.tensor([1, 1, 3])))
def indexing_by_tensors(a, index):
    return a[index], a[[0, 1]], a[torch.tensor(2)]


@case(x)
def indexing_by_mask(a):
    return torch.where(a > 0, a, 0), a.masked_fill(a < 0, 0)


@case(lambda: x(3, 2))
def iteration(a):
    return [row * 2 for row in a], list(a.unbind(1)), [n for n, _ in enumerate(a)], torch.stack(list(a))


@case(lambda: x(3, 2))
def unpacking(a):
    p, *rest = a
    q, r = a.split([1, 2])
    s, t, u = a.chunk(3)
    return p, rest, q, r, s, t - u


@case(x, graphs=2)
def index_out_of_range(a):
    return a[5]


@case(pair, lambda: (x(), x(3)), lambda: (x(), x(2, 2)))
def broadcasting(a, b):
    return a + b


@case(lambda: (x(2, 3), x(2, 3)), lambda: (x(2, 3), x(3, 2)), graphs=2)
def matrix_product(a, b):
    return a @ b


@case(x)
def unknown_attribute(a):
    return a.there_is_none


@case(x)
def unknown_function(a):
    return torch.there_is_none(a)


@case(x, graphs=2)
def wrong_argument(a):
    return torch.sum(a, there_is_none=1)


@case(x, graphs=2)
def wrong_dimension(a):
    return a.sum(5)


@case(x, graphs=2)
def wrong_view(a):
    return a.view(4)


@case(x, graphs=2)
def error_is_caught(a):
    try:
        return a.view(4)
    except RuntimeError as error:
        return a.view(-1), "invalid" in str(error)


@case(pair)
def in_containers(a, b):
    box = [a, (b, {"sum": a + b})]
    return box, box[1][1]["sum"] * 2


@case(pair)
def in_named_places(a, b):
    return Pair(a, b=b + 1), Point(a, b), collections.OrderedDict(p=a, q=b * 2)


@dataclasses.dataclass
class Pair:
    a: torch.Tensor
    b: torch.Tensor = None


Point = collections.namedtuple("Point", "p q")


@case(lambda: Pair(x(), x()), lambda: Pair(x(), None))
def dataclass_argument(both):
    if both.b is None:
        return both.a
    both.c = both.a + both.b
    return both.c


@case(lambda: {"p": x(), "q": {"r": [x(), x(3)]}})
def nested_argument(tree):
    return tree["p"] + tree["q"]["r"][0], tree["q"]["r"][1].sum()


@case(lambda: [x(), x(), x()], lambda: [x(), x()])
def list_argument(tensors):
    return torch.cat(tensors), torch.stack(tensors).sum(0), sum(tensors)


@case(x)
def returned_twice(a):
    b = a * 2
    return b, [b, b], {"b": b}


@case(x)
def identity_of_results(a):
    b = a + 1
    return a is a, b is b, b is a, a + 0 is a, [b][0] is b, b in [1] if False else None


@case(x)
def no_op_returns_itself(a):
    return a.contiguous() is a, a.to(torch.float32) is a, a.float() is a, a.cpu() is a, a.requires_grad_(False) is a, a.expand(2, 3) is a


@case(lambda: (x(4), 2))
def indexing_by_known_tensors(a, n):
    place, written = torch.tensor(2), torch.tensor(1)
    row = a[place]
    row.add_(1)
    a[torch.tensor(n)] = 5
    return row, a, a[place] + written


def tagged():
    tensor = x()
    tensor.tag = [1]
    return tensor


@case(x, tagged, graphs=ANY)
def deep_copy_of_what_hangs_on_it(a):
    import copy

    b = copy.deepcopy(a)
    b.add_(1)
    return b, hasattr(b, "tag") and (b.tag, b.tag is a.tag)


@case(lambda: (lambda t: (t, t[0]))(x()), eager=True)
def deep_copy_of_two_that_share(a, row):
    import copy

    p, q = copy.deepcopy((a, row))
    p.add_(1)
    return p, q


@case(x)
def tensor_as_key(a):
    b = a + 1
    table = {a: "a", b: "b"}
    return table[a], table[b], a in table, len({a, b, a}), hash(a) == id(a)


@case(x)
def found_by_identity(a):
    box = [1, a, a + 1]
    return [n for n, item in enumerate(box) if item is a], next(n for n, item in enumerate(box) if item is box[2])


@case(x)
def attribute_on_a_tensor(a):
    b = a * 2
    b.tag = "tagged"
    return b, b.tag, hasattr(a, "tag")


@case(x)
def attribute_on_an_argument(a):
    a.tag = [1]
    return a.tag, a + 1


@case(x)
def types(a):
    return (
        type(a), type(a + 1), isinstance(a, torch.Tensor), isinstance(a + 1, torch.nn.Parameter), a.__class__, torch.is_tensor(a),
        a.type(),
    )  # fmt: skip


@made(x)
def closed_over():
    weight = x()
    return lambda a: a * weight + weight


@made(x, between=lambda function: function.__closure__[0].cell_contents.mul_(3))
def closed_over_changes_in_place():
    weight = x()
    return lambda a: a * weight


@case(lambda: x(3), state=lambda: {"BIAS": x(3)})
def global_tensor(a):
    return a + BIAS, BIAS  # noqa: F821


@made(x)
def default_argument():
    weight = x()

    def step(a, w=weight):
        return a * w, w

    return step


@made(x)
def kept_in_a_list():
    seen = []

    def step(a):
        seen.append(a.sum())
        return a, seen

    return step


@made(x)
def kept_state():
    state = {"h": torch.zeros(2, 3)}

    def step(a):
        state["h"] = state["h"] * 2 + a
        return state["h"]

    return step


@made(x, again=False)
def grows_a_cache():
    cache = []

    def step(a):
        cache.append(a)
        return torch.cat(cache)

    return step


@case(lambda: (x(), 2), lambda: (x(), 3), lambda: (x(), 2.5), lambda: (x(), True))
def number_times_tensor(a, n):
    return a * n, n - a, a + n


@case(pair)
def control_by_shape(a, b):
    if a.shape == b.shape and a.dim() == 2:
        return a + b
    return a.sum() + b.sum()


@case(lambda: (x(), None), lambda: (x(), x()))
def optional_mask(a, mask):
    return a if mask is None else a * mask


@case(lambda: (x(), 3), lambda: (x(), 0))
def loop_over_layers(a, n):
    for k in range(n):
        a = a * 2 + k
    return a


@case(lambda: (x(), "sum"), lambda: (x(), "mean"), lambda: (x(), "none"))
def reduction_by_name(a, reduction):
    if reduction == "none":
        return a
    return getattr(a, reduction)()


@case(x)
def methods_kept_aside(a):
    add, total = a.add, a.sum
    return add(1), total(), torch.Tensor.mul(a, 3), list(map(torch.neg, [a, a]))


@case(x)
def functions_by_name(a):
    return getattr(torch, "add")(a, 1), getattr(a, "mul")(2), {"f": torch.sub}["f"](a, 1)


@case(x)
def text_of_attributes(a):
    return f"{a.shape} {a.dtype} {a.device}", str(a.dtype), repr(a.shape), "x".join(map(str, a.shape))


@case(x)
def sorted_by_shape(a):
    return [t.shape for t in sorted([a, a[0], a.view(-1)], key=lambda t: t.numel())]


@case(lambda: x(4))
def min_and_max_results(a):
    values, indices = a.max(0)
    result = a.sort()
    return values, indices, result.values, result[1], type(result).__name__, a.max(), a.argmax()


@case(x)
def dtype_values(a):
    return (
        torch.float32 is a.dtype, a.dtype == torch.float64, torch.finfo(a.dtype).max, torch.iinfo(torch.int8).min,
        a.dtype.itemsize, torch.promote_types(a.dtype, torch.int64),
    )  # fmt: skip


@case(x)
def device_values(a):
    return torch.device("cpu") == a.device, a.device.index, str(a.device), a.to(a.device), a.to("cpu")


@case(pair)
def generator_of_tensors(a, b):
    def products():
        for p in (a, b):
            for q in (a, b):
                yield p * q

    return list(products()), sum(t.sum() for t in products())


@case(lambda: (x(), lambda t: t + 1), lambda: (x(), torch.neg), lambda: (x(), torch.Tensor.abs))
def function_argument(a, function):
    return function(a)


@case(x)
def deep_copy(a):
    import copy

    b = copy.deepcopy([a, a])
    return b[0] is b[1], b[0] is a, b


@case(lambda: (x(), x()), lambda: (lambda a: (a, a))(x()))
def same_tensor_twice(a, b):
    a.add_(1)
    return a is b, b * 1, a + b
