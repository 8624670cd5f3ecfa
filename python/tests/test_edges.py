"""Calls that eager refuses or does in an order of its own, and results whose layout is easily got wrong: with both entry points."""

import compare
import oxytorch
import pytest
import torch
import torch.nn.functional as F
from entries import check, same_outcome

# Writing what is read.


def rows(i):
    return i[:, None].expand(6, 4)


def setitem(x, i):
    x[i] = x


def setitem_of_an_intermediate(x, i):
    y = x + 1
    y[i] = y
    return y


SELF_WRITES = {
    "setitem": setitem,
    "setitem_of_an_intermediate": setitem_of_an_intermediate,
    "index_put_": lambda x, i: x.index_put_((i,), x),
    "index_copy_": lambda x, i: x.index_copy_(0, i, x),
    "index_add_": lambda x, i: x.index_add_(0, i, x),
    "scatter_": lambda x, i: x.scatter_(0, rows(i), x),
    "scatter_add_": lambda x, i: x.scatter_add_(0, rows(i), x),
    "index_select": lambda x, i: torch.index_select(x, 0, i, out=x),
    "take": lambda x, i: torch.take(x, rows(i), out=x),
    "cat": lambda x, i: torch.cat([x], out=x),
    "stack": lambda x, i: torch.stack([x[0]], out=x[:1]),
}


@pytest.mark.parametrize("function", SELF_WRITES.values(), ids=SELF_WRITES)
def test_a_source_that_is_the_target_is_refused_as_in_eager(entry, function):
    want = check(entry, function, torch.randn(6, 4), torch.tensor([1, 3, 0, 2, 5, 4]))
    assert isinstance(want, RuntimeError), "eager does not refuse this any more"


def test_a_source_that_is_the_target_is_read_in_step(entry):
    def f(x):
        x.mul_(x).add_(x.sigmoid())
        x[1:3] += x[1:3]
        torch.where(x > 0, x, -x, out=x)
        x[:2] = x[:2]
        return x.cumsum_(0).clamp_(max=x)

    check(entry, f, torch.randn(6, 4))


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_running_statistics_that_share_memory(entry, one_thread):
    """With more threads than one, eager's own result depends on which of them writes a shared number last."""

    def overlapping(x, base):
        return F.batch_norm(x, base[:4], base[1:], training=True), base

    def one(x, base):
        return F.batch_norm(x, base[:4], base[:4], training=True), base

    for function in (overlapping, one):
        check(entry, function, torch.randn(6, 4), torch.rand(5))


# A new shape in place.


def test_new_shape_of_an_intermediate_in_place(entry):
    def f(x):
        a, b, c = x + 1, (x * 2)[None], x - 3
        flat = c.view(-1)
        a.unsqueeze_(0).transpose_(0, 2)
        b.squeeze_(0)
        c.t_()
        c.add_(1)
        return a * 2, a, b.sum(0), c, flat, flat.unsqueeze_(1)

    check(entry, f, torch.randn(6, 4))
    assert oxytorch.last_compile()["outcome"] == "compiled"
    assert not oxytorch.last_compile()["python_calls"]


def test_new_shape_of_an_intermediate_is_no_break():
    def f(x):
        y = x + 1
        y.t_()
        return y * 2, y.shape

    wrapped = oxytorch.compile(f, fullgraph=True)
    with torch.no_grad():
        compare.assert_same(wrapped(torch.ones(3, 2)), f(torch.ones(3, 2)))


def test_new_shape_of_an_argument_in_place(entry):
    def f(x):
        y = x * 2
        x.unsqueeze_(0)
        return y, x + 1

    check(entry, f, torch.randn(6, 4))


# Autocast.


@torch.library.custom_op("oxytorch_edges::product", mutates_args=())
def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


@product.register_fake
def _(a, b):
    return a @ b


def custom_operator(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return product(x, x.T)


def region_without_a_type(x):
    with torch.autocast("cpu", dtype=torch.float16):
        with torch.autocast("cpu"):
            inner = x @ x.T
        with torch.autocast("cpu", enabled=False), torch.autocast("cpu"):
            return inner, x @ x.T


def region_of_a_type_that_does_not_count(x):
    with torch.autocast("cpu", dtype=torch.float64):
        return x @ x.T


@pytest.mark.filterwarnings("ignore:In CPU autocast")
@pytest.mark.parametrize("function", [custom_operator, region_without_a_type, region_of_a_type_that_does_not_count])
def test_autocast(entry, function):
    check(entry, function, torch.randn(6, 4))


# Exceptions.


class Refused(Exception):
    pass


@torch.library.custom_op("oxytorch_edges::refuse", mutates_args=())
def refuse(a: torch.Tensor, why: int) -> torch.Tensor:
    raise [KeyError, Refused][why]("no")


@refuse.register_fake
def _(a, why):
    return torch.empty_like(a)


@pytest.mark.parametrize("why", [0, 1])
def test_exception_of_a_custom_operator(entry, why):
    check(entry, lambda x: torch.ops.oxytorch_edges.refuse(x, why) + 1, torch.randn(3))


def test_integer_division_by_zero_is_eagers_exception(entry):
    for function in (lambda x, y: x // y, lambda x, y: x % y, torch.fmod, lambda x, y: 7 // y, lambda x, y: x % 0):
        want = check(entry, function, torch.arange(5), torch.zeros(5, dtype=torch.int64))
        assert type(want) is RuntimeError
        # Of what a graph computes it is Python's own, which eager's text names.
        with pytest.raises((ZeroDivisionError, RuntimeError), match="ZeroDivisionError|zero"):
            entry(function)(torch.arange(5), torch.zeros(5, dtype=torch.int64))


# Of two zeros eager takes the first, except of two tensors and in the vector part of its loops: there the length decides.


@pytest.mark.parametrize("count", [1, 3, 7])
def test_sign_of_zero(entry, count):
    def f(a, b):
        chosen = [choose(a, b) for choose in (torch.maximum, torch.minimum, torch.fmax, torch.fmin)]
        return [torch.copysign(torch.ones_like(c), c) for c in chosen]

    zero = torch.zeros(count)
    for a, b in ((zero, -zero), (-zero, zero)):
        check(entry, f, a, b)


def test_sign_of_zero_when_clamped(entry):
    def f(a, b):
        ways = a.clamp(min=0.0), b.clamp(min=0.0), a.clamp(max=-0.0), b.clamp(max=0.0), b.clamp(0.0, 0.0), b.relu()
        return [torch.copysign(torch.ones_like(w), w) for w in ways]

    check(entry, f, torch.zeros(40), -torch.zeros(40))


# Strides.


def test_strides_of_a_part_of_a_new_tensor(entry):
    def f(x):
        return torch.cat([x, x * 2], -2)[:, :, -7:, :], (x + 1)[:, 1:, ::2]

    check(entry, f, torch.randn(2, 2, 16, 8))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "zeros"])
def test_strides_of_a_padded_channels_last_convolution(entry, mode):
    conv = torch.nn.Conv2d(4, 8, 3, padding=1, padding_mode=mode)
    check(entry, lambda x: (conv(x), F.pad(x, (1, 1, 1, 1))), torch.randn(2, 4, 9, 9).to(memory_format=torch.channels_last))


IDENTITIES = {
    "clone": lambda x: x.clone(),
    "times_one": lambda x: x * 1,
    "over_one": lambda x: x / 1,
    "negated_twice": lambda x: -(-x),
    "joined": lambda x: torch.cat([x], 1),
    "repeated": lambda x: x.repeat(1, 1, 1),
    "chosen": lambda x: torch.where(torch.ones_like(x, dtype=torch.bool), x, x),
    "padded": lambda x: F.pad(x, (0, 0)),
    "rolled": lambda x: x.roll(0, 1),
    "copied": lambda x: torch.zeros_like(x).copy_(x),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_strides_of_every_second_row_of_a_copy(entry, name):
    """The gap behind the last row is not there where the number of rows is odd."""

    def f(x):
        return IDENTITIES[name](x)[:, ::2], IDENTITIES[name](x)[..., 1::3]

    wrapped = entry(f)
    for rows in (7, 7, 9, 12, 5):
        same_outcome(wrapped, f, (torch.randn(2, rows, 4),))


def parts(whole, *views):
    return tuple(view(whole) for view in views)


IN_ONE_MEMORY = {
    "pieces_of_a_copy": lambda x: torch.split(x.clone(), 2),
    "pieces_without_elements": lambda x: torch.split(x * 2, [0, 2, 0, x.shape[0] - 2]),
    "only_pieces_without_elements": lambda x: torch.split(x * 2, [2, 0, 0, x.shape[0] - 2])[1:3],
    "columns_of_a_copy": lambda x: x.clone().chunk(3, 1),
    "rows_that_overlap": lambda x: parts(x.clone(), lambda y: y[2:5], lambda y: y[:3]),
    "a_copy_of_a_part": lambda x: parts(x[1:].clone(), lambda y: y[1:], lambda y: y[:1]),
    "a_copy_in_another_order": lambda x: parts(x.t().contiguous(), lambda y: y[1:], lambda y: y[:2]),
    "a_copy_in_its_order": lambda x: parts(x.t().clone(), lambda y: y[1:], lambda y: y[:2]),
    "two_copies": lambda x: parts(x.clone(), lambda y: y[1:], lambda y: y[:1]) + parts(x.clone(), lambda y: y[1:], lambda y: y[:1]),
    "equal_ones": lambda x: parts(x * 2, lambda y: y[1:], lambda y: y[:1]) + parts(x * 2, lambda y: y[1:], lambda y: y[:1]),
    "windows_and_rows": lambda x: parts(x.clone(), lambda y: y.unfold(1, 2, 1), lambda y: y[1:]),
    "a_repeated_row": lambda x: parts(x.clone(), lambda y: y[1:2].expand(3, 5), lambda y: y[:1]),
    "as_many_repeated": lambda x: parts(x.flatten() * 2, lambda y: y[:2].expand(y.numel() // 2, 2), lambda y: y[2:]),
    "what_was_expanded": lambda x: parts(x[:1].expand(4, 5).clone(), lambda y: y[1:], lambda y: y[:1]),
    "windows_of_a_copy": lambda x: x.clone().unfold(1, 2, 1),
    "windows_of_columns": lambda x: x.t().clone().unfold(1, 2, 1),
    "windows_of_windows": lambda x: (x - 0)[1:].unfold(0, 2, 1).unfold(1, 2, 1),
}


@pytest.mark.parametrize("name", IN_ONE_MEMORY)
def test_parts_of_one_memory(entry, name):
    """They share it as in eager: what is written to one is seen in the others, and in no more."""
    f = IN_ONE_MEMORY[name]
    wrapped = entry(f)
    for rows in (6, 6, 7, 9):
        x = torch.randn(rows, 5)
        got, want = wrapped(x), f(x)
        compare.assert_same(got, want)
        for place, result in enumerate(want if isinstance(want, tuple) else ()):
            if result.numel() and result.stride(0) and not name.startswith("windows"):
                result.add_(place + 1), got[place].add_(place + 1)
                compare.assert_same(got, want, label=f"written to {place}")


def test_columns_of_any_number_are_compiled(entry):
    """Whether there are three of them is not known: they lie in a copy of all."""
    wrapped = entry(lambda x: (x - 0)[:, :3])
    for rows, columns in ((4, 5), (6, 7), (9, 4), (3, 3)):
        x = torch.randn(rows, columns)
        compare.assert_same(wrapped(x), x.clone()[:, :3])
        assert oxytorch.last_compile()["outcome"] == "compiled", oxytorch.last_compile()["reason"]


COMPLEX = {
    "alpha": lambda z, w: torch.add(z, w, alpha=2),
    "fractional_alpha": lambda z, w: z.sub(w, alpha=0.5),
    "masked_fill": lambda z, w: z.masked_fill(w.real > 0, 1.5),
    "where": lambda z, w: torch.where(w.real > 0, z, w),
    "where_of_a_number": lambda z, w: torch.where(w.real > 0, z, 0.0),
    "addcmul": lambda z, w: torch.addcmul(z, z, w, value=2),
    "float_power": lambda z, w: z.float_power(2),
    "adjoint": lambda z, w: z @ w.adjoint(),
    "mH": lambda z, w: z @ w.mH,
    "H": lambda z, w: (z @ w.H).abs(),
    "isreal": lambda z, w: torch.isreal(torch.cat([z, w.real])),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers(entry, name):
    z, w = torch.randn(4, 6, dtype=torch.complex64), torch.randn(4, 6, dtype=torch.complex64)
    check(entry, COMPLEX[name], z, w)


# torch's fake kernels copy here, its real ones do not.
IDLE_DROPOUTS = {
    "in_inference": lambda x: F.dropout(x, 0.5, False),
    "of_nothing": lambda x: F.dropout(x, 0.0),
    "of_nothing_by_name": lambda x: F.dropout(x, p=0.0, training=True),
    "in_place": lambda x: F.dropout(x, training=False, inplace=True),
    "of_a_module": torch.nn.Dropout(0.0),
}


@pytest.mark.parametrize("name", IDLE_DROPOUTS)
def test_what_drops_nothing_is_its_argument(entry, name):
    drop = IDLE_DROPOUTS[name]

    def f(x, y):
        z = y * 2
        drop(x).add_(1)
        drop(z).mul_(x)
        return z, drop(drop(y)).sum()

    check(entry, f, torch.randn(4, 5), torch.randn(4, 5))


OF_SMALL_INTEGERS = {
    "sum_to_size": lambda x: (x.sum_to_size(1, 5), x.sum_to_size(4, 5)),
    "einsum_of_one": lambda x: (torch.einsum("ij->j", x), torch.einsum("ij->", x), torch.einsum("ij->ji", x)),
    "einsum_of_two": lambda x: torch.einsum("ij,kj->ik", x, x),
    "softmin": lambda x: F.softmin(x, 1, dtype=torch.float64),
    "cosine_embedding_loss": lambda x: F.cosine_embedding_loss(x, x + 1, torch.tensor([1, -1, 1, -1]), reduction="none"),
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32], ids=str)
@pytest.mark.parametrize("name", OF_SMALL_INTEGERS)
def test_small_integers(entry, name, dtype):
    check(entry, OF_SMALL_INTEGERS[name], torch.randint(0, 50, (4, 5)).to(dtype))


@pytest.mark.parametrize("eps", [0.1, 0.5, 0.6, 1.0, -0.1])
def test_logit_with_bounds_that_cross(entry, eps):
    check(entry, lambda x: torch.logit(x, eps), torch.tensor([0.05, 0.3, 0.5, 0.6, 0.9, 1.2, -0.2, float("nan")]))


MOVED = {
    "cat": lambda z, w: torch.cat([z, w]).abs(),
    "pad": lambda z, w: F.pad(z, (1, 1)),
    "index": lambda z, w: z[torch.tensor([0, 2])] * w[:2],
    "gather": lambda z, w: z.gather(0, (w.real > 0).long()),
    "roll": lambda z, w: z.roll(1, 0),
    "flip": lambda z, w: z.flip(1),
    "repeat": lambda z, w: z.repeat(2, 1),
    "zeros": lambda z, w: torch.zeros_like(z) + 1j,
    "clone": lambda z, w: z.clone(),
    "contiguous": lambda z, w: z.t().contiguous(),
    "converted": lambda z, w: z.to(torch.complex128),
}


@pytest.mark.parametrize("name", MOVED)
def test_complex_numbers_are_moved_by_torch(entry, name):
    """The graph around the call is compiled."""
    check(entry, MOVED[name], torch.randn(4, 6, dtype=torch.complex64), torch.randn(4, 6, dtype=torch.complex64))
    assert oxytorch.last_compile()["outcome"] == "compiled", oxytorch.last_compile()["reason"]


def test_powers_by_name_where_eager_runs_the_graph():
    """torch's function in front of the method of C says that it is `torch._tensor.pow`, which is not there: the text of a graph must not name it."""
    power = lambda b, x: (b.pow(True), x.__pow__(2), torch.Tensor.__pow__(x, 3), x.clone().__ipow__(2))
    b, x = torch.tensor([True, False]), torch.randn(4)
    compiled = oxytorch.compile(power)
    with pytest.warns(UserWarning, match="runs in eager"):
        compare.assert_same(compiled(b, x), power(b, x))
    compare.assert_same(compiled(b, x), power(b, x))


REFUSED_OF_COMPLEX = {
    "max": lambda c: (c * 2).max(),
    "min": lambda c: torch.min(c.mul(2), 0),
    "sort": lambda c: (c + 1).sort(),
    "topk": lambda c: (1 - c).topk(2)[0] * 2,
    "argmax": lambda c: (c / 2).argmax(),
    "maximum": lambda c: torch.maximum(-c, c),
    "median": lambda c: (c**2).median(),
}


@pytest.mark.parametrize("name", REFUSED_OF_COMPLEX)
def test_what_torch_refuses_of_complex_numbers_is_refused_in_its_words(entry, name):
    """Python computes what comes before. It may do so again, so that eager can say what is wrong."""
    assert isinstance(check(entry, REFUSED_OF_COMPLEX[name], torch.randn(4, dtype=torch.complex64)), Exception)


COPIES = {
    "unbind_copy": lambda x, outs: torch.unbind_copy(x, 0, out=outs),
    "split_copy": lambda x, outs: torch.split_copy(x, 1, out=outs),
    "split_with_sizes_copy": lambda x, outs: torch.split_with_sizes_copy(x, [1, 1, 1], out=outs),
}


@pytest.mark.parametrize("copy", COPIES)
@torch.no_grad()
def test_copies_of_several_views_that_are_written_somewhere_hand_back_nothing(copy):
    x = torch.randn(3, 4)
    shape = (4,) if copy == "unbind_copy" else (1, 4)
    found = []
    for function in COPIES[copy], oxytorch.compile(COPIES[copy]):
        outs = [torch.zeros(shape) for _ in range(3)]
        assert function(x, outs) is None
        found.append(outs)
    compare.assert_same(found[1], found[0])


def written_by_index(x, i):
    x[i] = 1
    return x + 1


def made_and_written_by_index(x, i):
    y = x + 1
    y[:, i] = 2.0
    return y


@pytest.mark.parametrize("function", [written_by_index, made_and_written_by_index])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("count", [0, 2])
@torch.no_grad()
def test_an_index_into_nothing_is_out_of_bounds_for_writers_too(function, shape, count):
    index = torch.zeros(count, dtype=torch.int64)
    compiled = oxytorch.compile(function)
    found = []
    for f in function, compiled, compiled:
        try:
            found.append(tuple(f(torch.zeros(shape), index).shape))
        except IndexError as error:
            found.append(str(error))
    assert found[1:] == found[:1] * 2


@pytest.mark.parametrize("name", ["median", "nanmedian"])
@pytest.mark.parametrize("keepdim", [False, True])
def test_a_median_is_of_what_eager_takes_it_of(entry, name, keepdim):
    """torch's kernel is wrong where elements share their places. The sum is no tensor of that kind; without the sum, which changes nothing, it would be."""
    check(entry, lambda x: getattr(x + 0, name)(0, keepdim)[0], torch.randint(-100, 100, (1, 33)).expand(2, 33))


@pytest.mark.parametrize("shape", [(1, 5, 0, 4), (0, 8, 8, 16), (3, 2, 0)], ids=str)
def test_an_empty_image_is_unshuffled_as_it_is(entry, shape):
    check(entry, lambda x: F.pixel_unshuffle(x, 2), torch.zeros(shape))


REFUSED_IMAGES = {
    "maxima of whole numbers": (lambda x: F.adaptive_max_pool2d(x, 2), torch.zeros(1, 2, 4, 4, dtype=torch.int64)),
    "maxima of bytes": (lambda x: F.adaptive_max_pool1d(x, 1), torch.zeros(2, 3, 8, dtype=torch.uint8)),
    "averages of whole numbers": (lambda x: F.interpolate(x, 2, mode="area"), torch.zeros(1, 2, 4, dtype=torch.int64)),
    "no channels": (lambda x: F.interpolate(x, (3, 3), mode="bilinear"), torch.zeros(2, 0, 5, 4)),
    "no channels of a volume": (lambda x: F.interpolate(x, (3, 3, 3), mode="area"), torch.zeros(2, 0, 5, 4, 2)),
}


@pytest.mark.parametrize("function, image", REFUSED_IMAGES.values(), ids=REFUSED_IMAGES)
def test_images_that_eager_refuses(entry, function, image):
    assert isinstance(check(entry, function, image), Exception), "eager does not refuse this any more"
