// A tile of an operand in shared memory: how it is loaded, and how a warp reads fragments of it.
//
// A tile is lines of 16-byte pieces. A line is along k, or of 16-bit operands along m or n: as the operand lies in
// memory, so that pieces are copied as they are, and the transposing ldmatrix takes the second kind.
//
// No bank conflict: ldmatrix reads a piece of each of 8 neighbouring lines, and stores go to neighbouring pieces of a
// line, or to the same piece of neighbouring lines. Piece p of line l is stored at position p ^ s(l) of its line, where
// s counts the 128-byte rows of the banks: 8 neighbouring lines have 8 different positions modulo 128 bytes. An
// exclusive or permutes the pieces within one row of the banks, so that neighbouring pieces stay apart too.
#pragma once
#include "../../primitives/async.cuh"
#include "../../primitives/mma.cuh"
#include "../../primitives/shared.cuh"
#include "../../primitives/thread.cuh"
#include "operand.h"

namespace torch_reductions::cuda::matmul {

// Width elements along m or n, DepthBytes of k. Which of them are neighbours in shared memory: AlongK.
// `Threads` threads copy, the first of which is thread `First` of the block; behind them there may be more such groups.
template <class T, int Width, int DepthBytes, bool AlongK, int First, int Threads, int Groups = 1>
struct SharedTile {
  static_assert(AlongK || sizeof(T) == 2, "there is no transposing ldmatrix of bytes");
  static constexpr int kPiece = 16 / sizeof(T), kDepth = DepthBytes / sizeof(T);  // in elements
  static constexpr int kLines = AlongK ? Width : kDepth;
  static constexpr int kPieces = (AlongK ? kDepth : Width) / kPiece;
  static constexpr int kBytes = Width * DepthBytes;
  static constexpr int kPiecesAThread = kLines * kPieces / Threads, kLinesAThread = Threads / kPieces;
  static_assert(kLines * kPieces % Threads == 0 && (kPieces & (kPieces - 1)) == 0);
  static_assert(kLinesAThread % 8 == 0, "a thread's pieces have their places in equal distances");

  static __device__ __forceinline__ int swizzled(int line, int piece) {
    constexpr int kInRow = kPieces < 8 ? kPieces : 8, kLinesOfRow = 8 / kInRow;
    return (line * kPieces + (piece ^ (line / kLinesOfRow & (kInRow - 1)))) * 16;
  }

  // Where a thread stands in the operand's stages, which follow each other along k. Beyond the ends there are zeros, in
  // both operands, which change no sum.
  struct Loader {
    static constexpr bool kPredicated = AlongK && Width <= 32;  // whole stages may lack lines beyond the width

    const TensorOperand& operand;
    const T* own;     // this thread's first piece of the next stage
    int64_t between;  // from one of its pieces to the next
    int width;        // how many elements of it are there
    int whole;        // the first stages, complete enough for a thread to copy without checks

    // From `begin` of k on, a multiple of a piece, `k` elements.
    __device__ __forceinline__ Loader(const TensorOperand& operand, int64_t batch, int64_t first, int64_t end,
                                      int64_t begin, int64_t k)
        : operand(operand), width(int(end - first < Width ? end - first : Width)) {
      between = kLinesAThread * line_stride();
      own = static_cast<const T*>(operand.data) + batch * operand.batch_stride + first * operand.width_stride +
            begin * operand.k_stride + line() * line_stride() + piece() * kPiece;
      whole = operand.vectors && (kPredicated || width == Width) ? int(k / kDepth) : 0;
    }

    // The next one of the first stages.
    __device__ __forceinline__ void load_whole(char* tile) {
      char* const to = tile + swizzled(line(), piece());
#pragma unroll
      for (int i = 0; i < kPiecesAThread; i++) {
        if constexpr (kPredicated) {
          const bool there = line() + i * kLinesAThread < width;
          const void* const from = there ? own + i * between : operand.data;
          cp_async_zfill(to + i * Threads * 16, from, there ? 16 : 0);
        } else {
          cp_async(to + i * Threads * 16, own + i * between);
        }
      }
      own += AlongK ? kDepth : kDepth * operand.k_stride;
    }

    // This thread's pieces of a whole stage, and what it copies of each: found once, and kept in registers.
    struct Places {
      const T* from[kPiecesAThread];
      int bytes[kPiecesAThread];

      __device__ __forceinline__ explicit Places(const Loader& loader) {
#pragma unroll
        for (int i = 0; i < kPiecesAThread; i++) {
          const bool there = AlongK ? line() + i * kLinesAThread < loader.width : piece() * kPiece < loader.width;
          from[i] = opaque(there ? loader.own + i * loader.between : static_cast<const T*>(loader.operand.data));
          bytes[i] = there ? (AlongK ? 16 : bytes_of(loader.width - piece() * kPiece)) : 0;
        }
      }
      // And `step` elements further next time.
      __device__ __forceinline__ void load(char* tile, int64_t step) {
        char* const to = tile + swizzled(line(), piece());
#pragma unroll
        for (int i = 0; i < kPiecesAThread; i++) {
          cp_async_zfill(to + i * Threads * 16, from[i], bytes[i]);
          from[i] += step;
        }
      }
    };

    // Any other one, before which `left` of k are left.
    __device__ __forceinline__ void load(char* tile, int64_t left) {
      const int64_t lines = AlongK ? width : left, length = AlongK ? left : width;
      if (!operand.vectors && side_by_side()) {
        constexpr int kAtOnce = Width > 128 ? kPiecesAThread / 2 : kPiecesAThread;  // registers of wide tiles are full
#pragma unroll 1
        for (int from = 0; from < kPiecesAThread; from += kAtOnce) {
          Shifted<kAtOnce> pieces;
          fetch(pieces, from, left);
          put(tile, from, pieces);
        }
        next();
        return;
      }
      if (operand.vectors) return load_vectors(tile, left);
      const T* const first = own;
      next();
      const int64_t stride = AlongK ? operand.k_stride : operand.width_stride;
      const T* const begin = first - line() * line_stride() - piece() * kPiece;
#pragma unroll 1
      for (int at = int(thread()); at < kLines * kPieces; at += Threads) {  // lanes take neighbouring lines
        const int line = at % kLines, piece = at / kLines;
        const T* const from = begin + line * line_stride() + piece * kPiece * stride;
        *reinterpret_cast<uint4*>(tile + swizzled(line, piece)) =
            gather(from, stride, line < lines ? bytes_of(length - piece * kPiece) / int(sizeof(T)) : 0);
      }
    }

    __device__ __forceinline__ void load_vectors(char* tile, int64_t left) {
      const int64_t lines = AlongK ? width : left, length = AlongK ? left : width;
      const int bytes = bytes_of(length - piece() * kPiece);
#pragma unroll
      for (int i = 0; i < kPiecesAThread; i++) {
        const int present = line() + i * kLinesAThread < lines ? bytes : 0;
        const void* const from = present > 0 ? own + i * between : operand.data;  // always an aligned address
        cp_async_zfill(tile + swizzled(line(), piece()) + i * Threads * 16, from, present);
      }
      next();
    }

    // Do elements of a line lie side by side?
    __device__ __forceinline__ bool side_by_side() const {
      return (AlongK ? operand.k_stride : operand.width_stride) == 1;
    }

    // N pieces of a stage, which may begin anywhere, on their way: the aligned vectors around them.
    template <int N>
    struct Shifted {
      uint32_t words[N][8];
      int bytes;  // of each piece so many are there
    };
    // Where piece i begins in the vectors around it, in every stage: from one to the next it is a multiple of 16 bytes.
    __device__ __forceinline__ int shift_of(int i) const {
      return opaque(int(reinterpret_cast<uintptr_t>(own))) + i * int(between) * int(sizeof(T)) & 15;
    }
    // Of a stage before which `left` of k are left, this thread's pieces from number `from` on. What the vectors hold
    // besides is read too, and not used; reading it is safe, because a page begins and ends with a vector.
    template <int N>
    __device__ __forceinline__ void fetch(Shifted<N>& pieces, int from, int64_t left) const {
      const int64_t lines = AlongK ? width : left;
      pieces.bytes = bytes_of((AlongK ? left : width) - piece() * kPiece);
      const T* next = own + from * between;
#pragma unroll
      for (int i = 0; i < N; i++) {
        const auto* const at = reinterpret_cast<const char*>(next);
        next = opaque(next + between);  // otherwise each piece would have an address of its own
        const int shift = shift_of(from + i);
        const int present = line() + (from + i) * kLinesAThread < lines ? pieces.bytes : 0;
        const auto* const vectors = reinterpret_cast<const uint4*>(at - shift);
        const uint4 low = present > 0 ? vectors[0] : uint4{}, high = shift + present > 16 ? vectors[1] : uint4{};
        uint32_t (&words)[8] = pieces.words[i];
        words[0] = low.x, words[1] = low.y, words[2] = low.z, words[3] = low.w;
        words[4] = high.x, words[5] = high.y, words[6] = high.z, words[7] = high.w;
      }
    }
    template <int N>
    __device__ __forceinline__ void put(char* tile, int from, Shifted<N>& pieces) const {
#pragma unroll
      for (int i = 0; i < N; i++) {
        uint32_t (&words)[8] = pieces.words[i];
        realign<true>(words, shift_of(from + i));
#pragma unroll
        for (int w = 0; w < 4; w++)
          if (pieces.bytes < 4 * w + 4) words[w] &= pieces.bytes <= 4 * w ? 0u : ~0u >> 8 * (4 * w + 4 - pieces.bytes);
        *reinterpret_cast<uint4*>(tile + swizzled(line(), piece()) + (from + i) * Threads * 16) = {words[0], words[1],
                                                                                                   words[2], words[3]};
      }
    }
    // What fetch() will load of the stage `ahead` of the next one, to the L2.
    __device__ __forceinline__ void prefetch(int ahead, int64_t left) const {
      const int64_t lines = AlongK ? width : left;
      const T* const first = own + int64_t(ahead) * kDepth * operand.k_stride;
      if (piece() * kPiece >= (AlongK ? left : width)) return;
#pragma unroll
      for (int i = 0; i < kPiecesAThread; i++)
        if (line() + i * kLinesAThread < lines) prefetch_to_l2(first + i * between);
    }
    __device__ __forceinline__ void next() { skip(1); }
    __device__ __forceinline__ void skip(int64_t stages) { own += stages * kDepth * operand.k_stride; }

    __device__ __forceinline__ int64_t line_stride() const { return AlongK ? operand.width_stride : operand.k_stride; }
    static __device__ __forceinline__ int line() { return int(thread() / kPieces); }
    static __device__ __forceinline__ int piece() { return int(thread() % kPieces); }
    static __device__ __forceinline__ unsigned thread() {
      return Groups > 1 ? (threadIdx.x - First) % Threads : threadIdx.x - First;
    }

    // How many bytes of a piece exist where `left` elements are left of the line?
    static __device__ __forceinline__ int bytes_of(int64_t left) {
      return left >= kPiece ? 16 : left > 0 ? int(left) * int(sizeof(T)) : 0;
    }
  };

  // Elements `stride` apart, the first `there` of a piece.
  static __device__ __forceinline__ uint4 gather(const T* from, int64_t stride, int there) {
    uint32_t words[4] = {};
#pragma unroll
    for (int i = 0; i < kPiece; i++) {
      uint32_t bits = 0;
      if (i < there) {
        if constexpr (sizeof(T) == 2) bits = from[i * stride].bits;
        else bits = uint8_t(from[i * stride]);
      }
      words[i * sizeof(T) / 4] |= bits << (i * sizeof(T) % 4 * 8);
    }
    return {words[0], words[1], words[2], words[3]};
  }

  // 16 elements of the width from `first` on, or of two words 8, and 32 bytes of k. Words 0 and 1 are neighbours in the
  // width, or where KFirst in k.
  template <bool KFirst, int Words>
  static __device__ __forceinline__ void fragment(uint32_t (&words)[Words], const char* tile, int first, int step,
                                                  int lane) {
    const int half = lane >> 3 & 1, other = Words == 2 ? 0 : lane >> 4;
    const int of_k = KFirst ? half : other, of_width = KFirst ? other : half;
    if constexpr (AlongK) {
      ldmatrix<false>(words, tile + swizzled(first + of_width * 8 + lane % 8, step * 2 + of_k));
    } else {
      ldmatrix<true>(words, tile + swizzled(step * 16 + of_k * 8 + lane % 8, first / 8 + of_width));
    }
  }
};

}  // namespace torch_reductions::cuda::matmul
