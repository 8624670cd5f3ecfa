"""One compile, many sizes: models called with sizes in random order, compared with eager at each; training, too."""

import random
import warnings

import oxytorch
import torch
import torch.nn as nn
import torch.nn.functional as F
from compare import assert_same
from dynamic import rand


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


class Planes(nn.Module):
    """One layer at three resolutions, with other channels at each. The eps is no other test's, so that the kernels are new."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.GroupNorm(3, 3 * n, eps=3.7e-5), nn.SiLU()) for n in (2, 4, 6))

    def forward(self, a, b, c):
        return [layer(plane) for layer, plane in zip(self.layers, (a, b, c))]


@torch.no_grad()
def test_layers_that_differ_in_numbers_only_share_their_code():
    model = Planes()
    for n, layer in enumerate(model.layers):
        nn.init.normal_(layer[0].weight, std=n + 1.0)
        nn.init.normal_(layer[0].bias)
    compiled = oxytorch.compile(model)
    for batch, side in ((2, 22), (3, 12), (2, 20), (1, 4), (5, 64)):
        planes = [rand(batch, 3 * n, side // k, side // k + 2 * n + 1) for k, n in ((1, 2), (2, 4), (4, 6))]
        assert_same(compiled(*planes), model(*planes))
        if side == 12:
            report = oxytorch.last_compile()
            assert report["kernels"] == 3 and report["kernels_compiled"] == 1, report


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
