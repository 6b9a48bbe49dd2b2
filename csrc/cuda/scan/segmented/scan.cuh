// Scans of packed segments: how a block reads their elements and stores their results.
#pragma once
#include "../../primitives/fast_div.cuh"
#include "../ordered/mask.cuh"
#include "plan.cuh"
#include "short_lines.cuh"

namespace torch_reductions::cuda::scan {

template <class S>
struct ScanJob {
  using Op = typename S::Op;
  using Value = typename S::Value;
  using T = typename S::Element;
  using Result = typename ResultOf<S>::type;
  static constexpr bool kInitial = false;
  static constexpr bool kMasked = true;
  static constexpr bool kIsRare = std::is_integral_v<Native<T>> && (sizeof(T) < 4 || !kIsNone<Op, Prod>);
  static constexpr bool kRows = sizeof(Value) <= 8 && !kIsDear<Op> && !kIsRare;
  // Elements of neighbouring lines that a lane moves at once: 16 bytes of values, so that lanes meet in no bank.
  // logcumsumexp of doubles waits for arithmetic alone.
  static constexpr int kVector = kIsDear<Op> && sizeof(Value) == 8 ? 1 : 16 / int(sizeof(Value));
  template <int V>
  static constexpr bool kCopies = std::is_same_v<T, Value> && sizeof(T) >= 4;  // are elements values as they are?
  template <int V>
  struct Loaded {
    uint32_t words[(V * sizeof(T) + 3) / 4];
  };

  S source;
  Lines lines;
  bool exclusive, reverse;
  bool joined = false;  // are several lines one?
  FastDiv line_length{};

  bool join(int64_t outer) {
    const int64_t length = lines.length;
    if (lines.outer_bytes != length * lines.length_bytes) return false;
    if (masked() && lines.mask.strides.outer != length * lines.mask.strides.length) return false;
    if (IsIndexed<Value>::value && outer > INT32_MAX / length) return false;
    joined = true, line_length = FastDiv(length);
    lines.length = lines.results = outer * length;
    return true;
  }
  // The index of a place in one of the joined lines becomes that of the same place in the foremost one.
  template <class Index>
  __device__ __forceinline__ void move_in_front(Index& index) const {
    const Index in_line = index - Index(line_length.div(unsigned(index)) * line_length.divisor);
    if (index >= 0) index = in_line + (reverse ? Index(lines.length) - Index(line_length.divisor) : 0);
  }

  // Groups of V elements, `step` positions from one to the next; linear: 32 places of memory, so that the way there is a
  // constant.
  struct Reader {
    const S& source;
    const char* from;
    int64_t position, step, bytes;
    __device__ __forceinline__ bool linear() const { return bytes == 32 * int(sizeof(T)); }
    __device__ __forceinline__ void advance() { from = opaque(from + bytes); }
    template <bool Linear>
    __device__ __forceinline__ const char* at(int k) const {
      return Linear ? from + k * 32 * int(sizeof(T)) : from;
    }
    template <int V, bool Linear>
    __device__ __forceinline__ void load(Loaded<V>& loaded, int k) const {
      load_words<V * sizeof(T)>(loaded.words, at<Linear>(k));
    }
    template <int V, bool Linear>
    __device__ __forceinline__ void copy(void* to, int k) const {
      cp_async<V * sizeof(T)>(to, at<Linear>(k));
    }
    // Element i of group k.
    template <int V>
    __device__ __forceinline__ Value value(const Loaded<V>& loaded, int i, int k) const {
      return source.value(loaded.words, i, position + k * step);
    }
  };
  // Do groups of kVector neighbouring lines lie as aligned vectors everywhere?
  bool in_vectors() const {
    const auto input = reinterpret_cast<intptr_t>(lines.input) | lines.outer_bytes | lines.length_bytes;
    const auto output = reinterpret_cast<intptr_t>(lines.output);
    return !masked() && lines.inner_bytes == sizeof(T) && lines.inner % kVector == 0 &&
           input % (kVector * sizeof(T)) == 0 && output % (kVector * sizeof(Result)) == 0 && is_aligned(lines.indices);
  }
  __device__ __forceinline__ Reader reader(int64_t outer, int64_t inner, int64_t position, int step) const {
    const char* const from = lines.input + outer * lines.outer_bytes + inner * lines.inner_bytes +
                             lines.element(position) * lines.length_bytes;
    return {source, opaque(from), position, step, (lines.reverse ? -step : step) * lines.length_bytes};
  }

  // The mask of such elements.
  struct Shown {
    const uint8_t* from;
    int64_t step;
    __device__ __forceinline__ bool hides(int k) const { return from[k * step] == 0; }
  };
  HOST_DEVICE bool masked() const { return lines.mask.data != nullptr; }
  __device__ __forceinline__ Shown shown(int64_t outer, int64_t inner, int64_t position, int step) const {
    return {lines.mask.at(outer, lines.element(position), inner),
            (lines.reverse ? -step : step) * lines.mask.strides.length};
  }
  __device__ __forceinline__ Value hidden() const { return hidden_value(source); }

  struct Writer {
    const ScanJob& job;
    Result* to;
    int64_t* indices;
    int64_t step;
    __device__ __forceinline__ bool linear() const { return step == 32; }
    __device__ __forceinline__ void advance() {
      to = opaque(to + step);
      if constexpr (IsIndexed<Value>::value) indices = opaque(indices + step);
    }
    template <int V, bool Linear>
    __device__ __forceinline__ void put(const Value (&v)[V], int k) const {
      const int at = Linear ? k * 32 : 0;
      AlignedVector<Result, V> results;
#pragma unroll
      for (int i = 0; i < V; i++) results.element[i] = result_of(job.source, v[i]);
      *reinterpret_cast<AlignedVector<Result, V>*>(to + at) = results;
      if constexpr (IsIndexed<Value>::value) {
        AlignedVector<int64_t, V> places;
#pragma unroll
        for (int i = 0; i < V; i++) places.element[i] = from_the_front(job.lines, v[i].index);
        *reinterpret_cast<AlignedVector<int64_t, V>*>(indices + at) = places;
      }
    }
  };
  __device__ __forceinline__ Writer writer(int64_t outer, int64_t inner, int64_t position, int step) const {
    const int64_t at = (outer * lines.length + lines.element(position)) * lines.inner + inner;
    return {*this, opaque(reinterpret_cast<Result*>(lines.output) + at),
            IsIndexed<Value>::value ? opaque(lines.indices + at) : nullptr,
            (lines.reverse ? -step : step) * lines.inner};
  }

  __device__ __forceinline__ Value empty_value() const { return scan::empty_value(source); }
};

// Do lines lie across memory, so short that a strip of them would leave most of a block without work, and so many that
// each has a thread?
inline bool are_short_lines(const ScanArgs& args, const Context& context) {
  return args.length > 0 && args.length <= kMostShortLine && args.length_stride != 1 &&
         args.segments.count <= kMostShortSegments &&
         args.outer * args.inner >= int64_t(kShortThreads) * multiprocessors(context.device);
}

template <class S>
void scan_short_lines(const ScanJob<S>& job, const ScanArgs& args, Context& context) {
  Windows windows{.segments = JoinedSegments(args.segments), .inner = args.inner, .reverse = args.reverse};
  launch_thread_per_line(&scan_short_segments<S>, args.outer, context, job.source, job.lines, windows);
}

template <class T, class Op, class S = Input<T, Op>>
void scan_packed(const ScanArgs& args, Context& context) {
  const int64_t size = sizeof(T);
  const ScanJob<S> job{{args.function == Scan::cummin ? kFlip<Native<T>> : 0, args.dtype == Dtype::int8 ? 128 : 0},
                       {static_cast<const char*>(args.input), static_cast<char*>(args.output), args.indices,
                        args.length, args.results, args.inner, args.outer_stride * size, args.length_stride * size,
                        args.inner_stride * size, args.exclusive, args.reverse, args.mask},
                       args.exclusive,
                       args.reverse};
  if constexpr (!std::is_same_v<Op, LastMax<Native<T>, int64_t>>)  // which is for long lines
    if (are_short_lines(args, context)) return scan_short_lines(job, args, context);
  run_segments(job, args.segments, args.outer, args.inner, context);
}

}  // namespace torch_reductions::cuda::scan
