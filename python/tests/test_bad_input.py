"""Arguments that eager refuses, through both entry points: eager's exception, the user's line in its traceback, and a compiled function
that goes on working.

A row is a function, arguments that are right, and some that are wrong. What is wrong only by its values (an index) is found by compiled
code; what is wrong by its shape or type is found when the call is captured again.
"""

import operator
import traceback

import compare
import oxytorch
import pytest
import torch
import torch.nn.functional as F
from entries import outcome, same_outcome
from torch._dynamo.exc import TorchDynamoException

r = torch.randn


def i(*values):
    return torch.tensor(values)


def image(channels=3, size=8):
    return r(1, channels, size, size)


def assigned(a, b):
    a = a.clone()
    a[0] = b
    return a


CONVOLUTIONS = {
    "channels": (lambda x, w: F.conv2d(x, w) + 1, (image(), r(4, 3, 3, 3)), (image(2), r(4, 3, 3, 3))),
    "groups": (lambda x, w: F.conv2d(x, w, groups=2), (image(4), r(4, 2, 3, 3)), (image(4), r(3, 2, 3, 3)), (image(6), r(4, 2, 3, 3))),
    "no_groups": (lambda x, w, n: F.conv2d(x, w, groups=n), (image(), r(4, 3, 3, 3), 1), (image(), r(4, 3, 3, 3), 0)),
    "negative_padding": (lambda x, w, n: F.conv2d(x, w, padding=n), (image(), r(4, 3, 3, 3), 1), (image(), r(4, 3, 3, 3), -1)),
    "no_stride": (lambda x, w, n: F.conv2d(x, w, stride=n), (image(), r(4, 3, 3, 3), 2), (image(), r(4, 3, 3, 3), 0)),
    "no_dilation": (lambda x, w, n: F.conv2d(x, w, dilation=n), (image(), r(4, 3, 3, 3), 2), (image(), r(4, 3, 3, 3), 0)),
    "large_kernel": (lambda x, w: F.conv2d(x, w).relu(), (image(), r(4, 3, 5, 5)), (image(size=4), r(4, 3, 5, 5))),
    "bias": (lambda x, w, b: F.conv2d(x, w, b), (image(), r(4, 3, 3, 3), r(4)), (image(), r(4, 3, 3, 3), r(5))),
    "rank": (lambda x, w: F.conv2d(x, w) * 2, (image(), r(4, 3, 3, 3)), (r(3, 8), r(4, 3, 3, 3)), (image(), r(4, 3, 3))),
    "type": (lambda x, w: F.conv2d(x, w), (image(), r(4, 3, 3, 3)), (image().double(), r(4, 3, 3, 3)), (image().long(), r(4, 3, 3, 3))),
    "padding_name": (lambda x, w, p: F.conv2d(x, w, padding=p), (image(), r(4, 3, 3, 3), "same"), (image(), r(4, 3, 3, 3), "all")),
    "one_dimension": (lambda x, w: F.conv1d(x, w), (r(2, 3, 9), r(4, 3, 3)), (r(2, 3, 2), r(4, 3, 3)), (r(2, 4, 9), r(4, 3, 3))),
    "three_dimensions": (lambda x, w: F.conv3d(x, w), (r(1, 2, 4, 4, 4), r(3, 2, 2, 2, 2)), (r(1, 3, 4, 4, 4), r(3, 2, 2, 2, 2))),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w), (image(), r(3, 4, 3, 3)), (image(2), r(3, 4, 3, 3))),
    "output_padding": (
        lambda x, w, n: F.conv_transpose2d(x, w, stride=2, output_padding=n),
        (image(), r(3, 4, 3, 3), 1),
        (image(), r(3, 4, 3, 3), 2),
    ),
}

POOLS = {
    "max_large": (lambda x: F.max_pool2d(x, 5) + 1, (image(),), (image(size=4),)),
    "avg_large": (lambda x: F.avg_pool2d(x, 5) + 1, (image(),), (image(size=4),)),
    "max_no_stride": (lambda x, n: F.max_pool2d(x, 2, n), (image(), 2), (image(), 0)),
    "avg_no_stride": (lambda x, n: F.avg_pool2d(x, 2, n), (image(), 2), (image(), 0)),
    "max_padding": (lambda x, n: F.max_pool2d(x, 2, padding=n), (image(), 1), (image(), 2), (image(), -1)),
    "avg_padding": (lambda x, n: F.avg_pool2d(x, 2, padding=n), (image(), 1), (image(), 2), (image(), -1)),
    "avg_divisor": (lambda x, n: F.avg_pool2d(x, 2, divisor_override=n), (image(), 3), (image(), 0)),
    "avg_integers": (lambda x: F.avg_pool2d(x, 2), (image(),), (torch.ones(1, 3, 8, 8, dtype=torch.int32),)),
    "max_line": (lambda x, n: F.max_pool1d(x, n), (r(2, 3, 8), 2), (r(2, 3, 8), 9), (r(2, 3, 8), 0)),
    "avg_line": (lambda x, n: F.avg_pool1d(x, n), (r(2, 3, 8), 2), (r(2, 3, 8), 9), (r(2, 3, 8), 0)),
    "dilation": (lambda x, n: F.max_pool2d(x, 3, dilation=n), (image(), 2), (image(), 0), (image(), 9)),
    "adaptive": (lambda x, n: F.adaptive_avg_pool2d(x, n), (image(), 3), (image(), -1), (image(), (1, 2, 3))),
    "adaptive_max": (lambda x, n: F.adaptive_max_pool2d(x, n), (image(), 3), (image(), -1)),
    "rank": (lambda x: F.max_pool2d(x, 2), (image(),), (r(8, 8),), (r(1, 1, 3, 8, 8),)),
    "empty": (lambda x: F.max_pool2d(x, 2), (image(),), (r(1, 0, 8, 8),), (r(1, 3, 0, 8),)),
    "unpool": (lambda x, at: F.max_unpool2d(x, at, 2), (r(1, 1, 1, 2), i(0, 3).view(1, 1, 1, 2)), (r(1, 1, 1, 2), i(0, 99).view(1, 1, 1, 2))),
}

RESIZING = {
    "no_size": (lambda x, n: F.interpolate(x, size=n, scale_factor=None), (image(), 4), (image(), None)),
    "size_and_scale": (lambda x, s: F.interpolate(x, 4, scale_factor=s), (image(), None), (image(), 2.0)),
    "mode": (lambda x, m: F.interpolate(x, scale_factor=2, mode=m), (image(), "bilinear"), (image(), "biliner"), (image(), "linear")),
    "too_many_sizes": (lambda x, n: F.interpolate(x, n), (image(), (4, 4)), (image(), (4, 4, 4))),
    "to_nothing": (lambda x, n: F.interpolate(x, n, mode="bilinear"), (image(), (4, 4)), (image(), (0, 4)), (image(), (-1, 4))),
    "of_nothing": (lambda x: F.interpolate(x, (4, 4)), (image(),), (r(1, 3, 0, 4),)),
    "corners": (lambda x, m: F.interpolate(x, 4, mode=m, align_corners=True), (image(), "bilinear"), (image(), "nearest")),
    "shuffle": (lambda x, n: F.pixel_shuffle(x, n), (image(4), 2), (image(4), 3), (image(4), 0)),
    "unshuffle": (lambda x, n: F.pixel_unshuffle(x, n), (image(), 2), (image(), 3)),
    "grid": (lambda x, g: F.grid_sample(x, g, align_corners=False), (image(), r(1, 4, 4, 2)), (image(), r(1, 4, 4, 3)), (image(), r(2, 4, 4, 2))),
    "pad": (lambda x, p: F.pad(x, p), (image(), (1, 1)), (image(), (-9, 0)), (image(), (1,)), (image(), (1,) * 10)),
    "reflect": (lambda x, n: F.pad(x, (n, n), mode="reflect"), (r(2, 3, 4), 3), (r(2, 3, 4), 4)),
    "circular": (lambda x, n: F.pad(x, (n, n), mode="circular"), (r(2, 3, 4), 4), (r(2, 3, 4), 5)),
    "pad_mode": (lambda x, m: F.pad(x, (1, 1), mode=m), (r(2, 3, 4), "replicate"), (r(2, 3, 4), "mirror")),
}

PRODUCTS = {
    "linear": (lambda x, w, b: F.linear(x, w, b).relu(), (r(2, 3), r(4, 3), r(4)), (r(2, 5), r(4, 3), r(4)), (r(2, 3), r(4, 3), r(3))),
    "matmul": (lambda a, b: a @ b + 1, (r(2, 3), r(3, 4)), (r(2, 3), r(4, 3)), (r(2, 3), r(2)), (r(3), r(4)), (r(3), r(()))),
    "batches": (lambda a, b: torch.matmul(a, b), (r(2, 3, 4), r(2, 4, 5)), (r(2, 3, 4), r(3, 4, 5))),
    "mm": (lambda a, b: torch.mm(a, b), (r(2, 3), r(3, 4)), (r(2, 3), r(1, 3, 4)), (r(2, 3), r(3))),
    "bmm": (lambda a, b: torch.bmm(a, b), (r(2, 3, 4), r(2, 4, 5)), (r(2, 3, 4), r(3, 4, 5)), (r(2, 3, 4), r(2, 3, 5)), (r(2, 3), r(3, 2))),
    "mv": (lambda a, b: torch.mv(a, b), (r(2, 3), r(3)), (r(2, 3), r(2)), (r(2, 3), r(3, 1))),
    "dot": (lambda a, b: torch.dot(a, b), (r(3), r(3)), (r(3), r(4)), (r(3, 1), r(3))),
    "outer": (lambda a, b: torch.outer(a, b), (r(3), r(4)), (r(3, 1), r(4))),
    "addmm": (lambda c, a, b: torch.addmm(c, a, b), (r(4), r(2, 3), r(3, 4)), (r(3), r(2, 3), r(3, 4)), (r(4), r(2, 3), r(4, 4))),
    "baddbmm": (lambda c, a, b: torch.baddbmm(c, a, b), (r(2, 3, 5), r(2, 3, 4), r(2, 4, 5)), (r(3, 3, 5), r(2, 3, 4), r(2, 4, 5))),
    "einsum": (
        lambda text, a, b: torch.einsum(text, a, b),
        ("ij,jk->ik", r(2, 3), r(3, 4)),
        ("ij,jk->ik", r(2, 3), r(4, 4)),
        ("ijk,jk->ik", r(2, 3), r(3, 4)),
        ("ij,jk->il", r(2, 3), r(3, 4)),
        ("ij->i", r(2, 3), r(3, 4)),
        ("i1,jk->i", r(2, 3), r(3, 4)),
    ),
    "types": (lambda a, b: a @ b, (r(2, 3), r(3, 4)), (r(2, 3), torch.ones(3, 4, dtype=torch.int64)), (r(2, 3), r(3, 4).half())),
    "bools": (lambda a, b: a @ b, (r(2, 2), r(2, 2)), (r(2, 2) > 0, r(2, 2) > 0)),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        (r(1, 2, 4, 8), r(1, 2, 5, 8), r(1, 2, 5, 8)),
        (r(1, 2, 4, 8), r(1, 2, 5, 6), r(1, 2, 5, 8)),
        (r(1, 2, 4, 8), r(1, 2, 5, 8).double(), r(1, 2, 5, 8)),
    ),
    "attention_mask": (
        lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m),
        (r(1, 2, 4, 8), r(4, 4)),
        (r(1, 2, 4, 8), r(4, 5)),
        (r(1, 2, 4, 8), torch.ones(4, 4, dtype=torch.int64)),
    ),
}

bits, halves = torch.tensor([True, False, True]), torch.ones(3, dtype=torch.float16)

TYPES = {
    "float_index": (lambda x, at: x[at], (r(4, 3), i(1, 2)), (r(4, 3), r(2))),
    "float_embedding": (lambda at, table: F.embedding(at, table) * 2, (i(1, 2), r(4, 3)), (r(2), r(4, 3))),
    "float_gather": (lambda x, at: x.gather(0, at), (r(3), i(1, 2)), (r(3), r(2)), (r(3), i(1, 2).to(torch.int16))),
    "float_select": (lambda x, at: x.index_select(0, at), (r(3), i(1, 2)), (r(3), r(2))),
    "minus_of_bools": (lambda a, b: a - b, (r(3), r(3)), (bits, bits)),
    "minus_a_bool": (lambda a: 1 - a, (r(3),), (bits,)),
    "negative_bool": (lambda a: -a, (r(3),), (bits,)),
    "bits_of_floats": (lambda a, b: a & b, (bits, bits), (r(3), r(3)), (bits, r(3))),
    "shift_of_floats": (lambda a, b: a << b, (i(1, 2), i(1, 2)), (r(2), r(2))),
    "not_of_floats": (lambda a: ~a, (bits,), (r(3),)),
    "softmax": (lambda a: a.softmax(-1) + 1, (r(3),), (i(1, 2, 3),), (bits,)),
    "log_softmax": (lambda a: F.log_softmax(a, 0), (r(3),), (i(1, 2, 3),)),
    "mean": (lambda a: a.mean() * 2, (r(3),), (i(1, 2, 3),), (bits,)),
    "std": (lambda a: a.std(), (r(3),), (i(1, 2, 3),)),
    "var": (lambda a: a.var(0), (r(3),), (i(1, 2, 3),)),
    "norm": (lambda a: a.norm(), (r(3),), (i(1, 2, 3),)),
    "gelu": (lambda a: F.gelu(a), (r(3),), (i(1, 2, 3),)),
    "silu": (lambda a: F.silu(a), (r(3),), (i(1, 2, 3),)),
    "leaky_relu": (lambda a: F.leaky_relu(a), (r(3),), (i(1, 2, 3),)),
    "relu_of_bools": (lambda a: F.relu(a), (r(3),), (bits,)),
    "layer_norm": (lambda a: F.layer_norm(a, (3,)), (r(2, 3),), (torch.ones(2, 3, dtype=torch.int64),)),
    "in_place": (lambda a, b: a.clone().add_(b), (r(3), r(3)), (i(1, 2, 3), r(3)), (bits, i(1, 2, 3))),
    "in_place_division": (lambda a, b: a.clone().div_(b), (r(3), r(3)), (i(1, 2, 3), i(1, 2, 3))),
    "in_place_number": (lambda a: a.clone().mul_(1.5), (r(3),), (i(1, 2, 3),)),
    "where": (lambda c, a: torch.where(c, a, a), (bits, r(3)), (r(3), r(3)), (i(1, 0, 1), r(3))),
    "masked_fill": (lambda a, m: a.masked_fill(m, 0), (r(3), bits), (r(3), i(1, 0, 1)), (r(3), r(3))),
    "mvlgamma": (lambda a: torch.mvlgamma(a, 2), (r(3) + 5,), (bits,)),
    "multigammaln": (lambda a: torch.special.multigammaln(a, 1), (r(3) + 5,), (bits,)),
    "masked_scatter": (lambda a, m, s: a.masked_scatter(m, s), (r(3), bits, r(2)), (r(3), bits, r(1)), (r(3), bits, i(1, 2, 3)), (r(3), i(1, 0, 1), r(3))),
    "cross": (lambda a, b: torch.linalg.cross(a, b), (r(2, 3), r(1, 3)), (r(2, 4), r(2, 4)), (r(3), i(1, 2, 3))),
    "block_diag": (lambda a, b: torch.block_diag(a, b), (r(2, 3), r(3)), (r(2, 3, 4), r(3))),
    "masked_select": (lambda a, m: a.masked_select(m), (r(3), bits), (r(3), i(1, 0, 1))),
    "clamp": (lambda a: a.clamp(0, 1), (r(3),), (torch.zeros(3, dtype=torch.complex64),)),
    "order_of_complex": (lambda a: a.sort()[0], (r(3),), (torch.zeros(3, dtype=torch.complex64),)),
    "less_of_complex": (lambda a: a < a, (r(3),), (torch.zeros(3, dtype=torch.complex64),)),
    "max_of_complex": (lambda a: a.max(), (r(3),), (torch.zeros(3, dtype=torch.complex64),)),
    "floor_of_complex": (lambda a: a.floor(), (r(3),), (torch.zeros(3, dtype=torch.complex64),)),
    "lerp": (lambda a, b: torch.lerp(a, b, 0.5), (r(3), r(3)), (r(3), r(3).double()), (i(1, 2, 3), i(1, 2, 3))),
    "cross_entropy": (lambda a, t: F.cross_entropy(a, t), (r(2, 3), i(0, 2)), (r(2, 3), r(2)), (r(2, 3), i(0, 2).to(torch.int32))),
    "bce": (lambda a, t: F.binary_cross_entropy(a, t), (torch.rand(3), torch.rand(3)), (torch.rand(3), i(0, 1, 0)), (torch.rand(3), torch.rand(4))),
    "bincount": (lambda a: a.bincount(), (i(1, 2),), (r(2),)),
    "one_hot": (lambda a: F.one_hot(a, 4), (i(1, 2),), (r(2),), (i(1, 2).to(torch.int32),)),
    "power": (lambda a, b: a**b, (i(1, 2), 2), (i(1, 2), -2), (bits, bits)),
    "string": (lambda a, b: a + b, (r(3), 2), (r(3), "2"), (r(3), None), (r(3), [1, 2, 3])),
    "scatter": (lambda a, at, b: a.scatter(0, at, b), (r(3), i(0, 1), r(2)), (r(3), i(0, 1), halves[:2])),
    "index_add": (lambda a, at, b: a.index_add(0, at, b), (r(3), i(0, 1), r(2)), (r(3), i(0, 1), halves[:2])),
    "index_copy": (lambda a, at, b: a.index_copy(0, at, b), (r(3), i(0, 1), r(2)), (r(3), i(0, 1), halves[:2])),
    "index_put": (lambda a, at, b: a.index_put((at,), b), (r(3), i(0, 1), r(2)), (r(3), i(0, 1), halves[:2])),
    "dropout": (lambda a, p: F.dropout(a, p, training=False), (r(3), 0.5), (r(3), 1.5), (r(3), -0.5)),
    "two_devices": (lambda a, b: a + b * 2, (r(3), r(3)), (r(3), r(3, device="meta"))),
    "product_of_two_devices": (lambda a, b: a @ b, (r(3), r(3)), (r(3), r(3, device="meta"))),
    "device_inside": (lambda a, d: a + torch.ones(3, device=d), (r(3), "cpu"), (r(3), "meta")),
    "cat_of_two_devices": (lambda a, b: torch.cat([a, b]), (r(3), r(3)), (r(3), r(3, device="meta"))),
    "unknown_device": (lambda a, d: a.to(d), (r(3), "cpu"), (r(3), "gpu")),
}

whole, tiny, double = i(1, 2, 3).to(torch.int32), torch.tensor([1, 2, 3], dtype=torch.int8), r(3).double()

# Numbers that the type of a tensor does not hold.
NUMBERS = {
    "power": (lambda a, n: a**n, (whole, 2), (whole, 2**40), (tiny, 300), (halves, 7e4)),
    "alpha": (lambda a, n: torch.add(a, a, alpha=n), (whole, 2), (whole, 2**40), (r(3), 1e40), (r(3), True), (halves, 1e5)),
    "alpha_of_a_difference": (lambda a, n: a.sub(a, alpha=n), (whole, 2), (tiny, 300), (r(3), True)),
    "alpha_of_bools": (lambda a, n: torch.add(a, a, alpha=n), (bits, 1), (bits, 1.5)),
    "fill": (lambda a, n: torch.full_like(a, n), (r(3), 2.0), (r(3), 1e40), (halves, 7e4), (whole, 2**31)),
    "full": (lambda d, n: torch.full((2,), n, dtype=d), (torch.float32, 1e38), (torch.float32, 1e39), (torch.int8, 128)),
    "fill_in_place": (lambda a, n: a.clone().fill_(n), (r(3), 2.0), (r(3), -1e40), (tiny, -129)),
    "masked_fill": (lambda a, n: (a * 2).masked_fill(a > 0, n), (halves, -6e4), (halves, -1e9), (r(3), 1e39), (whole, 2**40)),
    "where": (lambda a, n: torch.where(a > 0, a, n), (r(3), 2.0), (r(3), 1e40), (whole, 2**40), (tiny, 300)),
    "clamp": (lambda a, n: a.clamp(max=n), (r(3), 2.0), (r(3), 1e40), (halves, 1e5), (whole, 2**40)),
    "clamp_from_below": (lambda a, n: a.clamp_min(n), (whole, 2), (whole, -(2**40))),
    "hardtanh": (lambda a, n: F.hardtanh(a, -n, n), (r(3), 2.0), (r(3), 1e40), (halves, 1e5)),
    "threshold": (lambda a, n: F.threshold(a, n, n), (r(3), 2.0), (r(3), 1e40), (whole, 2**40)),
    "leaky_relu": (lambda a, n: F.leaky_relu(a, n), (r(3), 2.0), (r(3), 1e40)),
    "elu": (lambda a, n: F.elu(a, n), (r(3), 2.0), (r(3), 1e40)),
    "lerp": (lambda a, n: torch.lerp(a, a + 1, n), (r(3), 0.5), (r(3), 1e40)),
    "addcmul": (lambda a, n: torch.addcmul(a, a, a, value=n), (r(3), 2), (r(3), 1e40), (whole, 2**40)),
    "addmm": (lambda a, n: torch.addmm(a, a[:, None] * a, a[:, None] * a, beta=n), (r(3), 2), (whole, 2**40)),
    "pad": (lambda a, n: F.pad(a, (1, 1), value=n), (r(3), 2.0), (r(3), 1e40), (whole, 2**40), (bits.byte(), -1)),
    "assignment": (lambda a, n: operator.setitem(a, 0, n), (r(3), 2.0), (r(3), 1e40), (whole, 2**40)),
    "tensor": (lambda a, n: a + torch.tensor([n, 1], dtype=a.dtype)[0], (r(3), 2.0), (whole, 2**40), (tiny, 300)),
}

x46, table = r(4, 6), r(5, 3)

# Wrong by its values alone: the same code runs.
POSITIONS = {
    "embedding": (lambda at: F.embedding(at, table) * 2, (i(0, 4),), (i(0, 5),), (i(-1, 0),)),
    "gather": (lambda at: x46.gather(1, at.expand(4, 2)) + 1, (i(0, 5),), (i(0, 6),), (i(-1, 0),)),
    "gather_rows": (lambda at: x46.gather(0, at[:, None].expand(2, 6)) + 1, (i(0, 3),), (i(0, 4),), (i(-1, 0),)),
    "index_select": (lambda at: x46.index_select(1, at) + 1, (i(0, 5),), (i(0, 6),), (i(-1, 0),)),
    "index_select_rows": (lambda at: x46.index_select(0, at) + 1, (i(0, 3),), (i(0, 4),), (i(-1, 0),)),
    "index_select_line": (lambda at: x46[0].index_select(0, at) + 1, (i(0, 3),), (i(0, 6),), (i(-1, 0),)),
    "index": (lambda at: x46[at] + 1, (i(0, -4),), (i(0, 4),), (i(-5, 0),)),
    "index_columns": (lambda at: x46[:, at] + 1, (i(0, 5),), (i(0, 6),), (i(-7, 0),)),
    "index_pairs": (lambda at: x46[at, at] + 1, (i(0, 3),), (i(0, 4),)),
    "take": (lambda at: x46.take(at) + 1, (i(0, 23),), (i(0, 24),), (i(-25, 0),)),
    "scatter": (lambda at: torch.zeros(4, 6).scatter(1, at.expand(4, 2), x46), (i(0, 5),), (i(0, 6),), (i(-1, 0),)),
    "scatter_number": (lambda at: torch.zeros(6).scatter(0, at, 2.0), (i(0, 5),), (i(0, 6),)),
    "scatter_add": (lambda at: torch.zeros(4, 6).scatter_add(1, at.expand(4, 2), x46), (i(0, 5),), (i(0, 6),), (i(-1, 0),)),
    "scatter_reduce": (lambda at: torch.zeros(6).scatter_reduce(0, at, x46[0], "amax"), (i(0, 5),), (i(0, 6),)),
    "index_add": (lambda at: torch.zeros(4, 6).index_add(0, at, x46[:2]), (i(0, 3),), (i(0, 4),), (i(-1, 0),)),
    "index_add_columns": (lambda at: torch.zeros(4, 6).index_add(1, at, x46[:, :2]), (i(0, 5),), (i(0, 6),), (i(-1, 0),)),
    "index_add_line": (lambda at: torch.zeros(6).index_add(0, at, x46[0, :2]), (i(0, 5),), (i(0, 6),), (i(-1, 0),)),
    "index_copy": (lambda at: torch.zeros(4, 6).index_copy(0, at, x46[:2]), (i(0, 3),), (i(0, 4),), (i(-1, 0),)),
    "index_fill": (lambda at: x46.index_fill(0, at, 2.0), (i(0, 3),), (i(0, 4),), (i(-5, 0),)),
    "index_put": (lambda at: torch.zeros(4, 6).index_put((at,), x46[:2]), (i(0, 3),), (i(0, 4),), (i(-5, 0),)),
    "index_put_added": (lambda at: torch.zeros(4, 6).index_put((at,), x46[:2], accumulate=True), (i(0, 3),), (i(0, 4),), (i(-5, 0),)),
    "cross_entropy": (lambda at: F.cross_entropy(x46[:2], at), (i(0, 5),), (i(0, 6),), (i(-1, 0),)),
    "nll_loss": (lambda at: F.nll_loss(x46[:2], at, reduction="none"), (i(0, 5),), (i(0, 6),), (i(-1, 0),)),
    "multi_margin_loss": (lambda at: F.multi_margin_loss(x46[:2], at), (i(0, 5),), (i(0, 6),), (i(-1, 0),)),
    "one_hot": (lambda at: F.one_hot(at, 6), (i(0, 5),), (i(0, 6),), (i(-1, 0),)),
    "repeat_interleave": (lambda n: x46[0, :2].repeat_interleave(n), (i(1, 2),), (i(-1, 2),)),
    "bce": (lambda t: F.binary_cross_entropy(t, torch.ones(2)), (torch.rand(2),), (i(0.5, 1.5),), (i(0.5, float("nan")),)),
}

huge = 2**62

SIZES = {
    "negative": (lambda n: torch.zeros(n) + 1, (3,), (-3,)),
    "negative_new": (lambda x, n: x.new_ones(n, 2), (r(3), 3), (r(3), -3)),
    "negative_expand": (lambda x, n: x.expand(n, 3) + 1, (r(3), 2), (r(3), -2)),
    "negative_repeat": (lambda x, n: x.repeat(n), (r(3), 2), (r(3), -2)),
    "negative_reshape": (lambda x, n: x.reshape(n, 3), (r(6), -1), (r(6), -2)),
    "negative_narrow": (lambda x, n: x.narrow(0, 1, n), (r(6), 2), (r(6), -2), (r(6), 7)),
    "negative_arange": (lambda x, n: x + torch.arange(0, n), (r(3), 3), (r(3), -3)),
    "step": (lambda x, n: x + torch.arange(0, 3, n), (r(3), 1), (r(3), 0)),
    "slice_step": (lambda x, n: x[::n] + 1, (r(6), 2), (r(6), 0), (r(6), -1)),
    "linspace": (lambda x, n: x + torch.linspace(0, 1, n), (r(3), 3), (r(3), -3)),
    "eye": (lambda x, n: x + torch.eye(n), (r(3), 3), (r(3), -3)),
    "empty": (lambda n: torch.empty(n, 4, dtype=torch.int64) * 0, (2,), (huge,)),
    "zeros": (lambda n: torch.zeros(n, 2**32).sum(), (0,), (2**40,)),
    "full": (lambda x, n: torch.full((n, n), 1.0) + x, (r(3), 3), (r(3), 2**33)),
    "expand": (lambda x, n: x.expand(n, n, 3) * 2, (r(3), 2), (r(3), 2**33)),
    "expand_fused_away": (lambda x, n: (x.expand(n, 3) * 2).sum(), (r(3), 2), (r(3), 2**46)),
    "repeat": (lambda x, n: x.repeat(n) + 1, (r(3), 2), (r(3), huge), (r(3), 2**48)),
    "reshape": (lambda x, n: x.reshape(n, n), (r(4), 2), (r(4), 2**32)),
    "view": (lambda x, n: x.view(n, n) * 2, (r(4), 2), (r(4), 2**32)),
    "arange": (lambda x, n: torch.arange(n) + x, (r(3), 3), (r(3), huge)),
    "pad": (lambda x, n: F.pad(x, (n, n)) + 1, (r(3), 1), (r(3), huge)),
    "outer": (lambda x, n: (x.expand(n)[:, None] * x.expand(n)).sum(), (r(1), 3), (r(1), 2**31)),
    "one_hot": (lambda at, n: F.one_hot(at, n), (i(0, 1), 3), (i(0, 1), huge)),
}

EMPTY = {
    "max": (lambda x: x.max() + 1, (r(3),), (r(0),)),
    "min": (lambda x: x.min(), (r(3),), (r(0, 3),)),
    "max_of_rows": (lambda x: x.max(1)[0], (r(2, 3),), (r(2, 0),)),
    "argmax": (lambda x: x.argmax(), (r(3),), (r(0),)),
    "argmin_of_rows": (lambda x: x.argmin(1), (r(2, 3),), (r(2, 0),)),
    "amax": (lambda x: x.amax(), (r(3),), (r(0),)),
    "amin_of_rows": (lambda x: x.amin(1), (r(2, 3),), (r(2, 0),)),
    "aminmax": (lambda x: torch.aminmax(x), (r(3),), (r(0),)),
    "median": (lambda x: x.median(0)[0], (r(3),), (r(0),)),
    "cat": (lambda x, n: torch.cat([x] * n), (r(3), 2), (r(3), 0)),
    "stack": (lambda x, n: torch.stack([x] * n), (r(3), 2), (r(3), 0)),
    "first": (lambda x: x[0] + 1, (r(3),), (r(0),)),
    "item": (lambda x: x.item() + 1, (r(1),), (r(0),), (r(2),)),
    "topk": (lambda x: x.topk(1)[0], (r(3),), (r(0),)),
    "kthvalue": (lambda x, n: x.kthvalue(n)[0], (r(3), 2), (r(3), 4), (r(3), 0)),
    "norm": (lambda x: x.norm(float("inf")), (r(3),), (r(0),)),
}

JOINS = {
    "cat": (lambda a, b: torch.cat([a, b]) + 1, (r(2, 3), r(1, 3)), (r(2, 3), r(1, 4)), (r(2, 3), r(3)), (r(()), r(3))),
    "cat_of_no_tensors": (lambda a, b: torch.cat([a, b]), (r(2), r(2)), (r(2), 3), (r(2), None)),
    "cat_dimension": (lambda a, n: torch.cat([a, a], n), (r(2, 3), 1), (r(2, 3), 2), (r(2, 3), -3)),
    "stack": (lambda a, b: torch.stack([a, b]) + 1, (r(3), r(3)), (r(3), r(4))),
    "hstack": (lambda a, b: torch.hstack([a, b]), (r(2, 3), r(2, 1)), (r(2, 3), r(3, 1))),
    "split": (lambda x, n: torch.cat(x.split(n)), (r(6), [2, 4]), (r(6), [2, 3]), (r(6), [2, -4, 8]), (r(6), -1)),
    "chunk": (lambda x, n: torch.cat(x.chunk(n)), (r(6), 2), (r(6), 0), (r(6), -2)),
    "unbind": (lambda x, n: x.unbind(n)[0], (r(2, 3), 1), (r(2, 3), 2)),
    "broadcast": (lambda a, b: (a + b) * 2, (r(2, 3), r(3)), (r(2, 3), r(2)), (r(2, 3), r(4, 3))),
    "broadcast_three": (lambda a, b, c: torch.addcmul(a, b, c), (r(3), r(3), r(3)), (r(3), r(3), r(2))),
    "broadcast_in_place": (lambda a, b: a.clone().add_(b), (r(3), r(3)), (r(3), r(2, 3)), (r(3), r(2))),
    "assign": (lambda a, b: assigned(a, b), (r(2, 3), r(3)), (r(2, 3), r(2)), (r(2, 3), r(2, 3))),
    "copy": (lambda a, b: a.clone().copy_(b), (r(2, 3), r(3)), (r(2, 3), r(2))),
    "where": (lambda a, b: torch.where(a > 0, a, b), (r(2, 3), r(3)), (r(2, 3), r(2))),
}

VIEWS = {
    "view": (lambda x, n: x.view(n, 2) * 2, (r(6), 3), (r(6), 4), (r(7), -1)),
    "view_of_transposed": (lambda x: x.t().view(-1), (r(1, 4),), (r(2, 3),)),
    "view_as_type": (lambda x: x.view(torch.int64), (r(4),), (r(3),)),
    "reshape": (lambda x, n: x.reshape(n), (r(6), (2, -1)), (r(6), (-1, -1)), (r(6), (4, -1)), (r(0), (0, -1))),
    "unflatten": (lambda x, n: x.unflatten(0, n), (r(6), (2, 3)), (r(6), (2, 4)), (r(6), ())),
    "flatten": (lambda x, n: x.flatten(0, n), (r(2, 3), 1), (r(2, 3), 2), (r(2, 3), -3)),
    "transpose": (lambda x, n: x.transpose(0, n), (r(2, 3), 1), (r(2, 3), 2)),
    "permute": (lambda x, n: x.permute(n) + 1, (r(2, 3), (1, 0)), (r(2, 3), (1, 1)), (r(2, 3), (0,)), (r(2, 3), (0, 2))),
    "squeeze": (lambda x, n: x.squeeze(n), (r(1, 3), 0), (r(1, 3), 2)),
    "unsqueeze": (lambda x, n: x.unsqueeze(n), (r(3), 1), (r(3), 3), (r(3), -3)),
    "expand": (lambda x, n: x.expand(n) + 1, (r(1, 3), (2, 3)), (r(2, 3), (3, 3)), (r(1, 3), (3,))),
    "select": (lambda x, n: x.select(0, n) + 1, (r(3, 2), 2), (r(3, 2), 3), (r(3, 2), -4)),
    "subscript": (lambda x, n: x[n] + 1, (r(3, 2), 2), (r(3, 2), "a"), (r(3, 2), (0, 0, 0)), (r(3, 2), 1.5)),
    "mask": (lambda x, m: x[m], (r(3), bits), (r(4), bits), (r(3, 2), bits[:, None].expand(3, 3))),
    "flip": (lambda x, n: x.flip(n), (r(2, 3), (0, 1)), (r(2, 3), (0, 0)), (r(2, 3), (2,))),
    "roll": (lambda x, n: x.roll(n, (0, 1)), (r(2, 3), (1, 1)), (r(2, 3), (1,))),
    "diagonal": (lambda x, n: x.diagonal(0, 0, n), (r(3, 3), 1), (r(3, 3), 0), (r(3, 3), 2)),
    "tril": (lambda x: x.tril() + 1, (r(3, 3),), (r(3),)),
    "unfold": (lambda x, n: x.unfold(0, n, 1), (r(4), 2), (r(4), 5), (r(4), -1)),
    "unfold_step": (lambda x, n: x.unfold(0, 2, n), (r(4), 1), (r(4), 0)),
    "as_strided": (lambda x, n: x.as_strided((2,), (n,)), (r(4), 3), (r(4), 4), (r(4), -1)),
    "movedim": (lambda x, n: x.movedim(0, n), (r(2, 3), 1), (r(2, 3), 2)),
    "swap": (lambda x, n: torch.tensordot(x, x, dims=n), (r(3, 3), 1), (r(3, 3), 3)),
    "sum": (lambda x, n: x.sum(n), (r(2, 3), 1), (r(2, 3), 2), (r(2, 3), (0, 0)), (r(2, 3), "a")),
    "mean": (lambda x, n: x.mean(n), (r(2, 3), 1), (r(2, 3), -3)),
    "cumsum": (lambda x, n: x.cumsum(n), (r(2, 3), 1), (r(2, 3), 2)),
    "sort": (lambda x, n: x.sort(n)[0], (r(2, 3), 1), (r(2, 3), 2)),
    "topk": (lambda x, n: x.topk(n)[0], (r(2, 3), 2), (r(2, 3), 4), (r(2, 3), -1)),
    "softmax": (lambda x, n: x.softmax(n), (r(2, 3), 1), (r(2, 3), 2)),
    "gather_rank": (lambda x, at: x.gather(0, at), (r(3, 2), i(0, 1)[:, None]), (r(3, 2), i(0, 1))),
    "gather_wide": (lambda x, at: x.gather(0, at), (r(3, 2), i(0, 1)[:, None]), (r(3, 2), torch.zeros(2, 3, dtype=torch.int64))),
    "select_rank": (lambda x, at: x.index_select(0, at), (r(3, 2), i(0, 1)), (r(3, 2), i(0, 1)[:, None])),
    "add_length": (lambda x, at, y: x.index_add(0, at, y), (r(3, 2), i(0, 1), r(2, 2)), (r(3, 2), i(0, 1), r(3, 2)), (r(3, 2), i(0, 1), r(2, 3))),
}

NORMS_AND_LOSSES = {
    "layer_norm": (lambda x, n: F.layer_norm(x, n), (r(2, 3), (3,)), (r(2, 3), (2,)), (r(2, 3), ()), (r(2, 3), (4, 2, 3))),
    "layer_norm_weight": (lambda x, w: F.layer_norm(x, (3,), w), (r(2, 3), r(3)), (r(2, 3), r(2)), (r(2, 3), r(1, 3))),
    "rms_norm": (lambda x, n: F.rms_norm(x, n), (r(2, 3), (3,)), (r(2, 3), (2,))),
    "group_norm": (lambda x, n: F.group_norm(x, n), (image(4), 2), (image(4), 3), (image(4), 0)),
    "group_norm_weight": (lambda x, w: F.group_norm(x, 2, w), (image(4), r(4)), (image(4), r(2))),
    # Not one dimension alone: torch itself then reads a size beyond the last, and dies of it where Dynamo has made sizes variables.
    "batch_norm": (lambda x, m: F.batch_norm(x, m, torch.ones(3)), (image(), r(3)), (image(), r(4))),
    "batch_norm_of_one": (lambda x: F.batch_norm(x, None, None, training=True), (r(2, 3),), (r(1, 3),)),
    "batch_norm_without": (lambda x, m: F.batch_norm(x, m, m), (image(), torch.ones(3)), (image(), None)),
    "instance_norm": (lambda x: F.instance_norm(x), (image(),), (image(size=1),)),
    "mse_loss": (lambda a, b: F.mse_loss(a, b), (r(3), r(3)), (r(3), None)),
    "reduction": (lambda a, n: F.mse_loss(a, a, reduction=n), (r(3), "sum"), (r(3), "all")),
    "cross_entropy": (lambda a, t: F.cross_entropy(a, t), (r(2, 3), i(0, 2)), (r(2, 3), i(0, 2, 1)), (r(2, 3), r(2, 4)), (r(3), i(0, 2))),
    "cross_entropy_weight": (lambda a, w: F.cross_entropy(a, i(0, 2), w), (r(2, 3), r(3)), (r(2, 3), r(2))),
    "label_smoothing": (lambda a, n: F.cross_entropy(a, i(0, 2), label_smoothing=n), (r(2, 3), 0.5), (r(2, 3), 1.5)),
    "nll_loss": (lambda a, t: F.nll_loss(a, t), (r(2, 3), i(0, 2)), (r(2, 3), i(0, 2, 1)), (r(2, 3), i(0, 2)[:, None])),
    "smooth_l1": (lambda a, n: F.smooth_l1_loss(a, a, beta=n), (r(3), 1.0), (r(3), -1.0)),
    "huber": (lambda a, n: F.huber_loss(a, a, delta=n), (r(3), 1.0), (r(3), 0.0)),
    "soft_margin": (lambda a, t: F.soft_margin_loss(a, t), (r(2, 3), r(3)), (r(3), r(2, 3))),
    "kl_div": (lambda a, b: F.kl_div(a, b, reduction="batchmean"), (r(2, 3), torch.rand(2, 3)), (r(2, 3), torch.rand(4))),
    "cosine": (lambda a, b: F.cosine_similarity(a, b), (r(2, 3), r(2, 3)), (r(2, 3), r(2, 4))),
    "glu": (lambda x: F.glu(x), (r(4),), (r(3),), (r(()),)),
    "prelu": (lambda x, w: F.prelu(x, w), (image(), r(3)), (image(), r(2))),
    "embedding_rank": (lambda at, w: F.embedding(at, w), (i(0, 1), r(3, 2)), (i(0, 1), r(3))),
    "padding_index": (lambda at, n: F.embedding(at, r(3, 2) * 0, padding_idx=n), (i(0, 1), 2), (i(0, 1), 3)),
    "gelu": (lambda x, n: F.gelu(x, approximate=n), (r(3), "tanh"), (r(3), "fast")),
    "rounding": (lambda x, n: torch.div(x, x, rounding_mode=n), (r(3), "floor"), (r(3), "up")),
    "clamp": (lambda x, n: x.clamp(n), (r(3), 0), (r(3), None)),
    "multi_head": (
        lambda x, n: F.multi_head_attention_forward(x, x, x, 8, n, r(24, 8) * 0, r(24), None, None, False, 0.0, r(8, 8) * 0, r(8), training=False)[0] * 0,
        (r(4, 2, 8), 2),
        (r(4, 2, 8), 3),
        (r(4, 2, 6), 2),
    ),
}

SUBJECTS = {
    "convolutions": CONVOLUTIONS,
    "pools": POOLS,
    "resizing": RESIZING,
    "products": PRODUCTS,
    "types": TYPES,
    "positions": POSITIONS,
    "sizes": SIZES,
    "empty": EMPTY,
    "joins": JOINS,
    "views": VIEWS,
    "norms_and_losses": NORMS_AND_LOSSES,
}
# These graphs are left to eager as a whole: its traceback names the code of the graph.
WITHOUT_LINE = {SIZES["expand_fused_away"][0], SIZES["repeat"][0]}
# The innermost line is one of torch's own.
WITHOUT_LINE |= {POOLS["unpool"][0]}
ROWS = {f"{subject}-{name}": row for subject, rows in SUBJECTS.items() for name, row in rows.items()}


def refused(wrapped, function, args):
    """Eager's exception, and the user's line in the traceback. What Dynamo refuses while it captures it says in its own words."""
    want = outcome(function, compare.copies(args))
    assert isinstance(want, Exception), "eager does not refuse this any more"
    got = outcome(wrapped, compare.copies(args))
    assert isinstance(got, Exception), f"a result instead of {want!r}: {got}"
    if not isinstance(got, TorchDynamoException):
        assert isinstance(got, type(want)) and str(got) == str(want), f"{got!r} instead of {want!r}"
    if function in WITHOUT_LINE:
        return
    lines = {line for _, _, line in function.__code__.co_lines()}
    shown = "".join(traceback.format_exception(got))
    assert any(f'{__file__}", line {line}' in shown for line in lines), shown


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_refused_as_in_eager(entry, row):
    function, good, *bad = row
    wrapped = entry(function)
    before = wrapped(*compare.copies(good))
    kept = compare.copies(before)
    for args in bad:
        for _ in range(2):
            refused(wrapped, function, args)
    torch.testing.assert_close(before, kept, rtol=0, atol=0, equal_nan=True, msg="a result changed after it was returned")
    same_outcome(wrapped, function, good)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_refused_in_the_first_call(row):
    function, good, *bad = row
    with torch.no_grad():
        wrapped = oxytorch.compile(function)
        for args in bad:
            refused(wrapped, function, args)
        same_outcome(wrapped, function, good)


@pytest.mark.parametrize("row", NUMBERS.values(), ids=NUMBERS)
def test_numbers_that_do_not_fit(entry, row):
    function, good, *bad = row
    same_outcome(entry(function), function, good)
    for args in bad:
        # Dynamo would take the number for one that varies.
        torch._dynamo.reset()
        wrapped = entry(function)
        for _ in range(2):
            refused(wrapped, function, args)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_vary_and_do_not_fit(name, dynamic):
    function, _, *bad = NUMBERS[name]
    # Dynamo has words of its own for one, and eager computes the other by itself where its number varies.
    bad = [args for args in bad if name not in ("tensor", "addcmul") or args[0].dtype == torch.float32]
    for held, number in (args for args in bad if not isinstance(args[1], bool)):
        kind = type(number)
        for door in (oxytorch.compile, lambda f, **settings: torch.compile(f, backend="oxytorch", **settings)):
            torch._dynamo.reset()
            wrapped = door(function, dynamic=dynamic)
            with torch.no_grad():
                for fitting in (2, 3, 5):
                    same_outcome(wrapped, function, (held, kind(fitting)))
                for _ in range(2):
                    refused(wrapped, function, (held, number))
                same_outcome(wrapped, function, (held, kind(7)))


def test_a_size_that_does_not_fit():
    def function(x):
        return x.to(torch.int8) * 0 + x.shape[0], torch.full((2,), x.shape[0], dtype=torch.int8)

    wrapped = oxytorch.compile(function, dynamic=True)
    for size in (5, 127, 128, 7, 300):
        same_outcome(wrapped, function, (r(size),))


def test_a_number_that_does_not_fit_comes_to_the_clause_for_it():
    def function(x, number, seen):
        x.add_(1)
        try:
            y = (x * 2).masked_fill(x > 0, number)
        except RuntimeError as error:
            seen.append(str(error))
            y = x * 0
        seen.append(number)
        return y + 1

    for numbers in ((1.5, 2.5, -1e9, 3.5, 7e4), (2, 3, 70000, 5, -70000)):
        wrapped, ours, eagers = oxytorch.compile(function), halves.clone(), halves.clone()
        for number in numbers:
            seen, wanted = [], []
            compare.assert_same(wrapped(ours, number, seen), function(eagers, number, wanted))
            assert seen == wanted and torch.equal(ours, eagers)


def test_nan_as_a_bound():
    """Alone it is none for `clamp`, and the result for the functions of one bound."""

    def function(x, number):
        one = x.clamp(max=number), x.clamp(min=number), x.clamp(number, 2.0)
        return *one, x.clamp_min(number), x.clamp_max(number)

    for dynamic in (None, True):
        wrapped = oxytorch.compile(function, dynamic=dynamic)
        for number in (float("nan"), 1.5, 0.5, float("nan")):
            for x in (r(3), halves, i(1, 2, 3)):
                compare.assert_same(wrapped(x, number), function(x, number))


# Around the error.


def test_what_was_written_before_an_error_stays_written(entry):
    def f(x, y, at):
        x.add_(1)
        picked = table[at] * 2
        y.mul_(3)
        return picked

    wrapped = entry(f)
    for at in (i(0, 4), i(0, 5), i(1, 2), i(-1, 0)):
        ours, theirs = (r(3), r(3)), None
        theirs = compare.copies(ours)
        got, want = outcome(wrapped, (*ours, at)), outcome(f, (*theirs, at))
        assert type(got) is type(want) and (not isinstance(want, Exception) or str(got) == str(want))
        compare.assert_same(ours, theirs)


def test_the_generator_is_as_eager_leaves_it_behind_an_error(entry):
    def f(x, at):
        return F.dropout(x, 0.5), table[at]

    def next_numbers(function):
        torch.manual_seed(7)
        with pytest.raises(IndexError):
            function(r(8) * 0, i(5))
        return r(3)

    wrapped = entry(f)
    wrapped(r(8), i(0))
    assert torch.equal(next_numbers(wrapped), next_numbers(f))


def test_an_error_of_training(entry):
    def f(w, at):
        return F.embedding(at, w).square().sum()

    wrapped, w = entry(f), r(5, 3).requires_grad_()
    with torch.enable_grad():
        for at in (i(0, 4), i(0, 5), i(1, 2)):
            got, want = outcome(wrapped, (w, at)), outcome(f, (w, at))
            if isinstance(want, Exception):
                assert type(got) is type(want) and str(got) == str(want)
            else:
                compare.assert_same(torch.autograd.grad(got[0], w), torch.autograd.grad(want[0], w))


def test_a_call_that_must_not_be_made_twice(entry):
    """Eager cannot be asked for its words: it would draw a second time."""
    wrapped = entry(lambda p: torch.multinomial(p, 1))
    for p in (i(0.5, 0.5), i(-1.0, 0.5), i(0.0, 0.0), i(0.0, 1.0)):
        got = outcome(wrapped, (p,))
        assert isinstance(got, RuntimeError) == (p.sum() <= 0) and (p.sum() <= 0 or got[0].shape == (1,))


# Modes and options.


@pytest.mark.parametrize(
    "given, text",
    [
        (dict(mode="max-speed"), 'unknown mode "max-speed".*"reduce-overhead"'),
        (dict(options={"freezin": True}), 'did you mean "freezing"'),
        (dict(options={"recompile_limits": 3}), 'did you mean "recompile_limit"'),
        (dict(options={"freezing": "yes"}), "freezing.*True or False"),
        (dict(options={"freezing": 2}), "freezing.*True or False"),
        (dict(options={"freezing": None}), "freezing.*True or False.*NoneType"),
        (dict(options={"compile_threads": -1}), "compile_threads.*0 to 4096"),
        (dict(options={"compile_threads": 2.5}), "compile_threads.*0 to 4096"),
        (dict(options={"activation_memory_budget": 2}), "activation_memory_budget.*0 to 1"),
        (dict(options={"activation_memory_budget": float("nan")}), "activation_memory_budget.*0 to 1"),
        (dict(options={"debug_dir": 3}), "debug_dir.*a string"),
        (dict(options={3: True}), 'unknown option "3"'),
        (dict(options={"compile_threads": 2**70}), "compile_threads.*0 to 4096"),
    ],
)
def test_modes_and_options(given, text):
    with pytest.raises(ValueError, match=text):
        oxytorch.compile(lambda x: x, **given)
    if "recompile_limits" not in given.get("options", {}):
        with pytest.raises(Exception, match=text):
            torch.compile(lambda x: x + 1, backend=oxytorch.dynamo_backend, **given)(r(3))


@pytest.mark.parametrize("given", [dict(mode=3), dict(options="freezing"), dict(options=[1, 2]), dict(mode=b"default")])
def test_modes_and_options_of_another_type(given):
    with pytest.raises((TypeError, ValueError)):
        oxytorch.compile(lambda x: x, **given)
