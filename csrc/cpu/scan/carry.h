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

  Carry(int64_t lines, int64_t tiles)
      : lines_(lines), waiting_(new Value[(std::bit_width(uint64_t(tiles)) + 1) * lines]), folds_(new Value[lines]) {
    std::fill_n(folds_.get(), lines, Op::identity());
  }
  Carry(Carry&& other) : lines_(other.lines_), waiting_(std::move(other.waiting_)), folds_(std::move(other.folds_)) {}

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

 private:
  // A binary counter: waiting[l] is a block of 2^l tiles, where bit l of the number of tiles is set.
  Value push(int64_t line, int64_t tiles, Value value) {
    Value* waiting = &waiting_[line];
    int level = 0;
    for (; tiles >> level & 1; level++) value = Op::combine(waiting[level * lines_], value);
    waiting[level * lines_] = value;
    Value fold = Op::identity();
    for (int l = std::bit_width(uint64_t(tiles + 1)); l-- > level;) {
      if ((tiles + 1) >> l & 1) fold = Op::combine(fold, waiting[l * lines_]);
    }
    return fold;
  }

  int64_t lines_;
  std::unique_ptr<Value[]> waiting_, folds_;
  std::atomic<int64_t> turn_{0};
};

}  // namespace torch_reductions::cpu::scan
