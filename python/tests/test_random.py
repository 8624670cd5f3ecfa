"""Random numbers of our own: drawn from seeds that torch's generator gives, computed where they are needed, computed again in backward."""

import math
import warnings

import compare
import oxytorch
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from training import DOORS

both = pytest.mark.parametrize("door", DOORS)
COUNT = 40_000


def native(function, *args):
    """The compiled function, which must have no call but the one that draws the seed."""
    compiled = oxytorch.compile(function, fullgraph=True)
    result = compiled(*args)
    report = oxytorch.last_compile()
    assert report["outcome"] == "compiled" and not report["python_calls"], report
    assert set(report["library_calls"]) <= {"randint", "aten::randint"}, report
    return compiled, result


def seeded(function, *args, seed=0):
    torch.manual_seed(seed)
    return function(*args)


def assert_share(hits, count, p):
    """As many as a binomial distribution gives, up to six standard deviations."""
    assert abs(hits - count * p) <= 6 * math.sqrt(count * p * (1 - p)) + 1e-9, (hits, count, p)


def assert_moments(values, mean, std, bound=6):
    count = values.numel()
    assert abs(values.double().mean().item() - mean) <= bound * std / math.sqrt(count)
    # The variance of a variance, for tails up to those of the exponential distribution.
    assert abs(values.double().var().item() / std**2 - 1) <= bound * math.sqrt(8 / count)


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_keeps_its_share_and_scales_it(door, p, dtype):
    f = DOORS[door](lambda x: F.dropout(x, p))
    y = f(torch.ones(COUNT, dtype=dtype))
    kept = y != 0
    assert_share(int(kept.sum()), COUNT, 1 - p)
    assert (y[kept] == (torch.ones(1, dtype=dtype) / (1 - p))).all()


@both
def test_a_seed_repeats_and_calls_differ(door):
    f = DOORS[door](lambda x: (F.dropout(x, 0.5), torch.rand(30), torch.randn_like(x)))
    x = torch.ones(50)
    first, again, other = seeded(f, x), seeded(f, x), f(x)
    compare.assert_same(again, first)
    assert all(not torch.equal(a, b) for a, b in zip(other, first))
    assert not any(torch.equal(a, b) for a, b in zip(seeded(f, x, seed=1), first))


@both
def test_dropouts_of_one_graph_differ(door):
    first, second = DOORS[door](lambda x: (F.dropout(x), F.dropout(x)))(torch.ones(64))
    assert not torch.equal(first, second)


def test_functions_do_not_share_their_numbers():
    f, g = oxytorch.compile(lambda: torch.rand(16)), oxytorch.compile(lambda x: torch.rand(16) + x * 0)
    torch.manual_seed(0)
    drawn = [f(), g(torch.zeros(16)), f(), torch.rand(16)]
    assert len({tuple(d.tolist()) for d in drawn}) == 4


def test_the_generator_moves_on():
    f = oxytorch.compile(lambda x: F.dropout(x))
    f(torch.ones(4))
    before = torch.get_rng_state()
    f(torch.ones(4))
    assert not torch.equal(before, torch.get_rng_state())


def test_a_forked_generator_comes_back():
    f = oxytorch.compile(lambda x: F.dropout(x))
    x = torch.ones(64)
    f(x)
    torch.manual_seed(5)
    with torch.random.fork_rng():
        inside = f(x)
    compare.assert_same(f(x), inside)


@both
def test_the_gradient_has_the_mask_of_the_result(door):
    f = DOORS[door](lambda x: F.dropout(x * 2, 0.3))
    for _ in range(3):
        x = torch.rand(500, requires_grad=True).add(1).detach().requires_grad_()
        y = f(x)
        y.backward(torch.ones_like(y))
        compare.assert_same(x.grad, y.detach() / x.detach())
        assert 0 < int((x.grad == 0).sum()) < 500


def test_masks_are_not_saved():
    f = oxytorch.compile(lambda x: F.dropout(x, 0.5), fullgraph=True)
    x = torch.ones(1000, requires_grad=True)
    f(x)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        f(x)
    # The seed.
    assert sum(t.numel() for t in saved) == 1, [t.shape for t in saved]


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpointed_call_recomputes_the_same_mask(reentrant):
    f = oxytorch.compile(lambda x: F.dropout(x * x, 0.5))
    x = torch.ones(300, requires_grad=True)
    y = checkpoint(f, x, use_reentrant=reentrant)
    y.backward(torch.ones_like(y))
    # Each is 2 where it is kept: the slope of a square at 1, twice.
    compare.assert_same(x.grad, 2 * y.detach())


@both
def test_nothing_is_dropped_in_eval_mode_or_for_nothing(door):
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    called, x = DOORS[door](model), torch.randn(3, 4)
    assert not torch.equal(called(x), model[0](x))
    model.eval()
    compare.assert_same(called(x), model[0](x))
    state = torch.get_rng_state()
    called(x)
    none, every = DOORS[door](lambda x: F.dropout(x, 0.0)), DOORS[door](lambda x: F.dropout(x, 1.0))
    compare.assert_same(none(x), x)
    compare.assert_same(every(torch.tensor([1.0, math.inf])), F.dropout(torch.tensor([1.0, math.inf]), 1.0))
    assert torch.equal(state, torch.get_rng_state())


CHANNELS = {
    "dropout1d": (F.dropout1d, (40, 50, 6), 2),
    "dropout1d-unbatched": (F.dropout1d, (900, 6), 1),
    "dropout2d": (F.dropout2d, (40, 50, 2, 3), 2),
    "dropout3d": (F.dropout3d, (40, 50, 2, 1, 3), 2),
    "dropout3d-unbatched": (F.dropout3d, (900, 2, 1, 3), 1),
    "feature_alpha_dropout": (F.feature_alpha_dropout, (40, 50, 2, 3), 2),
}


@both
@pytest.mark.parametrize("name", CHANNELS)
def test_whole_channels_are_dropped(door, name):
    function, shape, leading = CHANNELS[name]
    y = DOORS[door](lambda x: function(x, 0.4, training=True))(torch.ones(shape))
    channels = y.flatten(leading).flatten(0, leading - 1)
    assert (channels == channels[:, :1]).all()
    kept = channels[:, 0] == channels[:, 0].max()
    assert_share(int(kept.sum()), len(kept), 0.6)


def test_alpha_dropout_keeps_mean_and_variance():
    _, y = native(lambda x: F.alpha_dropout(x, 0.3, training=True), torch.randn(COUNT))
    assert_moments(y, 0, 1)


UNIFORM_STD = math.sqrt(1 / 12)
DRAWN = {
    "rand": (lambda x: torch.rand(COUNT), 0.5, UNIFORM_STD, (0, 1)),
    "rand-f64": (lambda x: torch.rand(COUNT, dtype=torch.float64), 0.5, UNIFORM_STD, (0, 1)),
    "rand_like": (lambda x: torch.rand_like(x), 0.5, UNIFORM_STD, (0, 1)),
    "randn": (lambda x: torch.randn(COUNT), 0, 1, (-9, 9)),
    "randn-f64": (lambda x: torch.randn(COUNT // 2, 2, dtype=torch.float64), 0, 1, (-9, 9)),
    "randn_like": (lambda x: torch.randn_like(x), 0, 1, (-9, 9)),
    "randint": (lambda x: torch.randint(10, (COUNT,)), 4.5, math.sqrt(99 / 12), (0, 10)),
    "randint-wide": (lambda x: torch.randint(-(1 << 40), 1 << 40, (COUNT,)), 0, 2**41 * UNIFORM_STD, (-(1 << 40), 1 << 40)),
    "randint_like": (lambda x: torch.randint_like(x, 3, 9), 5.5, math.sqrt(35 / 12), (3, 9)),
    "uniform_": (lambda x: torch.empty_like(x).uniform_(-1, 3), 1, 4 * UNIFORM_STD, (-1, 3)),
    "normal_": (lambda x: torch.empty_like(x).normal_(2, 0.5), 2, 0.5, (-4, 8)),
    "normal": (lambda x: torch.normal(2.0, 0.5, (COUNT,)), 2, 0.5, (-4, 8)),
    "bernoulli_": (lambda x: torch.empty_like(x).bernoulli_(0.2), 0.2, 0.4, (0, 1.5)),
    "rrelu": (lambda x: F.rrelu(x - 1, 0.125, 0.5, training=True), -0.3125, 0.375 * UNIFORM_STD, (-0.5, -0.1249)),
    "exponential_": (lambda x: torch.empty_like(x).exponential_(2.0), 0.5, 0.5, (1e-9, 10)),
}


@pytest.mark.parametrize("name", DRAWN)
def test_distributions(name):
    function, mean, std, (low, high) = DRAWN[name]
    x = torch.zeros(COUNT)
    compiled, y = native(function, x)
    assert y.dtype == function(x).dtype and y.shape == function(x).shape
    assert low <= y.min() and y.max() < high
    assert_moments(y, mean, std)
    # Neighbours know nothing of one another.
    z = (y.flatten().double() - mean) / std
    assert abs((z[1:] * z[:-1]).mean().item()) <= 6 / math.sqrt(COUNT)
    assert not torch.equal(compiled(x), y)


def test_the_normal_distribution_has_its_shape():
    _, y = native(lambda: torch.randn(COUNT))
    for bound in (-2, -1, 0, 0.5, 1.5, 2.5):
        p = 0.5 * (1 + math.erf(bound / math.sqrt(2)))
        assert_share(int((y < bound).sum()), COUNT, p)


def test_half_types_stay_below_one():
    for dtype in (torch.bfloat16, torch.float16):
        _, y = native(lambda dtype=dtype: torch.rand(COUNT, dtype=dtype))
        assert 0 <= y.min() and y.max() < 1
        assert abs(y.double().mean() - 0.5) < 0.01


@pytest.mark.parametrize("masked", ["none", "causal", "bool", "float"])
def test_attention_with_dropout(masked):
    q, k, v = (torch.randn(2, 3, 16, 8, requires_grad=True) for _ in range(3))
    mask = {"bool": torch.rand(16, 16) > 0.3, "float": torch.randn(16, 16)}.get(masked)
    if mask is not None:
        # A query that sees nothing.
        mask[3] = False if masked == "bool" else -math.inf
    f = lambda q, k, v, p: F.scaled_dot_product_attention(q, k, v, mask, dropout_p=p, is_causal=masked == "causal")
    compiled = oxytorch.compile(f, fullgraph=True)
    mean = sum(compiled(q, k, v, 0.2).detach() for _ in range(400)) / 400
    plain = f(q, k, v, 0.0).detach()
    spread = torch.stack([f(q, k, v, 0.2).detach() for _ in range(100)]).std(0)
    assert ((mean - plain).abs() <= 6 * spread / 20 + 1e-6).all()
    out = compiled(q, k, v, 0.2)
    got = torch.autograd.grad(out.sum(), (q, k, v))
    # Linear in v: the gradient along v is the result.
    compare.assert_same((got[2] * v).sum().detach(), out.sum().detach())
    assert all(torch.isfinite(g).all() for g in got)


def test_eagers_numbers_when_asked_for():
    def f(x):
        return F.dropout(x, 0.5), torch.rand(3), torch.randn_like(x), torch.empty_like(x).uniform_()

    x = torch.ones(50)
    for compiled in (
        oxytorch.compile(f, options={"fallback_random": True}),
        torch.compile(f, backend="oxytorch", options={"fallback_random": True}),
    ):
        for seed in range(3):
            compare.assert_same(seeded(compiled, x, seed=seed), seeded(f, x, seed=seed))


LAID = {
    "rows": lambda x: (x + 1).contiguous() * 2,
    "columns": lambda x: x.t().contiguous().t() + 1,
    "a_part_of_a_stack": lambda x: torch.stack([x, x], 1)[:, 0],
    "channels_last": lambda x: x[None, :, :, None].repeat(2, 1, 1, 3).to(memory_format=torch.channels_last),
}


def in_a_part(y, draw):
    whole = torch.cat([y, y, y, y], -1)
    draw(whole[..., ::2])
    return whole


IN_ORDER = {
    "dropout": lambda y: F.dropout(y, 0.5),
    "randn_like": lambda y: torch.randn_like(y),
    "randint_like": lambda y: torch.randint_like(y, 1000),
    "bernoulli": lambda y: torch.bernoulli(y.sigmoid()),
    "normal_": lambda y: (y * 1).normal_(),
    "uniform_": lambda y: torch.empty_like(y).uniform_(1, 2) + y,
    "exponential_": lambda y: (y * 1).exponential_(),
    "dropout in place": lambda y: F.dropout(y * 1, 0.5, inplace=True),
    "rrelu in place": lambda y: F.rrelu(y * -1, training=True, inplace=True),
    "out": lambda y: torch.randn(y.shape, out=torch.empty_like(y)) + torch.rand(y.shape, out=y * 1),
    "dropout of a part": lambda y: in_a_part(y, lambda part: F.dropout(part, 0.5, inplace=True)),
    "normal_ of a part": lambda y: in_a_part(y, lambda part: part.normal_()),
    "out of a part": lambda y: in_a_part(y, lambda part: torch.randn(part.shape, out=part)),
}


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("drawn", IN_ORDER)
@pytest.mark.parametrize("laid", LAID)
def test_eagers_numbers_come_in_the_order_in_which_eagers_memory_lies(laid, drawn, transposed):
    f = lambda x: IN_ORDER[drawn](LAID[laid](x))
    compiled = oxytorch.compile(f, options={"fallback_random": True})
    x = torch.rand(5, 6).t() if transposed else torch.rand(6, 5)
    compare.assert_same(seeded(compiled, x, seed=0), seeded(f, x, seed=0))


BY_NAME = {
    "dropout": lambda y: F.dropout(input=y, p=0.5, inplace=True),
    "dropout by place": lambda y: F.dropout(y, 0.5, True, True),
    "dropout_": lambda y: torch.dropout_(input=y, p=0.5, train=True),
    "dropout1d": lambda y: F.dropout1d(input=y, p=0.5, inplace=True),
    "alpha_dropout": lambda y: F.alpha_dropout(input=y, p=0.5, training=True, inplace=True),
    "feature_alpha_dropout": lambda y: F.feature_alpha_dropout(input=y, p=0.5, training=True, inplace=True),
    "rrelu": lambda y: F.rrelu(input=y, training=True, inplace=True),
    "rrelu_": lambda y: torch.rrelu_(input=y, training=True),
}


@both
@pytest.mark.parametrize("drawn", BY_NAME)
def test_an_input_given_by_name_is_written(door, drawn):
    def f(x):
        y, rows = x * -1.5, (x + 1).t()
        result = BY_NAME[drawn](y)
        BY_NAME[drawn](rows)
        result.add_(1)
        return result * 2, y, rows, BY_NAME[drawn](x * 1)

    called, x = DOORS[door](f, options={"fallback_random": True}), torch.rand(5, 6)
    given = x.clone()
    for seed in range(2):
        compare.assert_same(seeded(called, given, seed=seed), seeded(f, x, seed=seed))
        compare.assert_same(given, x)


LEAKS = {
    "F.rrelu_": lambda y: F.rrelu_(y, training=True),
    "torch.rrelu_": lambda y: torch.rrelu_(y, training=True),
    "inplace=True": lambda y: F.rrelu(y, training=True, inplace=True),
    "by name": lambda y: F.rrelu(input=y, training=True, inplace=True),
    "twice": lambda y: F.rrelu_(F.rrelu_(y, training=True) * 2, training=True),
}


@both
@pytest.mark.parametrize("drawn", LEAKS)
def test_a_leak_that_is_drawn_in_place_has_eagers_gradient(door, drawn):
    f = lambda x: LEAKS[drawn](x * 1.5) + 1
    called, x = DOORS[door](f, options={"fallback_random": True}), torch.randn(5, 6, requires_grad=True)
    for seed in range(2):
        got, want = seeded(called, x, seed=seed), seeded(f, x, seed=seed)
        compare.assert_same(torch.autograd.grad(got.sum(), x), torch.autograd.grad(want.sum(), x))


TORCHS = {
    "bernoulli": lambda p: torch.bernoulli(p) * p,
    "bernoulli_": lambda p: torch.empty_like(p).bernoulli_(p.detach()) * p,
    "multinomial": lambda p: p[torch.multinomial(p, 5)],
    "randperm": lambda p: p[torch.randperm(50)] * p,
}


@both
@pytest.mark.parametrize("name", TORCHS)
def test_what_torch_draws_cuts_no_graph(door, name):
    """Its numbers are eager's, where no others are drawn beside it."""
    called, p = DOORS[door](TORCHS[name], fullgraph=True), torch.rand(50, requires_grad=True)
    for seed in range(3):
        got, want = seeded(called, p, seed=seed), seeded(TORCHS[name], p, seed=seed)
        compare.assert_same(got.detach(), want.detach())
        assert type(got.grad_fn).__name__ == "CompiledFunctionBackward"
        assert {type(f).__name__ for f, _ in got.grad_fn.next_functions if f is not None} == {"AccumulateGrad"}
        compare.assert_same(torch.autograd.grad(got.sum(), p), torch.autograd.grad(want.sum(), p))
    if name != "randperm":
        with pytest.raises(RuntimeError):
            called(torch.full((50,), -1.0))


@both
def test_a_generator_of_ones_own_is_eagers(door):
    generator, other = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    f = lambda x, g: x + torch.rand(8, generator=g)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        called = DOORS[door](f)
        for _ in range(3):
            compare.assert_same(called(torch.zeros(8), generator), f(torch.zeros(8), other))


@both
def test_sizes_that_vary(door):
    f = DOORS[door](lambda x: F.dropout(x, 0.25), dynamic=True)
    for count in (10_000, 20_000, 30_001):
        y = f(torch.ones(count))
        assert y.shape == (count,)
        assert_share(int((y != 0).sum()), count, 0.75)


def test_a_transformer_in_train_mode_is_one_graph():
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True).train()
    called = oxytorch.compile(layer, fullgraph=True)
    x = torch.randn(2, 6, 32, requires_grad=True)
    out = called(x)
    assert type(out.grad_fn).__name__ == "CompiledFunctionBackward"
    # Nothing of torch's own stands between the compiled graph and the leaves.
    following = {type(f).__name__ for f, _ in out.grad_fn.next_functions if f is not None}
    assert following == {"AccumulateGrad"}
    out.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters())


def test_equal_layers_are_equal_kernels():
    counts = []
    for layers in (2, 6):
        model = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Dropout(0.1)) for _ in range(layers)))
        out = oxytorch.compile(model, fullgraph=True)(torch.randn(4, 16))
        counts.append(oxytorch.last_compile()["kernels"])
        saved = [t for t in out.grad_fn.saved_tensors if t.dtype in (torch.int64, torch.bool)]
        assert sum(t.numel() for t in saved) <= layers, [t.shape for t in saved]
    assert counts[0] == counts[1], counts


def test_many_dropouts_save_no_mask():
    def f(x, weight):
        for _ in range(40):
            x = F.dropout(x @ weight, 0.1)
        return x

    x, weight = torch.randn(4, 16, requires_grad=True), torch.randn(16, 16, requires_grad=True)
    out = oxytorch.compile(f, fullgraph=True)(x, weight)
    saved = [t for t in out.grad_fn.saved_tensors if t.dtype in (torch.int64, torch.bool)]
    assert all(t.numel() == 1 for t in saved), [t.shape for t in saved]
