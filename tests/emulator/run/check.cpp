#include "check.h"

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "../../../csrc/cpu/reduce/ladder.h"
#include "../../../csrc/cuda/reduce/ladder.h"
#include "../machine/options.h"

namespace emulator {

using namespace torch_reductions;

namespace {

// The workspace is garbage of exactly the size that was asked for.
class TestContext : public cuda::Context {
 public:
  TestContext() : Context(0, nullptr) {}
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

// The results between bytes that must stay as they are.
class Results {
 public:
  explicit Results(const ReduceArgs& a)
      : size_(size_t(size_of(a.output_dtype))),
        count_(a.outer * a.inner),
        bytes_(kMargin * 2 + size_t(count_) * size_, kMark) {}

  void* data() { return bytes_.data() + kMargin; }
  bool overrun() const {
    for (size_t i = 0; i < kMargin; i++)
      if (bytes_[i] != kMark || bytes_[bytes_.size() - 1 - i] != kMark) return true;
    return false;
  }

  uint64_t bits(int64_t i) const {
    uint64_t value = 0;
    std::memcpy(&value, bytes_.data() + kMargin + size_t(i) * size_, size_);
    return value;
  }
  int64_t count() const { return count_; }

 private:
  static constexpr size_t kMargin = 64;
  static constexpr char kMark = 0x5a;
  size_t size_;
  int64_t count_;
  std::vector<char> bytes_;
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

void serial(int64_t begin, int64_t end, int64_t, const std::function<void(int64_t, int64_t)>& body) {
  body(begin, end);
}

std::string run_once(const Case& c, const Input& input, const Results& expected) {
  ReduceArgs args = c.args;
  Results got(args);
  args.input = input.first();
  args.output = got.data();
  TestContext context;
  if (!cuda::reduce(c.rung, args, context)) return "the GPU has no rung " + std::to_string(c.rung);
  if (input.changed()) return "the input was changed";
  if (got.overrun()) return "bytes beside the output were written";
  return compare(got, expected, args.output_dtype);
}

}  // namespace

std::string check(const Case& c) {
  options.multiprocessors = c.multiprocessors;
  const Input input(c);
  Results expected(c.args);
  ReduceArgs args = c.args;
  args.input = input.first();
  args.output = expected.data();
  cpu::reduce(0, args, {1, serial});
  // Twice: what the first run leaves in the stream's memory must not disturb the next one.
  for (const char* when : {"", "the second time: "})
    if (const std::string wrong = run_once(c, input, expected); !wrong.empty()) return when + wrong;
  return "";
}

}  // namespace emulator
