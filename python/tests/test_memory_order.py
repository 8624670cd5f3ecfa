"""Results lie in memory as eager's do, also where torch's kernels for shapes say otherwise."""

import compare
import oxytorch
import pytest
import torch
import torch.nn.functional as F

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
