// The cu_seqlens argument of an operator: the offsets of packed segments.
#pragma once
#include <torch/headeronly/core/ScalarType.h>

#include "../common/segments.h"
#include "device.h"

namespace torch_reductions {
namespace {

// The segments of a dim of `length` elements of the input. cu_seqlens is made contiguous; its values are checked on the
// CPU only, because reading them from a GPU would make the host wait.
inline Segments check_cu_seqlens(const char* function, Tensor& cu_seqlens, const Tensor& input, int64_t length) {
  using torch::headeronly::ScalarType;
  const ScalarType type = cu_seqlens.scalar_type();
  TR_CHECK(type == ScalarType::Int || type == ScalarType::Long, function,
           "(): cu_seqlens must be int32 or int64, but it is ", torch::headeronly::toString(type));
  TR_CHECK(cu_seqlens.dim() == 1 && cu_seqlens.numel() > 0, function,
           "(): cu_seqlens must be 1-D with one offset more than there are segments, but it has ", cu_seqlens.dim(),
           " dims and ", cu_seqlens.numel(), " elements");
  TR_CHECK(on_same_device(cu_seqlens, input), function, "(): cu_seqlens and input must be on the same device");
  cu_seqlens = made_contiguous(cu_seqlens);
  const Segments segments{cu_seqlens.const_data_ptr(), type == ScalarType::Long, cu_seqlens.numel() - 1, length};
  if constexpr (kDevice == kCpu) {
    const auto at = [&](int64_t s) {
      return segments.wide ? static_cast<const int64_t*>(segments.offsets)[s]
                           : static_cast<const int32_t*>(segments.offsets)[s];
    };
    TR_CHECK(at(0) == 0, function, "(): cu_seqlens must begin with 0, but it begins with ", at(0));
    for (int64_t s = 0; s < segments.count; s++)
      TR_CHECK(at(s) <= at(s + 1), function, "(): cu_seqlens must not fall, but cu_seqlens[", s, "] is ", at(s),
               " and cu_seqlens[", s + 1, "] is ", at(s + 1));
    TR_CHECK(at(segments.count) == length, function, "(): cu_seqlens must end with ", length,
             ", the length of the dim, but it ends with ", at(segments.count));
  }
  TR_CHECK(segments.count > 0 || length == 0, function, "(): cu_seqlens must end with ", length,
           ", the length of the dim, but it holds no segment");
  return segments;
}

}  // namespace
}  // namespace torch_reductions
