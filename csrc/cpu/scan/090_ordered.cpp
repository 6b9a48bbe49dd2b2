// ordered
// Changes: the order of operations is a function of the position alone. This is what auto runs.
// Costs:   two operations per element instead of one; where few long lines go to many threads, elements are read twice,
//          the second time from the cache.
// Gains:   the same bits for any layout, processor and number of threads, and on the GPU; no chain of additions.
// Order:   Fold(i + 1), or Fold(i) where exclusive, docs/order.md.
// Needs:   any processor; AVX2 and AVX-512 are used where available.
// See:     ordered_kernels.h, the vector code; carry.h, the prefix of a tile; this file splits a call among threads.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <memory>
#include <vector>

#include "../../common/ceil_div.h"
#include "../processor.h"
#include "../reduce/ordered.h"
#include "carry.h"
#include "ladder.h"
#include "ordered.h"
#include "output.h"

namespace torch_reductions::cpu::scan {
namespace {

const ScanKernels& scan_kernels() {
#ifdef __x86_64__
  static constexpr const ScanKernels* kCompiled[] = {&scan_baseline, &scan_avx2, &scan_avx512};
  return *kCompiled[int(processor())];
#else
  return scan_baseline;
#endif
}

constexpr int64_t kTile = 32768;     // elements of a tile, all lines together: they fit into the second-level cache
constexpr int64_t kLeastWidth = 16;  // lines of a strip of columns, if there are so many
constexpr int64_t kStripsPerThread = 4;

// Splits a call into strips of lines, and strips into tiles. An exclusive scan is an inclusive one whose results are
// stored one place further on; it leaves out the last element, unless the call includes the initial one, or asks for
// totals.
struct Plan {
  const ScanArgs& args;
  int64_t groups, lines, length;  // as the kernels see them
  int64_t input_group, input_line, input_step, output_group, output_line, output_step;
  int64_t mask_group, mask_line, mask_step;
  bool columns, drops_last;     // drops_last: the last element has no result
  int64_t width, strips, tile;  // strips of each group

  Plan(const ScanArgs& args, int threads)
      : args(args),
        length(args.totals ? args.length : args.results - args.exclusive),
        drops_last(length > args.results - args.exclusive) {
    const int sign = args.reverse ? -1 : 1;
    input_step = sign * args.length_stride, output_step = sign * args.inner;
    if (args.inner == 1) {
      groups = 1, lines = args.outer;
      input_group = output_group = mask_group = 0;
      input_line = args.outer_stride, output_line = args.results, mask_line = args.mask.strides.outer;
    } else {
      groups = args.outer, lines = args.inner;
      input_group = args.outer_stride, output_group = args.results * args.inner;
      input_line = args.inner_stride, output_line = 1;
      mask_group = args.mask.strides.outer, mask_line = args.mask.strides.inner;
    }
    mask_step = sign * args.mask.strides.length;
    const bool rows = std::abs(input_step) == 1 && std::abs(output_step) == 1;
    columns = !rows && lines >= kLeastWidth && (output_line == 1 || input_line < std::abs(input_step));

    // As wide as possible, but with enough strips for the threads. Where there are too few strips, they are cut into
    // tiles.
    const int64_t wanted = threads > 1 && elements() > kGrain ? kStripsPerThread * threads : 1;
    width =
        columns ? reduce::kStrip : std::clamp(2 * kGrain / std::max<int64_t>(length, 1), int64_t(1), reduce::kStrip);
    while (width / 2 >= (columns ? kLeastWidth : 1) && groups * ceil_div(lines, width) < wanted) width /= 2;
    strips = ceil_div(lines, width);
    tile = std::bit_floor(uint64_t(std::max<int64_t>(kTile / std::min(width, lines), 1)));
    const bool whole =
        args.mask.data ? length * std::min(width, lines) <= 2 * kTile  // so that the unmasked copy fits into the cache
                       : tasks() >= wanted || length < 4 * tile;
    if (whole) tile = std::max<int64_t>(length, 1);
  }

  int64_t elements() const { return groups * lines * length; }
  int64_t tasks() const { return groups * strips; }
  int64_t tiles() const { return std::max<int64_t>(ceil_div(length, tile), 1); }

  // The first line of a task, and how many there are.
  int64_t line(int64_t task) const { return task / strips * lines + task % strips * width; }
  int64_t count(int64_t task) const { return std::min(width, lines - task % strips * width); }

  // The offset of element k of the task's first line in the input, and that of its inclusive result in the output,
  // where k = -1 is Fold(0).
  int64_t from(int64_t task, int64_t k) const {
    const int64_t first = args.reverse ? (args.length - 1) * args.length_stride : 0;
    return first + task / strips * input_group + task % strips * width * input_line + k * input_step;
  }
  int64_t to(int64_t task, int64_t k) const {
    const int64_t first = args.reverse ? (args.results - 1) * args.inner : 0;
    return first + task / strips * output_group + task % strips * width * output_line +
           (k + args.exclusive) * output_step;
  }
  const uint8_t* mask(int64_t task, int64_t k) const {
    if (args.mask.data == nullptr) return nullptr;
    const int64_t first = args.reverse ? (args.length - 1) * args.mask.strides.length : 0;
    return args.mask.data + first + task / strips * mask_group + task % strips * width * mask_line + k * mask_step;
  }

  ScanStrip strip(int64_t task, int64_t begin, int64_t n) const {
    return {.input = static_cast<const char*>(args.input) + from(task, begin) * size_of(args.input_dtype),
            .output = static_cast<char*>(args.output) + to(task, begin) * size_of(args.dtype),
            .indices = args.indices ? args.indices + to(task, begin) : nullptr,
            .lines = count(task),
            .length = n,
            .input_line = input_line,
            .input_step = input_step,
            .output_line = output_line,
            .output_step = output_step,
            .index = index_of(args, begin),
            .index_step = args.reverse ? -1 : 1,
            .columns = columns,
            .mask = mask(task, begin),
            .mask_line = mask_line,
            .mask_step = mask_step,
            .totals = nullptr,
            .drops_last = drops_last && begin + n == length};
  }

  // A tile's total in each line. An extreme is searched backwards, because the last one of equal values wins.
  template <class A>
  void total(const ScanStrip& s, int64_t, A* totals) const {
    if (args.function == Scan::logcumsumexp) return scan_kernels().log_sum[int(args.dtype)](s, totals);
    const Function function = args.function == Scan::cumsum ? Function::sum : Function::prod;
    const reduce::ReduceStrip run{s.input, s.lines, s.length, s.input_line, s.input_step, 0, columns};
    reduce::reduce_kernels().fold[int(function)][int(args.input_dtype)](run, totals);
  }
  template <class C>
  void total(const ScanStrip& s, int64_t begin, Indexed<C>* totals) const {
    const Function function = args.function == Scan::cummax ? Function::argmax : Function::argmin;
    const void* const last = static_cast<const char*>(s.input) + (s.length - 1) * s.input_step * size_of(args.dtype);
    const reduce::ReduceStrip run{last, s.lines, s.length, s.input_line, -s.input_step, 0, columns};
    reduce::reduce_kernels().fold[int(function)][int(args.dtype)](run, totals);
    for (int64_t i = 0; i < s.lines; i++) {
      int64_t k = s.length - 1 - totals[i].index;
      while (k >= 0 && s.hides(i, k)) k--;  // a masked element was found: it is the least of the type, so all are
      totals[i].index = k < 0 ? -1 : begin + k;
    }
  }
};

// Gives a strip without masked elements: a copy in a masked call, else the strip itself.
template <class S>
class Unmasked {
 public:
  explicit Unmasked(const Plan& plan) : args_(plan.args), hidden_(hidden_in(args_.function)) {
    if (args_.mask.data) elements_.reset(new S[plan.tile * std::min(plan.width, plan.lines)]);
  }

  ScanStrip operator()(ScanStrip strip) const {
    if (elements_ == nullptr) return strip;
    scan_kernels().hide[int(args_.input_dtype)](strip, &hidden_, elements_.get());
    strip.input = elements_.get();
    strip.input_line = strip.columns ? 1 : strip.length;
    strip.input_step = strip.columns ? strip.lines : 1;
    return strip;
  }

 private:
  static S hidden_in(Scan function) {
    if constexpr (kIsBool<S>) return {function == Scan::cumprod};
    else return function == Scan::cumsum ? narrow<S>(Sum<Accumulator<S>>::identity()) : empty_value<S>(function);
  }

  const ScanArgs& args_;
  const S hidden_;
  std::unique_ptr<S[]> elements_;
};

// The folds of `count` lines, the first of which is `line`, as the kernels take them.
template <class A>
void as_bases(const ScanArgs&, int64_t, A*, int64_t) {}

template <class C>
void as_bases(const ScanArgs& args, int64_t line, Indexed<C>* folds, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const int64_t k = folds[i].index;
    folds[i] = {args.function == Scan::cummin ? flip(folds[i].value) : folds[i].value,
                k < 0 && args.before ? args.before_indices[line + i] : index_of(args, k)};
  }
}

ScanLines kernel_of(const ScanArgs& args) {
  const int function = int(args.function), dtype = int(args.input_dtype);
  return args.input_dtype == args.dtype ? scan_kernels().scan[function][dtype]
                                        : scan_kernels().into_int64[function][dtype];
}

template <class S, class R, class Op>
void run(const ScanArgs& args, const Threads& threads) {
  using Value = typename Op::Value;
  const ScanLines scan = kernel_of(args);
  const Plan plan(args, threads.count);
  const int64_t tasks = plan.tasks(), tiles = plan.tiles();
  const auto begin_task = [&](int64_t task) {
    for (int64_t i = 0; args.exclusive && i < plan.count(task); i++) {
      put_before<R>(args, plan.to(task, -1) + i * plan.output_line, plan.line(task) + i);
    }
  };
  const auto begin_lines = [&](int64_t task, Value* values) {
    for (int64_t i = 0; i < plan.count(task); i++) values[i] = value_before<Op, R>(args, plan.line(task) + i);
  };
  const auto totals_of = [&](int64_t task) {
    return args.totals ? static_cast<Value*>(args.totals) + plan.line(task) : nullptr;
  };

  if (tiles == 1) {
    const auto body = [&](int64_t begin, int64_t end) {
      Value bases[reduce::kStrip];
      const Unmasked<S> unmasked(plan);
      for (int64_t task = begin; task < end; task++) {
        begin_task(task);
        if (plan.length == 0) continue;
        ScanStrip strip = unmasked(plan.strip(task, 0, plan.length));
        strip.totals = totals_of(task);
        if (args.before) begin_lines(task, bases), as_bases(args, plan.line(task), bases, plan.count(task));
        scan(strip, args.before ? bases : nullptr);
      }
    };
    if (tasks == 1 || threads.count == 1 || plan.elements() <= kGrain) return body(0, tasks);
    return threads.parallel_for(0, tasks, std::max<int64_t>(kGrain * tasks / plan.elements(), 1), body);
  }

  // The tiles are handed out in order, so that a thread waits only for tiles that other threads are already working on.
  std::vector<Carry<Op>> carries;
  carries.reserve(tasks);
  for (int64_t task = 0; task < tasks; task++) {
    carries.emplace_back(plan.count(task), tiles, [&](Value* values) { begin_lines(task, values); });
  }
  std::atomic<int64_t> next{0};
  threads.parallel_for(0, threads.count, 1, [&](int64_t, int64_t) {
    Value totals[reduce::kStrip], bases[reduce::kStrip], ends[reduce::kStrip];
    const Unmasked<S> unmasked(plan);
    for (int64_t ticket; (ticket = next++) < tasks * tiles;) {
      const int64_t task = ticket / tiles, begin = ticket % tiles * plan.tile;
      const int64_t n = std::min(plan.tile, plan.length - begin), count = plan.count(task);
      if (begin == 0) begin_task(task);
      const ScanStrip tile = unmasked(plan.strip(task, begin, n));
      if (n == plan.tile) plan.total(tile, begin, totals);
      carries[task].pass(ticket % tiles, n == plan.tile ? totals : nullptr, bases, ends);
      as_bases(args, plan.line(task), bases, count);
      if (args.totals && begin + n == plan.length) {
        std::copy_n(carries[task].block(std::countr_zero(uint64_t(tiles))), count, totals_of(task));
      }
      scan(tile, bases);
      if (n < plan.tile || tile.drops_last) continue;
      // Larger blocks end where a tile ends: the last result has another tree than base and tile.
      for (int64_t i = 0; i < count; i++) {
        const int64_t at = plan.to(task, begin + n - 1) + i * plan.output_line;
        if constexpr (std::is_arithmetic_v<Value>) put<R>(args, at, ends[i]);
        else if (ends[i].index < 0) put_before<R>(args, at, plan.line(task) + i);
        else put<R>(args, at, ends[i]);
      }
    }
  });
}

}  // namespace

void ordered(const ScanArgs& args, const Threads& threads) {
  with_types(args, [&]<class S, class R, class Op>() { run<S, R, Op>(args, threads); });
}

}  // namespace torch_reductions::cpu::scan
