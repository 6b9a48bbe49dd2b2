// Scans of packed segments: how a block reads their elements and stores their results.
#pragma once
#include "../ordered/mask.cuh"
#include "plan.cuh"

namespace torch_reductions::cuda {

template <class S>
struct ScanJob {
  using Op = typename S::Op;
  using Value = typename S::Value;
  using T = typename S::Element;
  static constexpr bool kInitial = false;

  S source;
  Lines lines;
  bool exclusive;

  struct Reader {
    const S& source;
    const char* from;
    const uint8_t* shown;  // null: everything is
    int64_t position, step, bytes, mask_bytes;
    __device__ __forceinline__ void advance() { position += step, from += bytes, shown += mask_bytes; }
    __device__ __forceinline__ Value value() const {
      return shown == nullptr || *shown != 0 ? load_one(source, from, position) : hidden_value(source);
    }
  };
  __device__ __forceinline__ Reader reader(int64_t outer, int64_t inner, int64_t position, int step) const {
    const char* const from = lines.input + outer * lines.outer_bytes + inner * lines.inner_bytes +
                             lines.element(position) * lines.length_bytes;
    const uint8_t* const shown = lines.mask.at(outer, lines.element(position), inner);  // null + 0 where there is none
    const int64_t forward = lines.reverse ? -step : step;
    return {source, from, shown, position, step, forward * lines.length_bytes, forward * lines.mask.strides.length};
  }

  struct Writer {
    const ScanJob& job;
    int64_t at, step;
    __device__ __forceinline__ void advance() { at += step; }
    __device__ __forceinline__ void put(Value v) const {
      reinterpret_cast<T*>(job.lines.output)[at] = stored(job.source, v);
      if constexpr (IsIndexed<Value>::value) job.lines.indices[at] = from_the_front(job.lines, v.index);
    }
  };
  __device__ __forceinline__ Writer writer(int64_t outer, int64_t inner, int64_t position, int step) const {
    const int64_t at = (outer * lines.length + lines.element(position)) * lines.inner + inner;
    return {*this, at, (lines.reverse ? -step : step) * lines.inner};
  }

  __device__ __forceinline__ Value nothing() const { return fold_of_nothing(source); }
};

template <class T, class Op>
void scan_packed(const ScanArgs& args, Context& context) {
  using S = Input<T, Op>;
  const int64_t size = sizeof(T);
  const ScanJob<S> job{{args.function == Scan::cummin ? kFlip<Native<T>> : 0, args.dtype == Dtype::int8 ? 128 : 0},
                       {static_cast<const char*>(args.input), static_cast<char*>(args.output), args.indices,
                        args.length, args.results, args.inner, args.outer_stride * size, args.length_stride * size,
                        args.inner_stride * size, args.exclusive, args.reverse, args.mask},
                       args.exclusive};
  run_segments(job, args.segments, args.outer, args.inner, args.reverse, context);
}

}  // namespace torch_reductions::cuda
