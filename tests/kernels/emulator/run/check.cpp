#include "check.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>

#include "../../../../csrc/cpu/add/ladder.h"
#include "../../../../csrc/cpu/distance/ladder.h"
#include "../../../../csrc/cpu/recurrence/ladder.h"
#include "../../../../csrc/cpu/reduce/ladder.h"
#include "../../../../csrc/cpu/scan/ladder.h"
#include "../../../../csrc/cpu/segment/ladder.h"
#include "../../../../csrc/cuda/add/ladder.h"
#include "../../../../csrc/cuda/distance/ladder.h"
#include "../../../../csrc/cuda/matmul/ladder.h"
#include "../../../../csrc/cuda/recurrence/ladder.h"
#include "../../../../csrc/cuda/reduce/ladder.h"
#include "../../../../csrc/cuda/scan/ladder.h"
#include "../../../../csrc/cuda/segment/ladder.h"
#include "../machine/options.h"
#include "product.h"

namespace emulator {

using namespace torch_reductions;

namespace {

// The workspace is garbage of exactly the size that was asked for.
class TestContext : public cuda::Context {
 public:
  explicit TestContext(cudaStream_t stream) : Context(0, stream) {}
  ~TestContext() override {
    for (void* memory : taken_) std::free(memory);
  }

  void* workspace(size_t bytes) override {
    void* memory = nullptr;
    if (posix_memalign(&memory, 256, bytes) != 0) throw std::bad_alloc();
    std::memset(memory, 0xee, bytes);
    taken_.push_back(memory);
    return memory;
  }

 private:
  std::vector<void*> taken_;
};

// Results between bytes that must stay as they are.
class Results {
  struct Deleter {
    void operator()(char* bytes) const { ::operator delete[](bytes, std::align_val_t{kMargin}); }
  };

 public:
  Results(Dtype dtype, int64_t count)
      : size_(size_t(size_of(dtype))),
        count_(count),
        all_(size_t(count_) * size_ + 2 * kMargin),
        bytes_(new (std::align_val_t{kMargin}) char[all_]) {
    std::memset(bytes_.get(), kMark, all_);
  }

  void* data() { return bytes_.get() + kMargin; }
  bool overrun() const {
    for (size_t i = 0; i < kMargin; i++)
      if (bytes_[i] != kMark || bytes_[all_ - 1 - i] != kMark) return true;
    return false;
  }

  uint64_t bits(int64_t i) const {
    uint64_t value = 0;
    std::memcpy(&value, bytes_.get() + kMargin + size_t(i) * size_, size_);
    return value;
  }
  int64_t count() const { return count_; }

 private:
  static constexpr size_t kMargin = 256;  // and so they begin where torch's would
  static constexpr char kMark = 0x5a;
  size_t size_;
  int64_t count_;
  size_t all_;
  std::unique_ptr<char[], Deleter> bytes_;
};

bool is_nan(uint64_t bits, Dtype dtype) {
  switch (dtype) {
    case Dtype::float16: return (bits & 0x7fff) > 0x7c00;
    case Dtype::bfloat16: return (bits & 0x7fff) > 0x7f80;
    case Dtype::float32: return (bits & 0x7fffffff) > 0x7f800000;
    case Dtype::float64: return (bits & 0x7fffffffffffffff) > 0x7ff0000000000000;
    default: return false;
  }
}

std::string compare(const Results& got, const Results& expected, Dtype dtype) {
  int64_t wrong = 0, first = 0;
  for (int64_t i = got.count(); i-- > 0;) {
    if (got.bits(i) == expected.bits(i) || (is_nan(got.bits(i), dtype) && is_nan(expected.bits(i), dtype))) continue;
    wrong++;
    first = i;
  }
  if (wrong == 0) return "";
  char text[200];
  std::snprintf(text, sizeof text, "%ld of %ld results differ from the CPU's, the first is number %ld: %#lx for %#lx",
                long(wrong), long(got.count()), long(first), long(got.bits(first)), long(expected.bits(first)));
  return text;
}

// FNV-1a of the bits of all results, any NaN as any other.
void add_to_digest(uint64_t& digest, const Results& results, Dtype dtype) {
  for (int64_t i = 0; i < results.count(); i++) {
    const uint64_t bits = is_nan(results.bits(i), dtype) ? ~uint64_t(0) : results.bits(i);
    for (int byte = 0; byte < 8; byte++) digest = (digest ^ (bits >> 8 * byte & 255)) * 0x100000001b3;
  }
}

constexpr int kSequentialSums = 10;  // the rung that says where elements lie in one line

constexpr int kInConstantMemory[] = {25, 40, 50};  // rungs of distances
constexpr uintptr_t kStreams = 17;

void serial(int64_t begin, int64_t end, int64_t, const std::function<void(int64_t, int64_t)>& body) {
  body(begin, end);
}

// What a case computes, into memory of its own.
struct Computed {
  Results values, indices;      // indices: of cummax and cummin
  Results totals, total_gates;  // of what is carried on

  explicit Computed(const Case& c)
      : values(c.args.output_dtype, c.product    ? c.product->batch * c.product->m * c.product->n
                                    : c.addition ? c.addition->count
                                    : c.distance ? c.distance->count
                                                 : c.args.outer * c.args.inner *
                                                       (c.scan         ? c.scan->results
                                                        : c.recurrence ? c.recurrence->length
                                                        : c.segment    ? c.segment->segments.count
                                                                       : 1)),
        indices(Dtype::int64, is_extreme(c) ? values.count() : 0),
        totals(accumulator_of(c), totals_of(c)),
        total_gates(accumulator_of(c), c.recurrence ? totals_of(c) : 0) {}

  bool overrun() const { return values.overrun() || indices.overrun() || totals.overrun() || total_gates.overrun(); }
};
void* data_of(Results& results) { return results.count() > 0 ? results.data() : nullptr; }

// The offsets of segments, in as many bytes as they take.
class PackedOffsets {
 public:
  explicit PackedOffsets(const Case& c) : length_(c.args.length) {
    if (!c.packed) return;
    const std::vector<int64_t> values = packed_offsets_of(c);
    if (c.seed % 2 == 0) wide_.assign(values.begin(), values.end());
    else narrow_.assign(values.begin(), values.end());
    count_ = int64_t(values.size()) - 1;
  }

  Segments segments() const {
    if (count_ < 0) return {};
    return {wide_.empty() ? static_cast<const void*>(narrow_.data()) : wide_.data(), !wide_.empty(), count_, length_};
  }

 private:
  const int64_t length_;
  int64_t count_ = -1;
  std::vector<int64_t> wide_;
  std::vector<int32_t> narrow_;
};

// As torch's memory lies: how many sectors a kernel loads depends on it.
template <class T>
struct Aligned {
  using value_type = T;
  Aligned() = default;
  template <class U>
  Aligned(const Aligned<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{256})); }
  void deallocate(T* p, size_t) { ::operator delete(p, std::align_val_t{256}); }
  bool operator==(const Aligned&) const = default;
};

// What a case is computed from.
struct Inputs {
  Input input;
  std::optional<Input> gates, initial;  // of a recurrence
  std::optional<Input> b, added;        // of a product, whose a is the input; b of a sum, too
  std::optional<Input> centers;         // of distances
  std::optional<Input> before, before_gates;
  std::vector<int64_t> before_indices;
  PackedOffsets packed;
  std::optional<MaskBytes> mask;                   // of a scan
  std::vector<int64_t, Aligned<int64_t>> offsets;  // of segments
  std::vector<int32_t, Aligned<int32_t>> narrow_offsets;

  explicit Inputs(const Case& c) : input(c), packed(c) {
    if (c.masked) mask.emplace(mask_of(c));
    if (c.carried) before.emplace(before_of(c, false));
    if (c.carried && c.recurrence) before_gates.emplace(before_of(c, true));
    for (int64_t line = 0; c.carried && line < c.args.outer * c.args.inner; line++)
      before_indices.push_back(line % 3 == 0 ? -1 : line * 1000 + int64_t(c.seed % 1000));
    if (c.product) b.emplace(matrix_of(c, 1));
    if (c.addition) b.emplace(operand_of(c, 1));
    if (c.distance) centers.emplace(centers_of(c));
    if (c.product && c.matrix_offsets[2] >= 0) added.emplace(matrix_of(c, 2));
    if (c.recurrence) gates.emplace(gates_of(c));
    if (c.recurrence && c.has_initial) initial.emplace(initial_of(c));
    if (c.segment && c.segment->segments.wide) offsets.assign(c.offsets.begin(), c.offsets.end());
    else if (c.segment) narrow_offsets.assign(c.offsets.begin(), c.offsets.end());
  }
  bool changed() const {
    for (const std::optional<Input>* one : {&gates, &initial, &b, &added, &centers, &before, &before_gates})
      if (*one && (*one)->changed()) return true;
    return input.changed();
  }
};

// reduce(args), scan(args), recur(args), segment(args), multiply(args), add(args) or measure(args), whichever the case is of, with the
// memory filled in.
template <class Reduce, class Scanned, class Recur, class Segmented, class Multiply, class Added, class Measure>
bool run(const Case& c, const Inputs& inputs, Computed& to, Reduce reduce, Scanned scan, Recur recur, Segmented segment,
         Multiply multiply, Added add, Measure measure) {
  const void* const input = inputs.input.first();
  if (c.addition) {
    AddArgs args = *c.addition;
    args.input = input, args.other = inputs.b->first(), args.output = to.values.data();
    return add(args);
  }
  if (c.product) {
    MatmulArgs args = *c.product;
    args.a.data = input, args.b.data = inputs.b->first(), args.output = to.values.data();
    args.added.data = inputs.added ? inputs.added->first() : nullptr;
    return multiply(args);
  }
  if (c.distance) {
    DistanceArgs args = *c.distance;
    args.points = args.width > 0 ? nullptr : input, args.centers = inputs.centers->first();
    args.output = to.values.data();
    return measure(args);
  }
  if (c.segment) {
    SegmentArgs args = *c.segment;
    args.input = input, args.output = to.values.data();
    args.segments.offsets = args.segments.wide ? static_cast<const void*>(inputs.offsets.data())
                                               : static_cast<const void*>(inputs.narrow_offsets.data());
    return segment(args);
  }
  if (c.recurrence) {
    RecurrenceArgs args = *c.recurrence;
    args.gates = inputs.gates->first(), args.tokens = input, args.output = to.values.data();
    args.initial = inputs.initial ? inputs.initial->first() : nullptr;
    args.segments = inputs.packed.segments();
    if (c.carried) args.before_gates = inputs.before_gates->first(), args.before_tokens = inputs.before->first();
    args.total_gates = data_of(to.total_gates), args.total_tokens = data_of(to.totals);
    return recur(args);
  }
  if (c.scan) {
    ScanArgs args = *c.scan;
    args.input = input, args.output = to.values.data();
    args.indices = to.indices.count() > 0 ? static_cast<int64_t*>(to.indices.data()) : nullptr;
    args.segments = inputs.packed.segments();
    if (inputs.mask) args.mask = {inputs.mask->bytes.data(), inputs.mask->strides};
    if (c.carried) args.before = inputs.before->first();
    if (c.carried && is_extreme(c)) {
      args.before_indices = inputs.before_indices.data();
      args.front = (int64_t(1) << 32) + 17;
    }
    args.totals = data_of(to.totals);
    return scan(args);
  }
  ReduceArgs args = c.args;
  args.input = input, args.output = to.values.data();
  return reduce(args);
}

std::string run_once(const Case& c, const Inputs& inputs, const Computed& expected, uint64_t& digest,
                     uintptr_t stream = 0) {
  Computed got(c);
  TestContext context(reinterpret_cast<cudaStream_t>(stream));
  const bool found = run(
      c, inputs, got, [&](const ReduceArgs& args) { return cuda::ladder::reduce(c.rung, args, context); },
      [&](const ScanArgs& args) { return cuda::ladder::scan(c.rung, args, context); },
      [&](const RecurrenceArgs& args) { return cuda::ladder::recurrence(c.rung, args, context); },
      [&](const SegmentArgs& args) { return cuda::ladder::segment(c.rung, args, context); },
      [&](const MatmulArgs& args) { return cuda::ladder::matmul(c.rung, args, context); },
      [&](const AddArgs& args) { return cuda::ladder::add(c.rung, args, context); },
      [&](const DistanceArgs& args) { return cuda::ladder::distance(c.rung, args, context); });
  if (!found) return "the GPU has no rung " + std::to_string(c.rung);
  if (inputs.changed()) return "the input was changed";
  if (got.overrun()) return "bytes beside the output were written";
  if (c.no_offsets || c.wrong_offsets) return "";
  digest = 0xcbf29ce484222325;
  add_to_digest(digest, got.values, c.args.output_dtype);
  add_to_digest(digest, got.indices, Dtype::int64);
  if (const std::string wrong = compare(got.values, expected.values, c.args.output_dtype); !wrong.empty()) return wrong;
  if (const std::string wrong = compare(got.indices, expected.indices, Dtype::int64); !wrong.empty())
    return "indices: " + wrong;
  for (const auto of : {&Computed::totals, &Computed::total_gates})
    if (const std::string wrong = compare(got.*of, expected.*of, accumulator_of(c)); !wrong.empty())
      return "totals: " + wrong;
  return "";
}

}  // namespace

std::string check(const Case& c, uint64_t& digest, bool once) {
  options.multiprocessors = c.multiprocessors;
  options.capability = c.capability;
  const Inputs inputs(c);
  Computed expected(c);
  const auto segment = [](const SegmentArgs& args) { return cpu::ladder::segment(0, args, {1, serial}); };
  if (!c.no_offsets && !c.wrong_offsets)
    run(
        c, inputs, expected, [](const ReduceArgs& args) { return cpu::ladder::reduce(0, args, {1, serial}); },
        [](const ScanArgs& args) { return cpu::ladder::scan(0, args, {1, serial}); },
        [](const RecurrenceArgs& args) { return cpu::ladder::recurrence(0, args, {1, serial}); }, segment,
        [&](const MatmulArgs& args) { return execute_order(c.rung, c.capability, args); },
        [](const AddArgs& args) { return cpu::ladder::add(kSequentialSums, args, {1, serial}); },
        [](const DistanceArgs& args) { return cpu::ladder::distance(0, args, {1, serial}); });
  if (inputs.changed() || expected.overrun()) return "the CPU's kernel changed its input or wrote beside its output";
  if (once) return run_once(c, inputs, expected, digest);
  // Twice: what the first run leaves in the stream's memory must not disturb the next one.
  for (const char* when : {"", "the second time: "})
    if (const std::string wrong = run_once(c, inputs, expected, digest); !wrong.empty()) return when + wrong;
  // On more streams than constant memory has slots: the last ones read the centers from where they are.
  const bool constant = c.distance && std::ranges::find(kInConstantMemory, c.rung) != std::end(kInConstantMemory);
  if (constant && c.distance->count <= 300)
    for (uintptr_t stream = 1; stream <= kStreams; stream++)
      if (const std::string wrong = run_once(c, inputs, expected, digest, stream); !wrong.empty())
        return "on stream " + std::to_string(stream) + ": " + wrong;
  return "";
}

}  // namespace emulator
