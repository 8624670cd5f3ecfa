"""One compile, many sizes: functions and models called with sizes in random order, compared with eager at each."""

import collections
import enum
import random
import warnings

import oxytorch
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from compare import assert_same


def check(function, calls, dynamic=True, compiles=1):
    """Each call is made twice."""
    captured = oxytorch._oxytorch.capture(function, dynamic=dynamic)
    with torch.no_grad():
        for args in calls:
            for _ in range(2):
                assert_same(captured(*args), function(*args))
    assert captured.stats()["traced"] == compiles, captured.show()
    assert captured.stats()["breaks"] == []
    return captured


def rand(*shape):
    return torch.randn(*shape)


# Sizes as numbers.


def test_pointwise_takes_any_size():
    check(lambda x: (x * 2 + 1).relu(), [(rand(n, 7),) for n in (3, 8, 64, 2, 1000)])


def test_equal_sizes_are_one_variable():
    check(lambda x, y: x + y, [(rand(n, m), rand(n, m)) for n, m in ((3, 4), (5, 6), (9, 2))])


def test_sizes_that_were_equal_by_chance_are_told_apart():
    check(lambda x: x.sum(0) + x.sum(1).mean(), [(rand(4, 4),), (rand(4, 5),), (rand(7, 9),), (rand(2, 3),)], compiles=2)


def test_what_must_be_equal_is_relied_on():
    f = lambda x, w: x @ w
    w = rand(6, 3)
    captured = check(f, [(rand(n, 6), w) for n in (4, 5, 9)])
    with pytest.raises(RuntimeError):
        captured(rand(4, 7), w)


def test_shapes_are_numbers_with_a_source():
    def f(x):
        b, n, d = x.shape
        return x.view(b, n, 2, d // 2).transpose(1, 2).reshape(b * 2, n, -1) + x.size(-2) * len(x)

    check(f, [(rand(b, n, 8),) for b, n in ((2, 3), (5, 7), (3, 2), (4, 4))])


COPIES = {
    "contiguous": lambda x: x[:, :4].contiguous(),
    "contiguous_part": lambda x: x[:, x.shape[1] // 8 :].contiguous(),
    "reshape": lambda x: x[:, :4].reshape(-1),
    "flatten": lambda x: x[:, :4].flatten(),
    "ravel": lambda x: x[:, :4].ravel(),
    "of_an_intermediate": lambda x: (x + 1)[:, :4].contiguous(),
    "transposed": lambda x: x.t().reshape(x.shape),
    "columns": lambda x: x[:, ::2].ravel(),
}


@pytest.mark.parametrize("function", COPIES.values(), ids=COPIES)
def test_what_is_a_copy_and_what_a_view_is_asked_at_every_size(function):
    captured = oxytorch._oxytorch.capture(lambda x: (function(x).add_(1), x), dynamic=True)
    with torch.no_grad():
        for n, m in ((3, 6), (3, 4), (3, 9), (6, 6), (4, 2), (3, 6)):
            x, y = torch.zeros(n, m), torch.zeros(n, m)
            assert_same(captured(x), (function(y).add_(1), y))


ANSWERS = {
    "is_contiguous": lambda x, y: x[:, :4].is_contiguous(),
    "narrow": lambda x, y: x.narrow(1, 0, 2).is_contiguous(),
    "of_an_intermediate": lambda x, y: (x + 1)[:, :4].is_contiguous(),
    "is_same_size": lambda x, y: x.is_same_size(y),
    "with_constants": lambda x, y: torch.zeros(3, 6).is_same_size(x),
}


@pytest.mark.parametrize("function", ANSWERS.values(), ids=ANSWERS)
def test_answers_that_depend_on_sizes(function):
    captured = oxytorch._oxytorch.capture(function, dynamic=True)
    for n, m in ((3, 6), (3, 4), (5, 6), (3, 2), (3, 6)):
        x, y = rand(n, m), rand(5, 6)
        assert captured(x, y) == function(x, y)


def test_parts_of_shapes():
    def f(x):
        front = x.shape[:-1]
        return x.view(*front, 4, -1).transpose(-2, -3), x.new_zeros(front + (2,)), torch.ones([*front, 3])

    check(f, [(rand(b, n, 8),) for b, n in ((2, 3), (5, 7), (3, 2))])


def test_slices_by_sizes():
    def f(x, y):
        n = y.shape[0]
        return x[:n] + y, x[-n:], x[n // 2 : n], x[: n - 1]

    check(f, [(rand(20, 3), rand(n, 3)) for n in (4, 5, 19, 7)])


def test_arange_and_masks():
    def f(x):
        n = x.shape[1]
        places = torch.arange(n)
        mask = torch.full((n, n), float("-inf")).triu(1)
        return x + places[None, :] + torch.softmax(mask, -1).sum(0) + torch.tril(torch.ones(n, n)).sum()

    check(f, [(rand(2, n),) for n in (5, 3, 17)])


def test_expand_and_numel():
    def f(x):
        return x[:, None].expand(x.shape[0], 3, x.shape[1]).sum() / x.numel(), x.unsqueeze(0).expand(2, -1, -1)

    check(f, [(rand(n, m),) for n, m in ((5, 3), (2, 7), (9, 8))])


def test_comparisons_split_traces():
    def f(x):
        return x.sum(1) if x.shape[1] > 8 else x.mean(1)

    check(f, [(rand(3, n),) for n in (4, 5, 8, 9, 20, 3)], compiles=2)


def test_loops_fix_sizes():
    def f(x):
        total = x[:, 0]
        for n in range(1, x.shape[1]):
            total = total + x[:, n] * n
        return total

    check(f, [(rand(b, 3),) for b in (4, 5, 9)] + [(rand(4, 5),)], compiles=2)


def test_sizes_leave_the_function():
    def f(x):
        return x.shape, x.shape[0] * 2, {"n": x.shape[1], "s": slice(0, x.shape[0])}, [x.numel(), f"{len(x.shape)}"]

    check(f, [(rand(n, m),) for n, m in ((5, 3), (2, 7), (9, 8))])


def test_a_replaced_size_is_not_the_size():
    def f(x):
        places = [x.shape[0], 1]
        places[0] = 5
        entries = {"n": x.shape[0]}
        entries["n"] = 5
        return x + places[0] + entries["n"]

    check(f, [(rand(5, 2),), (rand(6, 2),)])


def test_sizes_as_keys_are_fixed():
    def f(x, table={3: 1.0, 4: 2.0, (4, 2): 3.0}):
        return x * table[x.shape[0]] * table.get((x.shape[0], x.shape[1]), 1.0)

    check(f, [(rand(3, 2),), (rand(4, 2),)], compiles=2)


def test_a_size_of_1_is_one_of_many():
    check(lambda x: (x * 2).sum(0), [(rand(n, 3),) for n in (4, 1, 7)])
    check(lambda x: torch.softmax(x @ x.transpose(-1, -2), -1) @ x, [(rand(b, n, 8),) for b, n in ((3, 5), (1, 7), (4, 1), (1, 1))])
    check(lambda x: x.transpose(1, 2).reshape(x.shape[0], -1) + 1, [(rand(b, n, 4),) for b, n in ((3, 5), (1, 5), (3, 1))], compiles=3)


def test_where_1_means_something_else():
    check(lambda x, y: x + y, [(rand(n, 3), rand(4, 3)) for n in (4, 1)], compiles=2)
    check(lambda x: x.squeeze(0) * 2, [(rand(n, 3),) for n in (4, 1, 5)], compiles=2)
    # How a computed tensor lies is decided by its sizes: here they are constants.
    check(lambda x: x * 2 if x.t().is_contiguous() else x + 1, [(rand(n, 3),) for n in (4, 1, 5)], compiles=3)
    check(lambda x: x.sum(0), [(rand(n, 3),) for n in (1, 4, 1, 7)], compiles=2)


def test_nothing_is_a_constant():
    check(lambda x: x.sum(0), [(rand(n, 3),) for n in (4, 0, 7)], compiles=2)


def test_a_copy_that_is_a_view_for_size_1():
    def f(x):
        flat = x.t().reshape(-1)
        flat.add_(1)
        return x * 1

    wrapped = oxytorch._oxytorch.capture(f, dynamic=True)
    with torch.no_grad():
        for n in (3, 5, 1):
            x = rand(n, 4)
            y = x.clone()
            assert_same(wrapped(x), f(y))
            assert_same(x, y)


# Sizes in what the program builds.


Pair = collections.namedtuple("Pair", "rows columns")


class Zeros(nn.Module):
    def forward(self, x, rows=None):
        return x.new_zeros(rows, 2)


ZEROS = Zeros()


def in_a_closure(x):
    rows, columns = x.shape
    flat = lambda y: y.reshape(rows * columns)
    return flat(x), sum(y.reshape(columns, rows).sum(1) for y in (x, x + 1))


def in_a_changed_closure(x):
    rows = x.shape[0]
    make = lambda: x.new_zeros(rows)
    before = make()
    rows = 4
    return before, make(), rows


def in_a_cell_that_is_read(x):
    rows = x.shape[0]
    inner = lambda: rows
    return x * inner.__closure__[0].cell_contents, inner()


def in_a_named_tuple(x):
    pair = Pair(x.shape[0], x.shape[1] + 1)
    return x.reshape(-1, pair.rows) * pair.columns, pair, pair[0], tuple(pair)


def in_a_list(x):
    sizes = [None, 7]
    sizes[0] = x.size(0)
    sizes.append(2)
    sizes[-1] = x.size(1)
    return x.new_zeros(sizes), sizes, len(sizes)


def in_a_dict(x):
    sizes = {}
    sizes["n"] = x.shape[0]
    return x.new_zeros(size=(sizes["n"], 2)), sizes


def in_keywords_of_a_module(x):
    return ZEROS(x, rows=x.shape[0])


def divided_by_a_number_of_an_object(x):
    return x.shape[0] // ZEROS.step, x.shape[1] % ZEROS.step, x + x.shape[1] * ZEROS.step


ZEROS.step = 2


@pytest.mark.parametrize(
    "function",
    [
        in_a_closure,
        in_a_changed_closure,
        in_a_cell_that_is_read,
        in_a_named_tuple,
        in_a_list,
        in_a_dict,
        in_keywords_of_a_module,
        divided_by_a_number_of_an_object,
    ],
)
def test_sizes_stay_sizes(function):
    check(function, [(rand(n, m),) for n, m in ((4, 6), (5, 3), (4, 9), (9, 4), (4, 4))])


def test_what_replaces_a_size_is_no_size():
    def f(x):
        rows, sizes, table = x.shape[0], [x.shape[0], 1], {"n": x.shape[0]}
        show = lambda: rows
        rows, sizes[0], table["n"] = 4, 4, 4
        return show(), sizes, table, x * 2

    check(f, [(rand(4, 2),), (rand(6, 2),), (rand(4, 3),)])


# Questions about sizes.


def masked(x, mask):
    """As models ask whether attention is causal."""
    causal = x.shape[0] > 1 and mask is None and True
    return (x.sum(0) if causal else x.mean(0)), causal


def otherwise(x, flag):
    same = x.shape[0] == 1 or flag is True
    return x * 2 if same else x + 1, same


def nested(x, mask):
    if x.shape[0] > 1 and mask is None:
        return x.sum(0)
    return x.mean(0)


@pytest.mark.parametrize("function, flag", [(masked, 0), (otherwise, True), (nested, 0)])
def test_a_question_that_makes_no_difference(function, flag):
    check(function, [(rand(n, 3), flag) for n in (5, 1, 4, 1)])


@pytest.mark.parametrize("function, flag", [(masked, None), (otherwise, False), (nested, None)])
def test_a_question_that_makes_a_difference(function, flag):
    check(function, [(rand(n, 3), flag) for n in (5, 1, 4, 1)], compiles=2)


def test_an_expansion_that_one_needs_not():
    def f(x, rows):
        count = x.shape[0]
        if count != rows.shape[0]:
            rows = rows.expand(count, -1)
        return x + rows.cumsum(0)

    check(f, [(rand(n, 3), rand(1, 3)) for n in (5, 1, 4, 1)])

    def other(x, rows):
        count = x.shape[0]
        if count != rows.shape[0]:
            rows = rows.expand(count, 3)
            x = x + 1
        return x + rows

    check(other, [(rand(n, 3), rand(1, 3)) for n in (5, 1, 4, 1)], compiles=2)


def test_a_question_before_a_break():
    def f(x, y):
        return 1 if x.shape[0] > 2 and y.sum() > 0 else 2

    captured = oxytorch._oxytorch.capture(f, dynamic=True)
    for n, sign in ((4, 1), (2, 1), (4, -1), (2, -1), (5, 1)):
        x, y = rand(n, 3), torch.full((2,), float(sign))
        assert captured(x, y) == f(x, y)


# Multiples.


class Hourglass(nn.Module):
    """Down twice and up again, with what was there before beside it."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.up = nn.Conv2d(2, 2, 3, 2, 1), nn.Conv2d(2, 2, 3, 2, 1), nn.Upsample(scale_factor=2)

    def forward(self, x):
        half = self.first(x)
        back = torch.cat([self.up(self.second(half)), half], 1)[:, 1:3]
        return torch.cat([self.up(back), x], 1)


def test_sizes_that_are_halved_and_doubled():
    model = Hourglass().eval()
    captured = check(model, [(rand(2, 2, h, w),) for h, w in ((8, 12), (4, 20), (16, 4))])
    for shape in ((8, 10), (7, 12)):
        with pytest.raises(RuntimeError):
            captured(rand(2, 2, *shape))


def test_views_that_divide():
    def f(x):
        return x.view(x.shape[0] // 2, 2, x.shape[1]).sum(1), x.unflatten(1, (3, -1)), x.reshape(-1, x.shape[1] // 3, 3)

    captured = check(f, [(rand(n, m),) for n, m in ((4, 6), (10, 3), (2, 12))])
    with pytest.raises(RuntimeError):
        captured(rand(3, 6))


# Memory.


def test_views_of_inputs_are_views():
    def f(x):
        return x[:, 1:], x.transpose(0, 1), x.view(-1)

    captured = check(f, [(rand(n, m),) for n, m in ((5, 3), (2, 7), (9, 8))])
    x = rand(4, 6)
    part, turned, flat = captured(x)
    x.zero_()
    assert not part.any() and not turned.any() and not flat.any()


def test_outputs_lie_as_eagers_do():
    def f(x):
        y = x.relu()
        return y[:, 0], y[:, -1], y.transpose(1, 2), y.permute(2, 0, 1) * 2, y[:, :, :2]

    check(f, [(rand(b, n, 4),) for b, n in ((2, 3), (5, 7), (3, 2))])


def test_inputs_in_other_orders():
    f = lambda x: (x * 2, x.reshape(-1), x.contiguous())
    check(f, [(rand(m, n).t(),) for n, m in ((5, 3), (2, 7), (9, 8))])
    check(f, [(rand(n, 9)[:, 2:6],) for n in (5, 3, 7)])
    check(f, [(rand(n, 1).expand(n, 6),) for n in (5, 3, 7)])


def test_inputs_are_written():
    def f(x):
        x.add_(1)
        x[:, 0] = x.shape[0]
        return x * 2

    wrapped = oxytorch._oxytorch.capture(f, dynamic=True)
    with torch.no_grad():
        for n in (3, 5, 9, 3):
            x = rand(n, 4)
            y = x.clone()
            assert_same(wrapped(x), f(y))
            assert_same(x, y)
    assert wrapped.stats()["traced"] == 1


# Policy.


def test_first_static_then_all_that_changes():
    shapes = [(3, 4), (5, 6), (7, 4), (3, 9), (3, 4)]
    check(lambda x: torch.softmax(x @ x.t(), -1), [(rand(*s),) for s in shapes], dynamic=None, compiles=2)


def test_never():
    check(lambda x: x * 2, [(rand(n, 3),) for n in (2, 3, 4, 5)], dynamic=False, compiles=4)


def test_marked_dimensions():
    captured = oxytorch._oxytorch.capture(lambda x: x * 2)
    for n in (4, 9, 5):
        x = rand(n, 3)
        torch._dynamo.mark_dynamic(x, 0)
        assert_same(captured(x), x * 2)
    assert captured.stats()["traced"] == 1
    captured = oxytorch._oxytorch.capture(lambda x: x * 2, dynamic=True)
    for n in (4, 9):
        x = rand(n, 3)
        torch._dynamo.mark_static(x, 0)
        assert_same(captured(x), x * 2)
    assert captured.stats()["traced"] == 2


@pytest.mark.parametrize("function", [lambda x: (x * 2).sum(0), lambda x: torch.softmax(x @ x.transpose(-1, -2), -1) @ x, lambda x: x.flatten(1).cumsum(0)])
@pytest.mark.parametrize("mark", [torch._dynamo.mark_dynamic, torch._dynamo.maybe_mark_dynamic])
def test_a_marked_size_may_begin_with_1(function, mark):
    """Code that is made for 1 is for 1 alone; the next is for all."""
    captured = oxytorch._oxytorch.capture(function)
    with torch.no_grad():
        for n in (1, 4, 7, 1, 3):
            x = rand(n, 5, 8)
            mark(x, 0)
            assert_same(captured(x), function(x))
    assert captured.stats()["traced"] == 2


# Code that is made for a size of 1 says nothing of others: each of these was wrong once for 5.
AFTER_ONE = {
    "sum": lambda x: x.exp().sum(0),
    "returns_its_argument": lambda x: torch.broadcast_tensors(x, x.sum(0, keepdim=True))[1] + 1,
    "memory_order": lambda x: torch.zeros_like(x.t()).flatten().add_(1),
    "a_view_of_it": lambda x: (y := torch.zeros_like(x.t()), y.flatten().add_(1))[0],
}


@pytest.mark.parametrize("function", AFTER_ONE.values(), ids=AFTER_ONE)
def test_a_size_that_is_seen_to_change_to_1(function):
    check(function, [(rand(n, 4),) for n in (3, 1, 5, 2, 1)], dynamic=None, compiles=3)


def test_whether_two_have_the_same_size():
    check(lambda x: x.is_same_size(x[:1]), [(rand(n, 4),) for n in (3, 1, 5)], dynamic=None, compiles=3)


def test_a_view_that_only_1_allows():
    def function(x):
        try:
            return x.view(-1) * 2
        except RuntimeError:
            return x.reshape(-1) * 3

    compiled = oxytorch.compile(function)
    for n in (3, 1, 5):
        x = rand(n, 8)[:, :4]
        assert_same(compiled(x), function(x))


def test_past_the_limit_comes_one_trace_for_all():
    captured = oxytorch._oxytorch.capture(lambda x, y: x[:, :1] + y.sum(), settings=[("recompile_limit", 2)])
    with torch.no_grad():
        for a, b in ((2, 3), (4, 3), (4, 5), (5, 6), (7, 8), (9, 2)):
            x, y = rand(a, 3), rand(b, 2)
            assert_same(captured(x, y), x[:, :1] + y.sum())
    assert captured.stats()["traced"] == 3


def marked(tensor, dim, **limits):
    torch._dynamo.mark_dynamic(tensor, dim, **limits)
    return tensor


def test_ranges_are_kept():
    captured = oxytorch._oxytorch.capture(lambda x: x * 2)
    captured(marked(rand(4, 3), 0, min=2, max=8))
    with pytest.raises(ValueError, match="argument 0: dimension 0 is declared by mark_dynamic to be 2 to 8, but its size is 9"):
        captured(marked(rand(9, 3), 0, min=2, max=8))
    assert captured.stats()["traced"] == 1


def test_marks_that_contradict_one_another():
    x = marked(rand(4, 3), 0)
    x._dynamo_static_indices = {0}
    with pytest.raises(ValueError, match=r"x\['a'\]: dimension 0 is marked both"):
        oxytorch._oxytorch.capture(lambda x: x["a"] * 2)(x={"a": x})


def test_a_marked_dimension_that_must_be_constant():
    weight = rand(3, 2)
    with pytest.raises(ValueError, match=r"dimension 1 of arg0 is marked .* to be 3 \(.*test_dynamic.py:\d+"):
        oxytorch._oxytorch.capture(lambda x: x @ weight)(marked(rand(4, 3), 1))
    with pytest.raises(ValueError, match=r"dimension 0 of arg0 is marked .* to be 4 \(.*test_dynamic.py:\d+"):
        oxytorch._oxytorch.capture(lambda x: [x[n] for n in range(len(x))])(marked(rand(4, 3), 0))


def test_recompiles_are_explained():
    def f(x):
        return x.sum(1) if x.shape[1] > 8 else x.mean(1)

    captured = oxytorch._oxytorch.capture(f, dynamic=True)
    captured(rand(3, 4)), captured(rand(3, 12))
    (why,) = captured.report()["recompiles"]
    assert "arg0.shape[1]" in why and "test_dynamic.py:" in why and "is 12" in why, why


def test_marks_of_dimensions_that_are_not_there():
    for dim in (3, -3):
        x = rand(3, 4)
        torch._dynamo.mark_dynamic(x, dim)
        with pytest.raises(ValueError, match=f"argument 0: dimension .* is marked, but it has 2 dimensions"):
            oxytorch.compile(lambda x: x * 2)(x)


def test_marks_counted_from_the_end():
    captured = oxytorch._oxytorch.capture(lambda x: x * 2)
    for n in (3, 5, 4):
        x = rand(2, n)
        torch._dynamo.maybe_mark_dynamic(x, -1)
        assert_same(captured(x), x * 2)
    assert captured.stats()["traced"] == 1


def test_parameters_stay_constants():
    layer = nn.Linear(4, 6)
    captured = oxytorch._oxytorch.capture(layer, dynamic=True)
    with torch.no_grad():
        for n in (2, 9, 5):
            x = rand(n, 4)
            assert_same(captured(x), layer(x))
    assert captured.stats()["traced"] == 1


# Models: sizes in random order, at most two compiles.


def sweep(model, make, cases, compiles=2):
    torch.manual_seed(0)
    captured = oxytorch._oxytorch.capture(model.eval())
    with torch.no_grad():
        for case in cases:
            given = make(*case)
            got, want = captured(**given), model(**given)
            assert_same(tensors(got), tensors(want))
    assert captured.stats()["traced"] <= compiles, captured.report()["recompiles"]
    assert captured.stats()["breaks"] == []


def tensors(result):
    return [v for v in result.values() if isinstance(v, torch.Tensor)] if isinstance(result, dict) else result


def sequences(seed, count=8):
    """Batches and lengths; the first two differ in both."""
    rng = random.Random(seed)
    return [(3, 7), (2, 12)] + [(rng.randint(2, 8), rng.randint(2, 32)) for _ in range(count)]


def token_ids(batch, length):
    return torch.randint(0, 50, (batch, length))


SMALL = dict(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=64)


def test_bert():
    from transformers import BertConfig, BertModel

    def make(b, n):
        mask = (torch.arange(n) < n - torch.randint(0, n // 2 + 1, (b, 1))).long()
        return dict(input_ids=token_ids(b, n), attention_mask=mask)

    sweep(BertModel(BertConfig(**SMALL)), make, sequences(1))


def test_gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=0, eos_token_id=0)
    sweep(GPT2LMHeadModel(config), lambda b, n: dict(input_ids=token_ids(b, n), use_cache=False), sequences(2))


def test_llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**SMALL, num_key_value_heads=2)
    sweep(LlamaForCausalLM(config), lambda b, n: dict(input_ids=token_ids(b, n), use_cache=False), sequences(3))


def test_resnet():
    import timm

    sizes = [(2, 32, 32), (3, 48, 40), (2, 64, 64), (4, 40, 56), (5, 33, 47), (2, 71, 32)]
    sweep(timm.create_model("resnet18", num_classes=10), lambda b, h, w: dict(x=rand(b, 3, h, w)), sizes)


class Sage(nn.Module):
    """GraphSAGE with the mean of neighbours, by index_add."""

    def __init__(self):
        super().__init__()
        self.own = nn.ModuleList([nn.Linear(5, 8), nn.Linear(8, 3)])
        self.others = nn.ModuleList([nn.Linear(5, 8, bias=False), nn.Linear(8, 3, bias=False)])

    def forward(self, x, edges):
        source, target = edges
        for own, others in zip(self.own, self.others):
            count = x.new_zeros(x.size(0)).index_add(0, target, torch.ones_like(target, dtype=x.dtype)).clamp(min=1)
            mean = torch.zeros_like(x).index_add(0, target, x[source]) / count[:, None]
            x = F.relu(own(x) + others(mean))
        return x.log_softmax(-1)


def test_graphs():
    def make(nodes, edges):
        return dict(x=rand(nodes, 5), edges=torch.randint(0, nodes, (2, edges)))

    rng = random.Random(4)
    sweep(Sage(), make, [(9, 20), (30, 50)] + [(rng.randint(3, 60), rng.randint(3, 200)) for _ in range(10)])


# Training.


def test_a_short_last_batch():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(0.0), nn.Linear(16, 4))
    step = lambda x, y: F.cross_entropy(model(x), y)
    captured = oxytorch._oxytorch.capture(step)
    for n in (16, 16, 7, 16, 5, 9):
        x, y = rand(n, 8), torch.randint(0, 4, (n,))
        results = []
        for function in (captured, step):
            model.zero_grad()
            loss = function(x, y)
            loss.backward()
            results.append((loss.detach(), [p.grad.clone() for p in model.parameters()]))
        assert_same(*results)
    assert captured.stats()["traced"] == 2


def test_pieces_have_the_sizes_that_they_were_made_for():
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)

    def f(x):
        hidden = first(x)
        return hidden, second(hidden).relu()

    captured = oxytorch._oxytorch.capture(f, dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (5, 3, 5, 8):
            x = rand(n, 4)
            assert_same(captured(x), f(x))


def test_convolutions_train_with_any_batch():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))
    captured = oxytorch._oxytorch.capture(model, dynamic=True)
    for n in (6, 3, 8):
        x = rand(n, 3, 10, 12)
        gradients = []
        for function in (captured, model):
            model.zero_grad()
            function(x).square().sum().backward()
            gradients.append([p.grad.clone() for p in model.parameters()])
        assert_same(*gradients)
    assert captured.stats()["traced"] == 1


def test_graphs_of_many_sizes_in_pieces():
    """The number of edges is known only while it runs, and pieces of a graph know only some of its sizes."""
    from torch_geometric.nn import GATConv, GCNConv, GINConv, global_mean_pool

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = GCNConv(4, 8), GATConv(8, 8, heads=2, concat=False)
            self.third, self.last = GINConv(torch.nn.Linear(8, 8)), torch.nn.Linear(8, 2)

        def forward(self, nodes, edges, batch):
            nodes = self.second(self.first(nodes, edges).relu(), edges).relu()
            return self.last(global_mean_pool(self.third(nodes, edges), batch))

    net = Net().eval()
    compiled = oxytorch.compile(net)
    for count in (6, 10, 8, 12):
        nodes, edges = torch.randn(count, 4), torch.randint(0, count, (2, 3 * count))
        batch = torch.arange(count) // 2
        assert_same(compiled(nodes, edges, batch), net(nodes, edges, batch))


class Word(str, enum.Enum):
    A = "a"


def keys_that_are_equal(x):
    n = x.shape[0]
    pairs = {}
    for i in range(2):
        pairs[(i, i + 1)] = n + i
    numbers, words = {1: n}, {"a": n}
    before = numbers[1.0], words[Word.A]
    numbers[True] = n * 2
    words[Word.A] = n + 5
    gone = {1: n}
    del gone[True]
    gone[1.0] = 5
    return [pairs[(i, i + 1)] for i in range(2)], before, numbers, words, words["a"], gone, gone[1]


def test_sizes_under_keys_that_are_equal_but_others():
    calls = [(rand(n),) for n in (4, 5, 9, 2)]
    captured = oxytorch._oxytorch.capture(keys_that_are_equal, dynamic=True)
    for args in calls:
        assert captured(*args) == keys_that_are_equal(*args)


def expands_unless_one(x, n):
    y = x
    if n.shape[0] != 1:
        y = x.expand(n.shape[0], -1)
    return y


def test_an_expansion_that_is_seen_is_no_other_tensor():
    captured = oxytorch._oxytorch.capture(expands_unless_one, dynamic=True)
    asks = oxytorch._oxytorch.capture(lambda x, n: (expands_unless_one(x, n) is x, x + 1), dynamic=True)
    x = torch.zeros(1, 3)
    for n in (4, 1, 7, 1):
        got = captured(x, rand(n))
        assert_same(got, expands_unless_one(x, rand(n)))
        assert (got is x) == (n == 1) == asks(x, rand(n))[0]
