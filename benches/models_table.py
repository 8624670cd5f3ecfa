"""The models of `make models`: 40 from transformers, 20 from timm, 15 from torchvision, small and with random weights.

Each entry makes a model and a function from a seed to its inputs. Nothing is downloaded.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

import torch
import torch.nn as nn

# Positional and keyword arguments of one call.
Inputs = tuple[tuple[Any, ...], dict[str, Any]]
Make = Callable[[], tuple[nn.Module, Callable[[], Inputs]]]

VOCABULARY = 96


@dataclasses.dataclass
class Entry:
    name: str
    library: str
    kind: str
    make: Make
    # How a compiler is put on the model.
    compile: Callable[[nn.Module, Callable[..., Any]], Any] = lambda model, compiler: compiler(model)

    def build(self) -> tuple[nn.Module, Callable[[int], Inputs]]:
        """The model, for inference, and its inputs by seed."""
        torch.manual_seed(0)
        model, draw = self.make()

        def inputs(seed: int) -> Inputs:
            torch.manual_seed(seed)
            return draw()

        return model.eval(), inputs


def tokens(sequence: int = 16, **more: Callable[[], torch.Tensor]) -> Callable[[], Inputs]:
    """Token numbers of two sentences; of the second, the end is padding."""

    def draw() -> Inputs:
        ids = torch.randint(3, VOCABULARY, (2, sequence))
        mask = torch.ones_like(ids)
        mask[1, -3:] = 0
        return (), dict(input_ids=ids, attention_mask=mask) | {name: make() for name, make in more.items()}

    return draw


def pair(sequence: int = 16) -> Callable[[], Inputs]:
    return tokens(sequence, decoder_input_ids=lambda: torch.randint(3, VOCABULARY, (2, 9)))


def image(size: int, name: str = "pixel_values") -> Callable[[], Inputs]:
    return lambda: ((), {name: torch.randn(2, 3, size, size)})


def sound(length: int) -> Callable[[], Inputs]:
    return lambda: ((), dict(input_values=torch.randn(2, length)))


def hugging(kind: str, name: str, config: str, model: str, draw: Callable[[], Inputs], **sizes: Any) -> Entry:
    """A model of transformers by the names of its classes."""

    def make():
        import transformers

        made = getattr(transformers, config)(**sizes)
        return getattr(transformers, model)(made), draw

    return Entry(name, "transformers", kind, make)


# The names that most configurations share.
ENCODER = dict(
    vocab_size=VOCABULARY,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=128,
)
DECODER = ENCODER | dict(num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2)
PAIR = dict(
    vocab_size=VOCABULARY,
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=64,
    decoder_ffn_dim=64,
    max_position_embeddings=64,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=2,
)
PATCHES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8)
WAVES = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    vocab_size=VOCABULARY,
    conv_dim=(32, 32, 32),
    conv_stride=(5, 2, 2),
    conv_kernel=(10, 3, 2),
    num_feat_extract_layers=3,
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=2,
)


def small(base: dict[str, Any], *without: str, **more: Any) -> dict[str, Any]:
    return {name: value for name, value in base.items() if name not in without} | more


def clip_inputs() -> Inputs:
    ids = torch.randint(3, VOCABULARY, (2, 12))
    return (), dict(input_ids=ids, pixel_values=torch.randn(2, 3, 32, 32), attention_mask=torch.ones_like(ids))


def clip_model():
    import transformers

    text = small(ENCODER, pad_token_id=0, bos_token_id=1, eos_token_id=VOCABULARY - 1)
    config = transformers.CLIPConfig(text_config=text, vision_config=PATCHES, projection_dim=32)
    return transformers.CLIPModel(config), clip_inputs


def detr_model():
    import transformers

    backbone = transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic", out_features=["stage2"]
    )
    sizes = small(
        PAIR,
        "vocab_size",
        "max_position_embeddings",
        "pad_token_id",
        "bos_token_id",
        "eos_token_id",
        "decoder_start_token_id",
    )
    config = transformers.DetrConfig(use_timm_backbone=False, backbone_config=backbone, backbone=None, num_queries=8, **sizes)
    return transformers.DetrForObjectDetection(config), image(64)


def whisper_inputs() -> Inputs:
    return (), dict(input_features=torch.randn(2, 16, 60), decoder_input_ids=torch.randint(3, VOCABULARY, (2, 9)))


HUGGING = [
    hugging("encoder", "bert", "BertConfig", "BertForMaskedLM", tokens(), **ENCODER),
    hugging(
        "encoder",
        "distilbert",
        "DistilBertConfig",
        "DistilBertForSequenceClassification",
        tokens(),
        vocab_size=VOCABULARY,
        dim=32,
        n_layers=2,
        n_heads=4,
        hidden_dim=64,
    ),
    hugging("encoder", "albert", "AlbertConfig", "AlbertForMaskedLM", tokens(), **ENCODER, embedding_size=16),
    hugging(
        "encoder",
        "deberta_v2",
        "DebertaV2Config",
        "DebertaV2ForMaskedLM",
        tokens(),
        **ENCODER,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_buckets=8,
    ),
    hugging("encoder", "mpnet", "MPNetConfig", "MPNetForMaskedLM", tokens(), **ENCODER),
    hugging("encoder", "longformer", "LongformerConfig", "LongformerForMaskedLM", tokens(24), **ENCODER, attention_window=8),
    hugging("encoder", "big_bird", "BigBirdConfig", "BigBirdForMaskedLM", tokens(64), **ENCODER, block_size=4, num_random_blocks=1),
    hugging(
        "encoder",
        "xlnet",
        "XLNetConfig",
        "XLNetLMHeadModel",
        tokens(),
        vocab_size=VOCABULARY,
        d_model=32,
        n_layer=2,
        n_head=4,
        d_inner=64,
    ),
    hugging("encoder", "modernbert", "ModernBertConfig", "ModernBertForMaskedLM", tokens(), **small(ENCODER, pad_token_id=0)),
    hugging("decoder", "gpt2", "GPT2Config", "GPT2LMHeadModel", tokens(), vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4),
    hugging(
        "decoder",
        "gpt_neo",
        "GPTNeoConfig",
        "GPTNeoForCausalLM",
        tokens(),
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        window_size=8,
    ),
    hugging(
        "decoder",
        "gptj",
        "GPTJConfig",
        "GPTJForCausalLM",
        tokens(),
        vocab_size=VOCABULARY,
        n_embd=32,
        n_layer=2,
        n_head=4,
        rotary_dim=4,
    ),
    hugging("decoder", "gpt_neox", "GPTNeoXConfig", "GPTNeoXForCausalLM", tokens(), **ENCODER),
    hugging(
        "decoder",
        "opt",
        "OPTConfig",
        "OPTForCausalLM",
        tokens(),
        **small(ENCODER, "intermediate_size"),
        ffn_dim=64,
        word_embed_proj_dim=32,
    ),
    hugging(
        "decoder",
        "bloom",
        "BloomConfig",
        "BloomForCausalLM",
        tokens(),
        vocab_size=VOCABULARY,
        hidden_size=32,
        n_layer=2,
        n_head=4,
    ),
    hugging("decoder", "llama", "LlamaConfig", "LlamaForCausalLM", tokens(), **DECODER),
    hugging("decoder", "mistral", "MistralConfig", "MistralForCausalLM", tokens(), **DECODER, sliding_window=8),
    hugging("decoder", "gemma2", "Gemma2Config", "Gemma2ForCausalLM", tokens(), **DECODER, head_dim=8, sliding_window=8),
    hugging("decoder", "phi3", "Phi3Config", "Phi3ForCausalLM", tokens(), **DECODER),
    hugging(
        "decoder",
        "falcon",
        "FalconConfig",
        "FalconForCausalLM",
        tokens(),
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
    ),
    hugging("decoder", "qwen3", "Qwen3Config", "Qwen3ForCausalLM", tokens(), **DECODER, head_dim=8),
    hugging("mixture of experts", "mixtral", "MixtralConfig", "MixtralForCausalLM", tokens(), **DECODER, num_local_experts=4),
    hugging(
        "mixture of experts",
        "qwen3_moe",
        "Qwen3MoeConfig",
        "Qwen3MoeForCausalLM",
        tokens(),
        **DECODER,
        head_dim=8,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
    ),
    hugging(
        "encoder-decoder",
        "t5",
        "T5Config",
        "T5ForConditionalGeneration",
        pair(),
        vocab_size=VOCABULARY,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
    ),
    hugging("encoder-decoder", "bart", "BartConfig", "BartForConditionalGeneration", pair(), **PAIR),
    hugging("encoder-decoder", "pegasus", "PegasusConfig", "PegasusForConditionalGeneration", pair(), **PAIR),
    hugging("encoder-decoder", "m2m_100", "M2M100Config", "M2M100ForConditionalGeneration", pair(), **PAIR),
    hugging(
        "audio",
        "whisper",
        "WhisperConfig",
        "WhisperForConditionalGeneration",
        whisper_inputs,
        **small(PAIR, "max_position_embeddings"),
        num_mel_bins=16,
        max_source_positions=30,
        max_target_positions=32,
    ),
    hugging("audio", "wav2vec2", "Wav2Vec2Config", "Wav2Vec2ForCTC", sound(1600), **WAVES),
    hugging("audio", "hubert", "HubertConfig", "HubertForCTC", sound(1600), **WAVES),
    hugging("vision", "vit", "ViTConfig", "ViTForImageClassification", image(32), **PATCHES),
    hugging(
        "vision",
        "swin",
        "SwinConfig",
        "SwinForImageClassification",
        image(32),
        image_size=32,
        patch_size=2,
        embed_dim=16,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
    ),
    hugging("vision", "beit", "BeitConfig", "BeitForImageClassification", image(32), **PATCHES, use_relative_position_bias=True),
    hugging(
        "vision",
        "convnext",
        "ConvNextConfig",
        "ConvNextForImageClassification",
        image(64),
        hidden_sizes=[16, 32],
        depths=[2, 2],
        num_stages=2,
    ),
    Entry("clip", "transformers", "vision", clip_model),
    hugging(
        "vision",
        "segformer",
        "SegformerConfig",
        "SegformerForSemanticSegmentation",
        image(64),
        depths=[1, 1, 1, 1],
        hidden_sizes=[16, 32, 32, 32],
        num_attention_heads=[1, 2, 2, 4],
        decoder_hidden_size=32,
    ),
    Entry("detr", "transformers", "vision", detr_model),
    hugging(
        "state space",
        "mamba",
        "MambaConfig",
        "MambaForCausalLM",
        tokens(),
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
    ),
    hugging(
        "state space",
        "mamba2",
        "Mamba2Config",
        "Mamba2ForCausalLM",
        tokens(),
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_heads=8,
        head_dim=8,
        n_groups=2,
        chunk_size=8,
    ),
    hugging(
        "state space",
        "rwkv",
        "RwkvConfig",
        "RwkvForCausalLM",
        tokens(),
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        attention_hidden_size=32,
        context_length=64,
    ),
]


def timm_entry(name: str, size: int) -> Entry:
    def make():
        import timm

        return timm.create_model(name, pretrained=False), lambda: ((torch.randn(1, 3, size, size),), {})

    return Entry(name, "timm", "vision", make)


TIMM = [
    timm_entry("resnet18", 64),
    timm_entry("resnext50_32x4d", 64),
    timm_entry("efficientnet_b0", 64),
    timm_entry("tf_efficientnetv2_b0", 64),
    timm_entry("convnext_atto", 64),
    timm_entry("vit_tiny_patch16_224", 224),
    timm_entry("swin_tiny_patch4_window7_224", 224),
    timm_entry("deit_tiny_patch16_224", 224),
    timm_entry("mixer_s32_224", 224),
    timm_entry("regnety_002", 64),
    timm_entry("mobilenetv3_small_050", 64),
    timm_entry("densenet121", 64),
    timm_entry("ghostnet_050", 64),
    timm_entry("levit_128s", 224),
    timm_entry("poolformer_s12", 64),
    timm_entry("mobilevit_xxs", 64),
    timm_entry("hrnet_w18_small", 64),
    timm_entry("dla34", 64),
    timm_entry("xcit_nano_12_p16_224", 224),
    timm_entry("pvt_v2_b0", 64),
]


def vision_entry(kind: str, name: str, draw: Callable[[], Inputs], **options: Any) -> Entry:
    def make():
        import torchvision

        return torchvision.models.get_model(name, weights=None, **options), draw

    return Entry(name, "torchvision", kind, make)


def one(*shape: int) -> Callable[[], Inputs]:
    return lambda: ((torch.randn(*shape),), {})


def photographs() -> Inputs:
    """Two images of different sizes, as detectors take them."""
    return ([torch.rand(3, 96, 128), torch.rand(3, 110, 90)],), {}


# Few classes, so that random weights find objects.
DETECTOR = dict(weights_backbone=None, num_classes=4, min_size=96, max_size=160)


def retinanet():
    import torchvision

    model = torchvision.models.detection.retinanet_resnet50_fpn(weights=None, **DETECTOR, score_thresh=0.3)
    # As they are made, all scores are nearly equal, and rounding would decide the order of the boxes.
    nn.init.normal_(model.head.classification_head.cls_logits.weight, std=0.5)
    return model, photographs


TORCHVISION = [
    vision_entry("classifier", "squeezenet1_1", one(1, 3, 64, 64)),
    vision_entry("classifier", "googlenet", one(1, 3, 64, 64), init_weights=False, aux_logits=False),
    vision_entry("classifier", "inception_v3", one(1, 3, 96, 96), init_weights=False),
    vision_entry("classifier", "shufflenet_v2_x0_5", one(1, 3, 64, 64)),
    vision_entry("classifier", "mnasnet0_5", one(1, 3, 64, 64)),
    vision_entry("classifier", "maxvit_t", one(1, 3, 224, 224)),
    vision_entry("classifier", "swin_v2_t", one(1, 3, 64, 64)),
    vision_entry("classifier", "vit_b_32", one(1, 3, 224, 224)),
    vision_entry("segmentation", "lraspp_mobilenet_v3_large", one(1, 3, 64, 64), weights_backbone=None),
    vision_entry("segmentation", "deeplabv3_mobilenet_v3_large", one(1, 3, 64, 64), weights_backbone=None),
    vision_entry("video", "r3d_18", one(1, 3, 4, 32, 32)),
    vision_entry(
        "optical flow",
        "raft_small",
        lambda: ((torch.rand(1, 3, 128, 128), torch.rand(1, 3, 128, 128)), dict(num_flow_updates=3)),
    ),
    vision_entry("detection", "fasterrcnn_mobilenet_v3_large_320_fpn", photographs, **DETECTOR),
    Entry("retinanet_resnet50_fpn", "torchvision", "detection", retinanet),
    vision_entry("detection", "maskrcnn_resnet50_fpn", photographs, **DETECTOR),
]

ENTRIES = {f"{entry.library}/{entry.name}": entry for entry in HUGGING + TIMM + TORCHVISION}
