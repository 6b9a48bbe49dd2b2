// Runs a kernel on each packed segment as if it were alone.
#pragma once
#include <algorithm>
#include <atomic>

#include "../common/segments.h"
#include "threads.h"

namespace torch_reductions::cpu {

inline constexpr int64_t kShared = 16 * kGrain;  // a segment of as many elements is split among all threads

// body(outer, s, threads) for each segment s that is not empty, of each of `outer` lines with `inner` elements per
// position. The large ones come first, one after another, with all threads; the others are handed to free threads, a
// few at a time.
template <class Body>
void for_each_segment(const Segments& segments, int64_t outer, int64_t inner, const Threads& threads, Body&& body) {
  static constexpr Threads kAlone{1, [](int64_t begin, int64_t end, int64_t,
                                        const std::function<void(int64_t, int64_t)>& part) { part(begin, end); }};
  const int64_t count = outer * segments.count, elements = outer * segments.length * inner;
  if (count == 0) return;
  const auto is_shared = [&](int64_t s) {
    return threads.count > 1 && (segments.end(s) - segments.begin(s)) * inner >= kShared;
  };
  for (int64_t s = 0; threads.count > 1 && s < segments.count; s++) {
    for (int64_t i = 0; i < outer && is_shared(s); i++) body(i, s, threads);
  }
  const int64_t few = std::max<int64_t>(kGrain * count / std::max<int64_t>(elements, 1), 1);
  std::atomic<int64_t> next{0};
  const auto take = [&](int64_t, int64_t) {
    for (int64_t begin; (begin = next.fetch_add(few)) < count;) {
      for (int64_t i = begin; i < std::min(begin + few, count); i++) {
        const int64_t s = i % segments.count;
        if (segments.begin(s) < segments.end(s) && !is_shared(s)) body(i / segments.count, s, kAlone);
      }
    }
  };
  if (threads.count == 1 || elements <= kGrain) take(0, 1);
  else threads.parallel_for(0, threads.count, 1, take);
}

}  // namespace torch_reductions::cpu
