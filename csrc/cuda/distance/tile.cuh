// Points of any number of coordinates: a block brings a tile of them into shared memory, where each is read once for each
// center, as the centers are. From global memory neighbouring lanes would read as far apart as their points lie.
#pragma once
#include "../primitives/divisor.cuh"
#include "points.cuh"

namespace torch_reductions::cuda {

constexpr int kTilePoints = 64, kTileCenters = 2048;  // a thread each; coordinates of centers at a time

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
  return args.dims > 0 && args.dims <= kTileCenters &&
         tile_bytes<T>(args.dims) + centers <= size_t(shared_memory(device));
}

template <class T>
__global__ void __launch_bounds__(kTilePoints)
    add_tile(const __grid_constant__ DistanceArgs args, const __grid_constant__ Divisor by_dims) {
  using A = Accumulator<T>;
  __shared__ __align__(16) A centers[kTileCenters];
  extern __shared__ uint4 memory[];
  A* const tile = reinterpret_cast<A*>(memory);
  const int dims = int(args.dims), pitch = int(tile_pitch(dims)), thread = int(threadIdx.x);
  const int64_t first = int64_t(blockIdx.x) * kTilePoints;
  const bool rows = args.dim_stride <= args.point_stride;  // which way neighbours lie
  for (int k = thread; k < kTilePoints * dims; k += kTilePoints) {
    const int p = rows ? int(by_dims.quotient(unsigned(k))) : thread, d = rows ? k - p * dims : k / kTilePoints;
    const T* const points = static_cast<const T*>(args.points);
    if (first + p < args.count)
      tile[p * pitch + d] = factor(points[(first + p) * args.point_stride + d * args.dim_stride]);
  }
  const bool mine = first + thread < args.count;
  const A* const point = tile + thread * pitch;
  A total = 0;
  const int64_t elements = args.centers_count * dims;
  const int most = kTileCenters / dims * dims;
  for (int64_t begin = 0; begin < elements; begin += most) {
    const int n = int(min(int64_t(most), elements - begin));
    __syncthreads();  // nobody reads the part before any more
    for (int k = thread; k < n; k += kTilePoints) centers[k] = factor(static_cast<const T*>(args.centers)[begin + k]);
    __syncthreads();
    for (int k = 0; mine && k < n; k += dims) {
#pragma unroll 4
      for (int d = 0; d < dims; d++) total = add_square(total, point[d], centers[k + d]);
    }
  }
  if (mine) static_cast<T*>(args.output)[first + thread] = rounded<T>(total);
}

}  // namespace torch_reductions::cuda
