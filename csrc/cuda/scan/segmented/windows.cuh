// How packed segments are divided over blocks, and where each block finds its part.
//
// A segment's tiles are counted from its first element, and lie anywhere; a window of the dim is as long as a tile, and
// owns the tiles that begin in it: at most one of a segment that began before, and the first one of each segment that
// begins here, of which only the last can reach beyond the window. So tile t of a segment that begins in window w
// belongs to window w + t, and at most one whole tile, which others may wait for, belongs to a window.
//
// A first kernel lists the stretches of every window (stretches.cu), so that the second one reads a list entry where it
// would have to search.
#pragma once
#include "../../primitives/joined_segments.cuh"
#include "../ordered/carry.cuh"

namespace torch_reductions::cuda::scan {

// Few threads with long runs: what each has to find out it then finds out for many elements. But LogAdd of floats, which
// is dear, has shorter ones, which leave fewer threads without work where segments are short.
template <class Op>
inline constexpr int kSegmentThreads = kIsDear<Op> && sizeof(typename Op::Value) == 4 ? 256 : 128;
template <class Op>  // elements that a thread scans: 16 KB of values are a tile
inline constexpr int kSegmentRun = (16 << 10) / (kSegmentThreads<Op> * int(sizeof(typename Op::Value)));
// Lines of a block, at most: the logarithm.
template <class Value, bool Rows>
inline constexpr int kSegmentLogLines = Rows                  ? 0
                                        : sizeof(Value) == 16 ? 2
                                                              : 5;
// Blocks that a multiprocessor holds.
template <class Op>
inline constexpr int kSegmentBlocks = kIsDear<Op>                        ? (sizeof(typename Op::Value) == 4 ? 3 : 2)
                                      : sizeof(typename Op::Value) == 16 ? 3
                                                                         : 4;

// Neighbouring positions that a block scans at a time, of whole segments, except for a tile at either end.
struct alignas(16) Stretch {
  int64_t begin;                  // a position in the order of the scan, as all of them here
  int64_t segment_begin;          // where its first segment began
  int64_t segment, segments_end;  // the segments that begin in it, where it is not one tile
  int length;
  unsigned tile;  // the number of the first tile in its segment
  int whole;      // is it a whole tile, for which others may wait?
  int another;    // does the window have another one?

  __device__ __forceinline__ bool alone() const { return segment == segments_end; }  // one tile
};

// Strips of 2^log_lines neighbouring lines of [outer, length, inner]; of each, windows of 2^log_window positions, which
// are counted in the order of the scan.
struct Windows {
  JoinedSegments segments;
  TileState tile_state;
  Stretch* list;         // the first one of each window, and then the other one of each
  int64_t inner, lines;  // of all outers
  bool reverse;
  bool in_vectors;                    // are elements and results of neighbouring lines whole vectors?
  int log_lines, log_window, levels;  // of totals; 0: no segment has several tiles
  unsigned windows, strips, strips_of_outer;

  // Where segment s begins, counted in the order of the scan; whatever the offsets are, all elements belong to
  // segments.
  __device__ __forceinline__ int64_t start(int64_t s) const {
    if (s <= 0) return 0;
    if (s >= segments.count) return segments.length;
    const int64_t at = segments.begin(reverse ? segments.count - s : s);
    return reverse ? segments.length - at : at;
  }

  // The totals of level k from a window on: that of a group of 8^k tiles stands at the window of its last tile.
  template <class Value>
  __device__ __forceinline__ Totals totals(int level, int64_t window, int64_t line, unsigned tag) const {
    const int64_t place = (level * int64_t(windows) + window) * lines + line, step = lines * kTaggedWords<Value>;
    return {tile_state.words + place * kTaggedWords<Value>, step << (kLaneRadix * level), {tag}};
  }
};

// Lists the stretches of all windows, of which one may hold `capacity` elements.
void list_stretches(const Windows& windows, int capacity, cudaStream_t stream);

}  // namespace torch_reductions::cuda::scan
