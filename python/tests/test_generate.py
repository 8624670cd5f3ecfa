"""`generate` of language models: compiled as a whole, and around a model that is compiled."""

import warnings

import oxytorch
import pytest
import torch


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, num_key_value_heads=2)
    return LlamaForCausalLM(LlamaConfig(**sizes, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = dict(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=64)
    return GPT2LMHeadModel(GPT2Config(**sizes, pad_token_id=0, bos_token_id=1, eos_token_id=2))


def made(make):
    torch.manual_seed(0)
    return make().eval()


def prompt(length=5):
    mask = torch.ones(2, length, dtype=torch.long)
    mask[0, :2] = 0
    return dict(inputs=torch.randint(3, 60, (2, length)), attention_mask=mask)


def same(compiled, plain, seed, given, **settings):
    torch.manual_seed(seed)
    want = plain(**given, **settings)
    torch.manual_seed(seed)
    assert torch.equal(compiled(**given, **settings), want)


GREEDY = dict(do_sample=False)
SAMPLED = dict(do_sample=True, top_k=5, temperature=0.7)


@pytest.mark.parametrize("settings", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("make", [llama, gpt2])
def test_compiled_as_a_whole(make, settings):
    model, plain = made(make), made(make)
    compiled = oxytorch.compile(model.generate)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="oxytorch.*runs as it is")
        for seed in range(6):
            same(compiled, plain.generate, seed, prompt(), max_new_tokens=3, **settings)
        traced = compiled.stats()["traced"]
        same(compiled, plain.generate, 6, prompt(), max_new_tokens=3, **settings)
    # The calls of the model are in graphs, which later calls find.
    assert compiled.stats()["ops"] > 3 * 50
    assert compiled.stats()["traced"] == traced


@pytest.mark.parametrize("cache", [None, "static"])
@pytest.mark.parametrize("make", [llama, gpt2])
def test_around_a_compiled_model(make, cache):
    model, plain = made(make), made(make)
    compiled = model.forward = oxytorch.compile(model.forward)
    for seed, tokens in enumerate((4, 4, 7, 7)):
        same(model.generate, plain.generate, seed, prompt(), max_new_tokens=tokens, do_sample=False, cache_implementation=cache)
    # One for the prompt, one for a token, one for caches of any size; a static cache has another size for other lengths.
    assert compiled.stats()["traced"] <= (3 if cache is None else 4), compiled.report()["recompiles"]
    assert compiled.stats()["breaks"] == []
