"""The workloads train with AdamW as in eager: losses and parameters are as near to a float64 run as eager's own, times two."""

import copy
import functools

import compare
import oxytorch
import pytest
import torch
import training
import zoo
from oxytorch import _oxytorch
from torch.utils.checkpoint import checkpoint

# Of one image, batch norm's last statistics are those of four numbers, and a third of a gradient's norm is rounding in either run.
SIZES = zoo.TEST_SIZES | {"resnet50": dict(batch=4, size=64)}
STEPS = 20
LEARNING_RATE = 1e-3
# Steps after which rounding decides about a loss: eager's own is then as far from float64's as the losses are from each other.
SURE = {"resnet50": 3}


def losses_of(workload, called, autocast=None):
    optimizer = torch.optim.AdamW(workload.model.parameters(), lr=LEARNING_RATE)
    losses = []
    for step in range(STEPS):
        torch.manual_seed(step)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=autocast, enabled=autocast is not None):
            out = zoo.main_output(called(*workload.args, **workload.kwargs))
            loss = out.square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().double())
    return torch.stack(losses)


def build(name):
    """Nothing is random in it, so that every copy is the same."""
    workload = zoo.build(name, sizes=SIZES)
    workload.model.train()
    zoo.set_dropout(workload.model, 0.0)
    return workload


def parameters(workload):
    return torch.cat([p.detach().double().flatten() for p in workload.model.parameters()])


@functools.cache
def reference(name, dtype, autocast, onednn=True):
    """Losses and parameters of eager, and how far those went. A checkpoint changes nothing in them."""
    workload = build(name).to(dtype)
    start = parameters(workload)
    with torch.backends.mkldnn.flags(enabled=onednn):
        losses = losses_of(workload, workload.model, autocast)
    return losses, parameters(workload), (parameters(workload) - start).abs()


def assert_follows(ours, eager, exact, what):
    """The rule of `compare`, by the length of the error: single elements are chance. So is a length that goes through 20 steps: eager's is the
    greater one of those with and without oneDNN."""
    own = (ours - exact).norm()
    problem = compare.closeness(ours.float(), eager(True).float())
    their = lambda onednn: (eager(onednn) - exact).norm()
    assert problem is None or own <= 2 * their(True) or own <= 2 * their(False), (
        f"{what}: error {own:.2e}, eager's {their(True):.2e} and {their(False):.2e}; {problem}"
    )


@pytest.mark.parametrize("checkpointed", [False, True], ids=["plain", "checkpointed"])
@pytest.mark.parametrize("autocast", [None, torch.bfloat16], ids=["f32", "autocast"])
@pytest.mark.parametrize("name", zoo.NAMES)
def test_training_follows_eager(name, autocast, checkpointed):
    ours = build(name)
    if checkpointed:
        checkpoint_parts(ours.model)
    called = training.DOORS["capture"](ours.model)
    losses = losses_of(ours, called, autocast)
    eager = functools.partial(reference, name, torch.float32, autocast)
    exact_losses, exact_parameters, distance = reference(name, torch.float64, None)
    sure = slice(SURE.get(name, STEPS))
    assert_follows(losses[sure], lambda onednn: eager(onednn)[0][sure], exact_losses[sure], "losses")
    # What does not move at all has a gradient that is rounding alone (the bias of keys), and AdamW makes whole steps of it.
    moved = distance > LEARNING_RATE / 100
    assert_follows(parameters(ours)[moved], lambda onednn: eager(onednn)[1][moved], exact_parameters[moved], "parameters")


@pytest.mark.parametrize("name", zoo.NAMES)
def test_train_mode_is_one_graph(name):
    workload = zoo.build(name, sizes=zoo.TEST_SIZES)
    workload.model.train()
    zoo.set_dropout(workload.model, 0.1)
    out = zoo.main_output(training.DOORS["capture"](workload.model)(*workload.args, **workload.kwargs))
    assert type(out.grad_fn).__name__ == "CompiledFunctionBackward"
    behind = {type(function).__name__ for function, _ in out.grad_fn.next_functions if function is not None}
    assert behind == {"AccumulateGrad"}
    out.float().square().mean().backward()
    assert all(torch.isfinite(p.grad).all() for p in workload.model.parameters() if p.grad is not None)


def checkpoint_parts(model):
    """As HuggingFace's models do it themselves; of the others, one level of modules."""
    if hasattr(model, "gradient_checkpointing_enable"):
        return model.gradient_checkpointing_enable({"use_reentrant": False})
    for part in PARTS[type(model).__name__](model):
        part.forward = functools.partial(checkpoint, part.forward, use_reentrant=False)


PARTS = {
    "ResNet": lambda model: [block for block in model.modules() if type(block).__name__ == "Bottleneck"],
    "UNet": lambda model: [block for block in model.modules() if isinstance(block, zoo.ResBlock)],
    "GraphSAGE": lambda model: model.convs,
}


def with_loss(name):
    """A model of transformers that computes its own loss, and what it is called with."""
    import transformers as hf

    sizes = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2)
    few_heads = dict(num_key_value_heads=1, head_dim=16)
    models = {
        "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**sizes, **few_heads)),
        "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=2)),
        "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(**sizes)),
        "mixtral": lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**sizes, num_key_value_heads=1, num_local_experts=4)),
        "t5": lambda: hf.T5ForConditionalGeneration(
            hf.T5Config(vocab_size=64, d_model=32, d_ff=48, d_kv=16, num_layers=2, num_heads=2, decoder_start_token_id=0)
        ),
    }
    torch.manual_seed(0)
    ids = torch.randint(3, 64, (2, 9))
    return models[name]().eval(), dict(input_ids=ids, labels=ids.clone())


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "mixtral", "t5"])
def test_a_model_that_computes_its_own_loss_is_one_graph(name):
    def results(model, called):
        out = called(**kwargs)
        from_logits = torch.autograd.grad(out.loss, out.logits, retain_graph=True)
        gradients = torch.autograd.grad(out.loss, [p for p in model.parameters() if p.requires_grad], allow_unused=True)
        return [out.loss, out.logits, *from_logits, *(g for g in gradients if g is not None)]

    model, kwargs = with_loss(name)
    exact = copy.deepcopy(model).double()
    want, compiled = results(model, model), oxytorch.compile(model, fullgraph=True)
    for _ in range(3):
        compare.assert_same(results(model, compiled), want, lambda: results(exact, exact))


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "t5"])
def test_a_model_that_computes_its_own_loss_takes_texts_of_any_length(name):
    """Its loss is computed of its logits, which are seen, too: two pieces that autograd joins."""
    model, _ = with_loss(name)
    exact, captured = copy.deepcopy(model).double(), _oxytorch.capture(model)

    def results(model, called, ids):
        out = called(input_ids=ids, labels=ids)
        parameters = [p for p in model.parameters() if p.requires_grad]
        return [out.loss, out.logits, *torch.autograd.grad(out.loss, [out.logits, *parameters], allow_unused=True)]

    for count, length in ((2, 9), (3, 7), (2, 12), (4, 31), (2, 9), (5, 2)):
        ids = torch.randint(3, 64, (count, length))
        compare.assert_same(results(model, captured, ids), results(model, model, ids), lambda: results(exact, exact, ids))
    assert captured.stats()["traced"] == 2
