"""What capture says of results without asking torch's meta kernels: sizes, strides and types as in eager, and eager's complaints."""

import gc
import itertools
import os
import subprocess
import sys

import oxytorch
import pytest
import torch
import torch.nn.functional as F
import zoo
from capturing import check, outcome, x
from compare import assert_same
from oxytorch import _oxytorch

UNARY = [F.relu, F.relu6, F.gelu, F.silu, F.mish, F.elu, F.leaky_relu, F.hardswish, F.hardsigmoid, torch.sigmoid, torch.tanh]
UNARY += [torch.exp, torch.sqrt, torch.rsqrt, torch.neg, torch.abs, torch.sin, F.softplus, F.hardtanh]
UNARY += [lambda t: t**2, lambda t: t.pow(0.5), lambda t: 1 - t, lambda t: F.relu(t + 0.5, inplace=True), lambda t: torch.relu_(t * 2)]
UNARY += [lambda t: t.clamp_min(0.5), lambda t: torch.clamp_max(t, 1), lambda t: t.clamp_min(min=t.new_tensor(0.5))]
UNARY += [lambda t: t.clamp(0, 1), lambda t: t.clamp(min=0.5), lambda t: F.gelu(t, approximate="tanh")]

LAYOUTS = {
    "contiguous": lambda: x(2, 3, 4, 5),
    "channels_last": lambda: x(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "transposed": lambda: x(2, 4, 3, 5).transpose(1, 2),
    "sliced": lambda: x(2, 3, 4, 10)[..., ::2],
    "expanded": lambda: x(2, 1, 4, 5).expand(2, 3, 4, 5),
    "one": lambda: x(1, 3, 1, 5),
    "empty": lambda: x(2, 0, 4, 5),
    "half": lambda: x(2, 3, 4, 5).bfloat16(),
    "ints": lambda: torch.arange(120).reshape(2, 3, 4, 5),
}



def pairs(function):
    """The layouts of two operands that the function takes."""

    def fits(left, right):
        try:
            function(LAYOUTS[left](), LAYOUTS[right]())
        except RuntimeError:
            return False
        return True

    return [pair for pair in itertools.product(LAYOUTS, LAYOUTS) if fits(*pair)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_functions_of_one_tensor(layout):
    ints = layout == "ints"
    functions = [f for f in UNARY if not ints or f in (F.relu, torch.exp, torch.neg, torch.abs)]
    for function in functions:
        check(lambda t, function=function: function(t), (LAYOUTS[layout](),))


@pytest.mark.parametrize("left, right", pairs(torch.add))
def test_operators(left, right):
    check(lambda a, b: (a + b, a * b, a - b, torch.maximum(a, b)), (LAYOUTS[left](), LAYOUTS[right]()))


@pytest.mark.parametrize("shapes", [((3, 1), (1, 4)), ((3, 4), (4,)), ((4,), (3, 4)), ((), (3, 4)), ((2, 3, 4), (3, 1)), ((1,), ())])
def test_spread_operands(shapes):
    check(lambda a, b: (a + b, a / b, 2 + a, b * 0.5, a + 1), (x(*shapes[0]) if shapes[0] else torch.tensor(2.0), torch.ones(shapes[1])))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_norms(layout):
    t = LAYOUTS[layout]()
    if layout in ("ints", "empty"):
        pytest.skip("no norm of those")
    v, w = torch.ones(3, dtype=t.dtype), torch.ones(5, dtype=t.dtype)
    check(lambda t, v: F.batch_norm(t, v, v, v, v), (t, v))
    check(lambda t, v: F.batch_norm(t, v, v), (t, v))
    check(lambda t, w: F.layer_norm(t, (5,), w, w), (t, w))
    check(lambda t: F.layer_norm(t, t.shape[2:]), (t,))
    check(lambda t, v: F.group_norm(t, 3, v, bias=v), (t, v))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_along_a_dimension(layout):
    t = LAYOUTS[layout]()
    check(lambda t: (t.roll(1, 2), t.roll((1, -2), (0, -1)), torch.roll(t, shifts=[1], dims=[3]), t.roll(4, 2), t.roll(0, 1), t.roll(3)), (t,))
    if layout != "ints":
        check(lambda t: (t.norm(2, 2), t.norm(2.0, -1, True), torch.norm(t, p=1, dim=0, keepdim=True), t.norm(3, dim=3), t.norm(2, (2, 3)), t.norm()), (t,))
        check(lambda t: F.normalize(t, dim=-1) + t.norm(2, -1, keepdim=True).clamp_min(1e-3), (t,))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_linear(layout):
    t = LAYOUTS[layout]()
    if layout in ("ints", "empty"):
        pytest.skip("no product of those")
    w, b = torch.randn(7, 5).to(t.dtype), torch.randn(7).to(t.dtype)
    check(lambda t, w, b: (F.linear(t, w, b), F.linear(t, w), F.linear(t[0, 0], w, bias=b), F.linear(t[0, :1, 0], w)), (t, w, b))


@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "transposed", "sliced", "one", "half"])
def test_larger_planes(layout):
    t = LAYOUTS[layout]()
    check(lambda t: (F.interpolate(t, scale_factor=2), F.interpolate(t, None, 1.7), F.interpolate(t, scale_factor=(2, 3))), (t,))
    check(lambda t: (F.interpolate(t, scale_factor=2, mode="bilinear"), F.interpolate(t, (5, 6)), torch.nn.Upsample(scale_factor=2.0)(t)), (t,))


CONVOLUTIONS = [dict(), dict(stride=2, padding=1), dict(stride=(1, 2), padding=(1, 0), dilation=(1, 2)), dict(padding="same"), dict(padding=[2])]


@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "transposed", "sliced", "one", "half"])
def test_convolutions(layout, options):
    t = LAYOUTS[layout]()
    w, b = torch.randn(6, 3, 1, 2).to(t.dtype), torch.randn(6).to(t.dtype)
    check(lambda t, w, b: (F.conv2d(t, w, b, **options), F.conv2d(t, w[:, :1], groups=3, **options)), (t, w, b))


@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "transposed", "one"])
def test_samples_on_a_grid(layout):
    t = LAYOUTS[layout]()
    check(lambda t, grid: F.grid_sample(t, grid, align_corners=True), (t, x(t.shape[0], 6, 2, 2)))


@pytest.mark.parametrize("mask", [None, torch.zeros(6, 6), torch.ones(2, 1, 6, 6, dtype=torch.bool)])
@pytest.mark.parametrize("transposed", [False, True])
def test_attention(mask, transposed):
    make = lambda heads=4: x(2, 6, heads, 8).transpose(1, 2) if transposed else x(2, heads, 6, 8)

    def attend(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    check(attend, (make(), make(), make(), mask))
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), (make(), make(), make()))
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v[..., :4]), (make(), make(), make()))
    check(lambda q, k, v: F.scaled_dot_product_attention(q[0], k[0], v[0]), (make(), make(), make()))


@pytest.mark.parametrize("rows", [6, 1])
def test_attention_on_parts_of_one_tensor(rows):
    def attend(t):
        q, k, v = (part.reshape(2, rows, 4, 8).transpose(1, 2) for part in t.chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, q, v[:, :, :1].expand(v.shape))

    check(attend, (x(2, rows, 96),))


def join(a, b):
    first = torch.cat([a, a * 2]), torch.cat((b, b[:, :1]), 1), torch.cat([b[:1], b[:1]], dim=-1)
    return first, torch.cat([a, b]), torch.cat([a[..., :1], b[..., :1]], 3), torch.cat([a[:, :1, :1, :1], b[:, :1, :1, :1]], 1)


@pytest.mark.parametrize("left, right", pairs(join))
def test_joined(left, right):
    check(join, (LAYOUTS[left](), LAYOUTS[right]()))


UNET = """
import zoo
workload = zoo.build("unet", sizes=zoo.TEST_SIZES)
workload.run(oxytorch.compile(workload.model))
"""
TRAINING = """
from torch import nn
convolutions = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.Flatten()]
net = nn.Sequential(*convolutions, nn.Linear(8 * 16, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.1), nn.Linear(16, 4))
oxytorch.compile(net)(torch.randn(2, 3, 8, 8)).square().sum().backward()
"""


@pytest.mark.parametrize("part", [UNET, TRAINING])
def test_a_usual_model_needs_no_symbolic_algebra(part):
    """To import sympy takes 30 MB, and torch's programs that decompose a call do."""
    begin = "import sys\nsys.path[:0] = sys.argv[1:]\nimport oxytorch, torch\n"
    program = begin + part + "assert 'sympy' not in sys.modules\n"
    folders = [os.path.dirname(zoo.__file__), os.path.dirname(os.path.dirname(oxytorch.__file__))]
    subprocess.run([sys.executable, "-c", program, *folders], check=True)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t: F.linear(t, x(3, 7)),
        lambda t: F.layer_norm(t, (4,)),
        lambda t: F.layer_norm(t, (5,), x(4)),
        lambda t: t + x(2, 3, 3, 5),
        lambda t: F.group_norm(t, 2),
        lambda t: F.conv2d(t, x(4, 2, 1, 1)),
        lambda t: F.conv2d(t, x(4, 3, 5, 5)),
        lambda t: F.conv2d(t, x(4, 3, 1, 1), stride=0),
        lambda t: F.conv2d(t, x(4, 3, 1, 1), padding=-1),
        lambda t: torch.cat([t, t[:, :1]]),
        lambda t: F.interpolate(t, scale_factor=2, align_corners=True),
        lambda t: F.interpolate(t, scale_factor=0.1),
        lambda t: F.batch_norm(t, x(4), x(4)),
        lambda t: F.batch_norm(t, x(3), x(3), eps=0.0),
        lambda t: F.group_norm(t[:1, :1, 0, 0], 1),
        lambda t: t.clamp(),
        lambda t: t.clamp_min(),
        lambda t: t.norm(2, 4),
        lambda t: t.norm(2, dim=-5),
        lambda t: t.roll(1, 4),
        lambda t: t.roll((1, 2), 1),
        lambda t: t.roll((1, 2)),
        lambda t: F.gelu(t, approximate="exact"),
        lambda t: F.hardtanh(t, 1, -1),
        lambda t: torch.maximum(t, 2),
        lambda t: F.grid_sample(t, x(2, 1, 1, 2), mode="cubic", align_corners=True),
        lambda t: F.scaled_dot_product_attention(t, t, t[:1, :2]),
    ],
)
def test_complaints_are_eagers(wrong):
    t = x(2, 3, 4, 5)
    captured = _oxytorch.capture(lambda t: wrong(t) * 2)
    for _ in range(2):
        with pytest.raises((RuntimeError, ValueError, TypeError, IndexError)) as mine, torch.no_grad():
            captured(t)
        with pytest.raises((RuntimeError, ValueError, TypeError, IndexError)) as eagers, torch.no_grad():
            wrong(t)
        assert type(mine.value) is type(eagers.value) and str(mine.value) == str(eagers.value)


def test_written_in_place_through_a_view():
    def writes(t):
        t = t.clone()
        F.relu(t[1], inplace=True)
        torch.relu_(t[:, 0])
        return t

    check(writes, (x(2, 3),))


def test_gradients_flow_as_in_eager():
    layer = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.GELU(), torch.nn.LayerNorm(7))
    captured = _oxytorch.capture(layer)
    t = x(2, 5)
    for _ in range(2):
        assert captured(t).requires_grad
        assert_same(captured(t).detach(), layer(t).detach())


def test_the_collector_works_behind_a_trace_and_in_actions():
    seen = []

    def watched(t):
        t = t + 1
        seen.append(gc.isenabled())
        return t * 2

    assert gc.isenabled()
    captured = _oxytorch.capture(watched)
    for _ in range(2):
        captured(x())
    assert seen == [True, True] and gc.isenabled()


def test_a_function_may_turn_the_collector_off():
    def turns_off(t):
        t = t + 1
        gc.disable()
        return t * 2

    captured = _oxytorch.capture(turns_off)
    try:
        captured(x())
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("other", ["contiguous", "transposed", "expanded", "one", "spread"])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "transposed", "sliced", "expanded", "half"])
def test_written_over_the_first_of_three(layout, other):
    t, o = LAYOUTS[layout](), x(5) if other == "spread" else LAYOUTS[other]()
    o = o.to(t.dtype)

    def steps(t, o):
        t = t.clone()
        return t.lerp_(o, 0.25), t.addcmul_(o, o, value=0.5), t.addcdiv_(o, o + 4.0, value=-2), t.lerp_(o, o), t * 2

    check(steps, (t, o))


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != "empty"])
def test_single_numbers_in_tensors(layout):
    t, number = LAYOUTS[layout](), torch.tensor(3.0, dtype=torch.float64)
    check(lambda t, n: (t / n, t * n.float(), torch.maximum(t, n.to(t.dtype)), 0.9**n, 2**t, t[:1, 0, 0, 0] + n), (t, number))


@pytest.mark.parametrize("name", ["addcmul_", "addcdiv_"])
@pytest.mark.parametrize("numbers_first", [True, False])
def test_numbers_in_the_place_of_tensors_are_refused(name, numbers_first):
    def f(a, b):
        return getattr(a, name)(*((2.0, b) if numbers_first else (b, 2.0)))

    with pytest.raises(TypeError):
        f(torch.ones(3), torch.ones(3))
    with pytest.raises(TypeError):
        oxytorch.compile(f)(torch.ones(3), torch.ones(3))


def steps_as_tensor(t):
    mask, same = t > 0, t * 2
    kept = torch.as_tensor(same, dtype=t.dtype, device=t.device), torch.as_tensor(same, dtype=None), torch.as_tensor(same, device="cpu")
    given_back = [tensor is same for tensor in kept]
    return given_back, torch.as_tensor(mask, dtype=t.dtype), torch.as_tensor(t, dtype=torch.float64, device=t.device), same


def test_a_tensor_as_a_tensor():
    """By its own name the call is one of TorchScript's operators, which the dispatcher refuses in every call."""
    check(steps_as_tensor, (x(3, 4),))
    compiled = oxytorch.compile(steps_as_tensor)
    t = x(3, 4).requires_grad_()
    for _ in range(3):
        got, want = compiled(t), steps_as_tensor(t)
        assert_same(got, want)
        gradients = [torch.autograd.grad(wide.sum() + same.sum(), t)[0] for _, _, wide, same in (got, want)]
        assert_same(*gradients)
    assert compiled.stats()["traced"] == 1
    assert oxytorch.last_compile()["outcome"] == "compiled"


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_tensors_filled_with_what_a_tensor_holds(kind):
    def fill(t, n):
        filled = torch.full((2,), n), t.new_full((2, 3), n), torch.full_like(t, fill_value=n[...])
        return *filled, torch.full((2,), n, dtype=torch.float64), t.new_full((2,), n, dtype=torch.int32)

    check(fill, (x(3, 4), torch.tensor(1, dtype=kind)), (x(3, 4).double(), torch.tensor(1, dtype=kind)))


def test_what_no_tensor_is_filled_with():
    def fill(t, n):
        return torch.full_like(t, n) * 2

    compiled = oxytorch.compile(fill)
    for t, n in [
        (torch.ones(3, dtype=torch.uint8), torch.tensor(7)),
        (torch.ones(3, dtype=torch.uint8), torch.tensor(300)),
        (torch.ones(3), torch.tensor(1e300, dtype=torch.float64)),
        (torch.ones(3), torch.tensor([2.0])),
        (torch.ones(3), torch.tensor(2.0, requires_grad=True)),
        (torch.ones(3), torch.tensor(2j)),
        (torch.ones(3), torch.tensor(2.0)),
    ]:
        for _ in range(2):
            want = outcome(fill, t, n)
            got = outcome(compiled, t, n)
            assert got[1] == want[1]
            assert_same(got[0], want[0])


def test_a_new_tensor_of_a_size():
    def make(t):
        return [made.fill_(1) for made in (t.new(t.shape), t.new(t.size()[:1]), t.new(*t.shape), t.new(torch.Size([3, 2])))] + [t.new([2, 4])]

    check(make, (x(2, 4),), (x(5, 3),))
