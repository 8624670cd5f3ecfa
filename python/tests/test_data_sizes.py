"""Sizes and numbers that the data decides: read between two graphs, variables behind; no breaks, and no trace for each of them."""

import math
import sys
import time
import warnings

import numpy as np
import pytest
import torch

import oxytorch
from capturing import outcome
from compare import assert_same

CASES = {}


def case(traces):
    """At most so many traces: a size of 0 or 1 may need one of its own, and so does each way that a comparison goes."""

    def add(function):
        CASES[function.__name__] = (function, traces)
        return function

    return add


@case(3)
def mask(x):
    return ((x * 1)[x > 0] * 2 + 1).sum(), x[x > 0] + 1


@case(5)
def mask_among_others(x):
    y = x.reshape(3, 3)
    m = x[:3] > 1
    return y[:, m] * 2, y[m] + 1, y[y > 2] * 3, y[0, m] * 2, y[None, ..., m] + 1


@case(3)
def nonzero(x):
    return torch.nonzero(x * 1) * 2, x.nonzero().flatten()


@case(3)
def nonzero_as_tuple(x):
    (i,) = torch.nonzero(x, as_tuple=True)
    return x[i] * 2, i.shape[0]


@case(3)
def where_alone(x):
    return [i + 1 for i in torch.where(x > 1)]


@case(3)
def masked_select(x):
    return torch.masked_select(x, x > 1).exp()


@case(3)
def by_name(x):
    kept = torch.masked_select(input=x, mask=x > 1)
    return torch.nonzero(input=x) * 2, kept.exp(), [i + 1 for i in torch.where(condition=x > 1)]


@case(2)
def mask_among_numbers(x):
    """A number in a tensor, or in an array, takes its dimension away like any other; `True` takes none."""
    y, m = x.reshape(1, 9, 1), x > 0
    z, zero, number = x.reshape(1, 1, 9), torch.tensor(0), np.int64(0)
    return y[zero, m] * 2, y[zero, ..., m, :] + 1, z[:, zero, m] * 2, z[:, number, m] - 1, y[True, ..., m, :] * 3, z[..., True, m] * 2


@case(3)
def item_as_size(x):
    n = int((x > 0).sum().item())
    return torch.zeros(n) + 1, n, x[:n] * 2


@case(2)
def item_as_number(x):
    n = (x > 0).sum().item()
    s = x.sum().item()
    return torch.arange(n + 2) * n, n * 2, x * s + 1, s


@case(3)
def int_and_float(x):
    return torch.ones(int((x > 2).sum()) + 1) * float(x.sum())


@case(3)
def checked(x):
    n = (x > 0).sum().item()
    torch._check(n >= 0)
    torch._check(n < 100, lambda: "too many")
    return torch.ones(n, 4) @ torch.ones(4, 2)


@case(3)
def asserted(x):
    n = (x > 0).sum().item()
    torch._check_is_size(n, max=100)
    torch._check_value(n < 100)
    torch._constrain_as_size(n, max=100)
    torch._check_tensor_all(x >= 0)
    torch._assert_async((x * 2 >= 0).all(), "negative")
    torch._assert((x * 3 >= 0).all(), "negative")
    return torch.ones(n, 4) * 2


@case(3)
def compared(x):
    n = (x > 0).sum().item()
    return x * n if n > 3 else x + n


@case(3)
def compared_as_a_whole(x):
    y = x * 2
    if torch.equal(y, x + x[0]) or y.equal(x[:3]):
        return y + 1
    return y - 1 if torch.allclose(input=y, other=y + 1e-9) and torch.is_nonzero(y[0]) else y + 2


@case(4)
def tolist(x):
    a, b = torch.stack([(x > 0).sum(), (x > 3).sum()]).tolist()
    return torch.split(torch.cat([x[:a], x[:b]]) * 2, [a, b])


@case(4)
def numbers_that_are_tensors(x):
    """Where torch wants a number it asks a tensor for its own: in a list, by name, by place."""
    n = (x > 0).sum()
    parts = (x * 1).split([n, 9 - n])
    return parts[0] * 2, torch.arange(n) + 1, torch.arange(start=0, end=n) * 2, torch.full((3,), x.sum()) - 1, n


@case(1)
def texts_of_numbers_that_are_tensors(x):
    n = (x > 0).sum()
    return x * 2, f"{n} of {x.sum():.2f}", format(n, "3d"), "{} {!s}".format(n, 1), n + 1


@case(3)
def sizes_read_without_grad(x):
    with torch.no_grad():
        kept = x[x > 0].reshape(-1, 1) * 2
    return kept.sum() * x, kept + 1


@case(3)
def split_by_a_list_as_it_was_read(x):
    counts = torch.stack([(x > 0).sum(), 9 - (x > 0).sum()])
    first, second = (x * 1).split(counts.tolist())
    return first * 2, second + 1, torch.split(x, counts.tolist())[1] - 1


@case(3)
def unique(x):
    values, places, counts = torch.unique(x, return_inverse=True, return_counts=True)
    return values * counts, places + 1, values.shape[0], torch.unique_consecutive(x) * 2


@case(3)
def repeat_interleave(x):
    rows = torch.repeat_interleave(x.reshape(3, 3), x[:3].long(), dim=0)
    return torch.repeat_interleave(x, x.long()) * 2, rows + 1, torch.repeat_interleave(x.long()) + 1


@case(2)
def bincount(x):
    return torch.bincount(x.long()) * 2


@case(3)
def broadcast(x):
    y = x[x > 0]
    return y[:, None] * y[None, :], y.view(-1, 1).expand(-1, 3) * 2, y.mean(), y.shape


def rows():
    """Nine elements of which some are positive."""
    return [torch.cat([torch.arange(1.0, n + 1), torch.zeros(9 - n)]) for n in (3, 5, 2, 7, 1, 0, 9, 4)]


@pytest.mark.parametrize("name", CASES)
def test_in_whole_graphs(name):
    function, traces = CASES[name]
    compiled = oxytorch.compile(function, fullgraph=True)
    for x in rows() + rows()[::-1]:
        assert_same(compiled(x), function(x))
        assert_same(compiled(x.clone()), function(x))
    stats = compiled.stats()
    assert stats["breaks"] == []
    assert stats["traced"] <= traces


def test_gradients_flow_through_a_mask():
    def loss(x, w):
        kept = (x * w)[x > 0]
        return (kept.exp() * kept.shape[0]).sum()

    compiled = oxytorch.compile(loss, fullgraph=True)
    for x in rows():
        w = torch.linspace(0.1, 0.9, 9)
        ours, theirs = [(x.clone().requires_grad_(), w.clone().requires_grad_()) for _ in range(2)]
        a, b = compiled(*ours), loss(*theirs)
        a.backward()
        b.backward()
        assert_same((a.detach(), *(t.grad for t in ours)), (b.detach(), *(t.grad for t in theirs)))
    assert compiled.stats()["traced"] <= 3


def test_a_check_that_does_not_hold_raises():
    def function(x):
        n = x.sum().item()
        torch._check(n < 5, lambda: "five are too many")
        return x * n

    compiled = oxytorch.compile(function, fullgraph=True)
    assert_same(compiled(torch.tensor([1, 2])), function(torch.tensor([1, 2])))
    with pytest.raises(RuntimeError, match="five are too many"):
        compiled(torch.tensor([4, 2]))
    assert_same(compiled(torch.tensor([1, 1])), function(torch.tensor([1, 1])))


PAIRS = ((2, 3), (4, 5), (3, 3), (6, 2), (7, 5), (3, 9))

SPLIT = {
    "unpacked": lambda x, h, w: x.view(h, w, -1) * 2,
    "in_front": lambda x, h, w: x.reshape(-1, w, h).sum(0),
    "one_of_two": lambda x, h, w: x.view(h, 3 * w, -1) + 1,
}


@pytest.mark.parametrize("name", SPLIT)
def test_what_is_left_for_an_open_dimension(name):
    def function(x, counts):
        return SPLIT[name](x, *counts.tolist())

    compiled = oxytorch.compile(function, fullgraph=True)
    for pair in PAIRS:
        x = torch.randn(pair[0] * pair[1] * 3)
        assert_same(compiled(x, torch.tensor(pair)), function(x, torch.tensor(pair)))
    assert compiled.stats()["traced"] == 2


def test_spread_behind_a_read():
    def function(x, counts):
        return x.view(*counts.tolist(), -1) * 2, torch.ones([1, *counts.tolist()])

    compiled = oxytorch.compile(function, fullgraph=True)
    for pair in PAIRS:
        x = torch.randn(pair[0] * pair[1] * 3)
        assert_same(compiled(x, torch.tensor(pair)), function(x, torch.tensor(pair)))
    assert compiled.stats()["traced"] == 2


LASTING = {
    "as_it_is": lambda x, shape: torch.zeros(shape) + x.new(shape).shape[0] * x.view(shape),
    "joined": lambda x, shape: x.view(shape + (1,)) * 2,
    "spread": lambda x, shape: x.expand(2, *shape) * 2,
    "parts": lambda x, shape: x.view(shape[:-1] + (2, 2)) * shape[0],
    "numbers": lambda x, shape: (x * shape.numel(), math.prod(shape), sum(shape), len(shape)),
    "compared": lambda x, shape: x * 2 if torch.zeros(shape).shape == shape and x.shape == shape else x,
    "given_back": lambda x, shape: (shape, x + 1),
    "walked": lambda x, shape: [torch.zeros(size) for size in shape],
}


@pytest.mark.parametrize("name", LASTING)
def test_shapes_outlive_a_read(name):
    def function(x, t):
        shape = x.shape
        number = t.item()
        return LASTING[name](x, shape), torch.full((x.shape[0],), t.item()) + number

    compiled = oxytorch.compile(function, fullgraph=True)
    for n in (3, 5, 7, 9, 2, 13):
        x, t = torch.randn(n, 4), torch.tensor(n + 0.5)
        assert_same(compiled(x, t), function(x, t))
    assert compiled.stats()["traced"] == 2


# Behind pytest's back, which rewrites the statements of its files.
WRITTEN = {}
exec("def statement(x):\n    assert (x > -5).all() and not (x < 0).any(), 'negative'\n", WRITTEN)


ASSERTIONS = {
    "is_size": lambda x: torch._check_is_size(x[0].item(), lambda: "no size"),
    "max": lambda x: torch._check_is_size(abs(x[0].item()), max=3),
    "value": lambda x: torch._check_value(x[0].item() >= 0, lambda: f"negative: {x[0].item()}"),
    "tensor_all": lambda x: torch._check_tensor_all(x >= 0),
    "scalar": lambda x: torch._assert_scalar(x[0].item() + 4, "four below"),
    "range": lambda x: torch.sym_constrain_range(x[0].item(), min=-1, max=3),
    "constrained": lambda x: torch._constrain_as_size(x[0].item(), max=3),
    "async": lambda x: torch._assert_async((x >= 0).all()),
    "by_operator": lambda x: torch.ops.aten._assert_async((x >= 0).all(), "negative"),
    "assert": lambda x: torch._assert((x >= 0).all(), "negative"),
    "statement": WRITTEN["statement"],
}


@pytest.mark.parametrize("name", ASSERTIONS)
def test_assertions_raise_where_they_do_not_hold(name):
    def function(x):
        doubled = x * 2
        ASSERTIONS[name](x)
        return doubled + 1

    compiled = oxytorch.compile(function, fullgraph=True)
    for first in (1, 2, -4, -5, 3, -4):
        x = torch.tensor([first, 0])
        (got, raised), (want, expected) = outcome(compiled, x), outcome(function, x)
        assert raised == expected
        assert_same(got, want)
    assert compiled.stats()["breaks"] == []


def test_numbers_too_large_for_variables():
    def function(x):
        n = x.sum().item()
        return x + n, n

    compiled = oxytorch.compile(function)
    for value in (3, 2**40, -(2**62), 7, 2**31, -1):
        x = torch.tensor([value, 0])
        assert_same(compiled(x), function(x))


def test_never_dynamic():
    function = CASES["item_as_size"][0]
    compiled = oxytorch.compile(function, dynamic=False)
    for x in rows():
        assert_same(compiled(x), function(x))


def test_sizes_vary_behind_breaks_at_once():
    def function(t):
        a = t * 2
        sys.getswitchinterval()
        b = a + t.sum().item()
        sys.getswitchinterval()
        return b - b.shape[0]

    captured = oxytorch._oxytorch.capture(function)
    for n in (2, 3, 5, 4, 7):
        x = torch.arange(4.0 * n).reshape(n, 4)
        assert_same(captured(x), function(x))
    assert captured.stats()["traced"] == 2, captured.report()["recompiles"]


def bounds(x):
    """Two numbers of the values: the second and the third, which may be negative, beyond the end, or in the wrong order."""
    at = x.to(torch.int64)
    return at[1], at[2]


def read_between(x):
    lo, hi = bounds(x)
    return (x * 2)[lo:hi] + 1


def read_two_dimensions(x):
    lo, hi = bounds(x)
    return (x[:, None] * x[None, :])[lo:hi, 1:hi] * 2, x[hi:], x[:lo] + 1


def write_between(x):
    lo, hi = bounds(x)
    b = x * 0
    b[lo:hi] = 3
    return b + 1


def write_two_dimensions(x):
    lo, hi = bounds(x)
    b, y = x[:, None] * 0, x[:, None] + x[None, :]
    y[lo:hi, 2:hi] = b[lo:hi] - 1
    return y * 2


READS, WRITES = [read_between, read_two_dimensions], [write_between, write_two_dimensions]
USUAL = [(3, 5), (4, 7), (3, 6), (4, 8), (2, 6), (3, 8)]
# From the end, beyond it, the wrong way round, empty, 0 and 1.
UNUSUAL = [(-7, -2), (-5, 8), (5, 3), (4, 4), (3, 20), (-20, 4), (0, 4), (1, 6), (2, 3), (0, 0), (0, 1)]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("function", READS + WRITES)
def test_bounds_that_are_tensors(function, grad):
    """What a gradient flows through is written in a break."""
    is_whole = function in READS or not grad
    compiled = oxytorch.compile(function, fullgraph=is_whole)

    def run(called, lo, hi):
        x = torch.tensor([4.0, lo, hi, 1, 2, 3, 5, 7, 6], requires_grad=grad)
        result = called(x)
        results = result if isinstance(result, tuple) else (result,)
        if grad:
            sum(part.sum() for part in results).backward()
        return *(part.detach() for part in results), x.grad

    for lo, hi in USUAL:
        assert_same(run(compiled, lo, hi), run(function, lo, hi))
    assert compiled.stats()["traced"] <= 2
    for lo, hi in UNUSUAL + USUAL + UNUSUAL[::-1]:
        assert_same(run(compiled, lo, hi), run(function, lo, hi))
    stats = compiled.stats()
    assert stats["traced"] <= 10
    assert bool(stats["breaks"]) != is_whole


def test_all_bounds_of_an_index_are_read_together():
    def function(x, at):
        y = x * 2
        y[at[0] : at[1], at[2] : at[3]] = 1
        return y + 1

    compiled = oxytorch.compile(function, fullgraph=True)
    for places in ([2, 4, 3, 5], [3, 6, 2, 6], [2, 7, 4, 6]):
        x, at = torch.rand(8, 8), torch.tensor(places)
        assert_same(compiled(x, at), function(x, at))
    stats = compiled.stats()
    assert (stats["traced"], stats["segments"]) == (1, 2)


def test_a_loop_that_is_cut_every_few_operations_is_left_to_python():
    def function(x):
        for _ in range(200):
            x = x * 0.5 + max(x[0], 0.25)
        return x

    compiled = oxytorch.compile(function)
    for x in rows():
        assert_same(compiled(x), function(x))
    assert compiled.stats()["segments"] < 200


def test_a_shape_with_a_size_that_is_left_to_torch_is_traced_for_no_other_numbers():
    def function(x, sizes):
        height, width = sizes
        return (x * 2).view(height, width, -1) + 1

    compiled = oxytorch.compile(function)
    for height, width in ((2, 3), (3, 4), (5, 2), (4, 6), (7, 3)):
        arguments = torch.rand(height * width, 3), torch.tensor([height, width])
        assert_same(compiled(*arguments), function(*arguments))
    assert compiled.stats()["traced"] <= 2


def test_a_loop_that_was_left_to_python_is_traced_for_no_other_data():
    def function(x):
        x = x + 1
        for n in range(50):
            x = (x * 5 + n) % 17 + max(x[n % 4], 8)
        return x

    compiled = oxytorch.compile(function)
    generator = torch.Generator().manual_seed(0)
    for _ in range(6):
        x = torch.randint(17, (4,), generator=generator)
        assert torch.equal(compiled(x), function(x))
    report = compiled.report()
    assert report["recompiles"] == []
    assert [s["end"] for s in report["segments"] if "every few operations" in s["end"]]


def test_what_is_left_to_python_is_no_tracing_and_its_operations_are_counted():
    def function(x):
        for n in range(50):
            x = (x * 5 + n) % 17 + max(x[n % 4], 8)
        time.sleep(0.3)
        return x

    compiled = oxytorch.compile(function)
    began = time.perf_counter()
    compiled(torch.arange(4))
    elapsed = time.perf_counter() - began
    report = compiled.report()
    assert sum(report["seconds"].values()) <= elapsed - 0.3
    assert report["ops"] > 32 * 3


@torch.library.custom_op("oxytorch_tests::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


@positive.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


def test_an_operator_of_the_user_s_whose_sizes_the_data_decides():
    def function(x):
        return positive(x * 2) + 1

    compiled = oxytorch.compile(function, fullgraph=True)
    for count in (5, 3, 4, 6):
        x = torch.arange(8.0) - (7 - count)
        assert_same(compiled(x), function(x))
    report = compiled.report()
    assert (report["traced"], len(report["reads"]), report["breaks"]) == (1, 1, [])


WINDOW = (2, 3)


@torch.library.custom_op("oxytorch_tests::pooled", mutates_args=())
def pooled(x: torch.Tensor, width: int) -> torch.Tensor:
    return x.sum(1, keepdim=True).expand(-1, width).clone()


@pooled.register_fake
def _(x, width):
    return x.new_empty(x.shape[0], width)


def joined_with_a_tuple_from_outside(x):
    rows = torch.cat([x[x[:, 0] > 0], x[x[:, 1] > 0]])
    return torch.zeros((len(rows), 4) + WINDOW) + rows[:, :, None, None]


def given_to_an_operator_of_others(x):
    rows = x[x[:, 0] > 0] * 2
    result = torch.zeros(len(rows), 5)
    at = torch.where(rows[:, 1] > 0)[0]
    result[at] = pooled(rows[at], 5) + 1
    return result * 2, pooled(rows, 4) + rows


def reshaped_by_a_sum_of_sizes(x):
    parts = [x[x[:, 0] > 0], x[x[:, 1] > 0]]
    count = sum(part.size(0) for part in parts)
    codes = torch.where(torch.cat(parts)[:, 2] > -100)[0][:, None].expand(-1, 8) * 2
    return codes.reshape(count, -1)[:, 0::4] + 1


FUNCTIONS = [joined_with_a_tuple_from_outside, given_to_an_operator_of_others, reshaped_by_a_sum_of_sizes]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_sizes_that_the_data_decides_stay_variables(function):
    compiled, generator = oxytorch.compile(function, fullgraph=True), torch.Generator().manual_seed(3)
    for _ in range(6):
        x = torch.randn(24, 4, generator=generator)
        assert_same(compiled(x), function(x))
    report = compiled.report()
    assert (report["traced"], report["breaks"]) == (1, [])


@pytest.mark.parametrize("dynamic", [None, True])
def test_experts_are_trained_on_any_number_of_rows(dynamic):
    """What was made in front of a read is written behind it, with what requires grad: eager does that, and sizes are variables all the same."""

    def function(x, expert):
        out = torch.zeros_like(x)
        for n in range(2):
            (rows,) = torch.where(expert == n)
            out.index_add_(0, rows, x[rows].sin() * (n + 1))
        return (out * 2).cos()

    compiled = oxytorch.compile(function, dynamic=dynamic)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*this graph runs in eager")
        for n in (9, 12, 7, 10, 6, 15):
            x, expert, results = torch.randn(n, 3), torch.arange(n) % 2, []
            for call in (compiled, function):
                own = x.clone().requires_grad_()
                result = call(own, expert)
                result.square().sum().backward()
                results.append((result.detach(), own.grad))
            assert_same(*results)
    assert compiled.stats()["traced"] <= (2 if dynamic is None else 1), compiled.report()["recompiles"]


def test_as_many_classes_as_there_are():
    function = lambda labels: torch.nn.functional.one_hot(labels) * 2
    compiled = oxytorch.compile(function, fullgraph=True)
    for n in (5, 9, 4, 7):
        labels = torch.arange(n) % (n - 2)
        assert_same(compiled(labels), function(labels))
    assert compiled.stats()["traced"] <= 2


def test_sizes_behind_a_break_vary_with_those_in_front_of_it():
    """As many traces as there are breaks would be one behind the other."""
    doubled = torch.compiler.disable(lambda x: torch.cat([x, x], 1))

    def function(x):
        for _ in range(4):
            x = doubled(x + 1)[:, : x.shape[1]] * 2
        return x

    compiled = oxytorch.compile(function)
    with torch.no_grad():
        for n in (9, 12, 7, 10, 6):
            x = torch.randn(3, n)
            assert_same(compiled(x), function(x))
    assert compiled.stats()["traced"] == 2


def test_an_operand_that_could_be_a_number_is_none():
    import torch.nn.functional as F

    programs = [
        (lambda label, n: F.one_hot(label, n), torch.tensor(1), torch.tensor(3)),
        (lambda x, slope: F.leaky_relu(x.sum(), slope), -torch.ones(3), torch.tensor(0.5)),
        (lambda a, beta: F.smooth_l1_loss(a.sum(), a.max(), "mean", beta), torch.ones(3), torch.tensor(0.5)),
    ]
    for program, *arguments in programs:
        compiled = oxytorch.compile(program)
        for _ in range(3):
            assert torch.equal(compiled(*arguments), program(*arguments))
