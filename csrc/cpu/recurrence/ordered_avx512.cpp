// The vector code of `ordered` for AVX-512 (F, BW, DQ, VL).
#include "ordered_kernels.h"

namespace torch_reductions::cpu::recurrence {
constexpr RecurrenceKernels recurrence_avx512 = make_recurrence_kernels();
}
