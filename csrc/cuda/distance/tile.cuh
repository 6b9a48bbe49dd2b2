// Points of any number of coordinates: a block loads a tile of them into shared memory, where each coordinate is read
// once for four centers. In global memory, neighbouring lanes would read addresses as far apart as their points.
// Local:   add_tile (16 bytes): where larger blocks wait (common/fold.h), of 16 centers and 64 coordinates and more.
#pragma once
#include "../primitives/fast_div.cuh"
#include "../primitives/shared.cuh"
#include "points.cuh"

namespace torch_reductions::cuda::distance {

constexpr int kTilePoints = 64, kTileCenters = 2048;  // a thread each; coordinates of centers at a time
constexpr int kCentersAtOnce = 4;  // whose coordinates lie side by side, so that one read of the point's serves all
constexpr int kFarDims = 4;        // larger blocks of squares that may wait
static_assert(kTileCenters / kCentersAtOnce / kDimsUnit < 1 << (kNear + kFarDims));

// Elements from point to point: an odd number, so that lanes have banks of their own.
HOST_DEVICE int64_t tile_pitch(int64_t dims) { return dims | 1; }
template <class T>
size_t tile_bytes(int64_t dims) {
  return kTilePoints * size_t(tile_pitch(dims)) * sizeof(Accumulator<T>);
}

// Can a block have the tile, and whole centers beside it?
template <class T>
bool tile_fits(const DistanceArgs& args, int device) {
  const size_t centers = kTileCenters * sizeof(Accumulator<T>);
  return args.dims > 0 && kCentersAtOnce * args.dims <= kTileCenters &&
         tile_bytes<T>(args.dims) + centers <= size_t(cuda::shared_memory(device));
}

// A value, and its slot in shared memory.
template <class A>
struct StagedValue {
  A value;
  int slot;
};

// The block stages values 0 to n - 1; a thread issues several loads before it waits for the first.
template <class A, class Value>
__device__ __forceinline__ void stage(A* to, int n, const Value& value) {
  constexpr int kAtOnce = 16;
  for (int k = int(threadIdx.x); k < n; k += kAtOnce * kTilePoints) {
    StagedValue<A> staged[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; j++) {
      if (k + j * kTilePoints < n) staged[j] = value(k + j * kTilePoints);
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; j++) {
      if (k + j * kTilePoints < n) to[staged[j].slot] = staged[j].value;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kTilePoints)
    add_tile(const __grid_constant__ DistanceArgs args, const __grid_constant__ FastDiv by_dims) {
  using A = Accumulator<T>;
  __shared__ __align__(16) A centers[kTileCenters];
  A* const tile = reinterpret_cast<A*>(memory);
  const int dims = int(args.dims), pitch = int(tile_pitch(dims)), thread = int(threadIdx.x);
  const int64_t first = int64_t(blockIdx.x) * kTilePoints;
  const bool rows = args.dim_stride <= args.point_stride;  // which way neighbours lie
  const T* const points = static_cast<const T*>(args.points);
  stage(tile, kTilePoints * dims, [&](int k) {
    const int p = rows ? int(by_dims.div(unsigned(k))) : thread, d = rows ? k - p * dims : k / kTilePoints;
    const int64_t i = min(first + p, args.count - 1);
    return StagedValue<A>{factor(points[i * args.point_stride + d * args.dim_stride]), p * pitch + d};
  });
  const bool mine = first + thread < args.count;
  const A* const point = tile + thread * pitch;
  // Those from centers first to first + 3, side by side.
  const auto from_centers = [&](int first) {
    Sums<A, kCentersAtOnce> far[kFarDims];
    return fold_with<Sums<A, kCentersAtOnce>, kDimsUnit>(far, dims, [&](int d) {
      const auto center = reinterpret_cast<const Sums<A, kCentersAtOnce>*>(centers)[first / kCentersAtOnce * dims + d];
      const A coordinate = point[d];
      Sums<A, kCentersAtOnce> squares;
#pragma unroll
      for (int c = 0; c < kCentersAtOnce; c++) {
        const A difference = coordinate - center.of[c];
        squares.of[c] = difference * difference;
      }
      return squares;
    });
  };
  A far[kFar];
  Fold<A, kCentersAtOnce> sums(far);
  const int most = kTileCenters / (kCentersAtOnce * dims) * kCentersAtOnce;
  int n = 0;  // centers of the part
  const T* part = static_cast<const T*>(args.centers);
  for (int64_t left = args.centers_count; left > 0; left -= n, part += n * dims) {
    n = int(min(int64_t(most), left));
    __syncthreads();  // no thread reads the part before any more
    stage(centers, (n + kCentersAtOnce - 1) / kCentersAtOnce * kCentersAtOnce * dims, [&](int k) {
      const int c = int(by_dims.div(unsigned(k))), d = k - c * dims;
      return StagedValue<A>{factor(part[min(c, n - 1) * dims + d]),
                            (c / kCentersAtOnce * dims + d) * kCentersAtOnce + c % kCentersAtOnce};
    });
    __syncthreads();
    if (mine)
      sums.add_blocks(n / kCentersAtOnce, [&](int first) {
        const auto sums_of = from_centers(first);
        return (sums_of.of[0] + sums_of.of[1]) + (sums_of.of[2] + sums_of.of[3]);
      });
  }
  A total = sums.total();
  if (mine && n % kCentersAtOnce > 0) {
    const auto rest = from_centers(n / kCentersAtOnce * kCentersAtOnce);
    if (n % kCentersAtOnce >= 2) total += rest.of[0] + rest.of[1];
    if (n % 2 == 1) total += n % kCentersAtOnce == 1 ? rest.of[0] : rest.of[2];
  }
  if (mine) static_cast<T*>(args.output)[first + thread] = rounded<T>(total);
}

}  // namespace torch_reductions::cuda::distance
