"""The sweeps of `make sweep`: models, and the sizes that they are called with."""

from __future__ import annotations

import dataclasses
import random
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import nn

import zoo

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


def infer(model: Callable[..., Any], inputs: Inputs) -> Any:
    args, kwargs = inputs
    with torch.no_grad():
        return model(*args, **kwargs)


def step(model: Any, inputs: Inputs) -> Any:
    """The loss and the gradients of one training step, with a little of plain gradient descent."""
    args, kwargs = inputs
    model.zero_grad()
    loss = model(*args, **kwargs)
    loss.backward()
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    with torch.no_grad():
        for p in model.parameters():
            if p.grad is not None:
                p.sub_(p.grad, alpha=1e-3)
    return [loss.detach(), gradients]


@dataclasses.dataclass(frozen=True)
class Sweep:
    build: Callable[[bool], nn.Module]
    """The model; small for tests."""
    cases: Callable[[random.Random, bool], list[Any]]
    make: Callable[..., Inputs]
    """The inputs of a case, for "eager", "compiled" or "exact": each has its own."""
    largest: Callable[[bool], Any] | None = None
    """The case at which memory is measured."""
    call: Callable[[Any, Inputs], Any] = infer
    repeats: bool = True
    """Whether a case can be computed once more, in float64, to judge rounding."""


def varied(cases: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """In an order in which the first two differ in every size, and none of those is 1: sizes become variables by being seen to change."""
    first = next(case for case in cases if min(case) > 1)
    second = next(case for case in cases if min(case) > 1 and all(a != b for a, b in zip(case, first)))
    cases = [case for case in cases if case is not first and case is not second]
    return [first, second] + cases


def sequences(rng: random.Random, small: bool) -> list[tuple[int, ...]]:
    """Batches of 1 to 32 with 1 to 512 tokens, the ends among them, in random order."""
    batch, length = largest_sequence(small)
    cases = [(1, 1), (1, length), (batch, 1), (batch, length)]
    cases += [(rng.randint(1, batch), rng.randint(1, length)) for _ in range(8 if small else 36)]
    rng.shuffle(cases)
    return varied(cases)


def largest_sequence(small: bool) -> tuple[int, int]:
    return (5, 40) if small else (32, 512)


def tokens(batch: int, length: int, vocabulary: int = 1000) -> torch.Tensor:
    return torch.randint(0, vocabulary, (batch, length), generator=torch.Generator().manual_seed(batch * 1000 + length))


def width(small: bool) -> dict[str, int]:
    hidden = 32 if small else 64
    return dict(hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=2, num_attention_heads=4, vocab_size=1000)


def bert(small: bool) -> nn.Module:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(**width(small), max_position_embeddings=512)).eval()


def padded(case: tuple[int, int], side: str) -> Inputs:
    """Tokens with a mask: the rows end at different places."""
    batch, length = case
    ends = length - torch.arange(batch)[:, None] % length
    return (), dict(input_ids=tokens(batch, length), attention_mask=(torch.arange(length) < ends).long())


def gpt2(small: bool) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    names = dict(vocab_size=1000, n_embd=32 if small else 64, n_layer=2, n_head=4, n_positions=512, bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(GPT2Config(**names)).eval()


def llama(small: bool) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**width(small), num_key_value_heads=2, max_position_embeddings=512)).eval()


def whole(case: tuple[int, int], side: str) -> Inputs:
    return (tokens(*case),), dict(use_cache=False)


class Decoding:
    """Token after token, each side with a cache of its own that grows. A case is how many tokens the cache holds."""

    def __init__(self) -> None:
        self.caches: dict[str, Any] = {}

    def __call__(self, case: int, side: str) -> Inputs:
        from transformers import DynamicCache

        if side not in self.caches or self.caches[side].get_seq_length() != case:
            self.caches[side] = DynamicCache()
            for layer in range(2):
                self.caches[side].update(*self.start(case, layer), layer)
        return (tokens(2, case + 1)[:, -1:].contiguous(),), dict(past_key_values=self.caches[side], use_cache=True)

    def start(self, length: int, layer: int) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(layer)
        return [torch.randn(2, 2, length, 16, generator=generator) for _ in "kv"]


def steps(rng: random.Random, small: bool) -> list[int]:
    return list(range(5, 15 if small else 65))


def images(count: int, unit: int, low: int, high: int) -> Callable[[random.Random, bool], list[tuple[int, int, int]]]:
    """Batches of images of so many sizes, all multiples of `unit`."""

    def cases(rng: random.Random, small: bool) -> list[tuple[int, int, int]]:
        most = 2 * low if small else high
        side = lambda: unit * rng.randint(low // unit, most // unit)
        return [(2, low, most), (3, most, low)] + [(rng.randint(1, 4), side(), side()) for _ in range(3 if small else count - 2)]

    return cases


def image(case: tuple[int, int, int], side: str) -> Inputs:
    batch, height, width = case
    return (torch.randn(batch, 3, height, width, generator=torch.Generator().manual_seed(height + width)),), {}


def vit(small: bool) -> nn.Module:
    from transformers import ViTConfig, ViTModel

    names = width(small)
    names.pop("vocab_size")
    return ViTModel(ViTConfig(**names, image_size=96, patch_size=16)).eval()


def interpolated(case: tuple[int, int, int], side: str) -> Inputs:
    return image(case, side)[0], dict(interpolate_pos_encoding=True)


def resnet(small: bool) -> nn.Module:
    import torchvision

    return torchvision.models.resnet18(weights=None).eval()


def noise(case: tuple[int, int, int], side: str) -> Inputs:
    batch, height, width = case
    return (torch.randn(batch, 4, height, width, generator=torch.Generator().manual_seed(height)), torch.arange(batch) * 10), {}


def graphsage(small: bool) -> nn.Module:
    from torch_geometric.nn import GraphSAGE

    return GraphSAGE(16, 16 if small else 32, num_layers=3, out_channels=8).eval()


def graphs(rng: random.Random, small: bool) -> list[tuple[int, int]]:
    nodes, edges = largest_graph(small)
    return varied([(rng.randint(1, nodes), rng.randint(1, edges)) for _ in range(10 if small else 50)])


def largest_graph(small: bool) -> tuple[int, int]:
    return (60, 200) if small else (2000, 20000)


def graph(case: tuple[int, int], side: str) -> Inputs:
    nodes, edges = case
    generator = torch.Generator().manual_seed(nodes)
    return (torch.randn(nodes, 16, generator=generator), torch.randint(0, nodes, (2, edges), generator=generator)), {}


class Classifier(nn.Module):
    """A small convolutional network with its loss."""

    def __init__(self) -> None:
        super().__init__()
        norm = lambda channels: nn.BatchNorm2d(channels)
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), norm(8), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), norm(16), nn.GELU())
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.0), nn.LayerNorm(16), nn.Linear(16, 10))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.head(self.body(x)), labels)


def classifier(small: bool) -> nn.Module:
    return Classifier().double()


def batches(rng: random.Random, small: bool) -> list[int]:
    """Two epochs, each with a short last batch."""
    return ([8] * 3 + [5] if small else [32] * 8 + [13]) * 2


def labelled(case: int, side: str) -> Inputs:
    generator = torch.Generator().manual_seed(case)
    return (torch.randn(case, 3, 16, 16, generator=generator).double(), torch.randint(0, 10, (case,), generator=generator)), {}


class LanguageModel(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        logits = self.model(input_ids, use_cache=False).logits[:, :-1]
        return F.cross_entropy(logits.flatten(0, 1), input_ids[:, 1:].flatten())


def language_model(small: bool) -> nn.Module:
    return LanguageModel(gpt2(small)).double()


def texts(rng: random.Random, small: bool) -> list[tuple[int, ...]]:
    """Two epochs of batches of texts of any length, of which one batch is short."""
    count, (batch, length) = (4, (3, 12)) if small else (10, (8, 128))
    return varied([(batch, n) for n in rng.sample(range(3, length), count)] + [(2, length)]) * 2


SWEEPS = {
    "bert": Sweep(bert, sequences, padded, largest_sequence),
    "gpt2": Sweep(gpt2, sequences, whole, largest_sequence),
    "llama": Sweep(llama, sequences, whole, largest_sequence),
    "llama decoding": Sweep(lambda small: llama(False), steps, Decoding(), lambda small: 64, repeats=False),
    "vit": Sweep(vit, images(10, 16, 32, 224), interpolated, lambda small: (4, 224, 224)),
    "resnet": Sweep(resnet, images(10, 1, 32, 224), image, lambda small: (4, 224, 224)),
    "unet": Sweep(lambda small: zoo.UNet(32), images(6, 4, 8, 32), noise, lambda small: (2, 32, 32)),
    "graphsage": Sweep(graphsage, graphs, graph, largest_graph),
    "short batch": Sweep(classifier, batches, labelled, lambda small: 32, step),
    "short batch, texts": Sweep(language_model, texts, lambda case, side: ((tokens(*case),), {}), lambda small: (8, 128), step),
}
