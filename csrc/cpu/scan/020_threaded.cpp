// threaded
// Changes: two passes: each thread folds a part of the row, and then, when the prefix of each part is known, scans it
//          from there on. Where there are enough rows, each thread scans whole rows instead.
// Costs:   elements are read twice; the order, and with it a float's last bits, depends on the number of threads.
// Gains:   as many chains of additions at once as there are threads.
// Order:   one part per thread, left to right; the parts, left to right; then each part from its base, left to right.
// Needs:   any processor; contiguous rows.
// See:     the same idea on the GPU, where a part is a block: reduce_then_scan.
#include <algorithm>
#include <utility>
#include <vector>

#include "ladder.h"
#include "output.h"

namespace torch_reductions::cpu::scan {
namespace {

template <class S, class R, class Op>
class Row {
 public:
  using Value = typename Op::Value;

  Row(const ScanArgs& args, int64_t row) : args_(args), row_(row) {}

  Value fold(int64_t begin, int64_t end) const {
    Value total = Op::identity();
    for (int64_t k = begin; k < end; k++) total = Op::combine(total, value_of<Op, S>(args_, row_, k));
    return total;
  }

  void scan(int64_t begin, int64_t end, Value total) const {
    if (args_.exclusive && begin == 0) put_empty_value<R>(args_, place_of(args_, row_, 0));
    for (int64_t k = begin; k < end; k++) {
      total = Op::combine(total, value_of<Op, S>(args_, row_, k));
      put<R>(args_, place_of(args_, row_, k + args_.exclusive), total);
    }
  }

 private:
  const ScanArgs& args_;
  const int64_t row_;
};

template <class S, class R, class Op>
void scan_rows(const ScanArgs& args, const Threads& threads) {
  const int64_t length = args.results - args.exclusive;  // elements that contribute to results
  const int64_t parts = std::clamp<int64_t>(length, 1, std::max(threads.count, 1));
  if (args.outer >= parts) {
    threads.parallel_for(0, args.outer, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; row++) Row<S, R, Op>(args, row).scan(0, length, Op::identity());
    });
    return;
  }
  // The first `extra` parts get one element more.
  const auto begin_of = [&, each = length / parts, extra = length % parts](int64_t part) {
    return part * each + std::min(part, extra);
  };
  std::vector<typename Op::Value> bases(parts);
  for (int64_t i = 0; i < args.outer; i++) {
    const Row<S, R, Op> row(args, i);
    threads.parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; part++) bases[part] = row.fold(begin_of(part), begin_of(part + 1));
    });
    auto base = Op::identity();
    for (auto& total : bases) total = std::exchange(base, Op::combine(base, total));
    threads.parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; part++) row.scan(begin_of(part), begin_of(part + 1), bases[part]);
    });
  }
}

}  // namespace

void threaded(const ScanArgs& args, const Threads& threads) {
  with_types(args, [&]<class S, class R, class Op>() { scan_rows<S, R, Op>(args, threads); });
}

}  // namespace torch_reductions::cpu::scan
