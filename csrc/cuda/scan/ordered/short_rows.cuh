// Short lines that fill a part of memory together, one after the other or a few side by side: a block copies many of
// them through shared memory, as they lie, and scans them from there in registers, a thread for every 16 elements of a
// line.
//
// Local:   scan_short_rows (4 bytes): of 16-bit integers with an index, what stays the same in every round
#pragma once
#include "../../primitives/async.cuh"
#include "../../primitives/lie_together.h"
#include "../../primitives/shared.cuh"
#include "short_columns.cuh"

namespace torch_reductions::cuda::scan {

inline constexpr int kShortRowThreads = 128;
// Threads of a line, at most (log2). Rounds of a block's threads, at most, while the bytes of a block's lines are so few
// that many blocks share a multiprocessor.
inline constexpr int kLogShortRuns = 4, kMostShortRounds = 8, kShortRowBytes = 24 << 10;

// What lies in memory as it does here: slabs of `slab` bytes, one after the other. If that is a multiple of 16, a vector
// stays free after every 128 bytes, so that the same element of neighbouring lines lies in different banks.
struct StagedSlabs {
  int begin, slab, padding, end;  // begin, end: where they lie in the block's memory

  HOST_DEVICE StagedSlabs(int begin, int slabs, int64_t elements, int size)
      : begin(begin),
        slab(int(elements) * size),
        padding(slab % 16 == 0 ? 16 : 0),
        end(begin + ((slabs * slab + slabs * slab / 128 * padding + 15) & ~15)) {}
  template <bool Padded = true>
  __device__ __forceinline__ char* at(int byte) const {
    return reinterpret_cast<char*>(memory) + begin + byte + (Padded ? (byte >> 7) * padding : 0);
  }
  // body(is there padding?): where there is none, addresses differ by constants.
  template <class Body>
  __device__ __forceinline__ void with_padding(Body body) const {
    if (padding > 0) body(std::true_type());
    else body(std::false_type());
  }

  // body(where a Unit lies here, how far behind `there`, the Unit) for the first `count` bytes, by all threads.
  template <class Unit, class Body>
  __device__ __forceinline__ void for_each(const void* there, int count, Body body) const {
    const int whole = reinterpret_cast<uintptr_t>(there) % 16 == 0 ? count & ~15 : 0;
    for (int i = int(threadIdx.x) * 16; i < whole; i += 16 * kShortRowThreads) body(at(i), i, uint4());
    for (int i = whole + int(threadIdx.x * sizeof(Unit)); i < count; i += int(sizeof(Unit)) * kShortRowThreads)
      body(at(i), i, Unit());
  }
};

// What thread t of a block has of its lines [outer, inner], of which `work` threads have a run: n elements from `begin`
// on of line [o, i] of the block, one of 2^log_runs runs of the line.
struct ShortRun {
  int run, begin, o, i, n;

  __device__ __forceinline__ ShortRun(int t, int work, int log_runs, const FastDiv& inner, int width, int length)
      : run(t & ((1 << log_runs) - 1)),
        begin(run * kMostShort),
        o(int(inner.div(unsigned(t >> log_runs)))),
        i((t >> log_runs) - o * width) {
    const int left = t < work ? length - begin : 0;
    n = left < kMostShort ? left : kMostShort;
  }
};

// Of a block: elements, results, and indices of extremes.
template <class S>
struct ShortRowMemory {
  static constexpr bool kIndexed = IsIndexed<typename S::Value>::value;
  StagedSlabs elements, results, indices;

  HOST_DEVICE ShortRowMemory(const Lines& lines, int slabs)
      : elements(0, slabs, lines.length * lines.inner, S::kBytes),
        results(elements.end, slabs, lines.results * lines.inner, sizeof(typename ResultOf<S>::type)),
        indices(results.end, slabs, kIndexed * lines.results * lines.inner, sizeof(int64_t)) {}
};

// 2^log_runs neighbouring lanes have a line together. before: of the line; then of the lane's run. total: of its run;
// then of the line. Returns the fold up to the end of the run. Both totals are those of runs that are whole.
template <class Op>
__device__ __forceinline__ typename Op::Value join_runs(SoFar<Op>& before, typename Op::Value& total, int log_runs,
                                                        int run) {
  const int ones = __ffs(~run) - 1;        // a block of 2^ones runs ends with this one
  typename Op::Value left[kLogShortRuns];  // half of a block of runs, of which this run is in the other one
  typename Op::Value block = total;
  static_for<kLogShortRuns>([&](auto k) {
    if (k.value >= log_runs) return;
    left[k.value] = shuffle_xor(total, 1 << k.value);
    total = join<Op>(run >> k.value & 1, total, left[k.value]);
    if (k.value < ones) block = total;
  });
  SoFar<Op> end = before;  // of that block
  static_for<kLogShortRuns>([&](auto i) {
    constexpr int k = kLogShortRuns - 1 - i.value;
    if (!(run >> k & 1)) return;
    before.append(left[k]);
    if (k > ones) end = before;
  });
  end.append(block);
  return end.value;
}

// Lines [outer, inner] of which every 2^log_runs threads have one, and a block `slabs` of the outer ones. inner: of
// lines.inner.
template <class S>
__global__ void __launch_bounds__(kShortRowThreads)
    scan_short_rows(const __grid_constant__ S source, const __grid_constant__ Lines lines,
                    const __grid_constant__ FastDiv inner, int64_t outer, int slabs, int log_runs) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  using Result = typename ResultOf<S>::type;
  const ShortRowMemory<S> shared(lines, slabs);
  const StagedSlabs &elements = shared.elements, &results = shared.results, &indices = shared.indices;
  const int64_t first = int64_t(blockIdx.x) * slabs, left = outer - first;
  const int here = left < slabs ? int(left) : slabs, width = int(lines.inner), length = int(lines.length),
            last = int(lines.results);
  const char* const input = lines.input + first * elements.slab;
  elements.for_each<typename S::Element>(input, here * elements.slab,
                                         [&](char* to, int i, auto unit) { copy_one<decltype(unit)>(to, input + i); });
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();
  const int work = here * width << log_runs, lane = int(threadIdx.x) % 32;
  for (int t = int(threadIdx.x); t - lane < work; t += kShortRowThreads) {
    const auto [run, begin, o, i, n] = ShortRun(t, work, log_runs, inner, width, length);
    const int64_t line = (first + o) * width + i;
    Value x[kMostShort];
    const int step = lines.reverse ? -width : width;
    const int from = ((o * length + (lines.reverse ? length - 1 - begin : begin)) * width + i) * S::kBytes;
    elements.with_padding([&](auto padded) {
#pragma unroll
      for (int k = 0; k < kMostShort; k++)
        if (k < n) x[k] = load_one(source, elements.template at<padded>(from + k * step * S::kBytes), begin + k);
    });
    if (n > 0) hide_elements(source, lines, x, first + o, i, begin, n);
    blocks_of_line<Op>(x, n);
    SoFar<Op> before;
    if (n > 0 && lines.before != nullptr) before = {value_before(source, lines, line), true};
    const Value empty = before.there ? before.value : empty_value(source);
    Value end = x[kMostShort - 1];
    if (log_runs > 0) {
      Value total = n == kMostShort ? end : Op::identity();
      end = join_runs(before, total, log_runs, run);
      if (run == 0 && n > 0 && gives_totals<Value>(lines) && length == kMostShort << log_runs)
        static_cast<Value*>(lines.totals)[line] = total;
    } else if (n > 0) {
      store_total(lines, x, n, line);
    }
    folds_of_line<Op>(x, n, before);
    if (log_runs > 0 && n == kMostShort) x[kMostShort - 1] = end;
    const int64_t none = IsIndexed<Value>::value && n > 0 ? index_before(lines, line) : -1;
    const int to =
        (o * last + (lines.reverse ? last - 1 - begin - lines.exclusive : begin + lines.exclusive)) * width + i;
    // All n results, and the one before them; k: of a result from there on.
    const auto store_all = [&](auto store) {
      if (lines.exclusive && last > 0 && run == 0 && n > 0) store(-1, empty);
#pragma unroll
      for (int k = 0; k < kMostShort; k++)
        if (k < n && begin + k + lines.exclusive < last) store(k, x[k]);
    };
    results.with_padding([&](auto padded) {
      store_all([&](int k, const Value& value) {
        *reinterpret_cast<Result*>(results.template at<padded>((to + k * step) * int(sizeof(Result)))) =
            result_of(source, value);
      });
    });
    if constexpr (IsIndexed<Value>::value)
      indices.with_padding([&](auto padded) {
        store_all([&](int k, const Value& value) {
          *reinterpret_cast<int64_t*>(indices.template at<padded>((to + k * step) * int(sizeof(int64_t)))) =
              index_of(lines, value, none);
        });
      });
  }
  __syncthreads();
  const auto copy_out = [&]<class Unit>(std::type_identity<Unit>, const StagedSlabs& staged, void* output) {
    char* const to = static_cast<char*>(output) + first * staged.slab;
    staged.for_each<Unit>(to, here * staged.slab,
                          [&](const char* from, int i, auto unit) { copy_one<decltype(unit), false>(to + i, from); });
  };
  copy_out(std::type_identity<Result>(), results, lines.output);
  if constexpr (IsIndexed<Value>::value) copy_out(std::type_identity<int64_t>(), indices, lines.indices);
}

// A block for so many of the lines as it takes: as many rounds as leave every multiprocessor two blocks.
struct ShortRowGrid {
  int log_runs = 0, slabs;
  size_t bytes;
  int64_t blocks;

  // bytes_of(slabs): shared memory of a block.
  template <class BytesOf>
  ShortRowGrid(int64_t outer, int64_t length, int64_t inner, const Context& context, BytesOf bytes_of) {
    while (kMostShort << log_runs < length) log_runs++;
    const int64_t most = outer / (2 * multiprocessors(context.device));
    for (int rounds = kMostShortRounds;; rounds /= 2) {
      slabs = int(ceil_div(int64_t(kShortRowThreads) * rounds, inner << log_runs));
      bytes = size_t(bytes_of(slabs));
      if (rounds == 1 || (slabs <= most && bytes <= kShortRowBytes)) break;
    }
    blocks = ceil_div(outer, int64_t(slabs));
  }
};

template <class S>
void launch_short_rows(int64_t outer, Context& context, const S& source, const Lines& lines) {
  const ShortRowGrid grid(outer, lines.length, lines.inner, context,
                          [&](int slabs) { return ShortRowMemory<S>(lines, slabs).indices.end; });
  launch(&scan_short_rows<S>, grid.blocks, kShortRowThreads, grid.bytes, context.stream, source, lines,
         FastDiv(lines.inner), outer, grid.slabs, grid.log_runs);
}

}  // namespace torch_reductions::cuda::scan
