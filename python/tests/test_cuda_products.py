"""Products on a GPU: what the library computes on the way, and the fastest of its ways."""

import oxytorch
import pytest
import torch
import torch.nn.functional as F
from oxytorch import _oxytorch
from torch import nn

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

HALVES = (torch.bfloat16, torch.float16)


@pytest.fixture(autouse=True)
def fresh():
    oxytorch.reset()
    torch.manual_seed(0)


def numbers(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device="cuda").to(dtype)


def close(ours, eagers, exact):
    """At most twice eager's own error."""
    error, own = ((y.double() - exact).abs().max() for y in (ours, eagers))
    assert error <= 2 * own + 1e-6, f"{error} against eager's {own}"


def kernels_of(call):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        call()
        torch.cuda.synchronize()
    return [event.name for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA and "Mem" not in event.name]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("bias", [True, False])
def test_relu_is_computed_on_the_way(dtype, bias):
    layer = nn.Linear(256, 512, bias=bias, device="cuda", dtype=dtype)
    function = lambda x: F.relu(layer(x))
    fast, x = oxytorch.compile(function), numbers(128, 256, dtype=dtype)
    with torch.no_grad():
        exact = F.relu(F.linear(x.double(), layer.weight.double(), None if layer.bias is None else layer.bias.double()))
        for _ in range(6):
            close(fast(x), function(x), exact)
        assert len(kernels_of(lambda: fast(x))) == 1


def test_relu_of_nan_and_infinity_is_eagers():
    weight, x = numbers(64, 64), numbers(32, 64)
    x[3, 5], x[4, 6], x[5, 7] = float("nan"), float("inf"), -float("inf")
    function = lambda x: F.relu(x @ weight.t())
    fast = oxytorch.compile(function)
    for _ in range(6):
        torch.testing.assert_close(fast(x), function(x), equal_nan=True)


def test_what_relu_was_taken_of_may_be_asked_for():
    layer, x = nn.Linear(64, 64, device="cuda", dtype=torch.bfloat16), numbers(32, 64)

    def function(x):
        y = layer(x)
        return y, F.relu(y)

    fast = oxytorch.compile(function)
    with torch.no_grad():
        for _ in range(3):
            y, positive = fast(x)
            torch.testing.assert_close(y, layer(x))
            assert torch.equal(positive, y.relu())


@pytest.mark.parametrize("rows", [1, 2, 33])
@pytest.mark.parametrize("columns", [64, 63])
def test_relu_behind_products_that_are_torchs(rows, columns):
    layer, x = nn.Linear(64, columns, device="cuda", dtype=torch.bfloat16), numbers(rows, 64)
    function = lambda x: F.relu(layer(x))
    fast = oxytorch.compile(function, dynamic=True)
    with torch.no_grad():
        for n in (2 * rows, rows):
            x = numbers(n, 64)
            close(fast(x), function(x), F.relu(F.linear(x.double(), layer.weight.double(), layer.bias.double())))


def test_gradients_behind_relu_are_eagers():
    make = lambda: nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 64))
    plain = make().to("cuda", torch.bfloat16)
    exact = make().to("cuda", torch.float64)
    exact.load_state_dict(plain.state_dict())
    fast, x = oxytorch.compile(plain), numbers(64, 128)
    gradients = lambda f, x: torch.autograd.grad(f(x).double().square().mean(), list(f.parameters()))
    eagers, wanted = gradients(plain, x), gradients(exact, x.double())
    for _ in range(4):
        for ours, eager, true in zip(gradients(fast, x), eagers, wanted):
            close(ours, eager, true)


def test_gelu_is_computed_on_the_way_where_nothing_need_be_rounded():
    layer, x = nn.Linear(256, 512, device="cuda", dtype=torch.bfloat16), numbers(128, 256)
    function = lambda x: F.gelu(layer(x), approximate="tanh")
    fast = oxytorch.compile(function, options={"round_intermediates": False})
    with torch.no_grad():
        exact = F.gelu(F.linear(x.double(), layer.weight.double(), layer.bias.double()), approximate="tanh")
        for _ in range(6):
            close(fast(x), function(x), exact)
        assert len(kernels_of(lambda: fast(x))) == 1
        rounded = oxytorch.compile(lambda x: F.gelu(layer(x), approximate="tanh"))
        for _ in range(6):
            rounded(x)
        assert len(kernels_of(lambda: rounded(x))) == 2


def test_nan_goes_through_relu_of_sums_in_parts():
    weight, x = numbers(128, 16384), numbers(64, 16384)
    x[3, 5], x[4, 6] = float("nan"), float("inf")
    function = lambda x: F.relu(x @ weight.t())
    fast, wanted = oxytorch.compile(function), function(x)
    for _ in range(6):
        result = fast(x)
        assert torch.equal(result.isnan(), wanted.isnan())
        torch.testing.assert_close(result, wanted, equal_nan=True, rtol=2e-2, atol=1.0)


# What is found out stays for the process: each mode has shapes of its own.
LARGE = {
    None: [(4096, 768, 3072), (12608, 3072, 768)],
    "reduce-overhead": [(4096, 1024, 3072), (8192, 3072, 1024)],
    "max-autotune": [(4096, 1152, 3072), (2048, 7168, 2048)],
    "max-autotune-no-cudagraphs": [(4096, 1280, 3072), (2048, 2048, 7168)],
}


@pytest.mark.parametrize("mode, shape", [(mode, shape) for mode, shapes in LARGE.items() for shape in shapes], ids=str)
def test_the_fastest_way_has_the_same_bits(mode, shape):
    """Ways are compared in the second call, or the first where calls are recorded: all of them give what the library's guess gives."""
    rows, inner, outer = shape
    layer, x = nn.Linear(inner, outer, device="cuda", dtype=torch.bfloat16), numbers(rows, inner)
    fast, before = oxytorch.compile(layer, mode=mode), _oxytorch.compared_products()
    is_recorded = mode in ("reduce-overhead", "max-autotune")
    with torch.no_grad():
        first = fast(x).clone()
        assert _oxytorch.compared_products() == before + is_recorded
        close(first, layer(x), F.linear(x.double(), layer.weight.double(), layer.bias.double()))
        for _ in range(6):
            assert torch.equal(fast(x), first)
    assert _oxytorch.compared_products() == before + 1


def test_equal_layers_are_compared_once_and_small_ones_not_at_all():
    large, small = (nn.Sequential(*[nn.Linear(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(4)]) for n in (1920, 256))
    before = _oxytorch.compared_products()
    with torch.no_grad():
        for model, n, wanted in ((large, 1920, 1), (small, 256, 1)):
            fast, x = oxytorch.compile(model), numbers(8192, n)
            for _ in range(4):
                fast(x)
            assert _oxytorch.compared_products() == before + wanted


def test_ways_are_compared_in_training_and_on_other_streams():
    layer, x = nn.Linear(3072, 768, device="cuda", dtype=torch.bfloat16), numbers(12608, 3072).requires_grad_()
    fast, gradient = oxytorch.compile(layer), numbers(12608, 768)
    steps = []
    for n in range(6):
        stream = torch.cuda.Stream() if n % 2 else torch.cuda.current_stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = fast(x)
            steps.append((y.detach(), *torch.autograd.grad(y, (x, layer.weight), gradient)))
        torch.cuda.synchronize()
    for step in steps[1:]:
        assert all(torch.equal(a, b) for a, b in zip(step, steps[0]))


def test_a_recording_of_the_users_compares_nothing():
    """A product whose ways have not been compared yet, inside of the user's own recording."""
    layer, x = nn.Linear(1024, 4096, device="cuda", dtype=torch.bfloat16), numbers(8192, 1024)
    fast = oxytorch.compile(layer)
    with torch.no_grad():
        wanted = fast(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            recorded = fast(x)
        graph.replay()
        assert torch.equal(recorded, wanted)
        assert torch.equal(fast(x), wanted)
