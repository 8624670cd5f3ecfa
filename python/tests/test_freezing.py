"""Models with frozen weights, which are packed in the library's own format, against eager."""

import copy
import pathlib
import re
import weakref

import compare
import oxytorch
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

DTYPES = [torch.float32, torch.bfloat16]


ENTRIES = {"capture": oxytorch.compile, "dynamo": lambda model, **kwargs: torch.compile(model, backend="oxytorch", **kwargs)}
entered = oxytorch.compile


@pytest.fixture(autouse=True, params=ENTRIES)
def entered_by(request, monkeypatch):
    monkeypatch.setitem(globals(), "entered", ENTRIES[request.param])


def freeze(model, options=None):
    return entered(model, fullgraph=True, options={"freezing": True} | (options or {}))


def check(model, *inputs, dtype=torch.float32, packs=None, folder=None):
    """Equal to eager for each input, twice; `packs`: how many weights are packed."""
    torch._dynamo.reset()
    model = model.to(dtype).eval()
    double = copy.deepcopy(model).double()
    compiled = freeze(model, options={"debug_dir": str(folder)} if folder else {})
    with torch.no_grad():
        for x in inputs:
            x = x.to(dtype)
            for _ in range(2):
                compare.assert_same(compiled(x), model(x), lambda: double(x.double()))
    if folder:
        plans = "".join(p.read_text() for p in pathlib.Path(folder).rglob("prelude/3-plan.txt"))
        assert len(re.findall(r"call pack\(", plans)) == packs


@pytest.mark.parametrize("dtype", DTYPES, ids=["f32", "bf16"])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_layers_with_activations(bias, dtype, tmp_path):
    layers = [nn.Linear(256, 512, bias), nn.ReLU(), nn.Linear(512, 384, bias), nn.GELU(), nn.Linear(384, 256, bias), nn.SiLU()]
    check(nn.Sequential(*layers), torch.randn(2, 12, 256), dtype=dtype, packs=3, folder=tmp_path)


class Shared(nn.Module):
    """One weight in two layers, as it is and transposed, and as an embedding."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(300, 256)
        self.layer = nn.Linear(256, 256)

    def forward(self, x):
        h = self.layer(self.layer(self.embed.weight[: x.shape[1]] + x.sum(-1, keepdim=True)))
        return F.linear(h, self.embed.weight) @ self.embed.weight + h @ self.layer.weight


@pytest.mark.parametrize("dtype", DTYPES, ids=["f32", "bf16"])
def test_shared_and_tied_weights(dtype):
    check(Shared(), torch.randn(2, 16, 3), dtype=dtype)


class Windows(nn.Module):
    """Weights that are views: slices, columns, an expanded row, parts of one parameter."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(600, 400) / 20)

    def forward(self, x):
        q, k = self.weight[:512].chunk(2)
        y = F.linear(x, q) + F.linear(x, k) + x @ self.weight[10:410, ::2][:, :200].repeat(1, 2)[:, :256]
        return y + F.linear(x, self.weight[3:4].expand(256, 400))


@pytest.mark.parametrize("dtype", DTYPES, ids=["f32", "bf16"])
def test_weights_that_are_views(dtype):
    check(Windows(), torch.randn(16, 400), dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=["f32", "bf16"])
def test_batches_of_any_size(dtype):
    model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(2048, 64))
    check(model, *(torch.randn(n, 3, 20, 20) for n in (8, 3, 1, 17, 0, 8)), dtype=dtype)


CONVOLUTIONS = {
    "plain": (lambda: nn.Conv2d(16, 32, 3), (2, 16, 12, 12), 1),
    "no bias": (lambda: nn.Conv2d(16, 32, 3, bias=False), (2, 16, 12, 12), 1),
    "strides": (lambda: nn.Conv2d(16, 24, (3, 5), (2, 1), (1, 2), (1, 2)), (2, 16, 12, 13), 1),
    "same": (lambda: nn.Conv2d(16, 24, 4, padding="same"), (2, 16, 12, 13), 1),
    "reflected": (lambda: nn.Conv2d(16, 24, 3, padding=1, padding_mode="reflect"), (2, 16, 12, 13), 1),
    "groups": (lambda: nn.Conv2d(16, 32, 3, groups=4), (2, 16, 12, 12), 1),
    "depthwise": (lambda: nn.Conv2d(16, 16, 3, groups=16), (2, 16, 12, 12), 1),
    "pointwise": (lambda: nn.Conv2d(16, 32, 1), (1, 16, 9, 9), 1),
    "one image": (lambda: nn.Conv2d(16, 32, 3), (16, 12, 12), 1),
    "patches": (lambda: nn.Conv2d(3, 64, 4, 4), (2, 3, 16, 16), 1),
    "transposed": (lambda: nn.ConvTranspose2d(16, 8, 3, 2), (2, 16, 6, 6), 0),
    "1d": (lambda: nn.Conv1d(16, 32, 3), (2, 16, 20), 0),
    "3d": (lambda: nn.Conv3d(4, 8, 3), (2, 4, 6, 6, 6), 0),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=["f32", "bf16"])
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_convolutions(kind, dtype, tmp_path):
    make, shape, packs = CONVOLUTIONS[kind]
    x = torch.randn(shape)
    check(nn.Sequential(make(), nn.ReLU()), x, dtype=dtype, packs=packs, folder=tmp_path)
    if len(shape) == 4:
        check(make(), x.to(memory_format=torch.channels_last), dtype=dtype)


@pytest.mark.parametrize("act", [nn.ReLU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.Hardswish, nn.ReLU6, nn.LeakyReLU])
def test_activations_behind_a_convolution(act):
    x = torch.randn(2, 8, 10, 10) * 4
    check(nn.Sequential(nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), act(), nn.Conv2d(16, 8, 1), act()), x)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x):
        return F.relu(self.second(F.relu(self.first(x))) + x) + x.mean()


@pytest.mark.parametrize("dtype", DTYPES, ids=["f32", "bf16"])
def test_sums_behind_a_convolution(dtype):
    check(Residual(), torch.randn(2, 8, 10, 10), dtype=dtype)


def test_nan_and_infinity_go_through_packed_weights():
    layer = nn.Linear(256, 512)
    with torch.no_grad():
        layer.weight[3, 5], layer.weight[4, 6] = float("inf"), float("nan")
    x = torch.randn(16, 256)
    x[2, 2] = float("-inf")
    model = layer.eval()
    with torch.no_grad():
        compare.assert_same(freeze(model)(x), model(x))


def test_a_replaced_weight_is_packed_again_and_one_written_in_place_is_not():
    model, x = nn.Linear(512, 256).eval(), torch.randn(16, 512)
    compiled = freeze(model)
    with torch.no_grad():
        before = model(x)
        compare.assert_same(compiled(x), before)
        model.weight.mul_(2)
        compare.assert_same(compiled(x), before)
        model.weight = nn.Parameter(torch.randn(256, 512))
        compare.assert_same(compiled(x), model(x))


def test_inference_mode_and_no_grad_share_packed_weights():
    model, x = nn.Sequential(nn.Linear(512, 256), nn.Conv2d(1, 4, 3)).eval(), torch.randn(1, 16, 512)
    compiled = freeze(model)
    for mode in (torch.inference_mode, torch.no_grad, torch.inference_mode):
        with mode():
            compare.assert_same(compiled(x), model(x))


class Block(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 128), nn.Linear(128, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def test_blocks_that_share_code_have_their_own_packed_weights():
    model, x = nn.Sequential(*(Block() for _ in range(3))).eval(), torch.randn(16, 64)
    compiled = oxytorch.compile_regions(copy.deepcopy(model), options={"freezing": True})
    with torch.no_grad():
        for _ in range(4):
            compare.assert_same(compiled(x), model(x))
        for each in (model, compiled):
            torch.manual_seed(1)
            each[1].up.weight = nn.Parameter(torch.randn(128, 64))
        for _ in range(3):
            compare.assert_same(compiled(x), model(x))


def test_what_is_prepared_is_let_go_with_the_weights():
    model, x = nn.Linear(512, 256).eval(), torch.randn(16, 512)
    compiled = freeze(model)
    with torch.no_grad():
        for _ in range(4):
            compare.assert_same(compiled(x), model(x))
        gone = weakref.ref(model.weight)
        model.weight = nn.Parameter(torch.randn(256, 512))
        for _ in range(4):
            compare.assert_same(compiled(x), model(x))
    assert gone() is None


class Table(nn.Module):
    """Reads its table at a place that a size of the input tells."""

    def __init__(self, read):
        super().__init__()
        self.read, self.rows = read, nn.Parameter(torch.randn(32, 8))

    def forward(self, x):
        return x + self.read(self.rows, x.shape[0])


READS = {
    "slice": lambda rows, n: rows[n : n + 2].sin().sum(0),
    "item": lambda rows, n: rows[n - 1].sin(),
    "narrow": lambda rows, n: rows.narrow(0, n, 1).exp(),
    "roll": lambda rows, n: torch.roll(rows, n, 0).sin()[0],
    "pad": lambda rows, n: F.pad(rows, (0, 0, n, -n)).exp().cumsum(0)[-1],
}


@pytest.mark.parametrize("read", READS)
def test_what_a_size_chooses_of_a_weight_is_chosen_in_every_call(read):
    torch._dynamo.reset()
    model = Table(READS[read]).eval()
    compiled = entered(model, dynamic=True, options={"freezing": True})
    with torch.no_grad():
        for n in (3, 5, 5, 7, 3, 9):
            x = torch.randn(n, 8)
            compare.assert_same(compiled(x), model(x))


def test_other_memory_at_the_same_address_is_packed_again():
    # Large enough that the system hands the memory out again at the same address.
    model, x = nn.Linear(3072, 3072).eval(), torch.randn(16, 3072)
    compiled = freeze(model)
    with torch.no_grad():
        for _ in range(4):
            compare.assert_same(compiled(x), model(x))
        for _ in range(3):
            model.weight.data = torch.empty(0)
            model.weight.data = torch.randn(3072, 3072)
            for _ in range(3):
                compare.assert_same(compiled(x), model(x))


class NoModule:
    def __init__(self):
        self._buffers = {"k": torch.zeros(512, 512)}
        self._parameters = {"w": torch.ones(512)}


def test_an_object_that_only_looks_like_a_module_has_no_weights():
    def use(x, cache):
        return x @ cache._buffers["k"] + cache._parameters["w"].exp()

    torch._dynamo.reset()
    cache, x = NoModule(), torch.randint(3, (16, 512)).float()
    compiled = freeze(use)
    with torch.no_grad():
        for _ in range(4):
            compare.assert_same(compiled(x, cache), use(x, cache))
            cache._buffers["k"].add_(1)
            cache._parameters["w"].add_(1)
