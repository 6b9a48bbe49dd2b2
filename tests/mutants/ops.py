"""Mutants of csrc/ops: layouts, types, checks and what goes where of the tensors that are handed in."""

from __future__ import annotations

from typing import Any

from .mutant import Mutant


def op(name: str, kind: str, file: str, old: str, new: str, inside: str = "", **more: Any) -> Mutant:
    return Mutant(name, kind, f"csrc/ops/{file}", old, new, inside, **more)


OUT = ("scan", "out")  # whose tests see where results are written

MUTANTS = (
    # --- What several share
    op("a dim before the first", "bound", "check.h", "$dim >= -$count &&", "$dim >= -$count - 1 &&", "wrap_dim"),
    op("a dim that is named twice", "check", "check.h", "!$set[$wrapped]", "true", "dim_set"),
    op("a flag that is not 0 or 1", "dtype", "fold_types.h", "&& $output != Dtype::boolean;", ";", "fold_types"),
    op(
        "rows that do not follow one another",
        "stride",
        "tensor.h",
        "($outer == 1 || $stride == $length)",
        "true",
        "is_contiguous_rows",
    ),
    op(
        "the end of a result",
        "bound",
        "tensor.h",
        "advise_huge_pages($tensor.mutable_data_ptr(), size_t($bytes));",
        "advise_huge_pages($tensor.mutable_data_ptr(), size_t($bytes) / 16);",
        "empty_strided",
        families=("huge pages",),
    ),
    op(
        "a small result",
        "bound",
        "huge_pages.h",
        "if ($bytes < kHugePagesFrom) return 0;",
        "",
        "advise_huge_pages",
    ),
    op(
        "a copy of ours for huge pages",
        "check",
        "tensor.h",
        "uint64_t($tensor.numel()) * $size >= kHugePagesFrom",
        "uint64_t($tensor.numel()) * $size >= 4 * kHugePagesFrom",
        "takes_huge_pages",
        families=("huge pages",),
    ),
    op(
        "reduced dims of two strides",
        "stride",
        "tensor.h",
        "$kept.count > 2 || $folded.count > 1",
        "$kept.count > 2",
        "view_of",
    ),
    op("reduced dims before the kept ones", "order", "tensor.h", "{false, true}", "{true, false}", "contiguous_rows"),
    op(
        "dims of no elements that do not merge",
        "bound",
        "tensor.h",
        "$elements ? $strides[$i] : 0",
        "$strides[$i]",
        families=("scan", "segment", "recurrence"),
    ),
    op(
        "a mask that is broadcast along its last dim",
        "stride",
        "mask.h",
        "$expands ? 0 : $strides[$i - $missing]",
        "$i < $missing ? 0 : 1",
        "check_mask",
    ),
    op(
        "an out that begins in the midst of the input",
        "bound",
        "out.h",
        "std::max($a, $b) < std::min($c, $d)",
        "$a == $b",
        "overlap",
    ),
    op("an out with strides", "stride", "out.h", "&& $out.is_contiguous()", "", "looks_new"),
    op(
        "an out whose elements are one",
        "check",
        "out.h",
        "$sizes[$i] < 2 || $strides[$i] != 0",
        "true",
        "check_out",
    ),
    op("offsets that do not begin with 0", "check", "segments.h", "$at(0) == 0", "true", "check_cu_seqlens"),
    op(
        "offsets that end too early",
        "check",
        "segments.h",
        "$at($segments.count) == $length",
        "true",
        "check_cu_seqlens",
    ),
    # --- reduce
    op(
        "a product of no elements",
        "identity",
        "reduce.cpp",
        "== Function::prod ? 1 : 0",
        "== Function::prod ? 0 : 0",
        "empty_value",
    ),
    op(
        "a textbook's sum in another type of integers",
        "dtype",
        "reduce.cpp",
        "return cast($output, $types.output);",
        "return $output;",
    ),
    op(
        "strided rows of the textbook",
        "stride",
        "reduce.cpp",
        "($textbook && !$view->is_contiguous_rows())",
        "false",
        "reduce",
    ),
    op("an extreme of no elements", "check", "reduce.cpp", "!$reduced[$i] || $sizes[$i] > 0", "true", "check_nonempty"),
    op("an index of flags", "check", "reduce.cpp", "$dtype != Dtype::boolean", "true", "arg_extreme"),
    # --- scan
    op(
        "a textbook's dim that is moved back",
        "layout",
        "tensor.h",
        "std::rotate($values + $to, $values + $from, $values + $from + 1)",
        "std::rotate($values + $to, $values + $to + 1, $values + $from + 1)",
        "move",
        families=("scan",),
    ),
    op(
        "results over an input that is still read",
        "bound",
        "scan.cpp",
        "overlap($out, $call.input) ||",
        "",
        "is_read",
        families=OUT,
    ),
    op(
        "results over a mask that is still read",
        "bound",
        "scan.cpp",
        "|| overlaps($call.mask)",
        "",
        "is_read",
        families=OUT,
    ),
    op(
        "a scan of flags that are numbers",
        "dtype",
        "scan.cpp",
        "cast(cast(std::move($call.input), $types.result), $types.scanned)",
        "cast(std::move($call.input), $types.scanned)",
    ),
    op(
        "an out of another shape, of flags",
        "check",
        "scan.cpp",
        "if ($out) check_results($1);",
        "if ($out && types.scanned == types.result) check_results($1);",
        "scan",
        families=OUT,
    ),
    op(
        "values and indices in one place",
        "check",
        "scan.cpp",
        "!overlap($out.values, *$out.indices)",
        "true",
        "check_results",
        families=OUT,
    ),
    # --- recurrence, segment
    op(
        "an initial state with strides",
        "stride",
        "recurrence.cpp",
        "if ($initial) $initial = made_contiguous(*$initial);",
        "",
    ),
    op(
        "segments of a recurrence without dims",
        "bound",
        "recurrence.cpp",
        "$tokens.dim() == 0 ? 1 : $tokens.size($dim)",
        "$tokens.size($dim)",
    ),
    op(
        "a type that segments are cast to",
        "dtype",
        "segment.cpp",
        "$input = cast($input, $types.input);",
        "",
        "reduce_segments",
    ),
    # --- matmul
    op(
        "an addend that is broadcast",
        "stride",
        "matmul.cpp",
        "$sizes[$i] == 1 ? 0 : $strides[$i]",
        "$strides[$i]",
        "broadcast",
    ),
    op("NaN times a beta of 0", "identity", "matmul.cpp", "if ($factors.beta == 0) $added.data = nullptr;", ""),
    op(
        "float32 of float64",
        "check",
        "matmul.cpp",
        "($out == $wide && $narrow)",
        "($out == $wide)",
        "output_dtype",
    ),
    op("an addend of half precision", "dtype", "matmul.cpp", "$addend = cast(*$input, $out);", "$addend = *$input;"),
    # --- add
    op(
        "an operand's dim of 1",
        "stride",
        "add.cpp",
        "($of[$o][$d - $missing] == 1 && $sizes[$d] != 1)",
        "false",
        "Broadcast",
    ),
    op("the strides of a sum", "layout", "add.cpp", "$a < $b ? -1 : 1", "$a < $b ? 1 : -1", "compare"),
    op(
        "dims that one operand walks as one",
        "stride",
        "add.cpp",
        "&& $of == $args.sizes[$last] * $args.other_strides[$last]",
        "",
        "set_layout",
    ),
    op("a factor of flags", "dtype", "add.cpp", "$dtype == Dtype::boolean ? double($alpha != 0) : $alpha", "$alpha"),
    # --- distance
    op(
        "points that are not side by side",
        "stride",
        "distance.cpp",
        "$args.dims : $kept.count == 1 ? $kept.strides[0] : 0",
        "$args.dims : $kept.count == 1 ? $args.dims : 0",
    ),
    op(
        "coordinates that are not side by side",
        "stride",
        "distance.cpp",
        "$args.dim_stride = $points.stride($last)",
        "$args.dim_stride = 1",
    ),
    op("points of very many dims", "check", "distance.cpp", 'check_ndim("points", $points.dim());', ""),
)
