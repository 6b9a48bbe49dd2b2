"""Stand-in, slow, on a CPU."""

import torch
from . import reference as ref

C = {
    "cumsum": ref.plus,
    "cumprod": ref.multiply,
    "logcumsumexp": ref.log_add,
    "linear_recurrence": ref.then,
    "cummax": ref.last_larger,
    "cummin": ref.last_smaller,
}
I = {"cumsum": -0.0, "cumprod": 1, "logcumsumexp": -torch.inf}
Z = {"cumsum": 0, "cumprod": 1, "logcumsumexp": -torch.inf}


def folds_from(comb, x, start):
    n = x[0].shape[1]
    y = ref.folds(comb, x)
    if start is None:
        return y
    out = []
    for i in range(1, n + 1):
        v = start
        at = 0
        for k in reversed(range(i.bit_length())):
            if i >> k & 1:
                b = ref.block(comb, tuple(p[:, at : at + 2**k] for p in x))
                at += 2**k
                v = comb(v, b)
        out.append(v)
    return tuple(torch.cat([o[j] for o in out], 1) if out else x[j] for j in range(len(x)))


def _run(name, x, dim, before, first, exclusive, result):
    lines = [torch.atleast_1d(p).movedim(dim, -1) for p in x]
    *outer, n = lines[0].shape
    rows = tuple(l.reshape(-1, n) if n else l.reshape(torch.Size(outer).numel(), 0) for l in lines)
    b = None if before is None else tuple(p.reshape(-1, 1) for p in before)
    y = folds_from(C[name], rows, b) if n else rows
    total = (
        tuple(p.reshape(outer) for p in ref.block(C[name], rows))
        if n and n & (n - 1) == 0
        else tuple(p.new_empty(0) for p in rows)
    )
    if exclusive and n:
        f = b if b is not None else tuple(p.new_full((p.shape[0], 1), i) for p, i in zip(rows, first))
        y = tuple(torch.cat([q, p[:, :-1]], 1) for q, p in zip(f, y))
    return tuple(p.reshape(*outer, n).movedim(-1, dim).reshape(x[0].shape) for p in y), total


def scan_from(name, input, dim, before=None, mask=None, dtype=None, exclusive=False, return_total=True):
    if dtype is not None:
        input = input.to(dtype)
    res = input.dtype if input.dtype.is_floating_point or dtype is not None else torch.int64
    x = input.to(ref.accumulator(res))
    if mask is not None:
        x = torch.where(mask, x, torch.tensor(I[name]).to(x.dtype))
    (y,), (t,) = _run(name, (x,), dim, None if before is None else (before,), (Z[name],), exclusive, res)
    return y.to(res), t


def extreme_from(name, input, dim, before=None, before_index=None, first=0, mask=None, exclusive=False):
    lo = ref._bounds(input.dtype)[0 if name == "cummax" else 1]
    n = input.shape[dim] if input.ndim else 1
    i = (
        (torch.arange(n) + first)
        .reshape([-1] + [1] * ((input.ndim - 1 - dim % input.ndim) if input.ndim else 0))
        .expand_as(torch.atleast_1d(input))
        .reshape(input.shape)
    )
    x = input
    if mask is not None:
        x = torch.where(mask, x, torch.tensor(lo).to(x.dtype))
        i = torch.where(mask, i, -1)
    wide = ref.accumulator(x.dtype)
    y, _ = _run(
        name,
        (x.to(wide), i),
        dim,
        None if before is None else (before.to(wide), before_index),
        (lo, -1),
        exclusive,
        None,
    )
    return y[0].to(input.dtype), y[1]


def recurrence_from(gates, tokens, before_gates=None, before_tokens=None, initial=None, dim=0, return_total=True):
    acc = ref.accumulator(tokens.dtype)
    b = None if before_gates is None else (before_gates, before_tokens)
    (g, t), tot = _run("linear_recurrence", (gates.to(acc), tokens.to(acc)), dim, b, None, False, None)
    if initial is not None:
        t = (
            g
            * initial.to(acc)
            .unsqueeze(dim if t.ndim else 0)
            .reshape(initial.shape if t.ndim == 0 else initial.unsqueeze(dim).shape)
            + t
        )
    return (t.to(tokens.dtype), *tot)
