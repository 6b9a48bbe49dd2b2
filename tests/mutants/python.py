"""Mutants of torch_reductions: gradients, fake kernels, vmap, autocast, types and checks."""

from __future__ import annotations

from .mutant import Mutant


def python(name: str, kind: str, file: str, old: str, new: str, inside: str = "", equivalent: str = "") -> Mutant:
    return Mutant(name, kind, f"torch_reductions/{file}.py", old, new, inside, equivalent)


MUTANTS = (
    # --- What all operators share
    python(
        "a batch dim that goes where the first dim was", "vmap", "library", "arg.movedim(dim, 0)", "arg.movedim(0, dim)"
    ),
    python(
        "vmap over offsets that all examples share",
        "check",
        "library",
        "if i < len($dims) and $dims[i] is not None:",
        "if i < 0 and $dims[i] is not None:",
        "_vmap",
    ),
    python(
        "autocast over a dtype that is named",
        "autocast",
        "library",
        'if options.get("dtype") is None and $input.dtype in',
        "if $input.dtype in",
        "_autocast",
    ),
    python("autocast of float64", "autocast", "library", "and arg.dtype != torch.float64", "", "_lowered"),
    python(
        "a gradient that only another argument asks for",
        "gradient",
        "library",
        "if isinstance(arg, Tensor) and arg.requires_grad: return True",
        "if isinstance(arg, Tensor) and arg.requires_grad: return False",
        "_requires_grad",
    ),
    python(
        "a tangent of another argument that is dropped",
        "gradient",
        "library",
        "for t in ((input, *args) if self.several else (input,))",
        "for t in (input,)",
        "_autograd",
    ),
    python(
        "a type that a variant does not compute",
        "check",
        "library",
        "if dtype_name($dtype) not in $rung.dtypes:",
        "if False:",
        "check_variant",
    ),
    python(
        "a variant's number under torch.compile",
        "check",
        "library",
        "if $rung is None or $device in DEVICES and $device not in $rung.devices:",
        "if $rung is None:",
        "check_variant",
    ),
    python(
        "a dim one behind the last", "bound", "arguments", "<= $dim <= $last:", "<= $dim <= $last + 1:", "check_dim"
    ),
    python("True as a dim", "check", "arguments", "and not isinstance($dim, bool)", "", "to_dim"),
    python(
        "a mask that is broadcast along a dim",
        "check",
        "arguments",
        "any($m != $n and $m != 1 for",
        "any($m != $n for",
        "check_mask",
    ),
    python("offsets of 32 bits", "dtype", "arguments", "not in (torch.int32, torch.int64)", "not in (torch.int64,)"),
    python(
        "a fraction as a factor of small integers",
        "check",
        "arguments",
        "if not $dtype.is_floating_point and isinstance",
        "if $dtype == torch.int64 and isinstance",
        "check_factor",
    ),
    # --- out=
    python("a write that autograd does not hear of", "gradient", "out", "increment_version($outs)", "pass", "_run"),
    python(
        "an out that requires a gradient",
        "gradient",
        "out",
        "any($t.requires_grad for $t in $tensors)",
        "$tensors[0].requires_grad",
    ),
    python("no word of an out of one element that is resized", "check", "out", "$out.numel() > 0", "$out.numel() > 1"),
    # --- reduce
    python(
        "the dims of an example, counted in the batch",
        "vmap",
        "reduce",
        "[$d + 1 for $d in _wrap($dim, $ndim)]",
        "[$d for $d in _wrap($dim, $ndim)]",
    ),
    python(
        "keepdim of an index of all elements of an example",
        "vmap",
        "reduce",
        "return $flat.reshape($1) if $keepdim else $flat",
        "return $flat",
    ),
    python(
        "a mean's gradient divided by all elements",
        "gradient",
        "reduce",
        "math.prod(ctx.shape[d] for d in _reduced(ctx))",
        "math.prod(ctx.shape)",
    ),
    python(
        "products behind an element, the wrong way round",
        "gradient",
        "reduce",
        "_exclusive_cumprod($rows.flip(-1)).flip(-1)",
        "_exclusive_cumprod($rows.flip(-1))",
    ),
    python("one zero in a product of all", "gradient", "reduce", "elif $zeros > 1 and", "elif $zeros > 0 and"),
    python(
        "equal extremes that each take all of the gradient",
        "gradient",
        "reduce",
        "_expand(ctx, $grad) * $equal / $equal.sum(_reduced(ctx), keepdim=True)",
        "_expand(ctx, $grad) * $equal",
    ),
    python(
        "a product's gradient of float64 in float32",
        "dtype",
        "reduce",
        "$precise = torch.float64 if $1 else torch.float32",
        "$precise = torch.float32",
    ),
    python(
        "a fake extreme of integers that is int64",
        "fake",
        "reduce",
        "torch.int64 if function in FOLDS and",
        "torch.int64 if",
    ),
    python(
        "autocast of prod on a CPU",
        "autocast",
        "reduce",
        '_prod_backward, autocast=["cuda", "cpu"]',
        '_prod_backward, autocast=["cuda"]',
    ),
    python(
        "a gradient's dim of 1 that was broadcast",
        "gradient",
        "reduce",
        "$d < $ahead or ($1)]",
        "$d < $ahead]",
        "sum_to_shape",
    ),
    # --- scan
    python(
        "a sum's gradient from the same end",
        "gradient",
        "scan",
        "reverse=not ctx.reverse",
        "reverse=ctx.reverse",
        "_cumsum_backward",
    ),
    python(
        "the initial element at the other end",
        "gradient",
        "scan",
        "slice(None, -1) if ctx.reverse else slice(1, None)",
        "slice(1, None) if ctx.reverse else slice(None, -1)",
    ),
    python(
        "hidden factors of a gradient", "gradient", "scan", "_hidden($mask, $input, 1)", "$input", "_cumprod_backward"
    ),
    python(
        "the share of an element in an infinite sum",
        "gradient",
        "scan",
        "_share($y, $later, $later.isinf())",
        "_share($y, $later, $later == -torch.inf)",
    ),
    python(
        "what stands behind the last one of a segment",
        "gradient",
        "scan",
        "last=not ctx.reverse), 0)",
        "last=ctx.reverse), 0)",
    ),
    python(
        "an extreme's gradient that stands one place on",
        "gradient",
        "scan",
        "elif ctx.exclusive:",
        "elif False:",
        "_extreme_backward",
    ),
    python(
        "a mask of an example without dims",
        "vmap",
        "scan",
        "$mask.ndim < max($input.ndim, 2)",
        "$mask.ndim < $input.ndim",
    ),
    python("a negative dim of an example", "vmap", "scan", "run($input, $dim % $ndim + 1,", "run($input, $dim + 1,"),
    python(
        "fake indices of 32 bits",
        "fake",
        "scan",
        "torch.empty_like($values, dtype=torch.int64)",
        "torch.empty_like($values, dtype=torch.int32)",
    ),
    python("exclusive with the initial element", "check", "scan", "if $exclusive and $include_initial:", "if False:"),
    # --- recurrence
    python(
        "gates of the element before, not behind",
        "gradient",
        "recurrence",
        "$gates.roll(1 if ctx.reverse else -1, $dim)",
        "$gates.roll(-1 if ctx.reverse else 1, $dim)",
        "_backward",
    ),
    python(
        "the first gate in the initial state's gradient",
        "gradient",
        "recurrence",
        "$gates.select($dim, $first) * $of_tokens.select($dim, $first)",
        "$of_tokens.select($dim, $first)",
    ),
    python(
        "the last state of a reverse run",
        "tail",
        "recurrence",
        "$states.select($dim, 0 if reverse else -1)",
        "$states.select($dim, -1)",
    ),
    python(
        "the initial state of the segment before",
        "gradient",
        "recurrence",
        "torch.searchsorted($1, right=True)",
        "torch.searchsorted($1, right=False)",
    ),
    python(
        "the last state of an empty segment",
        "identity",
        "recurrence",
        "torch.where($is_empty, $initial, $taken)",
        "$taken",
        "_last",
    ),
    python("a number that widens all others", "dtype", "recurrence", "if t.ndim > 0] or", "] or"),
    # --- segment
    python(
        "the segment that an element on a border is in",
        "gradient",
        "segment",
        "torch.searchsorted($1, right=True)",
        "torch.searchsorted($1, right=False)",
    ),
    python(
        "a segment's mean that is not divided in the gradient",
        "gradient",
        "segment",
        "$grad / _counts(ctx, $offsets)",
        "$grad",
    ),
    python("the elements behind one in a product", "gradient", "segment", "($before * $behind)", "$before"),
    python("a fake segment more", "fake", "segment", "$offsets.shape[0] - 1", "$offsets.shape[0]", "_result"),
    python(
        "an extreme's gradient at every element",
        "gradient",
        "segment",
        "torch.where($empty, 1, $ties), $offsets) * $equal",
        "torch.where($empty, 1, $ties), $offsets)",
    ),
    # --- matmul
    python(
        "alpha in the gradients of factors",
        "gradient",
        "matmul",
        "$of if $of is None or ctx.alpha == 1 else $of * ctx.alpha for",
        "$of for",
    ),
    python(
        "beta in the gradient of what is added",
        "gradient",
        "matmul",
        "$grad if ctx.beta == 1 else $grad * ctx.beta",
        "$grad",
    ),
    python(
        "a gradient too large for float16",
        "dtype",
        "matmul",
        "ctx.dtype == torch.float16 and $grad.dtype == torch.float32",
        "False",
    ),
    python("the bias of an example", "vmap", "matmul", "(1,) * ($ndim + 1 - $t.ndim)", "(1,) * ($ndim - $t.ndim)"),
    python("autocast of products on a CPU", "autocast", "matmul", 'lower=("cpu", "cuda")', 'lower=("cuda",)'),
    python(
        "a fake product of int16 in 32 bits",
        "fake",
        "matmul",
        "(torch.int8, torch.uint8, torch.int16)",
        "(torch.int8, torch.uint8)",
    ),
    python(
        "a fraction as a factor of integer products",
        "check",
        "matmul",
        "check_factor($name, $argument, $factor, $1)",
        "pass",
    ),
    # --- add
    python(
        "a number beside flags",
        "dtype",
        "add",
        "$tensor != torch.bool and not $scalar.is_floating_point",
        "not $scalar.is_floating_point",
    ),
    python("alpha in a gradient", "gradient", "add", "$grad * ctx.alpha if $1 else $grad", "$grad"),
    python(
        "a fake sum of two transposed matrices",
        "layout",
        "add",
        "-1 if _surely($m < $n) else 1",
        "1 if _surely($m < $n) else -1",
    ),
    python("an example of fewer dims than the other", "vmap", "add", "if $t.ndim < $ndim else $t", "if False else $t"),
    python("a factor that is no double", "dtype", "add", "abs($alpha) > EXACT", "False"),
    python("a negative factor of unsigned numbers", "check", "add", "$info.min or -$info.max", "$info.min"),
    # --- distance
    python("half of a point's gradient", "gradient", "distance", "((2 * $g).unsqueeze(-1)", "($g.unsqueeze(-1)"),
    python("a gradient far from 0", "gradient", "distance", "if $c.shape[0] > 0:", "if False:", "_sum_backward"),
    python(
        "rows and columns of a grid's gradient",
        "gradient",
        "distance",
        "(sum_of($g, 0), sum_of($g, 1))",
        "(sum_of($g, 1), sum_of($g, 0))",
    ),
    python(
        "centers that differ from example to example", "vmap", "distance", "if $centers.stride(0) == 0:", "if True:"
    ),
    python("autocast of distances", "autocast", "distance", "return $tensor.float()", "return $tensor"),
    python(
        "a fake distance of each coordinate",
        "fake",
        "distance",
        "new_empty($points.shape[:-1])",
        "new_empty($points.shape)",
    ),
)
