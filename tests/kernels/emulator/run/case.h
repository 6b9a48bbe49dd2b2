// One case: a rung, what it is called with, and the numbers that it is called on.
#pragma once
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "../../../../csrc/common/args.h"

namespace emulator {

// A line of the list that tests/kernels/emulator/cases.py writes.
struct Case {
  std::string name;
  int rung;
  // Without memory. A scan has the arguments of both: those of the reduction whose elements it takes tell where they stand.
  torch_reductions::ReduceArgs args;
  std::optional<torch_reductions::ScanArgs> scan;
  std::optional<torch_reductions::RecurrenceArgs> recurrence;  // args tell where its tokens stand
  bool has_initial;                                            // a state before the first element, or each segment
  // Of packed segments, s: their offsets are made of the seed; b: they are no offsets, so that no result has a meaning.
  bool packed, no_offsets;
  bool masked;   // m: a mask of a scan is made of the seed
  bool carried;  // f: it goes on from what came before, and gives totals where the length is a power of two
  std::optional<torch_reductions::SegmentArgs> segment;
  std::optional<torch_reductions::MatmulArgs> product;     // args tell where its factor a stands
  int64_t matrix_offsets[3];                               // as offset, of a, b and what is added; -1 where nothing is
  std::optional<torch_reductions::DistanceArgs> distance;  // args tell where its points stand
  std::optional<torch_reductions::AddArgs> addition;       // args tell how far its input reaches
  int64_t operand_offsets[2];                              // as offset, of input and other
  std::vector<int64_t> offsets;                            // of its segments
  bool wrong_offsets;                                      // as nobody may give them: any result will do
  int64_t offset;                        // of the first element, in elements, from an address that 256 divides
  int capability = 90, multiprocessors;  // of the emulated device
  uint64_t seed;
};
std::vector<Case> read_cases(std::istream& in);

// The same case, whose elements are those of a recurrence's gates or of its initial state.
Case gates_of(const Case& c);
Case initial_of(const Case& c);
// The same case, whose elements are what came before each line; of a recurrence their gates, too.
Case before_of(const Case& c, bool gates);

// The type of totals and how many there are: none of extremes.
torch_reductions::Dtype accumulator_of(const Case& c);
int64_t totals_of(const Case& c);
bool is_extreme(const Case& c);
// The same case, whose elements are those of matrix 0, 1 or 2 of a product: a, b or what is added.
Case matrix_of(const Case& c, int which);
// The same case, whose elements are all that a sum can reach of operand 0 or 1.
Case operand_of(const Case& c, int which);

// The same case, whose elements are those of a distance's centers.
Case centers_of(const Case& c);

std::vector<int64_t> packed_offsets_of(const Case& c);

// How the bytes of a case's mask lie, and exactly as many as it can reach: packed, transposed, every second one, or broadcast.
struct MaskBytes {
  torch_reductions::Strides strides;
  std::vector<uint8_t> bytes;
};
MaskBytes mask_of(const Case& c);

// The elements, exactly as many bytes as the case can reach, rounded up to the 16 of a vector: kernels may load an
// aligned vector that holds at least one element.
class Input {
 public:
  explicit Input(const Case& c);
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  const void* first() const { return begin_ + skipped_; }
  bool changed() const;

 private:
  void fill(const Case& c);

  size_t skipped_, bytes_;
  char* begin_;
  std::vector<char> copy_;
};

}  // namespace emulator
