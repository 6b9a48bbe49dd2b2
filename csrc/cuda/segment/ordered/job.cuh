// What the kernels of a call share: what a window of the work owns, and where values are stored.
//
// Segment s has the work index begin(s) + s: a segment is as much work as it has elements, plus one. Tile t of it,
// 2^log_tile elements counted from its own first one, stands t * 2^log_tile further on. A window, 2^log_tile of the
// work, owns the tiles that stand in it: at most one of a segment that stands before it, and those of the segments that
// stand in it, of which the last one alone may be longer than a tile. So a window passes on at most the digits of one
// later tile, and a first tile, and a tile's window follows from its work index.
#pragma once
#include "../../primitives/grid.cuh"
#include "../../reduce/ordered/output.cuh"
#include "../ladder.h"

namespace torch_reductions::cuda::segment {

using namespace reduce;  // the fold of a segment is the reduction of its elements

template <class S>
struct Job {
  using Op = typename S::Op;
  using Value = typename S::Value;
  S source;
  Lines layout;
  int64_t lines, windows;
  int log_tile;
  Segments segments;
  Output out;
  bool mean;
  Value empty;           // the result of an empty segment
  TileState tile_state;  // of one launch where segments may have several tiles: [window][digit of a later tile][line]
  Value* slots;          // of two launches: [line][window][a segment's first tile, then the digits of a later one]

  __device__ __forceinline__ int64_t work_index(int64_t s) const { return segments.begin(s) + s; }

  // Which line of several the elements of a line lie in.
  __device__ __forceinline__ int64_t outer_of(int64_t line) const {
    return layout.inner == 1 ? line : line < layout.inner ? 0 : line / layout.inner;
  }
  // outer: of the line.
  __device__ __forceinline__ const char* data(int64_t outer, int64_t line) const {
    return layout.data + outer * layout.outer_bytes + (line - outer * layout.inner) * layout.inner_bytes;
  }
  // The results of V neighbouring lines.
  template <int V>
  __device__ __forceinline__ void store(int64_t outer, int64_t line, int64_t s, int64_t n,
                                        const Value (&fold)[V]) const {
    Output to = out;
    to.divisor = mean ? n : 0;
    Value v[V];
#pragma unroll
    for (int e = 0; e < V; e++) v[e] = n > 0 ? fold[e] : empty;
    const int64_t at = (outer * (segments.count - 1) + s) * layout.inner + line;
    if constexpr (V > 1) to.store_vector<Op>(at, v);
    else to.store<Op>(at, v[0]);
  }
  __device__ __forceinline__ void store(int64_t outer, int64_t line, int64_t s, int64_t n, Value fold) const {
    const Value v[1] = {fold};
    store(outer, line, s, n, v);
  }
  __device__ __forceinline__ void store(int64_t line, int64_t s, int64_t n, Value fold) const {
    store(outer_of(line), line, s, n, fold);
  }
};

// The elements [begin, begin + n) of a line.
struct Piece {
  int64_t begin;
  int n;
};

// The first tile of a segment of n elements.
__device__ __forceinline__ Piece first_piece(int log_tile, int64_t begin, int64_t n) {
  const int64_t tile = int64_t(1) << log_tile;
  return {begin, int(n < tile ? n : tile)};
}

// The tile of segment s that stands in the window, before which the segment stands; of no elements where it ends
// earlier, and where s < 0: then no segment stands before the window.
template <class Offsets>
__device__ __forceinline__ Piece later_piece(int log_tile, const Offsets& segments, int64_t s, int64_t window) {
  if (s < 0) return {};
  const int64_t begin = segments.begin(s), end = segments.end(s), tile = int64_t(1) << log_tile,
                ahead = ((window << log_tile) - begin - s + tile - 1) >> log_tile << log_tile,
                from = ahead > tile ? ahead : tile,  // whatever the offsets are
      left = end - begin - from;
  return {begin + from, int(left < tile ? (left > 0 ? left : 0) : tile)};
}

}  // namespace torch_reductions::cuda::segment
