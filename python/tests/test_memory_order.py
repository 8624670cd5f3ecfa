"""Results lie in memory as eager's do, also where torch's kernels for shapes say otherwise."""

import os
import subprocess
import sys

import compare
import oxytorch
import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from training import DOORS, check

FUNCTIONS = {
    "number_to_the_power": lambda x: 2**x,
    "pow": lambda x: torch.pow(2.5, x),
    "pow_of_true": lambda x: torch.pow(True, x),
    "pow_of_integers": lambda x: 2 ** (x > 0).int(),
    "float_power": lambda x: torch.float_power(2, x),
    "power": lambda x: x**2,
    "logsigmoid": lambda x: F.logsigmoid(x),
    "logsigmoid_used": lambda x: F.logsigmoid(x) + 1,
    "rrelu": lambda x: F.rrelu(x),
    "rrelu_in_place": lambda x: F.rrelu(x * 1, inplace=True),
    "one_hot": lambda x: F.one_hot((x > 0).long(), 2),
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(x.shape[1]), torch.ones(x.shape[1])),
    "batch_norm_in_training": lambda x: F.batch_norm(x, None, None, training=True),
    "group_norm": lambda x: F.group_norm(x, 2),
    "roll": lambda x: x.roll(1, 0),
    "roll_of_two": lambda x: x.roll((1, -1), (0, 1)),
    "roll_by_nothing": lambda x: x.roll(0, 1),
    "roll_by_a_turn": lambda x: torch.roll(x, shifts=(1, -x.shape[-1]), dims=(0, -1)),
    "roll_of_all": lambda x: torch.roll(x, 1),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2) if x.dim() > 2 else x + 1,
    "select_scatter": lambda x: torch.select_scatter(x, x[0], 0, 1),
    "slice_scatter": lambda x: torch.slice_scatter(x, x[:1], 0, 1, 2),
    "diagonal_scatter": lambda x: torch.diagonal_scatter(x, torch.zeros_like(x.diagonal())),
}

LAYOUTS = {
    "rows": torch.randn(4, 6),
    "columns": torch.randn(6, 4).t(),
    "every_other": torch.randn(4, 12)[:, ::2],
    # The mean of a row is exact, else a norm of it is nothing but rounding.
    "expanded": torch.arange(1.0, 5.0)[:, None].expand(4, 6),
    "three": torch.randn(6, 3, 4).permute(2, 0, 1),
    "channels_last": torch.randn(4, 6, 3, 5).contiguous(memory_format=torch.channels_last),
    "channels_last_of_a_part": torch.randn(4, 6, 3, 10).contiguous(memory_format=torch.channels_last)[..., ::2],
    "channels_last_3d": torch.randn(2, 4, 3, 2, 2).contiguous(memory_format=torch.channels_last_3d),
    "images_transposed": torch.randn(6, 4, 3, 5).transpose(0, 1),
}


@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_lie_as_in_eager(name, grad):
    function = FUNCTIONS[name]
    for layout, x in LAYOUTS.items():
        x = x.detach().requires_grad_(grad)
        compare.assert_same(oxytorch.compile(function)(x), function(x), label=f"{name} of {layout}")


# torch's meta kernels have another order than its real ones where the operands lie in different ones.
OF_TWO = {
    "floor_division": lambda x, y: x // (y.abs() + 1),
    "div_floor": lambda x, y: torch.div(x, y.abs() + 1, rounding_mode="floor"),
    "copysign": lambda x, y: x.copysign(y),
    "xlogy": lambda x, y: torch.xlogy(x.abs(), y.abs() + 1),
    "logical_and": lambda x, y: torch.logical_and(x, y[:1]),
    "isin": lambda x, y: torch.isin(x, y),
    "ldexp": lambda x, y: torch.ldexp(x, y[:1]),
    "logaddexp2": lambda x, y: torch.logaddexp2(y[:1], x) * 1,
    "huber_loss": lambda x, y: F.huber_loss(y[:1], x, reduction="none") * 1,
    "angle": lambda x, y: torch.angle(torch.complex(x, y)),
    "targets": lambda x, y: F.cross_entropy(y, (x[:, 0] > 0).long(), reduction="none") * 1,
    "cross_entropy_of_each": lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), reduction="none"),
    "irfft": lambda x, y: torch.fft.irfft(x) * 1,
    "rfft2": lambda x, y: torch.fft.rfft2(x).abs(),
    "irfftn": lambda x, y: torch.fft.irfftn(x + 0),
    "eigenvectors": lambda x, y: torch.linalg.eig(x @ x.mT)[1].abs(),
    "singular_vectors": lambda x, y: torch.linalg.svd(x)[2].abs(),
}


@pytest.mark.parametrize("name", OF_TWO)
def test_results_of_two_layouts_lie_as_in_eager(name):
    function = OF_TWO[name]
    for layout, x in LAYOUTS.items():
        for y in (x, torch.randn(x.shape), torch.randn(x.shape[::-1]).permute(*range(x.dim() - 1, -1, -1))):
            compare.assert_same(oxytorch.compile(function)(x, y), function(x, y), label=f"{name} of {layout}")


HEADS = {
    "rows": lambda rows: torch.randn(2, 4, rows, 8),
    "transposed": lambda rows: torch.randn(2, rows, 4, 8).transpose(1, 2),
    "rows_first": lambda rows: torch.randn(rows, 2, 4, 8).permute(1, 2, 0, 3),
    "part": lambda rows: torch.randn(2, rows, 3, 4, 8)[:, :, 1].transpose(1, 2),
    "columns": lambda rows: torch.randn(2, 4, 8, rows).transpose(2, 3),
    "expanded": lambda rows: torch.randn(2, 1, rows, 8).expand(2, 4, rows, 8),
}

ATTENTIONS = {
    "plain": F.scaled_dot_product_attention,
    "used": lambda q, k, v: F.scaled_dot_product_attention(q * 2, k + 1, v) + 1,
    "causal": lambda q, k, v: F.scaled_dot_product_attention(query=q, key=k, value=v, is_causal=True, scale=0.3),
    "grouped": lambda q, k, v: F.scaled_dot_product_attention(q, k[:, :2], v[:, 2:], enable_gqa=True),
    "masked": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()),
    "biased": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=q.detach() @ k.detach().mT),
    "bias_with_a_gradient": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=q @ k.mT),
    "wide_values": lambda q, k, v: F.scaled_dot_product_attention(q, k, torch.cat((v, v), -1)),
    "double": lambda q, k, v: F.scaled_dot_product_attention(q.double(), k.double(), v.double()),
    "without_a_gradient_of_queries": lambda q, k, v: F.scaled_dot_product_attention(q.detach(), k, v),
}


@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_lies_as_in_eager(name, grad):
    attend = ATTENTIONS[name]
    for layout, make in HEADS.items():
        called = oxytorch.compile(attend)
        for rows in (5, 5, 7, 9, 1):
            args = [make(rows).requires_grad_(grad) for _ in range(3)]
            compare.assert_same(called(*args), attend(*args), label=f"{name} of {rows} {layout}")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("grouped", [False, True], ids=["", "grouped"])
def test_heads_are_merged_by_a_view(grouped, door):
    def attend(q, k, v):
        batch, count, rows, width = q.shape
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=grouped).transpose(1, 2).view(batch, rows, count * width)

    args = [torch.randn(2, 5, count, 8).transpose(1, 2).requires_grad_() for count in ((4, 2, 2) if grouped else (4, 4, 4))]
    check(attend, *args, door=door)
    args = [t.detach().contiguous().requires_grad_() for t in args]
    for called in (attend, DOORS[door](attend)):
        with pytest.raises(RuntimeError, match="view"):
            called(*args)


def test_attention_by_a_kernel_that_the_program_has_chosen():
    attend = oxytorch.compile(F.scaled_dot_product_attention)
    q = HEADS["transposed"](5)
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
        with sdpa_kernel(backend):
            compare.assert_same(attend(q, q, q), F.scaled_dot_product_attention(q, q, q), label=str(backend))


LONE = {
    "transposed": (lambda x: (x + 1).mT, (2, 1, 3)),
    "moved": (lambda x: x.permute(1, 2, 3, 0).clone(), (1, 3, 4, 4)),
    "narrowed": (lambda x: (x * 2).narrow(2, 0, 1), (4, 1, 3)),
    "sliced": (lambda x: (x * 2).select(1, 0)[:1], (3, 4, 5)),
    "windows": (lambda x: (x * 2).unfold(0, 1, 1), (5, 3)),
    "inserted": (lambda x: (x + 1).unsqueeze(1).transpose(0, 1), (4, 3)),
    "copied": (lambda x: x.t().clone(), (4, 1)),
    "pooled": (lambda x: F.max_pool2d(x.to(memory_format=torch.channels_last), 2), (2, 1, 4, 4)),
}


@pytest.mark.parametrize("name", LONE)
def test_strides_of_dimensions_of_one_element(entry, name):
    function, shape = LONE[name]
    wrapped, x = entry(function), torch.randn(shape)
    for _ in range(2):
        want, got = function(x), wrapped(x)
        compare.assert_same(got, want)
        assert got.stride() == want.stride()
        assert got.untyped_storage().nbytes() == want.untyped_storage().nbytes()


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_parts_written_to_copies_of_what_was_expanded(door):
    """Fake kernels say that the results are expanded as well: their rows were written over one another."""
    x, v = torch.randn(1, 6).expand(7, 6), torch.randn(7, 6)
    for f in (
        lambda x, v: x.select_scatter(v[0], 0, 1),
        lambda x, v: x.slice_scatter(v[:2], 0, 0, 2),
        lambda x, v: x.diagonal_scatter(v.diagonal(), 0),
        lambda x, v: (x * 2).sum(0, keepdim=True).expand(3, 6),
    ):
        got, want = door(f)(x, v), f(x, v)
        assert torch.equal(got, want) and got.stride() == want.stride()


def test_padding_behind_dynamo_in_a_process_that_has_captured_nothing(tmp_path):
    """What the machine looks up when it first runs was not there: an internal error."""
    script = tmp_path / "pads.py"
    script.write_text(
        "import torch\n"
        "f = torch.compile(lambda x: torch.nn.functional.pad(x, (2, 1, 0, 0), 'reflect') + 1, backend='oxytorch')\n"
        "print(tuple(f(torch.zeros(2, 3, 4, 5)).shape))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env={**os.environ, "OXYTORCH_BUG": "fatal"})
    assert done.stdout == "(2, 3, 4, 8)\n", done.stderr
