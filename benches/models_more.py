"""More models of `make models`: the workloads of the benchmark, message passing on graphs, and decoding token by token with a cache."""

from __future__ import annotations

from typing import Any, Callable

import torch
import torch.nn as nn
import zoo
from models_table import DECODER, VOCABULARY, Entry, Inputs


def workload(name: str) -> Entry:
    """A workload in the sizes of the tests."""

    def make():
        built = zoo.build(name, sizes=zoo.TEST_SIZES)
        again = lambda: zoo.BUILDERS[name](**zoo.TEST_SIZES[name])[1:]
        return built.model, again

    return Entry(name, "workloads", "workload", make)


def on_graph(name: str, nodes: int = 120, edges: int = 700, **options: Any) -> Entry:
    """A stack of convolutions of torch_geometric over a random graph."""

    def draw() -> Inputs:
        return (torch.randn(nodes, 24), torch.randint(0, nodes, (2, edges))), {}

    def make():
        import torch_geometric.nn

        return getattr(torch_geometric.nn, name)(24, 32, num_layers=2, out_channels=8, **options), draw

    return Entry(name, "torch_geometric", "message passing", make)


class Greedy(nn.Module):
    """Takes a prompt and then, one by one, the likeliest tokens."""

    def __init__(self, model: nn.Module, cache: Callable[[Any], Any], steps: int):
        super().__init__()
        self.model, self.cache, self.steps = model, cache, steps

    def forward(self, tokens):
        cache, taken = self.cache(self.model.config), []
        for _ in range(self.steps):
            logits = self.model(input_ids=tokens, past_key_values=cache, use_cache=True).logits
            tokens = logits[:, -1:].argmax(-1)
            taken.append(tokens)
        return torch.cat(taken, 1), logits


def decoding(name: str, config: str, model: str, cache: str, **options: Any) -> Entry:
    def make():
        import transformers

        inner = getattr(transformers, model)(getattr(transformers, config)(**DECODER))
        kind = getattr(transformers, cache)
        draw = lambda: ((torch.randint(3, VOCABULARY, (2, 8)),), {})
        return Greedy(inner, lambda made: kind(config=made, **options), steps=4), draw

    return Entry(name, "decoding", f"greedy, {cache}", make)


class Generating(nn.Module):
    """The library's own loop."""

    def __init__(self, model: nn.Module, **options: Any):
        super().__init__()
        self.model, self.options = model, options

    def forward(self, tokens):
        return self.model.generate(tokens, do_sample=False, max_new_tokens=10, min_new_tokens=10, **self.options)


def compile_forward(model: nn.Module, compiler: Callable[..., Any]) -> nn.Module:
    model.model.forward = compiler(model.model.forward)
    return model


def generating(name: str, config: str, model: str, **options: Any) -> Entry:
    """`generate` around a compiled forward."""

    def make():
        import transformers

        inner = getattr(transformers, model)(getattr(transformers, config)(**DECODER))
        draw = lambda: ((torch.randint(3, VOCABULARY, (2, 8)),), {})
        return Generating(inner, **options), draw

    return Entry(name, "decoding", f"generate, {options.get('cache_implementation', 'dynamic')} cache", make, compile_forward)


MORE = [
    *map(workload, zoo.NAMES),
    on_graph("GraphSAGE"),
    on_graph("GCN"),
    on_graph("GAT", heads=2),
    decoding("llama_dynamic", "LlamaConfig", "LlamaForCausalLM", "DynamicCache"),
    decoding("llama_static", "LlamaConfig", "LlamaForCausalLM", "StaticCache", max_cache_len=16),
    decoding("qwen3_dynamic", "Qwen3Config", "Qwen3ForCausalLM", "DynamicCache"),
    generating("llama_generate", "LlamaConfig", "LlamaForCausalLM"),
    generating("llama_generate_static", "LlamaConfig", "LlamaForCausalLM", cache_implementation="static"),
]

ENTRIES = {f"{entry.library}/{entry.name}": entry for entry in MORE}
