// What is carried from tile to tile along a strip of lines: the Fold of the tiles so far, and the blocks that make it.
#pragma once
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

namespace torch_reductions::cpu::scan {

template <class Op>
class Carry {
 public:
  using Value = typename Op::Value;

  // begin(values): what stands before the first tile.
  template <class Begin>
  Carry(int64_t lines, int64_t tiles, const Begin& begin)
      : lines_(lines),
        waiting_(new Value[(std::bit_width(uint64_t(tiles)) + 1) * lines]),
        begins_(new Value[lines]),
        folds_(new Value[lines]) {
    begin(begins_.get());
    std::copy_n(begins_.get(), lines, folds_.get());
  }
  Carry(Carry&& other)
      : lines_(other.lines_),
        waiting_(std::move(other.waiting_)),
        begins_(std::move(other.begins_)),
        folds_(std::move(other.folds_)) {}

  // Waits until all tiles before this one have passed. `bases` is their Fold, `ends` the Fold including this tile, with
  // these totals. The last tile of a line may pass without totals.
  void pass(int64_t tile, const Value* totals, Value* bases, Value* ends) {
    for (int spins = 0; turn_.load(std::memory_order_acquire) != tile;) {
      if (++spins > 1000) std::this_thread::yield();  // its thread may not even have a core
    }
    std::copy_n(folds_.get(), lines_, bases);
    if (totals) {
      for (int64_t line = 0; line < lines_; line++) folds_[line] = push(line, tile, totals[line]);
      std::copy_n(folds_.get(), lines_, ends);
    }
    turn_.store(tile + 1, std::memory_order_release);
  }

  // The block of the last 2^level tiles, where the number of those that have passed is a multiple of 2^level and no
  // larger power.
  const Value* block(int level) const { return &waiting_[level * lines_]; }

 private:
  // A binary counter: waiting[l] is a block of 2^l tiles, where bit l of the number of tiles is set.
  Value push(int64_t line, int64_t tiles, Value value) {
    Value* waiting = &waiting_[line];
    int level = 0;
    for (; tiles >> level & 1; level++) value = Op::combine(waiting[level * lines_], value);
    waiting[level * lines_] = value;
    Value fold = begins_[line];
    for (int l = std::bit_width(uint64_t(tiles + 1)); l-- > level;) {
      if ((tiles + 1) >> l & 1) fold = Op::combine(fold, waiting[l * lines_]);
    }
    return fold;
  }

  int64_t lines_;
  std::unique_ptr<Value[]> waiting_, begins_, folds_;
  std::atomic<int64_t> turn_{0};
};

}  // namespace torch_reductions::cpu::scan
