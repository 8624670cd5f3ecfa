"""Known faults of numbers and indices: one test each. Numbers are pytorch/pytorch's issues.

The rule: do what eager does, else raise a Python error; never a wrong value, never a signal.
"""

import compare
import oxytorch
import pytest
import torch
import torch.nn.functional as F
from checking import check, check_raises, compiled


@pytest.fixture(autouse=True)
def inference():
    with torch.no_grad():
        yield


# Integers.


@pytest.mark.parametrize("op", [torch.floor_divide, torch.remainder, torch.fmod], ids="floor_divide remainder fmod".split())
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64])
def test_division_by_zero_is_an_exception_183610(op, dtype):
    a, b = torch.arange(40).to(dtype), torch.arange(1, 41).to(dtype)
    zero = b.clone()
    zero[37] = 0
    # Eager raises RuntimeError("ZeroDivisionError").
    check_raises(op, (a, b), [(a, zero), (a, torch.zeros_like(b))], errors=(ZeroDivisionError, RuntimeError))


def test_division_by_the_number_zero_is_an_exception_183610():
    for op in (lambda x, n: x // n, lambda x, n: x % n, torch.fmod):
        wrapped = compiled(op)
        check(op, torch.arange(-5, 5), 3, wrapped=wrapped)
        with pytest.raises((ZeroDivisionError, RuntimeError)):
            wrapped(torch.arange(-5, 5), 0)


# Eager itself divides INT_MIN by -1 with the processor's instruction, which may end the process: the values are stated here.
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_least_integer_divided_by_minus_one_wraps_184406(dtype):
    least = torch.iinfo(dtype).min
    a, b = torch.full((37,), least, dtype=dtype), torch.full((37,), -1, dtype=dtype)
    f = compiled(lambda a, b: (a // b, torch.div(a, b, rounding_mode="trunc"), a % b, torch.fmod(a, b)))
    compare.assert_same(f(a, b), (a, a, torch.zeros_like(a), torch.zeros_like(a)))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.float32, torch.float64, torch.bfloat16])
def test_remainders_of_negative_numbers(dtype):
    a, b = torch.tensor([-7, 7, -7, 7, -6, 0]).to(dtype), torch.tensor([3, -3, -3, 3, 3, -5]).to(dtype)
    out = check(lambda a, b: (a % b, torch.fmod(a, b), a // b, a % 3, torch.fmod(a, 3)), a, b)(a, b)
    assert out[0][0] == 2 and out[1][0] == -1


def test_neg_of_uint8_wraps_93829():
    check(lambda x: (-x, -x + 1, (-x).to(torch.int32), (-x) // 2, (-x).float() * 2), torch.arange(256).to(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16])
def test_narrow_integers_wrap_in_the_middle_of_a_chain(dtype):
    x = torch.arange(100, 128).to(dtype)
    check(lambda x: ((x + x) // 2, (x * 3 > 100), (x * x).to(torch.int64), (x + 100).float(), x.sum()), x)


# Floating point.


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_maximum_and_minimum_keep_nan(dtype):
    nan = float("nan")
    a = torch.tensor([nan, 1, nan, -1] * 10, dtype=dtype)
    b = torch.tensor([1, nan, nan, 2] * 10, dtype=dtype)
    check(lambda a, b: (torch.maximum(a, b), torch.minimum(a, b), a.clamp(0, 1), a.amax(), a.min(), torch.max(a, b)), a, b)
    check(lambda a, b: (torch.fmax(a, b), torch.fmin(a, b), a.relu(), F.hardtanh(b), a.view(4, 10).amin(0), a.view(4, 10).amax(1)), a, b)


@pytest.mark.parametrize("shape,dim", [((65,), None), ((7, 65), 1), ((65, 7), 0), ((3, 65, 5), 1)])
def test_argmax_finds_the_nan_118266(shape, dim):
    x = torch.randn(shape)
    flat = x.view(-1)
    flat[flat.numel() // 2] = float("inf")
    flat[flat.numel() // 3] = float("nan")
    flat[flat.numel() - 2] = float("nan")
    check(lambda x: (x.argmax(dim), x.argmin(dim)), x)
    if dim is not None:
        check(lambda x: (tuple(x.max(dim)), tuple(x.min(dim))), x)


def test_argmax_takes_the_first_of_equals():
    check(lambda x: (x.argmax(), x.argmin(), x.argmax(1), x.argmin(0)), torch.ones(33, 65))


def test_f16_overflow_in_the_middle_of_a_chain_183607():
    x = torch.tensor([60000.0, 300.0, -60000.0, 1.0] * 9, dtype=torch.float16)
    check(lambda x: (x * 2 / 4, (x * x) - x, (x + x).float() * 0.5, (x * 4).sigmoid() + (x * x) * 0), x)


def test_soft_margin_loss_is_rounded_at_each_step():
    x, sign = torch.tensor([-20.0, 1.0, -14.0, 3.0] * 9, dtype=torch.float16), torch.tensor([1.0, -1.0, 1.0, 1.0] * 9, dtype=torch.float16)
    check(lambda x, sign: F.soft_margin_loss(x, sign, reduction="none"), x, sign)
    check(F.soft_margin_loss, x, sign)


@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16])
def test_round_trip_through_a_narrow_type_keeps_the_rounding_176565(narrow):
    x = torch.randn(1000)
    f = compiled(lambda x: (x.to(narrow).to(torch.float32), (x + 1).to(narrow).float() - x, x.to(narrow).double()))
    got = f(x)
    want = (x.to(narrow).float(), (x + 1).to(narrow).float() - x, x.to(narrow).double())
    assert all(g.equal(w) for g, w in zip(got, want))
    assert not got[0].equal(x)


def test_bf16_chain_is_rounded_where_eager_rounds():
    x, y = torch.randn(500).bfloat16(), torch.randn(500).bfloat16()

    def f(x, y):
        return (x + y) * x - y, (x * y + 0.1).float() * 3

    assert all(g.equal(w) for g, w in zip(compiled(f)(x, y), f(x, y)))


def test_matmul_cast_to_bf16_then_added_to_f32_181568():
    a, b, c = torch.randn(16, 32), torch.randn(32, 24), torch.randn(24)
    wrapped = check(lambda a, b, c: (a @ b).to(torch.bfloat16) + c, a, b, c)
    exact = wrapped(a, b, torch.zeros(24))
    assert exact.equal(exact.bfloat16().float()), "the rounding to bf16 was dropped"
    check(lambda a, b, c: (a.bfloat16() @ b.bfloat16()).float() + c, a, b, c)


PROMOTED = [torch.bool, torch.uint8, torch.int32, torch.int64, torch.bfloat16, torch.float16, torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", PROMOTED, ids=str)
def test_promotion_of_numbers_and_0_dim_tensors_197091(dtype):
    x = torch.tensor([1, 0, 3]).to(dtype)

    def f(x, *scalars):
        mixed = [x + s for s in scalars] + [torch.where(x > 0, x, s) for s in scalars]
        return mixed, x * 2, x * 2.5, x + True, x / 2, 1.5 * scalars[0], torch.maximum(x, scalars[-1]), x.pow(2), scalars[1] * 2 + x

    check(f, x, *(torch.tensor(2).to(d) for d in PROMOTED))


def test_f16_times_f32_matrix_raises_177630():
    for f in (torch.mm, torch.matmul, F.linear):
        with pytest.raises(Exception):
            compiled(f)(torch.randn(4, 4).half(), torch.randn(4, 4))


def test_negative_zero_keeps_its_sign():
    x = torch.tensor([0.0, -0.0])
    check(lambda x: (x + 0.0, -x, x * -1, x.abs(), torch.copysign(torch.ones(2), x), 1 / x), x)


def test_integers_of_every_width_wrap():
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8):
        torch._dynamo.reset()
        check(lambda x: (x + 1, x * 3, x << 1), torch.tensor([torch.iinfo(dtype).max, 1, 0], dtype=dtype))


# Indices.


def test_negative_indices_count_from_the_end():
    check(lambda x, i: (x[i], x[i, -1]), torch.randn(5, 3), torch.tensor([-1, -5, 2]))


def test_repeated_targets_of_a_scatter_add_up():
    def f(x, i, v):
        return x.index_add(0, i, v), x.scatter_add(0, i, v)

    check(f, torch.zeros(3), torch.tensor([0, 0, 2, 0]), torch.randn(4))


# Indices out of bounds.


def test_negative_embedding_index_raises_183608():
    table = torch.randn(10, 4)
    bad = [(torch.tensor([1, i]), table) for i in (-1, 10, -11, 1 << 40)]
    check_raises(lambda i, t: F.embedding(i, t) * 2, (torch.tensor([0, 9]), table), bad)


def test_index_select_out_of_bounds_raises_121251():
    x = torch.randn(5, 6)
    for dim in (0, 1):
        bad = [(x, torch.tensor([0, i])) for i in (6, -1, 1 << 40)]
        check_raises(lambda x, i: x.index_select(dim, i) + 1, (x, torch.tensor([0, 4])), bad)


def test_indexing_out_of_bounds_raises_183769():
    x = torch.randn(5, 6)
    good = (x, torch.tensor([0, -5, 4]), torch.tensor([5, -6, 0]))
    bad = [(x, torch.tensor([0, i, 1]), torch.tensor([0, 1, 2])) for i in (5, -6, 1 << 40)]
    check_raises(lambda x, i, j: x[i, j] * 2, good, bad)
    check_raises(lambda x, i, j: x[:, i] * 2, good, [(x, torch.tensor([-7]), good[2])])


def test_select_out_of_bounds_raises_183769():
    for f in (lambda x: x.select(0, 7), lambda x: x[7], lambda x: x[-8], lambda x: x.select(1, -9) + 1):
        with pytest.raises(Exception) as error:
            compiled(f)(torch.randn(5, 6))
        assert not isinstance(error.value, SystemError)


def test_gather_and_scatter_out_of_bounds_raise():
    x, i = torch.randn(5, 6), torch.randint(0, 5, (5, 6))
    for wrong in (5, -1, 1 << 40):
        j = i.clone()
        j[2, 3] = wrong
        check_raises(lambda x, i: x.gather(0, i) * 2, (x, i), [(x, j)])
        check_raises(lambda x, i: torch.zeros(5, 6).scatter(0, i, x), (x, i), [(x, j)])
        check_raises(lambda x, i: torch.zeros(5, 6).scatter_add(0, i, x), (x, i), [(x, j)])


def test_index_add_at_minus_one_raises_185885():
    x, y = torch.zeros(5, 3), torch.randn(2, 3)
    bad = [(x, torch.tensor([0, i]), y) for i in (-1, 5)]
    check_raises(lambda x, i, y: x.index_add(0, i, y), (x, torch.tensor([0, 4]), y), bad)


def test_index_put_out_of_bounds_raises_and_writes_nothing_outside():
    x = torch.zeros(8)
    bad = [(x, torch.tensor([0, i]), torch.ones(2)) for i in (8, -9)]

    def f(x, i, y):
        x[i] = y
        return x + 1

    check_raises(f, (x, torch.tensor([0, -8]), torch.ones(2)), bad)


# Empty and 0-dim tensors.


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_interpolate_to_no_size_raises_197095(mode):
    for size in ((0, 4), (4, 0)):
        with pytest.raises(Exception) as error:
            compiled(lambda x: F.interpolate(x, size=size, mode=mode))(torch.randn(1, 2, 4, 4))
        assert not isinstance(error.value, SystemError)


def test_scans_and_means_of_0_dim_tensors_193265_102546():
    def f(x):
        return x.cumsum(0), x.cumsum(-1), x.mean(), x.mean(0), x.sum(-1), x.amax(0), x.argmax(), x.softmax(0), x.cumprod(0), x.logsumexp(0)

    check(f, torch.tensor(2.5))
    check(lambda x: (x.mean(), x.sum(), x.cumsum(0), x.prod(), x.sum(0), x.std(), x.all(), x.any()), torch.empty(0))
    for f in (torch.amax, torch.argmax, torch.max):
        with pytest.raises(Exception):
            compiled(lambda x: f(x))(torch.empty(0))


def test_reductions_over_nothing():
    check(lambda x: (x.sum(1), x.prod(1), x.mean(1), x.any(1), x.all(1)), torch.ones(3, 0))
    with pytest.raises(Exception):
        compiled(lambda x: x.amax(1))(torch.ones(3, 0))


def test_a_running_sum_goes_on_over_the_rows_of_what_is_flattened():
    check(lambda x, y: (x[:, None] + y).flatten().cumsum(0), torch.randn(5), torch.randn(7))
    check(lambda x: (x.repeat(4).cumsum(0), x.expand(3, 5).reshape(-1).cumprod(0)), torch.rand(5))
    check(lambda x, y: (x[:, :, None] + y).flatten(1).cumsum(1), torch.randn(3, 5), torch.randn(7))


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 1e-3, 100.0, float("inf"), float("-inf"), float("nan"), 6e4, -6e4]
EXPONENTS = [0, 1, 2, 3, 0.5, -0.5, -1, -2, -3, 1.5, -1.5, 0.25, 1 / 3, 10, 11, float("inf"), float("-inf"), float("nan"), 2049]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("raised", [lambda x, e: x**e, lambda x, e: torch.float_power(x, e)], ids=["pow", "float_power"])
def test_powers_of_special_numbers(dtype, raised):
    """A root of -inf is no number, a power is; eager takes roots for some types only."""
    x = torch.tensor(SPECIAL, dtype=dtype)
    for exponent in EXPONENTS:
        got, want = oxytorch.compile(raised, dynamic=False)(x, exponent), raised(x, exponent)
        compare.assert_same(got, want, label=f"** {exponent}")
        same_sign = torch.signbit(got) == torch.signbit(want)
        assert bool((same_sign | want.isnan()).all()), f"** {exponent}: {got} instead of {want}"


@pytest.mark.parametrize("dtype, exponent", [(torch.float16, 65520.0), (torch.float16, -70000), (torch.bfloat16, 1e39)], ids=str)
def test_exponents_that_no_half_number_can_be(dtype, exponent):
    def f(x):
        return x**exponent

    for called in (f, oxytorch.compile(f), oxytorch.compile(lambda x: f(x * 2))):
        with pytest.raises(RuntimeError, match="value cannot be converted to type c10::.* without overflow"):
            called(torch.ones(3, dtype=dtype))


SUMS = {
    "scatter_add": lambda x, i, s: x.scatter_add(0, i, s),
    "sum": lambda x, i, s: x.scatter_reduce(0, i, s, "sum", include_self=False),
    "mean": lambda x, i, s: x.scatter_reduce(0, i, s, "mean"),
    "prod": lambda x, i, s: x.scatter_reduce(0, i, s * 0.1 + 1, "prod"),
    "add": lambda x, i, s: x.scatter(0, i, s, reduce="add"),
    "index_add": lambda x, i, s: x.index_add(0, i[:, 0], s),
    "index_add of a vector": lambda x, i, s: x[:, 0].index_add(0, i[:, 0], s[:, 0]),
    "index_put": lambda x, i, s: x.index_put((i[:, 0],), s, accumulate=True),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.filterwarnings("ignore:The reduce argument")
def test_half_types_that_meet_in_one_place(name, dtype):
    """Rounded where eager rounds: once, in most cases. 400 ones are 400, where sums of bf16 end at 256."""
    x, index = torch.zeros(5, 3, dtype=dtype), torch.randint(0, 2, (800, 3))
    for source in (torch.ones(800, 3).to(dtype), torch.rand(800, 3).to(dtype)):
        got, want = oxytorch.compile(SUMS[name])(x, index, source), SUMS[name](x, index, source)
        assert torch.equal(got, want)


READS = {
    "gather": lambda x, i: x.gather(0, i),
    "index_select": lambda x, i: x.index_select(0, i[:, 0]),
    "take_along_dim": lambda x, i: x.take_along_dim(i, 0),
    "index": lambda x, i: x[i[:, 0]],
    "embedding": lambda x, i: F.embedding(i[:, 0], x),
}


@pytest.mark.parametrize("name", READS)
def test_half_gradients_that_meet_in_one_place(name):
    index, found = torch.randint(0, 2, (800, 3)), []
    with torch.enable_grad():
        for called in (oxytorch.compile(READS[name]), READS[name]):
            x = torch.ones(5, 3, dtype=torch.bfloat16, requires_grad=True)
            called(x, index).sum().backward()
            found.append(x.grad)
    assert torch.equal(*found)
