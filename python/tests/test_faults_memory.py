"""Known faults of memory: aliasing, mutation, strides, buffers used again, addresses. Numbers are pytorch/pytorch's issues."""

import warnings

import compare
import oxytorch
import pytest
import torch
import torch.nn.functional as F
from checking import check, compiled


@pytest.fixture(autouse=True)
def inference():
    with torch.no_grad():
        yield


def storage(tensor):
    return tensor.untyped_storage().data_ptr()


# Mutation and aliasing.


def test_augmented_assignment_at_repeated_indices_138908():
    def f(y, x):
        y[x] += y[x]
        y[x[:2], 1] *= 3
        return y.sum(), y[x]

    check(f, torch.randn(6, 4), torch.tensor([1, 3, 1, -1]))


def test_a_written_input_that_later_overlaps_another_139789():
    def f(x, y):
        x.add_(1)
        z = y * 2
        x.mul_(3)
        return z + x, y + 1

    wrapped = compiled(f)
    for offset in (None, 0, 2, 3, None, 6):
        runs = []
        for function in (wrapped, f):
            base, other = torch.arange(12.0), torch.arange(12.0)
            y = other[:6] if offset is None else base[offset : offset + 6]
            runs.append((function(base[:6], y), base, other))
        compare.assert_same(*runs)


def test_one_tensor_passed_twice_and_written():
    def f(x, y):
        x.add_(1)
        return y * 2 + x

    wrapped = compiled(f)
    for same in (False, True, False):
        runs = []
        for function in (wrapped, f):
            x, y = torch.arange(5.0), torch.arange(5.0)
            runs.append((function(x, x if same else y), x, y))
        compare.assert_same(*runs)


def test_in_place_on_a_view_of_a_tensor_that_requires_grad_93363():
    def f(x):
        view = x[1:, ::2]
        view.mul_(2)
        x.T[0].add_(1)
        return view + 1, x * 1

    runs = []
    for function in (compiled(f), f):
        x = torch.arange(12.0).view(3, 4).requires_grad_()
        runs.append((function(x), x.detach()))
        assert x.requires_grad and x.is_leaf
    compare.assert_same(*runs)


def test_in_place_on_a_leaf_without_grad_90844():
    layer = torch.nn.Linear(3, 3)
    before = layer.weight.clone()

    def f(x):
        layer.weight.add_(1)
        layer.weight.data.mul_(2)
        return layer(x)

    x = torch.randn(2, 3)
    wrapped = compiled(f)
    for _ in range(2):
        layer.weight.copy_(before)
        got, weight = wrapped(x), layer.weight.detach().clone()
        layer.weight.copy_(before)
        compare.assert_same((got, weight), (f(x), layer.weight.detach()))
    assert layer.weight.requires_grad and layer.weight.is_leaf


@torch.library.custom_op("oxytorch_faults::bump_both", mutates_args=("a", "b"))
def bump_both(a: torch.Tensor, b: torch.Tensor) -> None:
    a.add_(1)
    b.mul_(2)


def test_two_views_written_by_a_custom_op_153389():
    def disjoint(x):
        y = x * 2
        bump_both(y[:2], y[3:])
        bump_both(x[0], x[2:, 1:])
        return y, x + 1

    def overlapping(x):
        y = x * 2
        bump_both(y[:3], y[1:])
        return y.sum(0), y

    x = torch.randn(5, 4)
    check(disjoint, x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(overlapping, x, outcome="eager")


def test_a_buffer_is_kept_while_an_alias_of_it_lives_189735():
    def f(x, w):
        y = x + 1
        flat = y.view(-1)
        z = (y @ w).relu()
        for _ in range(4):
            z = (z @ w).sin()
        part = flat[3:9]
        return z, part * 2, flat, y.t()

    wrapped = check(f, torch.randn(8, 8), torch.randn(8, 8))
    x, w = torch.randn(8, 8), torch.randn(8, 8)
    first = wrapped(x, w)
    kept = [t.clone() for t in first]
    wrapped(x * 3, w)
    compare.assert_same(list(first), kept, strides=False)


def test_results_share_memory_as_in_eager():
    def f(x):
        y = x.sin()
        return y, y[1:], y.t(), x[0], x.view(-1), y + 0, y.contiguous(), y.clone()

    x = torch.randn(4, 5)
    got, want = compiled(f)(x), f(x)
    compare.assert_same(got, want)
    for i in range(len(got)):
        assert (storage(got[i]) == storage(x)) == (storage(want[i]) == storage(x)), i
        for j in range(i):
            assert (storage(got[i]) == storage(got[j])) == (storage(want[i]) == storage(want[j])), (i, j)


def test_a_functional_write_does_not_reach_the_views_of_its_source_122457():
    def f(x, i):
        y = x.clone()
        row, flat = y[0], y.view(-1)
        z = y.index_put((i,), torch.zeros(()))
        s = y.slice_scatter(torch.ones(1, 4), 0, 1, 2)
        row.add_(1)
        t = flat.index_fill(0, i, 7.0)
        return z, s, t, y, row * 2, flat + 0

    check(f, torch.randn(3, 4), torch.tensor([0, 2]))


def test_writes_across_views_that_overlap_122457():
    def f(x):
        y = x * 2
        top, bottom = y[:2], y[1:]
        bottom.add_(top.sum())
        top.mul_(bottom.sum())
        return y, top, bottom

    check(f, torch.randn(4, 3))


def test_scatter_then_gather_of_the_same_buffer_191571():
    def f(x, i, j):
        y = torch.zeros(32).scatter(0, i, x)
        z = y.gather(0, j) + y[j]
        w = torch.zeros(32).index_add(0, i, x)
        return z, w[j] * y.sum(), w.flip(0)

    check(f, torch.randn(32), torch.randperm(32), torch.randint(0, 32, (100,)))


def test_copy_between_overlapping_slices():
    def f(x):
        y = x.clone()
        y[1:] = x[:-1]
        x[2:].copy_(x[:-2].clone())
        return y, x * 2

    check(f, torch.arange(100.0))


def leave_the_same(write, x):
    """Both leave the same in memory, or both raise the same."""
    runs = []
    for function in (compiled(write), write):
        storage = compare.copies(x)
        try:
            function(storage)
            runs.append(storage.clone())
        except RuntimeError as error:
            runs.append(str(error).split(" (")[0])
    compare.assert_same(*runs, strides=False)


OVERLAPPING_WRITES = {
    "unfold-add": lambda x: x.unfold(0, 2, 1).add_(1),
    "unfold-mul": lambda x: x.unfold(0, 3, 2).mul_(2),
    "unfold-fill": lambda x: x.unfold(0, 2, 1).fill_(2),
    "unfold-copy": lambda x: x.unfold(0, 2, 1).copy_(torch.arange(22.0).view(11, 2)),
    "unfold-setitem": lambda x: x.unfold(0, 2, 1).__setitem__(slice(1, 3), 7),
    "unfold-apart": lambda x: x.unfold(0, 2, 3).add_(1),
    "expand-add": lambda x: x[:1].expand(3).add_(1),
    "expand-fill": lambda x: x[:1].expand(3).fill_(1),
    "expand-part": lambda x: x[:1].expand(3)[:1].add_(1),
    "as_strided-add": lambda x: x.as_strided((3, 2), (1, 1)).add_(1),
    "slices-add": lambda x: x[1:].add_(x[:-1]),
    "slices-copy": lambda x: x[1:].copy_(x[:-1]),
    "slices-setitem": lambda x: x.__setitem__(slice(1, None), x[:-1]),
    "slices-out": lambda x: torch.add(x[:-1], 1, out=x[1:]),
    "steps-add": lambda x: x[1::2].add_(x[:6]),
    "transposed": lambda x: x[:9].view(3, 3).mul_(x[:9].view(3, 3).t()),
    "element": lambda x: x.add_(x[0]),
    "index_put-own": lambda x: x.index_put_((torch.tensor([0, 1]),), x[2:4]),
    "index_add-own": lambda x: x.index_add_(0, torch.tensor([1, 2, 3]), x[:3]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("write", OVERLAPPING_WRITES.values(), ids=OVERLAPPING_WRITES.keys())
def test_writes_through_overlapping_memory(write):
    leave_the_same(write, torch.arange(12.0))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape,strides", [((5, 2), (1, 1)), ((3,), (0,)), ((3, 4), (3, 1)), ((3, 3), (1, 2))])
def test_a_written_input_that_overlaps_itself(shape, strides):
    leave_the_same(lambda x: x.add_(1), torch.arange(12.0).as_strided(shape, strides))
    leave_the_same(lambda x: x[:1].fill_(1), torch.arange(12.0).as_strided(shape, strides))


@pytest.mark.filterwarnings("ignore")
def test_a_written_input_that_overlaps_itself_only_at_other_sizes():
    f, wrapped = (lambda x: x.add_(1)), compiled(lambda x: x.add_(1), dynamic=True)
    for shape, strides in [((4, 5), (7, 1)), ((4, 6), (7, 1)), ((4, 9), (7, 1)), ((5, 9), (3, 1)), ((5, 9), (12, 1))]:
        runs = []
        for function in (wrapped, f):
            memory = torch.arange(64.0)
            function(memory.as_strided(shape, strides))
            runs.append(memory)
        compare.assert_same(*runs)


def test_parts_that_do_not_overlap_are_compiled():
    def f(x):
        x[::2].add_(x[1::2])
        x[0] = x[1]
        x[4:6].copy_(x[8:10])
        x.view(3, 4)[:, 0].mul_(x.view(3, 4)[:, 1])
        x.add_(x)
        return x * 2

    check(f, torch.arange(12.0))


# Layout.


def test_as_strided_on_channels_last_reads_memory_order_174963():
    def f(x):
        y = x * 2
        windows = y.as_strided((4, 6), (6, 1)) + 1, y.as_strided((5,), (3,), 2).sum(), y.as_strided((3, 4), (1, 1), 7).relu()
        return x.as_strided((4, 6), (6, 1)), windows, y.as_strided((), ()).exp()

    check(f, torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last))
    check(f, torch.randn(2, 3, 4, 5))
    check(f, torch.randn(5, 4, 3, 2).permute(3, 2, 1, 0))
    check(f, torch.randn(5, 4, 3, 2).permute(3, 2, 1, 0), dynamic=True)


def test_as_strided_that_is_returned_shares_memory():
    def f(x):
        y = x * 2
        return y, y.as_strided((3, 4), (1, 1), 7)

    x = torch.randn(5, 4, 3, 2).permute(3, 2, 1, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrapped = check(f, x, outcome="eager")
    y, windows = wrapped(x)
    assert storage(y) == storage(windows)


def test_as_strided_of_a_written_input_174963():
    def f(x):
        x.mul_(2)
        return x.as_strided((4, 6), (6, 1)) + 1

    check(f, torch.randn(5, 4, 3, 2).permute(3, 2, 1, 0))


def test_as_strided_of_a_view_of_an_input_174963():
    def f(x):
        views = x.t(), x[1:], x[:, 2], x[:, ::2], x.unsqueeze(0).expand(3, 4, 6), x.unflatten(1, (2, 3)), x.T[1:].T
        return [view.as_strided((2, 3), (2, 1)) * 2 for view in views]

    check(f, torch.randn(4, 6))
    check(f, torch.randn(6, 4).t())


def test_as_strided_counts_a_given_offset_from_the_storage():
    def f(x):
        return x.as_strided((2, 3), (3, 1), 4), x.as_strided((2, 3), (3, 1)) + 1, (x + 1)[2:].as_strided((3,), (1,), 0)

    def g(x):
        return x.as_strided((2, 3), (3, 1), 4), x.as_strided((2, 3), (3, 1), 1) * 2, x[2:].as_strided((2,), (1,), 1) + 1

    base = torch.arange(40.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for function in (f, g):
            for first in (0, 5):
                torch._dynamo.reset()
                wrapped = compiled(function)
                for start in (first, 0, 5, 11):
                    got, want = wrapped(base[start : start + 12]), function(base[start : start + 12])
                    compare.assert_same(got, want)
                    assert got[0].data_ptr() == want[0].data_ptr()
        assert oxytorch.last_compile()["outcome"] == "compiled"


def test_dynamic_reshape_of_a_non_contiguous_tensor_172693():
    def f(x):
        y = x.transpose(1, 2)
        return y.reshape(y.size(0), -1), y.reshape(-1, 2, x.size(1)).sum(1), x[:, ::2].reshape(-1), y.flatten(0, 1)

    wrapped = compiled(f, dynamic=True)
    for shape in [(3, 4, 6), (5, 2, 8), (2, 7, 4), (6, 3, 2)]:
        check(f, torch.randn(shape), wrapped=wrapped)
        check(f, torch.randn(shape[::-1]).permute(2, 1, 0), wrapped=wrapped)


def test_one_buffer_read_under_two_layouts_179931():
    def f(x, w):
        y = F.pad(x @ w, (0, 3))
        z = torch.cat([y, x], 1)
        return y[:, :5].t() @ x, z.t().reshape(7, -1).softmax(0), y.view(-1)[3:40] * 2, (z[:, 5:] + 1).t()

    check(f, torch.randn(7, 5), torch.randn(5, 5))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(1) + x.mean(1),
        lambda x: x.permute(0, 2, 3, 1).softmax(-1) * 2,
        lambda x: (x.transpose(2, 3) + x.transpose(2, 3)[:, :1]).relu(),
        lambda x: F.pad(x, (1, 1)) * 2,
        lambda x: x.clone().add_(1),
        lambda x: torch.where(x > 0, x, x.new_zeros(1)),
        lambda x: (x[:, :, ::2] + 1, x.contiguous() + x, torch.empty_like(x).fill_(3)),
        lambda x: torch.stack([x, x], 1),
        lambda x: F.conv2d(x, torch.ones(4, 3, 3, 3)).relu() + 1,
        lambda x: F.avg_pool2d(x, 2) + 1,
        lambda x: (x.flatten(2) @ x.flatten(2).transpose(1, 2)).transpose(0, 1),
        lambda x: (x.argmax(1), x.cumsum(2), x.flip(1)),
        lambda x: (x.to(torch.float64), x.to(torch.bfloat16) * 2, x > 0),
        lambda x: x.repeat(1, 2, 1, 1) + 1,
        lambda x: F.group_norm(x, 3) + F.instance_norm(x),
        lambda x: x.new_zeros(6, 8) + x,
    ],
    ids="sum permute transpose pad clone where slice stack conv pool matmul scan cast repeat group_norm broadcast".split(),
)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "permuted", "sliced"])
def test_strides_of_results_198364_168381(function, layout):
    x = {
        "contiguous": lambda: torch.randn(2, 3, 6, 8),
        "channels_last": lambda: torch.randn(2, 3, 6, 8).to(memory_format=torch.channels_last),
        "permuted": lambda: torch.randn(6, 2, 8, 3).permute(1, 3, 0, 2),
        "sliced": lambda: torch.randn(2, 6, 6, 9)[:, ::2, :, 1:],
    }[layout]()
    check(function, x)


# Addresses.


def test_offsets_beyond_2_to_the_31_154168_186057():
    # Memory that is never touched costs nothing: only a few pages of these 5 GiB are.
    size = 5 << 30
    x = torch.empty(size, dtype=torch.uint8)
    strided = x.as_strided((9,), (1 << 29,))
    strided.copy_(torch.arange(9))
    x[size - 64 :] = torch.arange(64)
    x[(1 << 31) : (1 << 31) + 40] = torch.arange(40)

    def f(x, strided, i):
        return x[size - 64 :] * 2, x[1 << 31 : (1 << 31) + 40] + 1, x[i] + 1, strided + 1, x.view(-1, 1 << 29)[:, 3] * 0

    i = torch.tensor([size - 1, 1 << 31, -2])
    compare.assert_same(compiled(f)(x, strided, i), f(x, strided, i))
    assert oxytorch.last_compile()["outcome"] == "compiled"


def test_more_than_2_to_the_31_elements_in_a_loop_154168():
    rows = (1 << 23) + 1
    x = torch.arange(256).to(torch.uint8).expand(rows, 256)
    out = compiled(lambda x: (x == 255).sum())(x)
    assert out.item() == rows
    assert oxytorch.last_compile()["outcome"] == "compiled"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bfloat16, torch.int8], ids=str)
def test_inputs_at_any_address_191002(dtype):
    buffer = bytearray(torch.arange(4096).to(torch.uint8).remainder(100).numpy().tobytes())
    wrapped = compiled(lambda x, y: (x * 2 + y[: x.numel()], x.sum(), x.view(7, 11).amax(0), x.view(7, 11).t() @ x.view(7, 11)))
    for offset in (0, 1, 3, 4, 8, 17, 32):
        x = torch.frombuffer(buffer, dtype=dtype, offset=offset, count=77)
        y = torch.frombuffer(buffer, dtype=dtype, offset=offset + 5, count=80)[1:78]
        want = wrapped(x.clone(), y.clone())
        compare.assert_same(wrapped(x, y), want)
        compare.assert_same(want[0], x.clone() * 2 + y.clone())


def test_storage_offsets_read_the_right_slice_191002():
    base = torch.arange(400.0)
    wrapped = compiled(lambda x: (x * 2, x.view(4, 8).sum(0), x[3:] + 1, x.view(4, 8)[:, 1:].t()))
    for offset in range(9):
        x = base[offset : offset + 32]
        want = (x * 2, x.view(4, 8).sum(0), x[3:] + 1, x.view(4, 8)[:, 1:].t())
        compare.assert_same(wrapped(x), want)
        assert wrapped(x)[3].storage_offset() == want[3].storage_offset()


@torch.library.custom_op("oxytorch_faults::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@doubled.register_fake
def _(x):
    return torch.empty_like(x)


@pytest.mark.parametrize("entry", [oxytorch.compile, compiled], ids=["capture", "dynamo"])
def test_a_custom_op_gets_the_part_of_an_input_that_begins_inside_of_its_storage(entry):
    def f(x):
        return doubled(x[1:]) + 1, doubled(x.view(4, 2).t()), doubled(x.expand(2, 8))

    wrapped, base = entry(f), torch.arange(40.0)
    for offset in (0, 4, 32, 7):
        x = base[offset : offset + 8]
        compare.assert_same(wrapped(x), f(x))


def test_views_of_inputs_that_lie_in_one_storage():
    def f(x, y):
        return x.view(2, 3), y.view(3, 2), y[1:].t() if y.dim() > 1 else y[1:]

    wrapped, one, other = compiled(f), torch.arange(20.0), torch.arange(20.0) + 100
    for x, y in ((one[2:8], one[4:10]), (one[:6], other[3:9]), (one[5:11], one[:6])):
        got, want = wrapped(x, y), f(x, y)
        compare.assert_same(got, want)
        assert [storage(t) for t in got] == [storage(t) for t in want]


def test_results_that_torch_conjugates_lazily():
    def f(x):
        y = torch.fft.ifft(x)
        return y * 2.0, torch.fft.ihfft(x).imag + 1, torch.view_as_real(y.resolve_conj()) + 1

    got, want = compiled(f)(torch.arange(8.0)), f(torch.arange(8.0))
    compare.assert_same([t.resolve_conj() for t in got], [t.resolve_conj() for t in want], strides=False)
    assert oxytorch.last_compile()["outcome"] == "compiled"


def test_conj_and_neg_bits_of_inputs_are_resolved_197856():
    def f(x):
        return x * 2.0, x + 1

    z = torch.randn(12, dtype=torch.complex64)
    wrapped = compiled(f)
    for x in (z, z.conj(), z.real, z.imag, z.conj().imag, torch._neg_view(torch.randn(12)), torch.randn(12)):
        compare.assert_same([t.resolve_neg().resolve_conj() for t in wrapped(x)], [t.resolve_neg().resolve_conj() for t in f(x)])


def test_unwritten_memory_of_deterministic_algorithms_174386():
    def f(x):
        made = [torch.empty(3), torch.empty_like(x), x.new_empty(2), torch.empty_strided((2, 3), (3, 1))]
        made += [x.new_empty_strided((2,), (1,))]
        made += [torch.empty(3, dtype=dtype) for dtype in (torch.bfloat16, torch.bool, torch.uint8, torch.int16, torch.int64)]
        return made, torch.empty(3, dtype=torch.int32) - 1, torch.empty_like(x, dtype=torch.int8), torch.empty(4).fill_(2)

    try:
        torch.use_deterministic_algorithms(True)
        check(f, torch.randn(4, 5))
    finally:
        torch.use_deterministic_algorithms(False)
