"""`flex_attention`, whose scores and mask are functions of one element each: one graph of tensors where that is the same, torch's own way elsewhere."""

import pytest
import torch
from torch.nn.attention.flex_attention import AuxRequest, and_masks, create_block_mask, create_mask, flex_attention, or_masks

import oxytorch

ROWS, HEADS = 24, 4
CAP = 30.0
BIAS = torch.randn(HEADS, ROWS, ROWS, generator=torch.Generator().manual_seed(1))
SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])
DOCUMENTS = torch.tensor([[0] * 10 + [1] * 14, [0] * 20 + [2] * 4])
WIDE_OFFSET = torch.tensor(3.0, dtype=torch.float64)


def causal(b, h, q, k):
    return q >= k


def window(b, h, q, k):
    return (q - k).abs() <= 4


def document(b, h, q, k):
    return DOCUMENTS[b, q] == DOCUMENTS[b, k]


def never_first(b, h, q, k):
    return k < q - 10


WHOLE = {
    "none": None,
    "alibi": lambda s, b, h, q, k: s + SLOPES[h] * (k - q),
    "bias": lambda s, b, h, q, k: s + BIAS[h, q, k],
    "softcap": lambda s, b, h, q, k: CAP * torch.tanh(s / CAP),
    "where": lambda s, b, h, q, k: torch.where(q >= k, s, -float("inf")),
    "wider": lambda s, b, h, q, k: (s.double() * 2).to(s.dtype),
    "constant": lambda s, b, h, q, k: torch.where(s > 0, s, s.new_zeros(())),
    "of places": lambda s, b, h, q, k: (q - k).float() if s.dtype == torch.float32 else (q - k).double(),
    "of heads": lambda s, b, h, q, k: SLOPES[h].to(s.dtype),
    "one for all": lambda s, b, h, q, k: s.new_full((), 3.0),
    "method": lambda s, b, h, q, k: s.masked_fill(h == 1, 0.5),
}
# Each would give something else for all elements at once.
BY_TORCH = {
    "row": lambda s, b, h, q, k: s + BIAS[h][q][k],
    "softmax": lambda s, b, h, q, k: s + torch.softmax(BIAS[h, q], -1)[k],
    "of one element": lambda s, b, h, q, k: s + torch.softmax(s, -1),
    "promoted": lambda s, b, h, q, k: (s + WIDE_OFFSET).float(),
    "rank": lambda s, b, h, q, k: s + torch.stack([s, s]).sum(0),
    "vector": lambda s, b, h, q, k: (s + torch.ones(ROWS)).mean(),
    "written": lambda s, b, h, q, k: (s * 2).add_(1),
    "written itself": lambda s, b, h, q, k: s.mul_(2),
}
MASKS = {
    "causal": causal,
    "document": document,
    "both": and_masks(causal, document),
    "either": or_masks(causal, window),
    "blind": never_first,
}


def tensors(dtype=torch.float32, heads=HEADS, keys=ROWS):
    generator = torch.Generator().manual_seed(0)
    sizes = (HEADS, ROWS), (heads, keys), (heads, keys)
    return [torch.randn(2, rows, heads, 16, dtype=dtype, generator=generator).transpose(1, 2) for heads, rows in sizes]


def check(function, arguments, tolerance=1e-5):
    with torch.no_grad():
        expected = function(*arguments)
        wide = function(*(x.double() for x in arguments))
        compiled = oxytorch.compile(function)
        for _ in range(3):
            found = compiled(*arguments)
        assert (found.dtype, found.stride()) == (expected.dtype, expected.stride())
        error = (found.double() - wide).abs().max().item()
        assert error <= max(2 * (expected.double() - wide).abs().max().item(), tolerance)
        explained = oxytorch.explain(function)(*arguments)
    assert (len(explained.graphs), len(explained.breaks)) == (1, 0)


def attention(score_mod=None, mask=None, **options):
    block_mask = None if mask is None else create_block_mask(mask, 2, None, ROWS, ROWS, device="cpu")
    return lambda q, k, v: flex_attention(q, k, v, score_mod=score_mod, block_mask=block_mask, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", WHOLE)
def test_scores_are_changed_in_one_graph(name, dtype):
    check(attention(WHOLE[name]), tensors(dtype), tolerance=1e-5 if dtype == torch.float32 else 1e-2)


@pytest.mark.parametrize("name", BY_TORCH)
def test_what_is_not_done_to_elements_is_left_to_torch(name):
    with torch.no_grad():
        q, k, v = tensors()
        function = attention(BY_TORCH[name])
        torch.testing.assert_close(oxytorch.compile(function)(q, k, v), function(q, k, v))
        assert oxytorch.explain(function)(q, k, v).breaks


@pytest.mark.parametrize("scored", [False, True])
@pytest.mark.parametrize("name", MASKS)
def test_masks(name, scored):
    check(attention(WHOLE["alibi"] if scored else None, MASKS[name]), tensors())


@pytest.mark.parametrize("scored", [False, True])
def test_grouped_heads(scored):
    check(attention(WHOLE["alibi"] if scored else None, enable_gqa=True), tensors(heads=2))


def test_sums_of_exponentials():
    def function(q, k, v):
        block_mask = create_block_mask(never_first, None, None, ROWS, ROWS, device="cpu")
        out, aux = flex_attention(q, k, v, block_mask=block_mask, return_aux=AuxRequest(lse=True))
        return out, aux.lse

    with torch.no_grad():
        arguments = tensors()
        for found, expected in zip(oxytorch.compile(function)(*arguments), function(*arguments)):
            torch.testing.assert_close(found, expected)


def test_masks_are_made_in_the_graph():
    def function(x):
        made = create_mask(causal, 2, None, 8, 9, device="cpu"), create_mask(document, 2, 3, 8, 9, device="cpu")
        blocks = create_block_mask(causal, None, None, 300, 300, device="cpu")
        return *made, blocks.kv_num_blocks, blocks.kv_indices, blocks.q_num_blocks, blocks.q_indices, x + 1

    found, expected = oxytorch.compile(function, fullgraph=True)(torch.ones(2)), function(torch.ones(2))
    for ours, theirs in zip(found, expected):
        assert torch.equal(ours, theirs) and (ours.dtype, ours.stride()) == (theirs.dtype, theirs.stride())


def test_sizes_vary_and_captured_numbers_and_tensors_change():
    state = {"cap": 5.0, "bias": torch.randn(HEADS)}

    def function(q, k, v):
        def mod(s, b, h, q_idx, k_idx):
            return torch.tanh(s / state["cap"]) + state["bias"][h] * (q_idx - k_idx)

        return flex_attention(q, k, v, score_mod=mod)

    compiled = oxytorch.compile(function)
    with torch.no_grad():
        for rows in (8, 9, 13, 20):
            arguments = [x[:, :, :rows] for x in tensors()]
            torch.testing.assert_close(compiled(*arguments), function(*arguments))
            state["cap"] += 1
            state["bias"] = torch.randn(HEADS)


def test_an_index_outside_of_a_table_raises():
    function = attention(lambda s, b, h, q, k: s + SLOPES[h + 1])
    with torch.no_grad(), pytest.raises(IndexError):
        oxytorch.compile(function)(*tensors())


def test_autocast():
    def function(q, k, v):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return flex_attention(q, k, v, score_mod=WHOLE["softcap"])

    with torch.no_grad():
        arguments = tensors()
        found, expected = oxytorch.compile(function)(*arguments), function(*arguments)
    assert found.dtype == expected.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected)


def test_what_torch_refuses():
    q, k, v = tensors(heads=2)
    with pytest.raises(ValueError, match="same number of heads"):
        oxytorch.compile(attention())(q, k, v)
    with pytest.raises(NotImplementedError, match="backward on CPU"):
        oxytorch.compile(attention())(*(x.requires_grad_() for x in tensors()))
