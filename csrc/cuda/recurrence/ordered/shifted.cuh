// Lines side by side whose rows begin anywhere in memory, as those of an odd number of columns do: of each row a warp
// copies the aligned vectors that hold a part of it, at most one more than in SideBySide.
#pragma once
#include "layouts.cuh"

namespace torch_reductions::cuda::recurrence {

// As SideBySide, but a row lies in shared memory as far behind a multiple of 16 bytes as in memory: that is its shift.
// A strip belongs to one outer. Lanes behind an outer's last line have none, but count as lines: so lines.count and
// config.inner are those of whole strips.
template <class T, bool Carried>
struct Shifted : SideBySide<T, Carried> {
  using Base = SideBySide<T, Carried>;
  using Base::lines, Base::Run, Base::Part, Base::lane;
  using typename Base::Value;
  static constexpr int kVectors = Base::kRow / 16 + 1, kPitch = kVectors * 16, kBytes = Run * kPitch;
  // After so many rows the shifts begin again: strides are whole elements. Runs and strips are whole vectors, so that
  // of a tile's coordinates only outer changes its shifts.
  static constexpr int kAlike = 16 / int(sizeof(T));
  static constexpr int kBlocks = Carried ? 2 : Base::kBlocks;  // there is no shared memory for a third one's buffers
  static HOST_DEVICE int bytes_of_warp(const LineConfig&) { return kBytes; }

  __device__ __forceinline__ RunCoord run_coord(TileCoord coord) const {
    RunCoord p = Base::run_coord(coord);
    p.exists = p.exists && p.inner < lines.inner;
    p.line = unsigned(p.outer) * unsigned(lines.inner) + unsigned(p.inner);
    return p;
  }

  __device__ __forceinline__ char* gates() const { return this->gates_of_warp(kBytes); }
  // Vector v of the warp's space is vector v % kVectors of row v / kVectors. Only those are copied that hold an element
  // of the strip: others may lie beyond the operand.
  __device__ __forceinline__ void issue_load(TileCoord coord) const {
    constexpr int kSteps = (Run * kVectors + 31) / 32;
    const RunCoord first = Base::run_coord_of(Base::strip(coord) * 32, coord), own = run_coord(coord);
    const int there = Base::count_of(first), left = int(lines.inner) - int(first.inner);
    const int width = (left < 32 ? left : 32) * int(sizeof(T));
    char* const to = opaque(gates() + lane() * 16);
    const auto copy_in = [&](const char* data, const Strides& strides, int space) {
      const char* const row_0 = data + Base::at(first, int(first.start), strides);
      const int shift = int(reinterpret_cast<uintptr_t>(row_0) & 15);
      const char* const from = opaque(row_0 - shift);
#pragma unroll
      for (int k = 0; k < kSteps; k++) {
        const unsigned v = k * 32 + lane(), row = v / kVectors;
        const int begin = shift + int(row * unsigned(strides.length));  // of the row, in bytes behind `from`
        const int at = (begin & ~15) + int(v * 16 - row * kPitch);
        if (int(row) < there && at < begin + width) cp_async(to + space + k * 512, from + at);
      }
    };
    copy_in(lines.gates, lines.gate_bytes, 0);
    copy_in(lines.tokens, lines.token_bytes, kBytes);
    if (!own.exists && lane() > 0) return;
#pragma unroll 1
    for (int i = there; i < Run; i++) *reinterpret_cast<T*>(gate(own, i)) = *reinterpret_cast<T*>(token(own, i)) = {};
  }

  // This lane's element of row i; a lane without a line has the first lane's.
  __device__ __forceinline__ char* slot(const RunCoord& p, int i, const char* data, const Strides& strides) const {
    const unsigned row = unsigned(reinterpret_cast<uintptr_t>(data)) + unsigned(p.outer) * unsigned(strides.outer) +
                         unsigned(i % kAlike) * unsigned(strides.length);
    return gates() + (row & 15) + (p.exists ? lane() : 0) * int(sizeof(T)) + i * kPitch;
  }
  __device__ __forceinline__ char* gate(const RunCoord& p, int i) const {
    return slot(p, i, lines.gates, lines.gate_bytes);
  }
  __device__ __forceinline__ char* token(const RunCoord& p, int i) const {
    return slot(p, i, lines.tokens, lines.token_bytes) + kBytes;
  }
  // Of the first rows; found once, as it takes longer than to read them.
  struct Rows {
    const char *gate[kAlike], *token[kAlike];
  };
  __device__ __forceinline__ Rows rows_of(const RunCoord& p) const {
    Rows rows;
#pragma unroll
    for (int i = 0; i < kAlike; i++) rows.gate[i] = gate(p, i), rows.token[i] = token(p, i);
    return rows;
  }
  __device__ __forceinline__ void load(Value (&x)[Part], const Rows& rows, int j) const {
#pragma unroll
    for (int k = 0; k < Part; k++) {
      const int i = j * Part + k, beyond = i / kAlike * kAlike * kPitch;
      x[k] = {load_native<T>(rows.gate[i % kAlike] + beyond), load_native<T>(rows.token[i % kAlike] + beyond)};
    }
  }
};

}  // namespace torch_reductions::cuda::recurrence
