"""The workloads: seven models built from their configurations with random weights. Nothing is downloaded.

    workload = zoo.build("gpt2")            # CPU sizes, float32
    out = workload.run(workload.model)      # one inference
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

import torch
import torch.nn as nn
import torch.nn.functional as F

NAMES = ("bert", "gpt2", "vit", "resnet50", "unet", "llama", "graphsage")

# What two CPU cores do in well under a second per call.
CPU_SIZES: dict[str, dict[str, int]] = {
    "bert": dict(layers=4, hidden=256, batch=4, seq=128),
    "gpt2": dict(layers=6, hidden=384, batch=2, seq=128),
    "vit": dict(layers=4, hidden=256, batch=4),
    "resnet50": dict(batch=2),
    "unet": dict(batch=1, size=32, ch=64),
    "llama": dict(layers=4, hidden=512, batch=1, seq=128),
    "graphsage": dict(nodes=2000, edges=20000, feat=64, hidden=64),
}

# Smaller still, for tests: every kind of layer, few of them.
TEST_SIZES: dict[str, dict[str, int]] = {
    "bert": dict(layers=2, hidden=128, batch=2, seq=24),
    "gpt2": dict(layers=2, hidden=128, batch=2, seq=24),
    "vit": dict(layers=2, hidden=128, batch=1),
    "resnet50": dict(batch=1, size=64),
    "unet": dict(batch=1, size=16, ch=32),
    "llama": dict(layers=2, hidden=256, batch=2, seq=24),
    "graphsage": dict(nodes=120, edges=700, feat=24, hidden=32),
}


@dataclasses.dataclass
class Workload:
    name: str
    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self, model: Callable[..., Any]) -> torch.Tensor:
        """One inference; the tensor that stands for the result."""
        with torch.no_grad():
            return main_output(model(*self.args, **self.kwargs))

    def to(self, dtype: torch.dtype) -> Workload:
        """The same workload with floating point weights and inputs of another type. The model is converted in place."""
        convert = lambda x: x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x
        return Workload(
            self.name,
            self.model.to(dtype),
            tuple(convert(a) for a in self.args),
            {k: convert(v) for k, v in self.kwargs.items()},
        )


def main_output(out: Any) -> torch.Tensor:
    if isinstance(out, torch.Tensor):
        return out
    for field in ("logits", "last_hidden_state"):
        if getattr(out, field, None) is not None:
            return getattr(out, field)
    return out[0]


def set_dropout(model: nn.Module, p: float) -> None:
    """Whatever a model drops while it is trained, it drops with this probability."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = p
        for field in ("dropout", "attention_dropout", "dropout_prob", "attn_dropout"):
            if isinstance(getattr(module, field, None), float):
                setattr(module, field, p)
    config = getattr(model, "config", None)
    for field in vars(config) if config is not None else ():
        if "drop" in field and isinstance(getattr(config, field), float):
            setattr(config, field, p)


def build(name: str, dtype: torch.dtype = torch.float32, sizes: dict[str, dict[str, int]] | None = None) -> Workload:
    torch.manual_seed(0)
    model, args, kwargs = BUILDERS[name](**(sizes or CPU_SIZES)[name])
    return Workload(name, model.eval(), args, kwargs).to(dtype)


def bert(layers: int, hidden: int, batch: int, seq: int):
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    tokens = torch.randint(0, 30000, (batch, seq))
    return BertForSequenceClassification(config), (tokens,), {"attention_mask": torch.ones_like(tokens)}


def gpt2(layers: int, hidden: int, batch: int, seq: int):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=layers, n_embd=hidden, n_head=hidden // 64, use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
    return GPT2LMHeadModel(config), (torch.randint(0, 50000, (batch, seq)),), {}


def vit(layers: int, hidden: int, batch: int):
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=hidden // 64, intermediate_size=4 * hidden
    )
    return ViTForImageClassification(config), (torch.randn(batch, 3, 224, 224),), {}


def resnet50(batch: int, size: int = 224):
    import torchvision

    return torchvision.models.resnet50(weights=None), (torch.randn(batch, 3, size, size),), {}


def llama(layers: int, hidden: int, batch: int, seq: int):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=hidden,
        intermediate_size=int(hidden * 3.5),
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        num_key_value_heads=max(1, hidden // 256),
        vocab_size=32000,
        max_position_embeddings=2048,
        use_cache=False,
    )
    return LlamaForCausalLM(config), (torch.randint(0, 32000, (batch, seq)),), {}


def graphsage(nodes: int, edges: int, feat: int, hidden: int):
    from torch_geometric.nn import GraphSAGE

    model = GraphSAGE(feat, hidden, num_layers=3, out_channels=64)
    return model, (torch.randn(nodes, feat), torch.randint(0, nodes, (2, edges))), {}


class ResBlock(nn.Module):
    """Two normalised convolutions with the time embedding added in between."""

    def __init__(self, inside: int, outside: int, time: int):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, inside), nn.Conv2d(inside, outside, 3, padding=1)
        self.time = nn.Linear(time, outside)
        self.norm2, self.conv2 = nn.GroupNorm(32, outside), nn.Conv2d(outside, outside, 3, padding=1)
        self.skip = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.skip(x)


class AttentionBlock(nn.Module):
    def __init__(self, channels: int, heads: int = 8):
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(32, channels), heads
        self.qkv, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)

    def forward(self, x):
        b, c, height, width = x.shape
        q, k, v = self.qkv(self.norm(x).flatten(2).transpose(1, 2)).chunk(3, -1)
        q, k, v = (y.reshape(b, height * width, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, height * width, c)
        return x + self.out(y).transpose(1, 2).reshape(b, c, height, width)


class UNet(nn.Module):
    """A diffusion UNet: three resolutions, attention at the two lower ones."""

    def __init__(self, ch: int, multiples=(1, 2, 4), time: int = 512):
        super().__init__()
        self.time = time
        self.embed = nn.Sequential(nn.Linear(time, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(4, ch, 3, padding=1)
        attention = lambda level, channels: AttentionBlock(channels) if level else nn.Identity()
        skips, c, self.downs, self.ups = [ch], ch, nn.ModuleList(), nn.ModuleList()
        for level, multiple in enumerate(multiples):
            for _ in range(2):
                self.downs.append(nn.ModuleList([ResBlock(c, ch * multiple, time), attention(level, ch * multiple)]))
                c = ch * multiple
                skips.append(c)
            if level < len(multiples) - 1:
                self.downs.append(nn.ModuleList([nn.Conv2d(c, c, 3, 2, 1), nn.Identity()]))
                skips.append(c)
        self.middle = nn.ModuleList([ResBlock(c, c, time), AttentionBlock(c), ResBlock(c, c, time)])
        for level, multiple in reversed(list(enumerate(multiples))):
            for block in range(3):
                grow = nn.Upsample(scale_factor=2) if level and block == 2 else nn.Identity()
                residual = ResBlock(c + skips.pop(), ch * multiple, time)
                self.ups.append(nn.ModuleList([residual, attention(level, ch * multiple), grow]))
                c = ch * multiple
        self.last = nn.Sequential(nn.GroupNorm(32, c), nn.SiLU(), nn.Conv2d(c, 4, 3, padding=1))

    def forward(self, x, steps):
        half = self.time // 2
        frequencies = torch.exp(torch.arange(half, device=x.device) * (-9.21 / half))
        angles = steps[:, None].float() * frequencies[None]
        time = self.embed(torch.cat([angles.sin(), angles.cos()], -1).to(x.dtype))
        h = self.first(x)
        kept = [h]
        for block, attention in self.downs:
            h = attention(block(h, time)) if isinstance(block, ResBlock) else block(h)
            kept.append(h)
        h = self.middle[2](self.middle[1](self.middle[0](h, time)), time)
        for block, attention, grow in self.ups:
            h = grow(attention(block(torch.cat([h, kept.pop()], 1), time)))
        return self.last(h)


def unet(batch: int, size: int, ch: int):
    return UNet(ch), (torch.randn(batch, 4, size, size), torch.arange(batch)), {}


BUILDERS = dict(bert=bert, gpt2=gpt2, vit=vit, resnet50=resnet50, unet=unet, llama=llama, graphsage=graphsage)
