#include "case.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <istream>
#include <iterator>
#include <random>
#include <stdexcept>

#include "../../../../csrc/common/ladder.h"
#include "../../../../csrc/common/names.h"

namespace emulator {

using namespace torch_reductions;

namespace {

template <size_t N>
int index_of(const char* const (&names)[N], const std::string& name) {
  for (size_t i = 0; i < N; i++)
    if (name == names[i]) return int(i);
  throw std::runtime_error("no function or dtype is called " + name);
}

// --- Numbers ---

constexpr int kAnyOrder = 50;  // of distances: each lane has an order of its own; all others have that of the CPU

class Numbers {
 public:
  Numbers(const Case& c)
      : case_(c),
        ordered_(c.rung == (c.scan         ? kScanAuto
                            : c.recurrence ? kRecurrenceAuto
                            : c.segment    ? kSegmentAuto
                            : c.addition   ? c.rung  // every rung rounds alike
                            : c.distance   ? (c.rung == kAnyOrder ? 0 : c.rung)
                            : c.product    ? c.rung  // an order of its own that is executed literally: product.cpp
                                           : kReduceAuto)),
        random_(c.seed) {}

  template <class T>
  T next() {
    if constexpr (std::is_same_v<T, BFloat16>) return {bfloat16_bits(std::bit_cast<uint32_t>(real()))};
    else if constexpr (std::is_same_v<T, Half>) return {std::bit_cast<uint16_t>(_Float16(real()))};
    else if constexpr (std::is_floating_point_v<T>)
      return T(real()) * (T(1) + T(sizeof(T) == 8 && ordered_ ? below(1000) * 1e-12 : 0)) *
             T(underflows() && sizeof(T) == 8 ? 0x1p-460 : 1);
    else if (case_.args.input_dtype == Dtype::boolean)  // any byte but 0 is true; few are 0 where one decides
      return T(below(case_.args.function == Function::prod ? 1000 : 2) == 0 ? 0 : 1 + below(255));
    else return T(random_());
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }
  double sign() { return below(2) == 0 ? 1 : -1; }
  double fraction() { return double(random_() >> 40) * 0x1p-24; }  // 24 bits below 1

  // A product of two such factors is less than any number, or nearly. Short chains of them may end in -0, which one more
  // zero added would change.
  bool underflows() const { return case_.product && (case_.seed % 4 == 1 || case_.product->k <= 5); }

  // The ordered rung must give the bits of one order: magnitudes of sixteen binades, where any other order rounds
  // otherwise. The textbook's rungs have orders of their own: numbers on which every order is exact.
  float real() {
    const Function function = case_.args.function;
    if (!ordered_) return float(function == Function::prod ? sign() * power(below(3)) : integer());
    // A gate that no result may see, where it is the first of its line, and whose trace must be the right one elsewhere.
    if (case_.recurrence && function == Function::prod && case_.seed % 4 == 3 && below(300) == 0)
      return std::bit_cast<float>(0x7f800000);
    if (function == Function::prod) return float(1 + (fraction() - 0.5) / 64);
    // Long rows whose extremes are zeros of both signs: the first one is kept, whichever lane or block has it.
    const bool least = function == Function::amin || function == Function::argmin;
    if ((least || function == Function::amax || function == Function::argmax) && case_.args.length >= 1500 &&
        case_.seed % 2 == 0)
      return float(below(16) == 0 ? sign() * 0. : least ? 1 + fraction() : -1 - fraction());
    if (below(64) == 0) return below(2) == 0 ? 0.0f : -0.0f;
    if (case_.product) {
      if (case_.seed % 8 == 0 && below(4000) == 0) return std::bit_cast<float>(below(2) == 0 ? 0x7fc00000 : 0xff800000);
      const double factor = sign() * (1 + fraction()) * std::bit_cast<double>((1023 - 4 + below(8)) << 52);
      return float(underflows() && case_.args.input_dtype != Dtype::float16 ? factor * 0x1p-76 : factor);
    }
    if (case_.scan && case_.scan->function == Scan::logcumsumexp && below(16) == 0)
      return std::bit_cast<float>(0xff800000);
    if (case_.seed % 4 == 0 && below(300) == 0) return std::bit_cast<float>(0x7fc00000);
    return float(sign() * (1 + fraction()) * std::bit_cast<double>((1023 - 8 + below(16)) << 52));
  }
  double integer() { return double(below(17)) - 8; }
  static double power(uint64_t i) { return i == 0 ? 1 : i == 1 ? 2 : 0.5; }

  const Case& case_;
  const bool ordered_;
  std::mt19937_64 random_;
};

int64_t elements_reached(const ReduceArgs& a) {
  if (a.length == 0 || a.inner == 0) return 0;
  return (a.outer - 1) * a.outer_stride + (a.length - 1) * a.length_stride + (a.inner - 1) * a.inner_stride + 1;
}

// The scan of the case's elements. form: letters, e for exclusive, i for the initial element too, r for reverse, w for
// results of int64; its mask has no memory yet.
ScanArgs scan_of(Scan function, const ReduceArgs& a, const std::string& form) {
  const bool initial = form.find('i') != form.npos;
  return {.function = function,
          .input_dtype = a.input_dtype,
          .dtype = form.find('w') != form.npos ? Dtype::int64 : a.input_dtype,
          .outer = a.outer,
          .length = a.length,
          .results = a.length + initial,
          .inner = a.inner,
          .outer_stride = a.outer_stride,
          .length_stride = a.length_stride,
          .inner_stride = a.inner_stride,
          .exclusive = initial || form.find('e') != form.npos,
          .reverse = form.find('r') != form.npos};
}

// form: letters, h for an initial state, r for reverse; g where the gates do not change along the length, o where they are
// the same for all of outer, x where they are for all of inner.
RecurrenceArgs recurrence_of(const ReduceArgs& a, const std::string& form) {
  const auto has = [&](char letter) { return form.find(letter) != form.npos; };
  const Strides strides{a.outer_stride, a.length_stride, a.inner_stride};
  return {.dtype = a.input_dtype,
          .outer = a.outer,
          .length = a.length,
          .inner = a.inner,
          .gate_strides = {has('o') ? 0 : strides.outer, has('g') ? 0 : strides.length, has('x') ? 0 : strides.inner},
          .token_strides = strides,
          .reverse = has('r')};
}

// form: how many segments, and letters: e of equal lengths, z many of them empty, g one that takes nearly all; x for offsets
// that are wrong; w for int64.
SegmentArgs segments_of(Segment function, const ReduceArgs& a, const std::string& form) {
  return {.function = function,
          .input_dtype = a.input_dtype,
          .output_dtype = a.output_dtype,
          .outer = a.outer,
          .length = a.length,
          .inner = a.inner,
          .outer_stride = a.outer_stride,
          .length_stride = a.length_stride,
          .inner_stride = a.inner_stride,
          .segments = {nullptr, form.find('w') != form.npos, std::stoll(form), a.length}};
}

std::vector<int64_t> offsets_of(const SegmentArgs& args, const std::string& form, uint64_t seed) {
  const auto has = [&](char letter) { return form.find(letter) != form.npos; };
  const int64_t count = args.segments.count, length = args.length;
  std::mt19937_64 random(seed);
  const auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  std::vector<int64_t> offsets(size_t(count) + 1);
  if (has('x')) {
    for (int64_t& at : offsets) at = below(4) == 0 ? int64_t(int32_t(random())) : below(3 * length + 30) - length - 10;
    return offsets;
  }
  const int64_t few[] = {below(length + 1), below(length + 1), below(length + 1)};
  for (int64_t s = 1; s < count; s++) {
    int64_t& at = offsets[size_t(s)];
    if (has('e')) at = length * s / count;
    else if (has('g')) at = s <= count / 2 ? std::min(s * 5, length) : std::max(length - (count - s) * 5, int64_t(0));
    else if (has('l')) at = s <= count / 2 ? length / 4 * s / count : length - length / 4 * (count - s) / count;
    else if (has('z') && below(2) == 0) at = few[below(3)];
    else at = below(length + 1);
  }
  offsets.back() = length;
  std::sort(offsets.begin(), offsets.end());
  return offsets;
}

// The strides of a matrix and where its first element lies.
void read_matrix(std::istream& in, Matrix& matrix, int64_t& offset) {
  matrix.data = nullptr;
  in >> matrix.batch_stride >> matrix.row_stride >> matrix.column_stride >> offset;
}

// What stands in a line of a product between its types and the number of multiprocessors.
void read_product(std::istream& in, Case& c, const std::string& output) {
  MatmulArgs args{
      .function = Product::mm, .dtype = c.args.input_dtype, .output_dtype = Dtype(index_of(kDtypeNames, output))};
  in >> args.batch >> args.m >> args.n >> args.k;
  read_matrix(in, args.a, c.matrix_offsets[0]);
  read_matrix(in, args.b, c.matrix_offsets[1]);
  read_matrix(in, args.added, c.matrix_offsets[2]);
  in >> args.alpha >> args.beta >> args.parts >> c.capability;
  args.output = nullptr;
  c.product = args;
  c.args = matrix_of(c, 0).args;
  c.offset = c.matrix_offsets[0];
}

// What stands in a line of a sum between its types and the number of multiprocessors: the dims, the innermost first.
void read_addition(std::istream& in, Case& c) {
  AddArgs args{.dtype = c.args.input_dtype};
  in >> args.dims;
  args.count = 1;
  for (int d = 0; d < args.dims; d++) in >> args.sizes[d], args.count *= args.sizes[d];
  for (int d = 0; d < args.dims; d++) in >> args.input_strides[d];
  for (int d = 0; d < args.dims; d++) in >> args.other_strides[d];
  in >> args.columns >> c.operand_offsets[0] >> c.operand_offsets[1] >> args.alpha;
  c.addition = args;
  c.args = operand_of(c, 0).args;
  c.offset = c.operand_offsets[0];
}

// The same of distances. The points of a grid are no elements: its args have none.
void read_distance(std::istream& in, Case& c) {
  DistanceArgs args{};
  args.dtype = c.args.input_dtype;
  in >> args.count >> args.dims >> args.centers_count >> args.point_stride >> args.dim_stride >> args.width >> c.offset;
  c.distance = args;
  c.args = {.function = Function::sum,
            .input_dtype = args.dtype,
            .output_dtype = args.dtype,
            .outer = 1,
            .length = args.width > 0 ? 0 : args.count,
            .inner = args.dims,
            .outer_stride = 0,
            .length_stride = args.point_stride,
            .inner_stride = args.dim_stride};
}

}  // namespace

Case operand_of(const Case& c, int which) {
  Case operand = c;
  const AddArgs& args = *c.addition;
  int64_t reached = 1;
  for (int d = 0; d < args.dims; d++)
    reached += (args.sizes[d] - 1) * (which == 0 ? args.input_strides : args.other_strides)[d];
  operand.args = {.function = Function::sum,
                  .input_dtype = args.dtype,
                  .output_dtype = args.dtype,
                  .outer = 1,
                  .length = 1,
                  .inner = reached,
                  .inner_stride = 1};
  operand.offset = c.operand_offsets[which];
  operand.seed += uint64_t(which) * 8;  // the same kind of numbers
  return operand;
}

Case matrix_of(const Case& c, int which) {
  Case matrix = c;
  const MatmulArgs& args = *c.product;
  const Matrix& of = which == 0 ? args.a : which == 1 ? args.b : args.added;
  matrix.args = {.function = Function::sum,
                 .input_dtype = which == 2 ? args.output_dtype : args.dtype,
                 .output_dtype = args.output_dtype,
                 .outer = args.batch,
                 .length = which == 1 ? args.k : args.m,
                 .inner = which == 0 ? args.k : args.n,
                 .outer_stride = of.batch_stride,
                 .length_stride = of.row_stride,
                 .inner_stride = of.column_stride};
  matrix.offset = c.matrix_offsets[which];
  matrix.seed += uint64_t(which) * 8;  // the same kind of numbers
  return matrix;
}

Case centers_of(const Case& c) {
  Case centers = c;
  centers.args.length = c.distance->centers_count;
  centers.args.length_stride = centers.args.inner = c.distance->dims;
  centers.args.inner_stride = 1;
  centers.offset = 0;
  centers.seed++;
  return centers;
}

Case gates_of(const Case& c) {
  Case gates = c;
  const Strides& strides = c.recurrence->gate_strides;
  gates.args.outer_stride = strides.outer;
  gates.args.length_stride = strides.length;
  gates.args.inner_stride = strides.inner;
  gates.args.function = Function::prod;  // factors near 1
  gates.offset = 2 * c.offset;           // not where the tokens begin
  gates.seed++;
  return gates;
}

Case initial_of(const Case& c) {
  Case initial = c;
  initial.args.outer = initial.args.length = 1;
  initial.args.inner = c.args.outer * c.args.inner * (c.packed ? int64_t(packed_offsets_of(c).size()) - 1 : 1);
  initial.args.outer_stride = initial.args.length_stride = 0;
  initial.args.inner_stride = 1;
  initial.seed += 2;
  return initial;
}

Case before_of(const Case& c, bool gates) {
  Case before = initial_of(c);
  if (!is_extreme(c)) before.args.input_dtype = accumulator_of(c);
  if (gates) before.args.function = Function::prod;
  before.seed += gates ? 4 : 3;
  return before;
}

bool is_extreme(const Case& c) { return c.scan && c.scan->function >= Scan::cummax; }

Dtype accumulator_of(const Case& c) {
  if (c.args.input_dtype > Dtype::float64) return Dtype::int64;
  return c.args.input_dtype == Dtype::float64 ? Dtype::float64 : Dtype::float32;
}

int64_t totals_of(const Case& c) {
  return c.carried && !is_extreme(c) && std::has_single_bit(uint64_t(c.args.length)) ? c.args.outer * c.args.inner : 0;
}

// Segments of one length or another, empty ones among them; or whatever may stand in memory.
std::vector<int64_t> packed_offsets_of(const Case& c) {
  std::mt19937_64 random(c.seed + 3);
  const int64_t n = c.args.length, most[] = {1, 3, 20, 100, 1000, n / 3 + 1, n, 2 * n / 3 + 1};
  const int64_t longest = most[random() % std::size(most)];
  std::vector<int64_t> offsets{0};
  while (offsets.back() < n) {
    const int64_t length = random() % 5 == 0 ? 0 : longest == 1 ? 1 : int64_t(random() % uint64_t(longest)) + 1;
    offsets.push_back(std::min(offsets.back() + length, n));
  }
  for (uint64_t empty = random() % 3; empty > 0; empty--) offsets.push_back(n);
  if (c.no_offsets)
    for (int64_t& offset : offsets) offset = int64_t(random() % uint64_t(2 * n + 3)) - n / 2;
  return offsets;
}

MaskBytes mask_of(const Case& c) {
  std::mt19937_64 random(c.seed + 4);
  const int64_t outer = c.args.outer, length = c.args.length, inner = c.args.inner;
  const Strides kinds[] = {{length * inner, inner, 1},
                           {length * inner, inner, 1},
                           {length, 1, outer * length},
                           {2 * length * inner, 2 * inner, 2},
                           {0, 1, 0},
                           {inner, 0, 1}};
  const Strides strides = kinds[random() % std::size(kinds)];
  const int64_t last = (outer - 1) * strides.outer + (length - 1) * strides.length + (inner - 1) * strides.inner;
  const uint64_t of_16[] = {0, 1, 8, 15, 16}, shown = of_16[random() % std::size(of_16)];
  std::vector<uint8_t> bytes(length == 0 ? 0 : size_t(last) + 1);
  for (uint8_t& byte : bytes) byte = random() % 16 < shown ? 1 + random() % 255 : 0;  // any but 0 shows an element
  return {strides, bytes};
}

std::vector<Case> read_cases(std::istream& in) {
  std::vector<Case> cases;
  std::string function, input, output;
  for (Case c; in >> c.name >> c.rung >> function >> input >> output;) {
    c.args.input_dtype = Dtype(index_of(kDtypeNames, input));
    c.scan.reset(), c.recurrence.reset(), c.segment.reset(), c.product.reset(), c.addition.reset(), c.distance.reset();
    if (std::ranges::find(kProductNames, function) != std::end(kProductNames)) read_product(in, c, output);
    else if (function == "add") read_addition(in, c);
    else if (std::ranges::find(kDistanceNames, function) != std::end(kDistanceNames)) read_distance(in, c);
    else
      in >> c.args.outer >> c.args.length >> c.args.inner >> c.args.outer_stride >> c.args.length_stride >>
          c.args.inner_stride >> c.offset;
    if (!(in >> c.multiprocessors >> c.seed)) break;
    c.args.input = c.args.output = nullptr;
    const bool has_form = function.find("cum") != function.npos || function.ends_with("recurrence");
    c.no_offsets = has_form && output.find('b') != output.npos;
    c.packed = c.no_offsets || (has_form && output.find('s') != output.npos);
    c.masked = has_form && output.find('m') != output.npos;
    c.carried = has_form && output.find('f') != output.npos;
    c.wrong_offsets = false;
    if (c.product || c.addition || c.distance) {  // read already
    } else if (function.ends_with("recurrence")) {
      c.args.function = Function::sum;
      c.args.output_dtype = c.args.input_dtype;
      c.recurrence = recurrence_of(c.args, output);
      c.has_initial = output.find('h') != output.npos;
    } else if (function.starts_with("segment")) {
      const Segment segment = Segment(index_of(kSegmentNames, function));
      c.args.function = fold_of(segment);
      const bool wide = c.args.function <= Function::mean && c.args.input_dtype > Dtype::float64;
      c.args.output_dtype = wide ? Dtype::int64 : c.args.input_dtype;
      c.segment = segments_of(segment, c.args, output);
      c.offsets = offsets_of(*c.segment, output, c.seed);
      c.wrong_offsets = output.find('x') != output.npos;
    } else if (function.find("cum") != function.npos) {
      const Scan scan = Scan(index_of(kScanNames, function));
      c.args.function = scan == Scan::cumprod ? Function::prod : Function::sum;
      c.scan = scan_of(scan, c.args, output);
      c.args.output_dtype = c.scan->dtype;
    } else {
      c.args.function = Function(index_of(kFunctionNames, function));
      c.args.output_dtype = Dtype(index_of(kDtypeNames, output));
    }
    cases.push_back(c);
  }
  if (!in.eof()) throw std::runtime_error("the list of cases cannot be read after " + std::to_string(cases.size()));
  return cases;
}

Input::Input(const Case& c) {
  const size_t size = size_t(size_of(c.args.input_dtype));
  skipped_ = size_t(c.offset) * size;
  bytes_ = (skipped_ + size_t(elements_reached(c.args)) * size + 15) / 16 * 16;
  void* memory = nullptr;
  if (posix_memalign(&memory, 256, bytes_) != 0) throw std::bad_alloc();
  begin_ = static_cast<char*>(memory);
  std::memset(begin_, 0xff, bytes_);
  fill(c);
  copy_.assign(begin_, begin_ + bytes_);
}

Input::~Input() { std::free(begin_); }

void Input::fill(const Case& c) {
  Numbers numbers(c);
  with_storage(c.args.input_dtype, [&]<class T>(std::type_identity<T>) {
    T* const elements = reinterpret_cast<T*>(begin_ + skipped_);
    for (int64_t i = 0; i < elements_reached(c.args); i++) elements[i] = numbers.next<T>();
  });
}

bool Input::changed() const { return std::memcmp(begin_, copy_.data(), bytes_) != 0; }

}  // namespace emulator
