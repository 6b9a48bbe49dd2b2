// Argument checks. Python raises the exact exception types before these; here every one is a RuntimeError.
#pragma once
#include <torch/headeronly/core/ScalarType.h>

#include <bitset>
#include <cstdint>
#include <iterator>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>

#include "../common/ladder.h"
#include "../common/names.h"

// STD_TORCH_CHECK, but the message does not begin with a C++ function, file and line. It is built on failure only.
#define TR_CHECK(condition, ...) ((condition) ? void() : ::torch_reductions::fail(__VA_ARGS__))

namespace torch_reductions {

template <class... Words>
[[noreturn, gnu::cold, gnu::noinline]] void fail(Words... words) {
  std::ostringstream text;
  (text << ... << words);
  throw std::runtime_error(text.str());
}

inline constexpr int kMaxDims = 64;  // torch's own limit for a list of dims

using DimSet = std::bitset<kMaxDims>;

inline int64_t wrap_dim(const char* function, int64_t dim, int64_t ndim) {
  const int64_t count = ndim > 0 ? ndim : 1;  // a tensor without dimensions takes 0 and -1
  TR_CHECK(dim >= -count && dim < count, function,
           "(): argument 'dim': Dimension out of range (expected to be in range of [", -count, ", ", count - 1,
           "], but got ", dim, ")");
  return dim < 0 ? dim + count : dim;
}

inline void check_ndim(const char* argument, int64_t ndim) {
  TR_CHECK(ndim <= kMaxDims, argument, " has ", ndim, " dimensions; only tensors with up to ", kMaxDims,
           " are supported");
}

// No dim at all means every dim, as in torch.
inline DimSet dim_set(const char* function, std::span<const int64_t> dims, int64_t ndim) {
  check_ndim("input", ndim);
  DimSet set;
  for (const int64_t dim : dims) {
    const int64_t wrapped = wrap_dim(function, dim, ndim);
    TR_CHECK(!set[wrapped], function, "(): argument 'dim': dim ", wrapped,
             " appears multiple times in the list of dims");
    set[wrapped] = true;
  }
  return dims.empty() ? ~DimSet() : set;
}

inline Dtype dtype_of(const char* function, const char* argument, torch::headeronly::ScalarType type) {
  using torch::headeronly::ScalarType;
  switch (type) {
    case ScalarType::Half: return Dtype::float16;
    case ScalarType::BFloat16: return Dtype::bfloat16;
    case ScalarType::Float: return Dtype::float32;
    case ScalarType::Double: return Dtype::float64;
    case ScalarType::Char: return Dtype::int8;
    case ScalarType::Byte: return Dtype::uint8;
    case ScalarType::Short: return Dtype::int16;
    case ScalarType::Int: return Dtype::int32;
    case ScalarType::Long: return Dtype::int64;
    case ScalarType::Bool: return Dtype::boolean;
    default:
      fail(function, "(): ", argument, " is ", torch::headeronly::toString(type),
           "; supported are float16, bfloat16, float32, float64, int8, uint8, int16, int32, int64 and bool");
  }
}

inline torch::headeronly::ScalarType scalar_type_of(Dtype dtype) {
  using torch::headeronly::ScalarType;
  static constexpr ScalarType kTypes[] = {ScalarType::Half, ScalarType::BFloat16, ScalarType::Float, ScalarType::Double,
                                          ScalarType::Char, ScalarType::Byte,     ScalarType::Short, ScalarType::Int,
                                          ScalarType::Long, ScalarType::Bool};
  static_assert(std::size(kTypes) == kDtypes);
  return kTypes[int(dtype)];
}

inline bool is_power_of_two(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

// The number that runs, after auto is replaced. Fails where the device has no such rung, or where the rung lacks the
// function or the type.
template <size_t N, class F>
int check_variant(const Rung (&ladder)[N], int64_t variant, int auto_variant, Devices device, F function, Dtype dtype) {
  if (variant == 0) variant = auto_variant;
  const auto runs = [&](const Rung& rung) {
    return rung.devices & device && rung.functions & bit(function) && rung.dtypes & bit(dtype);
  };
  for (const Rung& rung : ladder) {
    if (has_number(rung, variant) && runs(rung)) return int(variant);
  }
  std::string names;
  for (const Rung& rung : ladder) {
    for (int i = 0; runs(rung) && i < rung.parameter.count; i++)
      names += ", " + name_of(rung, i) + " (" + std::to_string(rung.number + i) + ")";
  }
  fail("variant ", variant, " does not run ", name_of(function), " of ", kDtypeNames[int(dtype)], " on ",
       device == kCuda ? "cuda" : "cpu", "; choose from auto (0)", names);
}

}  // namespace torch_reductions
