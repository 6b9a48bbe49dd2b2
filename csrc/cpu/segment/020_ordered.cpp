// ordered
// Changes: each segment is folded by the reductions' own kernels, in the order that its length alone decides. This is
//          what auto runs.
// Costs:   one call of a kernel per segment: noticeable where segments have less than a hundred elements or so.
// Gains:   the bits of the reduction of the segment alone, for any layout, processor and number of threads.
// Order:   Fold(length of the segment), docs/order.md.
// Needs:   any processor; AVX2 and AVX-512 are used where available.
// See:     ../reduce/ordered_tree.h, the vector code; ../reduce/170_ordered.cpp, which cuts a long segment for the
//          threads.
#include <algorithm>
#include <type_traits>

#include "../processor.h"
#include "../reduce/ladder.h"
#include "../reduce/ordered.h"
#include "ladder.h"
#include "segment.h"

namespace torch_reductions::cpu::segment {
namespace {

constexpr int64_t kLongShare = 4;  // a segment with more than this part of a thread's work is split

template <class Op>
void fold(const ReduceArgs& segment, reduce::FoldStrip kernel) {
  if (segment.length == 0) return write_empty(segment);
  const bool columns = segment.inner > 1 && segment.length_stride != 1 && segment.inner_stride <= segment.length_stride;
  typename Op::Value folds[reduce::kStrip];
  for (int64_t j = 0; j < segment.inner; j += reduce::kStrip) {
    const int64_t count = std::min(reduce::kStrip, segment.inner - j);
    const char* const input = static_cast<const char*>(segment.input);
    kernel({input + j * segment.inner_stride * size_of(segment.input_dtype), count, segment.length,
            segment.inner_stride, segment.length_stride, 0, columns},
           folds);
    reduce::write(segment, j, count, folds);
  }
}

// The first segment whose work does not begin before `place`. A segment counts as its number of elements plus one.
int64_t first_from(const Segments& segments, int64_t place) {
  int64_t low = 0, high = segments.count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (segments.begin(middle) + middle < place) low = middle + 1;
    else high = middle;
  }
  return low;
}

template <class Op>
void run(const SegmentArgs& args, const Threads& threads) {
  const Segments& segments = args.segments;
  const reduce::FoldStrip kernel = reduce::reduce_kernels().fold[int(fold_of(args.function))][int(args.input_dtype)];
  const int64_t line = args.length + segments.count, work = args.outer * line * args.inner;
  const bool alone = threads.count == 1 || work <= kGrain;
  const auto is_long = [&](int64_t s) {
    const int64_t elements = (segments.end(s) - segments.begin(s)) * args.inner;
    return !alone && elements > kGrain && elements > work / (kLongShare * threads.count);
  };
  const auto body = [&](int64_t begin, int64_t end) {
    for (int64_t o = begin / line; o * line < end; o++) {
      for (int64_t s = first_from(segments, begin - o * line); s < segments.count; s++) {
        if (o * line + segments.begin(s) + s >= end) break;
        if (!is_long(s)) fold<Op>(segment_of(args, o, s), kernel);
      }
    }
  };
  if (alone) return body(0, args.outer * line);
  threads.parallel_for(0, args.outer * line, std::max<int64_t>(kGrain / args.inner, 1), body);
  for (int64_t s = 0; s < segments.count; s++) {
    if (!is_long(s)) continue;
    for (int64_t o = 0; o < args.outer; o++) reduce::ordered(segment_of(args, o, s), threads);
  }
}

}  // namespace

void ordered(const SegmentArgs& args, const Threads& threads) {
  with_storage(args.input_dtype, [&](auto storage) {
    reduce::with_operator<typename decltype(storage)::type>(fold_of(args.function), [&](auto op) {
      using Op = typename decltype(op)::type;
      if constexpr (std::is_arithmetic_v<typename Op::Value>) run<Op>(args, threads);  // segments have no argmax
    });
  });
}

}  // namespace torch_reductions::cpu::segment
