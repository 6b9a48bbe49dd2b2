// What the rungs with shared tiles of 128 x 128 have in common: the panels of a and b that a block stages, and a
// thread's 8 x 8 elements of the result.
//
// A panel is kDepth steps of k, each with the 128 elements of a, or of b, that one step of the outer product takes.
#pragma once
#include "textbook.cuh"

namespace torch_reductions::cuda::matmul {

inline constexpr int kTile = 128, kDepth = 16, kThreads = 256, kEach = 8;  // kEach: elements of a thread, each way

// A factor as a block takes panels from it, one after another: element (o, k) is in row o of a, or in column o of b,
// counted from the block's first one, and k from the next panel's.
template <class T>
struct Factor {
  const T* data;
  int64_t across, down;  // from one o, and from one k, to the next
  int64_t depth;         // of k that are left
  int last;      // o of the tile that there is: it stands for those beyond the edge, whose results are not stored
  T padding;     // for k beyond the depth
  bool along_k;  // does memory go along k?
  bool vectors;  // may four neighbours be read at once?

  __device__ __forceinline__ const T* at(int o, int k) const { return data + min(o, last) * across + k * down; }
  __device__ __forceinline__ T element(int o, int k) const { return k < depth ? *at(o, k) : padding; }
  __device__ __forceinline__ bool vec4(int o, int k) const {
    return vectors && (along_k ? k + 3 < depth : k < depth && o + 3 <= last);
  }
  __device__ __forceinline__ void advance() { data += kDepth * down, depth -= kDepth; }
};

template <class T>
__device__ __forceinline__ Factor<T> factor_from(const T* data, int64_t across, int64_t down, int64_t size,
                                                 int64_t depth, T padding) {
  const bool along_k = down == 1, vectors = uintptr_t(data) % 16 == 0 && (along_k ? across : down) % 4 == 0;
  return {data, across, down, depth, int(min(size, int64_t(kTile))) - 1, padding, along_k, vectors};
}

// (-0) (+0) added to any chain leaves it as it is, even a -0: a short last panel needs no loop of its own.
template <class T>
__device__ __forceinline__ Factor<T> factor_a(const MatmulArgs& args, const Corner& corner) {
  return factor_from(element_of<T>(args.a, corner.batch, corner.i, 0), args.a.row_stride, args.a.column_stride,
                     args.m - corner.i, args.k, T(-0.0f));
}
template <class T>
__device__ __forceinline__ Factor<T> factor_b(const MatmulArgs& args, const Corner& corner) {
  return factor_from(element_of<T>(args.b, corner.batch, 0, corner.j), args.b.column_stride, args.b.row_stride,
                     args.n - corner.j, args.k, T(0));
}

// The thread's index, opaque each time: otherwise the compiler would keep the addresses of all that a thread stages,
// for all of k, in registers that the sums need.
__device__ __forceinline__ int thread_anew() { return opaque(int(threadIdx.x)); }

// The 16 bytes at p, in one access.
template <class T>
__device__ __forceinline__ void read_vec4(const T* p, T (&x)[4]) {
  uint32_t words[4];
  load_words<16>(words, p);
#pragma unroll
  for (int e = 0; e < 4; e++) x[e] = T(element<T>(words, e));
}
template <class T>
__device__ __forceinline__ void write_vec4(T* p, const T (&x)[4]) {
  uint32_t words[4];
  memcpy(words, x, 16);
  const uint4 vector{words[0], words[1], words[2], words[3]};
  *reinterpret_cast<uint4*>(p) = vector;
}

template <class T>
__device__ __forceinline__ void add_outer_product(const T (&x)[kEach], const T (&y)[kEach], T (&sums)[kEach][kEach]) {
#pragma unroll
  for (int r = 0; r < kEach; r++)
#pragma unroll
    for (int c = 0; c < kEach; c++) sums[r][c] = multiply_add(x[r], y[c], sums[r][c]);
}

// Of a thread's rows, or columns, in a tile, number e: four neighbours, and four more half a tile on.
__device__ __forceinline__ int index_in_tile(int thread, int e) { return e / 4 * (kTile / 2) + thread * 4 + e % 4; }

// Where element (o, k) of a panel lies; Swizzle changes o, four by four, with k.
template <class Swizzle>
__device__ __forceinline__ int slot(int o, int k) {
  return k * kTile + (o ^ Swizzle::of(k));
}

// The products of two panels, by loads of 16 bytes.
template <class Swizzle, class T>
__device__ __forceinline__ void multiply_panels(const T* a_panel, const T* b_panel, T (&sums)[kEach][kEach]) {
  const int row = threadIdx.x / 16, column = threadIdx.x % 16;
#pragma unroll
  for (int k = 0; k < kDepth; k++) {
    T x[kEach], y[kEach];
#pragma unroll
    for (int e = 0; e < kEach; e += 4) {
      read_vec4(&a_panel[slot<Swizzle>(index_in_tile(row, e), k)], reinterpret_cast<T(&)[4]>(x[e]));
      read_vec4(&b_panel[slot<Swizzle>(index_in_tile(column, e), k)], reinterpret_cast<T(&)[4]>(y[e]));
    }
    add_outer_product(x, y, sums);
  }
}

// A thread's elements as multiply_panels leaves them.
template <class T>
__device__ __forceinline__ void store_tile(const MatmulArgs& args, const Corner& corner,
                                           const T (&sums)[kEach][kEach]) {
  const int row = threadIdx.x / 16, column = threadIdx.x % 16;
#pragma unroll
  for (int r = 0; r < kEach; r++) {
    const int64_t i = corner.i + index_in_tile(row, r);
    if (i >= args.m) return;
#pragma unroll
    for (int c = 0; c < kEach; c++) {
      const int64_t j = corner.j + index_in_tile(column, c);
      if (j < args.n) store_product<T>(args, corner.batch, i, j, sums[r][c]);
    }
  }
}

}  // namespace torch_reductions::cuda::matmul
