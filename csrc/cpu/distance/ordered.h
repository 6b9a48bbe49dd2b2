// The interface between 080_ordered.cpp, which plans, and the vector code, which is compiled per processor.
#pragma once
#include "../../common/args.h"

namespace torch_reductions::cpu::distance {

inline constexpr int64_t kPointStrip = 128;  // points of a strip

// Strips of points [first, first + count). The memory is the caller's: kPointStrip accumulators for each coordinate.
struct PointStrips {
  int64_t first, count;
  const void* centers;  // as accumulators
  void* coordinates;
};

using AddDistances = void (*)(const DistanceArgs& args, const PointStrips& strips);

struct DistanceKernels {
  AddDistances add[kDtypes];
};
extern const DistanceKernels distance_baseline, distance_avx2, distance_avx512;

}  // namespace torch_reductions::cpu::distance
