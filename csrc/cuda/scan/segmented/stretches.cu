// The first of the two kernels for packed segments: the stretches of each window, by a warp.
#include "../../../common/ceil_div.h"
#include "windows.cuh"

namespace torch_reductions::cuda::scan {
namespace {

constexpr int kListThreads = 256;

// The first segment that does not begin before the position, by the 16 lanes of half a warp: 16 places at once.
__device__ __forceinline__ int64_t first_from(const Windows& windows, int64_t position) {
  const int lane = threadIdx.x & 15;
  int64_t first = 0, more = windows.segments.count;
  while (__any_sync(kFullWarp, more > 0)) {
    const int64_t step = (more + 15) / 16, end = (lane + 1) * step;
    const bool before = more > 0 && windows.start(first + (end < more ? end : more) - 1) < position;
    const unsigned others = ~__ballot_sync(kFullWarp, before) >> (threadIdx.x & 16) & 0xffff;
    if (more == 0) continue;  // the other half goes on
    const int64_t skipped = others == 0 ? more : (__ffs(int(others)) - 1) * step;
    first += skipped;
    more = others == 0 ? 0 : (more - skipped < step ? more - skipped : step) - 1;
  }
  return first;
}

// Where a window begins or ends: the first segment from there on, and where it and the one before it begin.
struct Border {
  int64_t segment, before, start;
};

// What a window owns begins with the first tile or segment from its own first position on, and ends where the next
// window's begins, whatever the offsets are: the last segment that begins here does so a tile before the next window's
// first tile of it. What does not fit one stretch is two: the one in front may have to wait, so the other one, for
// which others may wait, is first.
__device__ __forceinline__ void list(const Windows& windows, unsigned window, int capacity, const Border& low,
                                     const Border& high) {
  const int64_t tile_length = int64_t(1) << windows.log_window, from = window * tile_length;
  // Tiles of the segment before a border up to the first one from there on.
  const auto tiles = [&](const Border& border, int64_t at) {
    return (at - border.before + tile_length - 1) >> windows.log_window;
  };
  int64_t begin = low.start;
  unsigned tile = 0;
  if (low.segment > 0) {
    const int64_t number = tiles(low, from), at = low.before + (number << windows.log_window);
    if (at < low.start) tile = unsigned(number), begin = at;
  }
  const int64_t next = high.before + (tiles(high, from + tile_length) << windows.log_window);
  const int64_t end = next < high.start ? next : high.start;
  const int64_t last_start = next - tile_length > begin ? next - tile_length : begin;

  const bool begins = low.segment < high.segment;
  const bool apart =
      begins && (last_start == begin || end - last_start == tile_length || end - begin > int64_t(capacity));
  if (apart) {
    const int whole = end - last_start == tile_length, another = begin < last_start;
    windows.list[window] = {last_start, last_start, high.segment, high.segment, int(end - last_start),
                            0,          whole,      another};
  }
  const int64_t end_in_front = apart ? last_start : end;
  const int whole = !begins && end - begin == tile_length;
  windows.list[apart ? windows.windows + window : window] = {
      begin, low.before, low.segment, high.segment, int(end_in_front - begin), tile, whole, 0};
}

}  // namespace

__global__ void __launch_bounds__(kListThreads) list_windows(const __grid_constant__ Windows windows, int capacity) {
  const unsigned window = blockIdx.x * (kListThreads / 32) + (threadIdx.x >> 5);
  if (window >= windows.windows) return;
  const int64_t length = windows.segments.length, from = int64_t(window) << windows.log_window;
  const int64_t to = from + (int64_t(1) << windows.log_window);
  const int64_t s = first_from(windows, (threadIdx.x & 16) == 0 ? from : to < length ? to : length);
  const Border own{s, windows.start(s - 1), windows.start(s)};
  const Border high{shuffle(own.segment, 16), shuffle(own.before, 16), shuffle(own.start, 16)};
  if ((threadIdx.x & 31) == 0) list(windows, window, capacity, own, high);
}

void list_stretches(const Windows& windows, int capacity, cudaStream_t stream) {
  launch(&list_windows, ceil_div(windows.windows, kListThreads / 32), kListThreads, 0, stream, windows, capacity);
}

}  // namespace torch_reductions::cuda::scan
