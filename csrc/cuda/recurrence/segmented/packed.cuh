// Recurrences of packed segments: how a block reads their steps and stores their states.
#pragma once
#include "../../scan/ordered/lines.cuh"
#include "../../scan/segmented/plan.cuh"

namespace torch_reductions::cuda::recurrence {

using namespace scan;  // a recurrence is a scan, of steps

template <class T>
struct RecurrenceJob {
  using Op = Linear<Native<T>>;
  using Value = typename Op::Value;
  static constexpr bool kInitial = true, kMasked = false, exclusive = false, kRows = sizeof(T) < 8;
  // Steps of neighbouring lines that a lane moves at once: 16 bytes of values, so that lanes meet in no bank.
  static constexpr int kVector = 16 / int(sizeof(Value));
  template <int V>
  static constexpr bool kCopies = V == 1 && sizeof(T) >= 4;  // several steps lie as gates and tokens
  template <int V>
  struct Loaded {
    uint32_t gate[(V * sizeof(T) + 3) / 4], token[(V * sizeof(T) + 3) / 4];
  };

  const char *gates, *tokens, *initial;
  char* output;
  int64_t length, inner;
  Strides gate_bytes, token_bytes;
  bool reverse;

  bool join(int64_t outer) {
    for (const Strides& bytes : {gate_bytes, token_bytes})
      if (bytes.outer != length * bytes.length) return false;
    length *= outer;
    return true;
  }

  __device__ __forceinline__ int64_t element(int64_t position) const {
    return reverse ? length - 1 - position : position;
  }

  // Do groups of kVector neighbouring lines lie as aligned vectors everywhere?
  bool in_vectors() const {
    constexpr int kBytes = kVector * sizeof(T);
    const auto lie_so = [&](const char* data, const Strides& bytes) {
      return bytes.inner == sizeof(T) && (bytes.outer | bytes.length | reinterpret_cast<intptr_t>(data)) % kBytes == 0;
    };
    return inner % kVector == 0 && lie_so(gates, gate_bytes) && lie_so(tokens, token_bytes) &&
           reinterpret_cast<intptr_t>(output) % kBytes == 0;
  }

  struct Reader {
    const char *gate, *token;
    int64_t gate_step, token_step;
    __device__ __forceinline__ bool linear() const {
      return gate_step == 32 * int(sizeof(T)) && token_step == 32 * int(sizeof(T));
    }
    __device__ __forceinline__ void advance() { gate = opaque(gate + gate_step), token = opaque(token + token_step); }
    template <bool Linear>
    __device__ __forceinline__ static const char* at(const char* from, int k) {
      return Linear ? from + k * 32 * int(sizeof(T)) : from;
    }
    template <int V, bool Linear>
    __device__ __forceinline__ void load(Loaded<V>& loaded, int k) const {
      load_words<V * sizeof(T)>(loaded.gate, at<Linear>(gate, k));
      load_words<V * sizeof(T)>(loaded.token, at<Linear>(token, k));
    }
    template <int V, bool Linear>
    __device__ __forceinline__ void copy(void* to, int k) const {
      cp_async<sizeof(T)>(to, at<Linear>(gate, k));
      cp_async<sizeof(T)>(static_cast<Native<T>*>(to) + 1, at<Linear>(token, k));
    }
    template <int V>
    __device__ __forceinline__ Value value(const Loaded<V>& loaded, int i, int) const {
      return {cuda::element<T>(loaded.gate, i), cuda::element<T>(loaded.token, i)};
    }
  };
  __device__ __forceinline__ Reader reader(int64_t outer, int64_t inner_index, int64_t position, int step) const {
    const int64_t k = element(position), steps = reverse ? -step : step;
    const auto at = [&](const char* data, const Strides& s) {
      return opaque(data + outer * s.outer + k * s.length + inner_index * s.inner);
    };
    return {at(gates, gate_bytes), at(tokens, token_bytes), steps * gate_bytes.length, steps * token_bytes.length};
  }

  struct Writer {
    T* to;
    int64_t step;
    __device__ __forceinline__ bool linear() const { return step == 32; }
    __device__ __forceinline__ void advance() { to = opaque(to + step); }
    template <int V, bool Linear>
    __device__ __forceinline__ void put(const Value (&v)[V], int k) const {
      AlignedVector<T, V> states;
#pragma unroll
      for (int i = 0; i < V; i++) states.element[i] = narrowed<T>(v[i].token);
      *reinterpret_cast<AlignedVector<T, V>*>(to + (Linear ? k * 32 : 0)) = states;
    }
  };
  __device__ __forceinline__ Writer writer(int64_t outer, int64_t inner_index, int64_t position, int step) const {
    const int64_t at = (outer * length + element(position)) * inner + inner_index;
    return {opaque(reinterpret_cast<T*>(output) + at), (reverse ? -step : step) * inner};
  }

  __device__ __forceinline__ Value empty_value() const { return {}; }

  // Applies the steps to the initial state of the segment that `position` lies in.
  template <int R>
  __device__ __forceinline__ void begin_with(Value (&x)[R], int64_t outer, int64_t inner_index, int64_t position,
                                             const Windows& windows, const Stretch& stretch) const {
    if (initial == nullptr) return;
    int64_t s = stretch.segment > 0 ? stretch.segment - 1 : 0;  // the last one that begins at or before the position
    for (int64_t end = stretch.segments_end; end - s > 1;) {
      const int64_t middle = s + (end - s) / 2;
      if (windows.start(middle) <= position) s = middle;
      else end = middle;
    }
    const int64_t count = windows.segments.count, at = (outer * count + (reverse ? count - 1 - s : s)) * inner;
    const Native<T> h = load_native<T>(initial + (at + inner_index) * int64_t(sizeof(T)));
#pragma unroll
    for (Value& v : x) v.token = Op::apply(v, h);
  }
};

template <class T>
void recur_packed(const RecurrenceArgs& args, Context& context) {
  const RecurrenceJob<T> job{static_cast<const char*>(args.gates),
                             static_cast<const char*>(args.tokens),
                             static_cast<const char*>(args.initial),
                             static_cast<char*>(args.output),
                             args.length,
                             args.inner,
                             in_bytes(args.gate_strides, sizeof(T)),
                             in_bytes(args.token_strides, sizeof(T)),
                             args.reverse};
  run_segments(job, args.segments, args.outer, args.inner, context);
}

}  // namespace torch_reductions::cuda::recurrence
