// Runs every rung of the CPU on every function and type, over lengths and layouts, and writes a line per case: what it
// is and a digest of the result's bits. The inputs are random numbers, the same everywhere, so the lines must be, too.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../../../csrc/common/names.h"
#include "../../../csrc/cpu/add/ladder.h"
#include "../../../csrc/cpu/convert.h"
#include "../../../csrc/cpu/distance/ladder.h"
#include "../../../csrc/cpu/matmul/ladder.h"
#include "../../../csrc/cpu/recurrence/ladder.h"
#include "../../../csrc/cpu/reduce/ladder.h"
#include "../../../csrc/cpu/scan/ladder.h"
#include "../../../csrc/cpu/segment/ladder.h"

using namespace torch_reductions;

namespace {

// --- Threads, numbers, digests ---

void parallel_for(int64_t begin, int64_t end, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  constexpr int64_t kParts = 3;
  const int64_t size = std::max((end - begin + kParts - 1) / kParts, std::max(grain, int64_t(1)));
  std::vector<std::thread> threads;
  for (int64_t from = begin; from < end; from += size)
    if (from + size >= end) body(from, end);
    else threads.emplace_back(body, from, from + size);
  for (std::thread& thread : threads) thread.join();
}

const cpu::Threads kThreads{3, parallel_for};

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {  // splitmix64
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  int64_t below(int64_t n) { return int64_t(next() % uint64_t(n)); }

 private:
  uint64_t state_;
};

// near_one: factors whose products stay finite. Others have magnitudes of sixteen binades, where every order of
// additions rounds otherwise; special: with zeros of both signs, infinities and NaN among them.
enum class Kind { wide, special, near_one };

double real(Random& random, Kind kind) {
  const double fraction = double(random.next() >> 11) * 0x1p-53, sign = random.below(2) == 0 ? 1 : -1;
  if (kind == Kind::near_one) return 1 + (fraction - 0.5) / 16;
  if (kind == Kind::special) {
    static constexpr double kSpecial[] = {0.0, -0.0, INFINITY, -INFINITY, NAN};
    if (random.below(8) == 0) return kSpecial[random.below(2)];
    if (random.below(200) == 0) return kSpecial[random.below(5)];
  }
  return sign * std::ldexp(1 + fraction, int(random.below(16)) - 8);
}

struct Buffer {
  Dtype dtype;
  std::vector<uint64_t> words;

  Buffer(Dtype dtype, int64_t count)
      : dtype(dtype), words(size_t(count * size_of(dtype) / 8 + 9), 0xaaaaaaaaaaaaaaaa) {}
  Buffer(Dtype dtype, int64_t count, Random& random, Kind kind) : Buffer(dtype, count) {
    with_storage(dtype, [&]<class T>(std::type_identity<T>) {
      for (T* at = data<T>(); at != data<T>() + count; ++at) {
        if constexpr (std::is_integral_v<T>) *at = T(dtype == Dtype::boolean && random.below(2) ? 0 : random.next());
        else *at = cpu::narrow<T>(real(random, kind));
      }
    });
  }

  template <class T = void>
  T* data() {
    return reinterpret_cast<T*>(words.data());
  }
};

// Every NaN counts as the same one: which of its bits are set is the processor's choice.
uint64_t digest(Buffer& buffer, int64_t count) {
  uint64_t hash = 0xcbf29ce484222325;
  with_storage(buffer.dtype, [&]<class T>(std::type_identity<T>) {
    for (T* at = buffer.data<T>(); at != buffer.data<T>() + count; ++at) {
      uint64_t bits = 0;
      std::memcpy(&bits, at, sizeof(T));
      bool nan = false;
      if constexpr (std::is_same_v<T, Half>) nan = (bits & 0x7fff) > 0x7c00;
      else if constexpr (std::is_same_v<T, BFloat16>) nan = (bits & 0x7fff) > 0x7f80;
      else if constexpr (std::is_floating_point_v<T>) nan = std::isnan(*at);
      if (nan) bits = ~0ull;
      hash = std::rotl(hash ^ bits, 29) * 0x9e3779b97f4a7c15;
    }
  });
  return hash;
}

// --- Cases ---

constexpr Kind kKinds[] = {Kind::wide, Kind::special};

struct Shape {
  int64_t outer, length, inner;
};

struct Layout {
  const char* name;
  Strides (*strides)(const Shape&);
};

constexpr Layout kLayouts[] = {
    {"packed", [](const Shape& s) { return Strides{s.length * s.inner, s.inner, 1}; }},
    {"transposed", [](const Shape& s) { return Strides{1, s.inner * s.outer, s.outer}; }},
    {"every_second", [](const Shape& s) { return Strides{2 * s.length * s.inner, 2 * s.inner, 2}; }},
    {"expanded", [](const Shape& s) { return Strides{0, s.inner, 1}; }},
};

int64_t reached(const Shape& shape, const Strides& strides) {
  if (shape.length == 0) return 0;
  return (shape.outer - 1) * strides.outer + (shape.length - 1) * strides.length + (shape.inner - 1) * strides.inner +
         1;
}

std::string text_of(const Shape& s) {
  return std::to_string(s.outer) + "x" + std::to_string(s.length) + "x" + std::to_string(s.inner);
}

// body(number, row's name, function, dtype) for each rung of the CPU, function and type that it has.
template <size_t N, class Names, class Body>
void for_each(const Rung (&ladder)[N], const Names& names, Body&& body) {
  for (const Rung& rung : ladder) {
    if (!(rung.devices & kCpu)) continue;
    for (int function = 0; function < int(std::size(names)); function++)
      for (int dtype = 0; dtype < kDtypes; dtype++)
        if (rung.functions >> function & rung.dtypes >> dtype & 1) body(rung, function, Dtype(dtype));
  }
}

void write(const Rung& rung, const char* function, Dtype dtype, const std::string& what, bool ran, uint64_t result) {
  if (!ran) std::fprintf(stderr, "no launcher of %s\n", rung.name), std::exit(1);
  std::printf("%s %s %s %s %016llx\n", function, rung.name, kDtypeNames[int(dtype)], what.c_str(),
              (unsigned long long)result);
}

bool is_floating(Dtype dtype) { return dtype <= Dtype::float64; }
bool is_half(Dtype dtype) { return dtype <= Dtype::bfloat16; }

// The types that a fold of the type may have.
std::vector<Dtype> outputs_of(Function function, Dtype dtype, bool ordered) {
  if (function == Function::amax || function == Function::amin) return {dtype};
  if (is_floating(dtype) && is_half(dtype) && ordered) return {dtype, Dtype::float32};
  if (is_floating(dtype)) return {dtype};
  if (ordered) return {Dtype::int64, Dtype::int16};
  return {Dtype::int64};
}

constexpr Shape kShapes[] = {{3, 0, 2},  {4, 1, 3},   {2, 5, 1},    {3, 33, 17}, {70, 40, 1},
                             {1, 1, 90}, {1, 129, 4}, {2, 1025, 3}, {1, 9001, 1}};

void reductions(Random& random) {
  for_each(kReduceLadder, kFunctionNames, [&](const Rung& rung, int number, Dtype dtype) {
    const Function function = Function(number);
    const bool index = function == Function::argmax || function == Function::argmin;
    if ((function == Function::mean && !is_floating(dtype)) || (index && dtype == Dtype::boolean)) return;
    const bool extreme = index || function == Function::amax || function == Function::amin;
    const bool textbook = rung.number != kReduceAuto;
    for (Shape shape : kShapes) {
      if (extreme && shape.length == 0) continue;
      if (textbook) shape = {shape.outer * shape.inner, shape.length, 1};  // contiguous rows, as in ops/reduce.cpp
      for (const Layout& layout : kLayouts) {
        if (textbook && &layout != kLayouts) continue;
        for (Kind kind : kKinds) {
          if (kind == Kind::special && !is_floating(dtype)) continue;
          if (function == Function::prod && kind == Kind::wide) kind = Kind::near_one;
          const Strides strides = layout.strides(shape);
          Buffer input(dtype, reached(shape, strides), random, kind);
          for (Dtype to : index ? std::vector{Dtype::int64} : outputs_of(function, dtype, !textbook)) {
            Buffer output(to, shape.outer * shape.inner);
            const bool ran =
                cpu::ladder::reduce(rung.number,
                                    {function, dtype, to, input.data(), output.data(), shape.outer, shape.length,
                                     shape.inner, strides.outer, strides.length, strides.inner},
                                    kThreads);
            write(rung, name_of(function), dtype,
                  text_of(shape) + " " + layout.name + " " + std::to_string(int(kind)) + " " + kDtypeNames[int(to)],
                  ran, digest(output, shape.outer * shape.inner));
          }
        }
      }
    }
  });
}

std::vector<int64_t> offsets_of(int64_t length, Random& random) {
  std::vector<int64_t> offsets{0, 0, length};
  for (int i = 0; i < 9; i++) offsets.push_back(random.below(length + 1));
  std::sort(offsets.begin(), offsets.end());
  return offsets;
}

void segments(Random& random) {
  for_each(kSegmentLadder, kSegmentNames, [&](const Rung& rung, int number, Dtype dtype) {
    const Segment function = Segment(number);
    if (function == Segment::segment_mean && !is_floating(dtype)) return;
    for (const Shape& shape : kShapes) {
      for (const Layout& layout : kLayouts) {
        const Strides strides = layout.strides(shape);
        const Kind kind = function == Segment::segment_prod ? Kind::near_one : Kind::wide;
        Buffer input(dtype, reached(shape, strides), random, kind);
        const std::vector<int64_t> offsets = offsets_of(shape.length, random);
        const int64_t count = int64_t(offsets.size()) - 1, results = shape.outer * count * shape.inner;
        for (Dtype to : outputs_of(fold_of(function), dtype, true)) {
          Buffer output(to, results);
          const bool ran = cpu::ladder::segment(
              rung.number,
              {function, dtype, to, input.data(), output.data(), shape.outer, shape.length, shape.inner, strides.outer,
               strides.length, strides.inner, Segments{offsets.data(), true, count, shape.length}},
              kThreads);
          write(rung, name_of(function), dtype, text_of(shape) + " " + layout.name + " " + kDtypeNames[int(to)], ran,
                digest(output, results));
        }
      }
    }
  });
}

struct Form {
  const char* name;
  bool exclusive, initial, reverse, packed, masked;
};

constexpr Form kForms[] = {
    {"inclusive", 0, 0, 0, 0, 0}, {"exclusive", 1, 0, 0, 0, 0},  {"initial", 1, 1, 0, 0, 0},
    {"reverse", 0, 0, 1, 0, 0},   {"reverse_ex", 1, 0, 1, 0, 0}, {"reverse_initial", 1, 1, 1, 0, 0},
    {"segments", 0, 0, 0, 1, 0},  {"masked", 0, 0, 0, 0, 1},     {"reverse_both", 1, 0, 1, 1, 1}};

void scans(Random& random) {
  for_each(kScanLadder, kScanNames, [&](const Rung& rung, int number, Dtype dtype) {
    const Scan function = Scan(number);
    if (function == Scan::logcumsumexp && !is_floating(dtype)) return;
    const bool indexed = function == Scan::cummax || function == Scan::cummin;
    const bool textbook = rung.number != kScanAuto;
    for (Shape shape : kShapes) {
      if (shape.length == 0) continue;
      if (textbook) shape = {shape.outer * shape.inner, shape.length, 1};  // contiguous rows, as in ops/scan.cpp
      for (const Layout& layout : kLayouts) {
        if (textbook && &layout != kLayouts) continue;
        const Strides strides = layout.strides(shape);
        for (const Form& form : kForms) {
          const Kind kind = function == Scan::cumprod ? Kind::near_one : kKinds[random.below(2)];
          Buffer input(dtype, reached(shape, strides), random, kind);
          std::vector<uint8_t> mask(size_t(shape.outer * shape.length * shape.inner));
          for (uint8_t& byte : mask) byte = uint8_t(random.below(4));
          const std::vector<int64_t> offsets = offsets_of(shape.length, random);
          const int64_t results = shape.length + form.initial, count = shape.outer * results * shape.inner;
          Buffer output(dtype, count), indices(Dtype::int64, count);
          ScanArgs args{};
          args.function = function, args.input_dtype = args.dtype = dtype;
          args.input = input.data(), args.output = output.data();
          args.indices = indexed ? indices.data<int64_t>() : nullptr;
          args.outer = shape.outer, args.length = shape.length, args.results = results, args.inner = shape.inner;
          args.outer_stride = strides.outer, args.length_stride = strides.length, args.inner_stride = strides.inner;
          args.exclusive = form.exclusive, args.reverse = form.reverse;
          if (form.packed) args.segments = {offsets.data(), true, int64_t(offsets.size()) - 1, shape.length};
          if (form.masked) args.mask = {mask.data(), kLayouts[0].strides(shape)};
          const bool ran = cpu::ladder::scan(rung.number, args, kThreads);
          write(rung, name_of(function), dtype, text_of(shape) + " " + layout.name + " " + form.name, ran,
                digest(output, count) ^ (indexed ? digest(indices, count) : 0));
        }
      }
    }
  });
}

void recurrences(Random& random) {
  for_each(kRecurrenceLadder, kRecurrenceNames, [&](const Rung& rung, int, Dtype dtype) {
    for (const Shape& shape : kShapes) {
      if (shape.length == 0) continue;
      for (const Layout& layout : kLayouts) {
        for (const Form& form : kForms) {
          if (form.exclusive || form.masked) continue;
          const Strides strides = layout.strides(shape);
          Buffer gates(dtype, reached(shape, strides), random, Kind::near_one);
          Buffer tokens(dtype, reached(shape, strides), random, Kind::wide);
          const std::vector<int64_t> offsets = offsets_of(shape.length, random);
          const int64_t lines = shape.outer * shape.inner, count = lines * shape.length;
          const int64_t pieces = form.packed ? int64_t(offsets.size()) - 1 : 1;
          Buffer initial(dtype, lines * pieces, random, Kind::wide), output(dtype, count);
          const Segments packed{offsets.data(), true, pieces, shape.length};
          const bool with_initial = random.below(2) == 0;
          const bool ran = cpu::ladder::recurrence(
              rung.number,
              {dtype, gates.data(), tokens.data(), with_initial ? initial.data() : nullptr, output.data(), shape.outer,
               shape.length, shape.inner, strides, strides, form.reverse, form.packed ? packed : Segments{}},
              kThreads);
          write(rung, "linear_recurrence", dtype, text_of(shape) + " " + layout.name + " " + form.name, ran,
                digest(output, count));
        }
      }
    }
  });
}

void products(Random& random) {
  struct Size {
    int64_t batch, m, n, k;
  };
  constexpr Size kSizes[] = {{1, 1, 1, 1},    {2, 3, 5, 0},   {1, 17, 33, 7},  {2, 9, 40, 515},
                             {1, 1, 70, 600}, {1, 70, 1, 90}, {1, 40, 37, 64}, {1, 3, 4, 8200}};
  for_each(kMatmulLadder, kProductNames, [&](const Rung& rung, int function, Dtype dtype) {
    if (Product(function) != Product::mm) return;  // no kernel reads it
    for (const Size& size : kSizes) {
      for (int form = 0; form < 16; form++) {
        const bool narrow = dtype == Dtype::int8 || dtype == Dtype::uint8 || dtype == Dtype::int16;
        if (form & 8 && !is_half(dtype) && !narrow) continue;
        const Dtype to = !(form & 8) ? dtype : narrow ? Dtype::int32 : Dtype::float32;
        Buffer a(dtype, size.batch * size.m * size.k, random, Kind::wide);
        Buffer b(dtype, size.batch * size.k * size.n, random, Kind::wide);
        Buffer added(to, size.batch * size.m * size.n, random, Kind::special), output(to, size.batch * size.m * size.n);
        const auto matrix = [&](Buffer& of, int64_t rows, int64_t columns, bool transposed) {
          return Matrix{of.data(), rows * columns, transposed ? 1 : columns, transposed ? rows : 1};
        };
        MatmulArgs args{};
        args.function = Product::mm, args.dtype = dtype, args.output_dtype = to, args.output = output.data();
        args.a = matrix(a, size.m, size.k, form & 1), args.b = matrix(b, size.k, size.n, form & 2);
        if (form & 4) args.added = matrix(added, size.m, size.n, false);
        args.alpha = form & 4 && is_floating(dtype) ? 1.7 : 1, args.beta = form & 4 && is_floating(dtype) ? 0.3 : 1;
        args.batch = size.batch, args.m = size.m, args.n = size.n, args.k = size.k;
        const bool ran = cpu::ladder::matmul(rung.number, args, kThreads);
        const std::string text = std::to_string(size.m) + "x" + std::to_string(size.n) + "x" + std::to_string(size.k);
        write(rung, "mm", dtype, text + " " + std::to_string(form), ran, digest(output, size.batch * size.m * size.n));
      }
    }
  });
}

void additions(Random& random) {
  for_each(kAddLadder, kAddNames, [&](const Rung& rung, int, Dtype dtype) {
    for (const Shape& shape : kShapes) {
      if (shape.length == 0) continue;
      for (const Layout& layout : kLayouts) {
        for (double alpha : {1.0, 0.0, is_floating(dtype) ? -0.7 : 1.0}) {
          const Strides strides = layout.strides(shape);
          const int64_t count = shape.outer * shape.length * shape.inner;
          Buffer input(dtype, count, random, Kind::special), output(dtype, count);
          Buffer other(dtype, reached(shape, strides), random, Kind::wide);
          AddArgs args{dtype, input.data(), other.data(), output.data(), alpha, count, shape.inner, 3, {}, {}, {}};
          const Strides packed = kLayouts[0].strides(shape);
          const int64_t sizes[] = {shape.inner, shape.length, shape.outer};
          const int64_t input_strides[] = {packed.inner, packed.length, packed.outer};
          const int64_t other_strides[] = {strides.inner, strides.length, strides.outer};
          for (int i = 0; i < 3; i++) {
            args.sizes[i] = sizes[i], args.input_strides[i] = input_strides[i],
            args.other_strides[i] = other_strides[i];
          }
          const bool ran = cpu::ladder::add(rung.number, args, kThreads);
          write(rung, "add", dtype, text_of(shape) + " " + layout.name + " " + std::to_string(alpha), ran,
                digest(output, count));
        }
      }
    }
  });
}

void distances(Random& random) {
  for_each(kDistanceLadder, kDistanceNames, [&](const Rung& rung, int number, Dtype dtype) {
    const bool grid = Distance(number) == Distance::grid_squared_distances;
    for (int64_t count : {1, 7, 100, 1000}) {
      for (int64_t centers_count : {0, 1, 9, 130}) {
        for (int64_t dims : {1, 2, 3, 20}) {
          if (grid && dims != 2) continue;
          for (bool transposed : {false, true}) {
            Buffer points(dtype, count * dims, random, Kind::wide),
                centers(dtype, centers_count * dims, random, Kind::wide);
            Buffer output(dtype, count);
            const bool ran = cpu::ladder::distance(
                rung.number,
                {dtype, grid ? nullptr : points.data(), centers.data(), output.data(), count, centers_count, dims,
                 transposed ? 1 : dims, transposed ? count : 1, grid ? 10 : 0},
                kThreads);
            const std::string text =
                std::to_string(count) + "x" + std::to_string(centers_count) + "x" + std::to_string(dims);
            write(rung, name_of(Distance(number)), dtype, text + (transposed ? " transposed" : " packed"), ran,
                  digest(output, count));
          }
        }
      }
    }
  });
}

}  // namespace

int main() {
  Random random(1);
  for (const auto& family : {reductions, segments, scans, recurrences, products, additions, distances}) family(random);
}
