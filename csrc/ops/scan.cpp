// The scans on one device: this file is compiled into _C for the CPU and, with USE_CUDA, into _C_cuda.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "carried.h"
#include "check.h"
#include "device.h"
#include "mask.h"
#include "out.h"
#include "segments.h"
#include "tensor.h"

#ifdef USE_CUDA
#include "../cuda/scan/ladder.h"
#else
#include "../cpu/scan/ladder.h"
#endif

namespace torch_reductions {
namespace {

using torch::headeronly::ScalarType;
using OptionalTensor = std::optional<Tensor>;
using OptionalType = std::optional<ScalarType>;

// A call: the arguments of the schemas, in their order. Only cumsum and cumprod have a dtype.
struct Call {
  Scan function;
  Tensor input;
  int64_t dim;
  OptionalTensor cu_seqlens, mask;
  OptionalType dtype;
  bool exclusive, reverse, include_initial;
  int64_t variant;

  const char* name() const { return name_of(function); }
  bool has_indices() const { return function == Scan::cummax || function == Scan::cummin; }
};

// What a scan goes on from, in the operators that continue one. before_index: of cummax and cummin.
struct Carried {
  OptionalTensor before, before_index;
  int64_t first;  // the position of the input's first element in the whole
  bool return_total;
};

struct Results {
  Tensor values;
  OptionalTensor indices = std::nullopt;  // of cummax and cummin
  OptionalTensor total = std::nullopt;    // of the others, where a scan is continued
};

// The input is cast to `result`, then to `scanned`: bool is scanned as integers. Integers and bool that become int64
// are not: the CPU's kernels read them as they are, most of CUDA's `ordered` as int32.
struct Types {
  Dtype result, scanned, read;

  static Types of(Dtype input, Dtype result, Dtype scanned) {
    const bool widened = result == Dtype::int64 && input != result && !is_float(input);
    return {result, scanned, !widened ? scanned : kDevice == kCpu ? input : Dtype::int32};
  }
};

Types types_of(const Call& call, const Results* out) {
  const Dtype input = dtype_of(call.name(), "input", call.input.scalar_type());
  if (call.has_indices()) {
    return Types::of(input, input, input == Dtype::boolean ? Dtype::uint8 : input);
  }
  if (call.function == Scan::logcumsumexp) {
    TR_CHECK(is_float(input), "\"logcumsumexp\" not implemented for ", kDtypeNames[int(input)],
             "; supported are float16, bfloat16, float32 and float64");
    return Types::of(input, input, input);
  }
  Dtype result = is_float(input) ? input : Dtype::int64;
  if (call.dtype) result = dtype_of(call.name(), "dtype", *call.dtype);
  else if (out) result = dtype_of(call.name(), "out", out->values.scalar_type());  // as in torch
  return Types::of(input, result, result == Dtype::boolean ? Dtype::int64 : result);
}

// Fails where cu_seqlens or mask are wrong, or the rung does not take them. The mask is broadcast to the input's shape.
Segments check_segments_and_mask(Call& call, int rung, int64_t length) {
  const auto check_rung = [&](const char* argument) {
    TR_CHECK(kDevice == kCpu || rung == kScanAuto, call.name(), "(): variant ", rung, " does not take ", argument,
             " on cuda; choose auto (0)");
  };
  Segments segments{};
  if (call.cu_seqlens) {
    TR_CHECK(!call.include_initial, call.name(),
             "(): include_initial and cu_seqlens exclude each other: segments have no room for initial elements");
    check_rung("cu_seqlens");
    segments = check_cu_seqlens(call.name(), *call.cu_seqlens, call.input, length);
  }
  if (call.mask) {
    check_rung("a mask");
    call.mask = check_mask(call.name(), *call.mask, call.input);
  }
  return segments;
}

void check_results(const Call& call, const Results& out, Dtype dtype, const Dims& shape) {
  check_out(call.name(), out.indices ? "values" : "out", out.values, call.input, dtype, shape);
  if (!out.indices) return;
  check_out(call.name(), "indices", *out.indices, call.input, Dtype::int64, shape);
  TR_CHECK(!overlap(out.values, *out.indices), call.name(),
           "(): values and indices of out share memory; give each its own");
}

// Whether the kernel, while it writes into the tensor, may still read from the same memory.
bool is_read(const Tensor& out, const Call& call) {
  const auto overlaps = [&](const OptionalTensor& read) { return read && overlap(out, *read); };
  return overlap(out, call.input) || overlaps(call.cu_seqlens) || overlaps(call.mask);
}

// Memory for a kernel's results: that of out where possible.
Tensor memory_for(const Tensor* out, const Call& call, Dims& shape, Dtype dtype) {
  return out && looks_new(*out, dtype) && !is_read(*out, call) ? *out : empty(shape, dtype, call.input);
}

// The rungs of the textbook take contiguous rows: turns the call's tensors and the shape of its results into rows. The
// dim that is scanned then, the last one.
int64_t make_rows(Call& call, Dims& shape) {
  const int64_t dim = call.dim, last = std::max<int64_t>(call.input.dim(), 1) - 1;
  if (dim == last) {
    if (!call.input.is_contiguous()) call.input = made_contiguous(call.input);
    return dim;
  }
  call.input = contiguous_movedim(call.input, dim, last);
  if (call.mask) call.mask = contiguous_movedim(*call.mask, dim, last);
  shape.move(dim, last);
  return last;
}

// CUDA's kernel scans those in place, so that results are as wide as elements.
bool has_few_columns(const Dims& shape, int64_t dim) {
  int64_t inner = 1;
  for (int64_t i = dim + 1; i < shape.count; i++) inner *= shape.sizes[i];
  return inner > 1 && inner < 32;
}

// Checks what the scan goes on from, and makes it as the kernels take it.
void check_carried(const Call& call, Carried& carried, const Types& types) {
  TR_CHECK(!call.has_indices() || carried.before.has_value() == carried.before_index.has_value(), call.name(),
           "(): before and before_index must be given together");
  const auto check = [&](OptionalTensor& tensor, const char* name, Dtype dtype) {
    if (tensor) tensor = check_before(call.name(), name, *tensor, call.input, call.dim, dtype);
  };
  check(carried.before, "before", call.has_indices() ? types.result : accumulator_of(types.scanned));
  check(carried.before_index, "before_index", Dtype::int64);
  if (carried.before && call.has_indices()) carried.before = cast(*carried.before, types.scanned);
}

// The results, in `out` if there is one; with totals where the scan is `carried` on.
Results scan(Call call, const Results* out = nullptr, Carried* carried = nullptr) {
  Types types = types_of(call, out);
  const int64_t ndim = call.input.dim();
  check_ndim("input", ndim);
  TR_CHECK(!(call.exclusive && call.include_initial), call.name(),
           "(): exclusive and include_initial exclude each other: the result with the initial element holds both the "
           "exclusive and the inclusive scan");
  call.dim = wrap_dim(call.name(), call.dim, ndim);
  const int rung = check_variant(kScanLadder, call.variant, kScanAuto, kDevice, call.function, types.scanned);
  Dims shape = dims_of(call.input);
  const int64_t length = ndim == 0 ? 1 : shape.sizes[call.dim], results = length + call.include_initial;
  const Segments segments = check_segments_and_mask(call, rung, length);
  if (ndim == 0 && call.include_initial) shape.push(1);  // a scalar and the initial element make a dim of two
  // A scalar has no dim: the value is not read.
  shape.sizes[call.dim] = results;
  if (out) check_results(call, *out, types.result, shape);
  if (carried) check_carried(call, *carried, types);

  // One element is its own scan, and torch's copy casts it; but the bytes of a bool may be any. With indices to be set
  // too, that is two launches, which pay off where the copy takes longer than a launch.
  const bool copies = length == 1 && results == 1 && rung == kScanAuto && !call.exclusive && !call.cu_seqlens &&
                      !call.mask && !carried && call.input.scalar_type() != ScalarType::Bool &&
                      types.scanned == types.result &&
                      (kDevice == kCpu || !call.has_indices() || call.input.numel() >= 1 << 20);
  if (!copies) {
    // CUDA's kernels of several segments widen sums alone.
    const bool casts =
        segments.count > 1 ? call.function == Scan::cumprod : has_few_columns(shape, ndim == 0 ? 0 : call.dim);
    if (kDevice != kCpu && (rung != kScanAuto || casts)) types.read = types.scanned;
    if (types.read == types.scanned) call.input = cast(cast(std::move(call.input), types.result), types.scanned);
    else call.input = cast(std::move(call.input), types.read);
  }
  const int64_t dim = rung == kScanAuto ? call.dim : make_rows(call, shape);
  const bool moved = dim != call.dim;
  const bool has_indices = call.has_indices();
  const Results* const direct_out = moved ? nullptr : out;
  Results made{memory_for(direct_out ? &direct_out->values : nullptr, call, shape, types.scanned)};
  if (has_indices) made.indices = memory_for(direct_out ? &*direct_out->indices : nullptr, call, shape, Dtype::int64);
  else if (carried)
    made.total = totals_for(call.input, call.dim, length, carried->return_total, accumulator_of(types.scanned));

  if (copies) {
    torch::stable::copy_(made.values, call.input);
    if (has_indices) torch::stable::zero_(*made.indices);
  } else if (made.values.numel() > 0) {
    const View view = view_around(call.input, dim);
    const OptionalTensor before = carried ? carried->before : std::nullopt;
    const ScanArgs args{.function = call.function,
                        .input_dtype = types.read,
                        .dtype = types.scanned,
                        .input = call.input.const_data_ptr(),
                        .output = made.values.mutable_data_ptr(),
                        .indices = has_indices ? static_cast<int64_t*>(made.indices->mutable_data_ptr()) : nullptr,
                        .outer = view.outer,
                        .length = length,
                        .results = results,
                        .inner = view.inner,
                        .outer_stride = view.outer_stride,
                        .length_stride = view.length_stride,
                        .inner_stride = view.inner_stride,
                        .exclusive = call.exclusive || call.include_initial,
                        .reverse = call.reverse,
                        .segments = segments,
                        .front = carried ? carried->first : 0,
                        .mask = call.mask ? mask_around(*call.mask, dim) : Mask{},
                        .before = before ? before->const_data_ptr() : nullptr,
                        .before_indices = before && has_indices
                                              ? static_cast<const int64_t*>(carried->before_index->const_data_ptr())
                                              : nullptr,
                        .totals = made.total ? data_of(*made.total) : nullptr};
    run_rung(backend::scan, rung, args, call.input);
  }

  if (moved) made.values = contiguous_movedim(made.values, dim, call.dim);
  if (moved && has_indices) made.indices = contiguous_movedim(*made.indices, dim, call.dim);
  made.values = cast(std::move(made.values), types.result);
  if (out) deliver(out->values, made.values);
  if (out && has_indices) deliver(*out->indices, *made.indices);
  return made;
}

// --- The operators: TORCH_BOX wants one C++ function per list of arguments -------------------------------------------

template <Scan function>
Tensor cumulate(const Tensor& input, int64_t dim, OptionalTensor cu_seqlens, OptionalTensor mask, OptionalType dtype,
                bool exclusive, bool reverse, bool include_initial, int64_t variant) {
  const Results made = scan({function, input, dim, std::move(cu_seqlens), std::move(mask), dtype, exclusive, reverse,
                             include_initial, variant});
  return made.values;
}

template <Scan function>
void cumulate_out(const Tensor& input, int64_t dim, OptionalTensor cu_seqlens, OptionalTensor mask, OptionalType dtype,
                  bool exclusive, bool reverse, bool include_initial, int64_t variant, Tensor out) {
  const Results results{out};
  scan({function, input, dim, std::move(cu_seqlens), std::move(mask), dtype, exclusive, reverse, include_initial,
        variant},
       &results);
}

Tensor logcumsumexp(const Tensor& input, int64_t dim, OptionalTensor cu_seqlens, OptionalTensor mask, bool exclusive,
                    bool reverse, bool include_initial, int64_t variant) {
  return cumulate<Scan::logcumsumexp>(input, dim, std::move(cu_seqlens), std::move(mask), {}, exclusive, reverse,
                                      include_initial, variant);
}

void logcumsumexp_out(const Tensor& input, int64_t dim, OptionalTensor cu_seqlens, OptionalTensor mask, bool exclusive,
                      bool reverse, bool include_initial, int64_t variant, Tensor out) {
  cumulate_out<Scan::logcumsumexp>(input, dim, std::move(cu_seqlens), std::move(mask), {}, exclusive, reverse,
                                   include_initial, variant, out);
}

template <Scan function>
std::tuple<Tensor, Tensor> extreme(const Tensor& input, int64_t dim, OptionalTensor cu_seqlens, OptionalTensor mask,
                                   bool exclusive, bool reverse, bool include_initial, int64_t variant) {
  const Results made = scan(
      {function, input, dim, std::move(cu_seqlens), std::move(mask), {}, exclusive, reverse, include_initial, variant});
  return {made.values, *made.indices};
}

template <Scan function>
void extreme_out(const Tensor& input, int64_t dim, OptionalTensor cu_seqlens, OptionalTensor mask, bool exclusive,
                 bool reverse, bool include_initial, int64_t variant, Tensor values, Tensor indices) {
  const Results results{values, indices};
  scan({function, input, dim, std::move(cu_seqlens), std::move(mask), {}, exclusive, reverse, include_initial, variant},
       &results);
}

// --- The operators that go on from another scan -----------------------------------------------------------------------

template <Scan function>
std::tuple<Tensor, Tensor> cumulate_from(const Tensor& input, int64_t dim, OptionalTensor before, OptionalTensor mask,
                                         OptionalType dtype, bool exclusive, bool return_total) {
  Carried carried{std::move(before), {}, 0, return_total};
  const Results made =
      scan({function, input, dim, {}, std::move(mask), dtype, exclusive, false, false, 0}, nullptr, &carried);
  return {made.values, *made.total};
}

std::tuple<Tensor, Tensor> logcumsumexp_from(const Tensor& input, int64_t dim, OptionalTensor before,
                                             OptionalTensor mask, bool exclusive, bool return_total) {
  return cumulate_from<Scan::logcumsumexp>(input, dim, std::move(before), std::move(mask), {}, exclusive, return_total);
}

template <Scan function>
std::tuple<Tensor, Tensor> extreme_from(const Tensor& input, int64_t dim, OptionalTensor before,
                                        OptionalTensor before_index, int64_t first, OptionalTensor mask,
                                        bool exclusive) {
  Carried carried{std::move(before), std::move(before_index), first, false};
  const Results made =
      scan({function, input, dim, {}, std::move(mask), {}, exclusive, false, false, 0}, nullptr, &carried);
  return {made.values, *made.indices};
}

}  // namespace
}  // namespace torch_reductions

STABLE_TORCH_LIBRARY_IMPL(torch_reductions, TR_DISPATCH_KEY, m) {
  using namespace torch_reductions;
  if (!is_only_copy()) return;
  m.impl("cumsum", TORCH_BOX(&cumulate<Scan::cumsum>));
  m.impl("cumprod", TORCH_BOX(&cumulate<Scan::cumprod>));
  m.impl("logcumsumexp", TORCH_BOX(&logcumsumexp));
  m.impl("cummax", TORCH_BOX(&extreme<Scan::cummax>));
  m.impl("cummin", TORCH_BOX(&extreme<Scan::cummin>));
  m.impl("cumsum_from", TORCH_BOX(&cumulate_from<Scan::cumsum>));
  m.impl("cumprod_from", TORCH_BOX(&cumulate_from<Scan::cumprod>));
  m.impl("logcumsumexp_from", TORCH_BOX(&logcumsumexp_from));
  m.impl("cummax_from", TORCH_BOX(&extreme_from<Scan::cummax>));
  m.impl("cummin_from", TORCH_BOX(&extreme_from<Scan::cummin>));
  m.impl("cumsum.out", TORCH_BOX(&cumulate_out<Scan::cumsum>));
  m.impl("cumprod.out", TORCH_BOX(&cumulate_out<Scan::cumprod>));
  m.impl("logcumsumexp.out", TORCH_BOX(&logcumsumexp_out));
  m.impl("cummax.out", TORCH_BOX(&extreme_out<Scan::cummax>));
  m.impl("cummin.out", TORCH_BOX(&extreme_out<Scan::cummin>));
}
