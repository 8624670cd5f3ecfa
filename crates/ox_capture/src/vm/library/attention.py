"""Attention whose scores and mask are functions of the program's, of one element each. Eager has them run by `torch.vmap`; here they are run
with all elements at once, as tensors that are broadcast, where that is the same."""

import math

import torch
from torch._higher_order_ops.flex_attention import flex_attention as flex_attention_of_torch
from torch.nn.attention import flex_attention as flex

WIDE = {torch.float64: torch.float64, torch.float32: torch.float32, torch.bfloat16: torch.float32, torch.float16: torch.float32}


def flex_attention(query, key, value, score_mod, block_mask, scale, kernel_options, *buffers):
    arguments = (query, key, value, score_mod, block_mask, scale, kernel_options, *buffers)
    device = query.device.type
    if any(buffers) or any(x.dtype not in WIDE for x in (query, key, value)):
        return by_torch(flex_attention_of_torch, *arguments)
    if not torch.is_autocast_enabled(device):
        answer = attended(query, key, value, score_mod, block_mask[-1], scale)
    else:
        converted = [in_autocast(x, torch.get_autocast_dtype(device)) for x in (query, key, value)]
        with torch.autocast(device, enabled=False):
            answer = attended(*converted, score_mod, block_mask[-1], scale)
    return by_torch(flex_attention_of_torch, *arguments) if answer is None else answer


def in_autocast(x, dtype):
    return x if x.dtype == torch.float64 else x.to(dtype)


# None if torch must do it: where batches or heads do not fit, or a function does more to its elements than what is known to be the same.


def attended(query, key, value, score_mod, mask_mod, scale):
    batch, heads = query.shape[:2]
    if key.shape[0] not in (1, batch) or heads % key.shape[1] != 0:
        return None
    wide = WIDE[query.dtype]
    is_grouped = heads != key.shape[1]
    key, value = (x.to(query.dtype).expand(batch, -1, -1, -1) for x in (key, value))
    keys = key.repeat_interleave(heads // key.shape[1], 1) if is_grouped else key
    scores = query.to(wide) @ keys.to(wide).transpose(-2, -1) * scale
    indices = indices_along(scores.shape, query.device)
    lanes = (scores, *indices)
    mask = None if mask_mod is flex.noop_mask else of_elements(mask_mod, indices, torch.bool, lanes)
    changed = scores if score_mod is flex._identity else of_elements(score_mod, lanes, wide, lanes)
    if mask is UNKNOWN or changed is UNKNOWN:
        return None
    is_changed = changed is not scores
    changed = changed.expand(scores.shape) if is_changed else scores
    seen = changed if mask is None else torch.where(mask, changed, -math.inf)
    most = seen.amax(-1)
    total = torch.where(most == -math.inf, -math.inf, seen.logsumexp(-1))
    if not is_changed:
        mask = mask if mask is None else mask.expand(scores.shape)
        out = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, scale=scale, enable_gqa=is_grouped)
    else:
        values = value.repeat_interleave(heads // value.shape[1], 1) if is_grouped else value
        out = torch._safe_softmax(seen, -1).to(query.dtype) @ values
    return in_order_of(out, query), total / math.log(2), most / math.log(2)


# What the function makes of all elements, if it makes each of its own, in this type. What it raises it may raise of elements, too, or not.


def of_elements(function, arguments, dtype, lanes):
    try:
        made = function(*arguments)
    except Exception:
        made = None
    return made if by_element(made, lanes) and made.dtype == dtype else UNKNOWN


UNKNOWN = object()


def indices_along(shape, device):
    places = [[-1 if n == dim else 1 for n in range(len(shape))] for dim in range(len(shape))]
    return [torch.arange(size, device=device).view(place) for size, place in zip(shape, places)]


# As torch lays out its result: like the query, but with the last dimension inside.


def in_order_of(out, like):
    steps = like.stride()
    order = [*sorted(range(3), key=lambda dim: -steps[dim]), 3]
    return out.permute(order).contiguous().permute([order.index(dim) for dim in range(4)])


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device=None):
    shape = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    if flex._get_mod_type(mod_fn) == flex._ModificationType.MASK_MOD and device is not None:
        indices = indices_along(shape, device)
        mask = of_elements(mod_fn, indices, torch.bool, indices)
        if mask is not UNKNOWN:
            return mask.expand(shape)
    return by_torch(flex.create_mask, mod_fn, B, H, Q_LEN, KV_LEN, device)


# As torch has it run for each batch by itself: which columns of each row its list of them names.


def ordered_to_dense(counts, columns):
    size = columns.shape[-1]
    if size == 1:
        return counts.unsqueeze(-1).clamp(max=1)
    is_named = torch.arange(size, dtype=torch.int32, device=counts.device) < counts.unsqueeze(-1)
    # Those that are not named have a column of their own.
    places = torch.where(is_named, columns, size).to(torch.int64)
    dense = torch.zeros((*columns.shape[:-1], size + 1), dtype=torch.int32, device=counts.device)
    return dense.scatter(-1, places, 1)[..., :size].contiguous()


# The machine answers the call inside. What runs without a trace is torch's to do.


def by_element(made, lanes):
    return not_known(made, lanes)


def not_known(made, lanes):
    return False


STANDS_FOR[flex_attention_of_torch] = flex_attention
STANDS_FOR[flex.create_mask] = create_mask
STANDS_FOR[flex._ordered_to_dense] = ordered_to_dense
