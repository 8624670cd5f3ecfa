"""Functions of torch in ways that OpInfo's samples do not try."""

import compare
import pytest
import torch
import torch.nn.functional as F
from checking import check, check_native


@pytest.mark.parametrize("momentum", [0.1, 0.3])
@pytest.mark.parametrize("use_input_stats", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_instance_norm_with_running_statistics(momentum, use_input_stats, affine):
    def f(x, mean, variance, weight, bias):
        parameters = (weight, bias) if affine else (None, None)
        return F.instance_norm(x, mean, variance, *parameters, use_input_stats, momentum), mean * 2

    check_native(f, torch.randn(4, 3, 5, 6), torch.randn(3), torch.rand(3) + 0.5, torch.randn(3), torch.randn(3))


@pytest.mark.parametrize("own", [True, False])
def test_functions_that_write_without_saying_so(own):
    def f(i, w, x, mean, variance):
        w, mean, variance = (w + 1, mean + 1, variance + 1) if own else (w, mean, variance)
        rows = F.embedding(i, w, max_norm=1.0)
        before = w * 2
        bags = F.embedding_bag(i.flip(0)[None] + 1, w, max_norm=0.5)
        normal = torch.native_batch_norm(x, None, None, mean, variance, True, 0.1, 1e-5)[0]
        return rows, before, bags, w * 3, normal, mean * 2, variance * 2

    i, w = torch.tensor([0, 2, 2]), torch.randn(5, 4) * 3
    check(f, i, w, torch.randn(4, 3, 2), torch.randn(3), torch.rand(3))


def test_squeeze_of_no_dimensions():
    def f(x):
        return [y + 1 for y in (x.squeeze(), x.squeeze([]), x.squeeze(()), torch.squeeze(x, [0, 2]), x.squeeze(-1), torch.squeeze(x, []))]

    check_native(f, torch.randn(1, 3, 1, 1))


def test_multi_margin_losses():
    def f(x, y, w, labels):
        wide = F.multi_margin_loss(x, y, p=2, margin=0.7), F.multi_margin_loss(x, y, weight=w, reduction="none")
        return wide, F.multi_margin_loss(x[0], y[0], reduction="sum"), F.multilabel_margin_loss(x, labels, reduction="none")

    labels = torch.tensor([[0, 3, -1, 1], [2, -1, 0, 0], [-1, 0, 1, 2]])
    check_native(f, torch.randn(3, 4), torch.tensor([0, 3, 1]), torch.rand(4), labels)
    with pytest.raises(RuntimeError):
        torch.compile(F.multi_margin_loss, backend="oxytorch")(torch.randn(2, 4), torch.tensor([0, 4]))


def test_attention_with_a_mask_that_is_causal_too_and_with_dropout():
    q, mask = torch.randn(2, 4, 8, 16), torch.randn(8, 8)
    check_native(lambda q, mask: F.scaled_dot_product_attention(q, q, q, mask, is_causal=True), q, mask)
    runs = []
    for wrap in (torch.compile(backend="oxytorch", options={"fallback_random": True}), lambda f: f):
        torch.manual_seed(1)
        runs.append(wrap(lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.3) * 2)(q))
    compare.assert_same(*runs)


SIZED_BY_DATA = {
    "unique": lambda x: (x * 4).int().unique() + 1,
    "unique-inverse": lambda x: torch.unique((x * 4).int(), return_inverse=True, return_counts=True),
    "unique-consecutive": lambda x: torch.unique_consecutive((x * 2).int()),
    "mask": lambda x: (x * 2)[x > 0] + 1,
    "nonzero": lambda x: (x > 0).nonzero() * 2,
    "where": lambda x: torch.where(x > 0),
    "masked-select": lambda x: torch.masked_select(x, x > 0) * 2,
    "repeat-interleave": lambda x: x.repeat_interleave((x[:, 0] > 0).long() + 1, 0) * 2,
    "item": lambda x: x * x.sum().item(),
    "gaussian-nll": lambda x: F.gaussian_nll_loss(x, x * 2, x.abs(), full=True),
    "ctc": lambda x: F.ctc_loss(x.view(4, 1, 6).log_softmax(2), torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2])) * 2,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", SIZED_BY_DATA.values(), ids=SIZED_BY_DATA.keys())
def test_results_that_depend_on_data_break_the_graph(function):
    compiled = torch.compile(function, backend="oxytorch")
    for seed in range(2):
        torch.manual_seed(seed)
        x = torch.randn(4, 6)
        compare.assert_same(compiled(x), function(x))


def test_indices_of_triangles():
    def f(x):
        lower, upper = torch.tril_indices(3, 4, -1), torch.triu_indices(4, 4, 1, dtype=torch.int32)
        return lower, upper + 1, x[lower[0], lower[1]]

    check_native(f, torch.randn(3, 4))
