// The first of the two kernels for packed segments: the stretches of each window, by a warp.
#include "../../../common/ceil_div.h"
#include "windows.cuh"

namespace torch_reductions::cuda {
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

// [begin, end) is what the window owns, and the last segment that begins here does so at last_start. What is more than a
// stretch holds is two: that in front may have to wait, so the other one, for which others may, is first.
__device__ __forceinline__ void list(const Windows& windows, unsigned window, int capacity, const Border& low,
                                     const Border& high) {
  const int64_t tile_length = int64_t(1) << windows.log_window, from = window * tile_length;
  const bool begins = low.segment < high.segment;
  int64_t begin = low.start;
  unsigned tile = 0;
  if (low.segment > 0) {
    const int64_t number = (from - low.before + tile_length - 1) >> windows.log_window;
    const int64_t at = low.before + (number << windows.log_window);
    if (at < low.start) tile = unsigned(number), begin = at;
  }
  const int64_t last_start = high.before < from ? from : high.before;  // offsets may fall
  const int64_t limit = (begins ? last_start : begin) + tile_length;
  int64_t end = begins ? high.start : tile > 0 ? low.start : begin;
  if (end > limit) end = limit;

  const bool apart =
      begins && (last_start == begin || end - last_start == tile_length || end - begin > int64_t(capacity));
  if (apart) {
    const int whole = end - last_start == tile_length, another = begin < last_start;
    windows.list[window] = {last_start, last_start, high.segment, high.segment, int(end - last_start), 0, whole,
                            another};
    end = last_start;
  }
  if (end < begin) end = begin;
  const int whole = !begins && end - begin == tile_length;
  windows.list[apart ? windows.windows + window : window] = {
      begin, low.before, low.segment, high.segment, int(end - begin), tile, whole, 0};
}

__global__ void __launch_bounds__(kListThreads)
    list_windows(const __grid_constant__ Windows windows, int capacity) {
  const unsigned window = blockIdx.x * (kListThreads / 32) + (threadIdx.x >> 5);
  if (window >= windows.windows) return;
  const int64_t length = windows.segments.length, from = int64_t(window) << windows.log_window;
  const int64_t to = from + (int64_t(1) << windows.log_window);
  const int64_t s = first_from(windows, (threadIdx.x & 16) == 0 ? from : to < length ? to : length);
  const Border own{s, windows.start(s - 1), windows.start(s)};
  const Border high{shuffle(own.segment, 16), shuffle(own.before, 16), shuffle(own.start, 16)};
  if ((threadIdx.x & 31) == 0) list(windows, window, capacity, own, high);
}

}  // namespace

void list_stretches(const Windows& windows, int capacity, cudaStream_t stream) {
  launch(&list_windows, ceil_div(windows.windows, kListThreads / 32), kListThreads, 0, stream, windows, capacity);
}

}  // namespace torch_reductions::cuda
