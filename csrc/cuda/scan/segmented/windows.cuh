// How packed segments are cut for blocks, and where each block finds what is its own.
//
// A segment's tiles are counted from its first element, and lie anywhere; a window of the dim is as long as a tile, and its
// block owns the tiles that begin in it: at most one of a segment that began before, and the first one of each segment that
// begins here, of which only the last can reach beyond the window. So tile t of a segment that begins in window w belongs
// to window w + t, and at most one whole tile, which others may wait for, belongs to a window.
#pragma once
#include "../../../common/segments.h"
#include "../ordered/carry.cuh"

namespace torch_reductions::cuda {

inline constexpr int kSegmentThreads = 256;
inline constexpr int kSegmentRadix = 3;
template <class Value>
inline constexpr int kSegmentRun = 64 / int(sizeof(Value));  // elements that a thread scans
// Blocks that a multiprocessor holds. Several lines take more registers than one; LogAdd needs some for itself.
template <class Op, bool Rows, class Value = typename Op::Value>
inline constexpr int kSegmentBlocks = sizeof(Value) == 4     ? (Rows ? 4 : 3)
                                      : !kIsNone<Op, LogAdd> ? 1
                                      : sizeof(Value) == 8   ? (Rows ? 3 : 2)
                                                             : 2;

// Strips of 2^log_lines neighbouring lines of [outer, length, inner]; of each, windows of 2^log_window positions, which are
// counted in the order of the scan.
struct Windows {
  Segments segments;
  Board board;
  int64_t inner;
  bool reverse;
  int log_lines, log_window, levels;  // of totals; 0: there is one window
  unsigned windows, strips, strips_of_outer;

  // Where segment s begins, counted in the order of the scan; whatever the offsets are, all elements belong to segments.
  __device__ __forceinline__ int64_t start(int64_t s) const {
    if (s <= 0) return 0;
    if (s >= segments.count) return segments.length;
    return reverse ? segments.length - segments.begin(segments.count - s) : segments.begin(s);
  }

  // The first segment that does not begin before the position, by a warp: 32 places at once.
  __device__ __forceinline__ int64_t first_from(int64_t position) const {
    const int lane = threadIdx.x & 31;
    int64_t first = 0, more = segments.count;
    while (more > 0) {
      const int64_t step = (more + 31) / 32, end = (lane + 1) * step;
      const unsigned others = ~__ballot_sync(kFullWarp, start(first + (end < more ? end : more) - 1) < position);
      if (others == 0) return first + more;
      const int64_t skipped = (__ffs(int(others)) - 1) * step;
      first += skipped;
      more = (more - skipped < step ? more - skipped : step) - 1;
    }
    return first;
  }

  // The words of level k's totals, that of a group of 8^k tiles at the window of its last tile.
  template <class Value>
  __device__ __forceinline__ uint64_t* word(int level, int64_t window, int64_t line) const {
    const int64_t lines = int64_t(strips / strips_of_outer) * inner;
    return board.words + ((level * int64_t(windows) + window) * lines + line) * kTaggedWords<Value>;
  }
};

// What is a window's own, [begin, end): positions in the order of the scan.
struct Owned {
  int64_t segment, segments_end;  // the segments that begin here
  int64_t continued_from;         // where the segment began that is continued; its tile of this number is at `begin`
  unsigned tile;                  // 0: none is continued
  int64_t begin, last_start, end;
  bool begins;  // does any segment begin here? The last one at last_start.
};

struct WindowMemory {
  int64_t found[2][3];
  Owned own;
};

// Two warps search, and one thread puts together what they found, for all: each would need many registers for it.
__device__ __forceinline__ const Owned& find_owned(const Windows& windows, unsigned window, WindowMemory& memory) {
  const int64_t length = windows.segments.length, tile_length = int64_t(1) << windows.log_window;
  const int64_t from = window * tile_length, to = from + tile_length < length ? from + tile_length : length;
  auto& found = memory.found;
  if (const int warp = threadIdx.x >> 5; warp < 2) {
    const int64_t s = windows.first_from(warp == 0 ? from : to);
    if ((threadIdx.x & 31) == 0) {
      found[warp][0] = s;
      found[warp][1] = windows.start(s - 1);
      found[warp][2] = windows.start(s);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    Owned own{found[0][0], found[1][0], found[0][1], 0, found[0][2], found[1][1], 0, found[0][0] < found[1][0]};
    if (own.segment > 0) {
      const int64_t tile = (from - own.continued_from + tile_length - 1) >> windows.log_window;
      const int64_t at = own.continued_from + (tile << windows.log_window);
      if (at < found[0][2]) own.tile = unsigned(tile), own.begin = at;
    }
    if (own.last_start < from) own.last_start = from;  // offsets that fall
    const int64_t start = own.begins ? own.last_start : own.begin, limit = start + tile_length;
    own.end = own.begins ? found[1][2] : own.tile > 0 ? found[0][2] : own.begin;
    if (own.end > limit) own.end = limit;
    memory.own = own;
  }
  __syncthreads();
  return memory.own;
}

}  // namespace torch_reductions::cuda
