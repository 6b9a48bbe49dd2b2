// What functions, types and rungs are called in Python.
#pragma once
#include <iterator>
#include <string>

#include "ladder.h"

namespace torch_reductions {

inline constexpr const char* kFunctionNames[] = {"sum", "prod", "mean", "amax", "amin", "argmax", "argmin"};
inline constexpr const char* kScanNames[] = {"cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"};
inline constexpr const char* kRecurrenceNames[] = {"linear_recurrence"};
inline constexpr const char* kSegmentNames[] = {"segment_sum", "segment_prod", "segment_mean", "segment_amax",
                                                "segment_amin"};
inline constexpr const char* kProductNames[] = {"mm", "bmm", "addmm", "baddbmm", "matmul", "linear"};
inline constexpr const char* kAddNames[] = {"add"};
inline constexpr const char* kDistanceNames[] = {"sum_squared_distances", "grid_squared_distances"};
inline constexpr const char* kDtypeNames[] = {"float16", "bfloat16", "float32", "float64", "int8",
                                              "uint8",   "int16",    "int32",   "int64",   "bool"};
static_assert(std::size(kFunctionNames) == kReduceFunctions && std::size(kScanNames) == kScanFunctions &&
              std::size(kRecurrenceNames) == kRecurrenceFunctions && std::size(kSegmentNames) == kSegmentFunctions &&
              std::size(kProductNames) == kProductFunctions && std::size(kAddNames) == kAddFunctions &&
              std::size(kDistanceNames) == kDistanceFunctions && std::size(kDtypeNames) == kDtypes);

inline const char* name_of(Function function) { return kFunctionNames[int(function)]; }
inline const char* name_of(Scan function) { return kScanNames[int(function)]; }
inline const char* name_of(Recurrence function) { return kRecurrenceNames[int(function)]; }
inline const char* name_of(Segment function) { return kSegmentNames[int(function)]; }
inline const char* name_of(Product function) { return kProductNames[int(function)]; }
inline const char* name_of(Add function) { return kAddNames[int(function)]; }
inline const char* name_of(Distance function) { return kDistanceNames[int(function)]; }

inline std::string parameter_text(ParameterValue value) {
  if (value == ParameterValue()) return "";
  return std::to_string(value.x) + (value.y ? "x" + std::to_string(value.y) : "");
}

// The name of a rung with value i of its parameter.
inline std::string name_of(const Rung& rung, int i) {
  const std::string value = parameter_text(rung.parameter.values[i]);
  return value.empty() ? rung.name : std::string(rung.name) + ":" + value;
}

// body(name, ladder, names of its functions) for each family.
template <class Body>
void for_each_family(Body&& body) {
  body("reduce", kReduceLadder, kFunctionNames);
  body("scan", kScanLadder, kScanNames);
  body("recurrence", kRecurrenceLadder, kRecurrenceNames);
  body("segment", kSegmentLadder, kSegmentNames);
  body("matmul", kMatmulLadder, kProductNames);
  body("add", kAddLadder, kAddNames);
  body("distance", kDistanceLadder, kDistanceNames);
}

}  // namespace torch_reductions
