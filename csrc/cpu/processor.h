// Which compilation of the vector code this processor runs. Not for files that are themselves compiled for one
// processor.
#pragma once
#include <cstdlib>
#include <cstring>

namespace torch_reductions::cpu {

enum class Processor : int { baseline, avx2, avx512 };

// TORCH_REDUCTIONS_CPU limits the choice.
inline Processor choose_processor() {
#ifdef __x86_64__
  const char* limit = std::getenv("TORCH_REDUCTIONS_CPU");
  const auto allowed = [&](const char* capability) {
    return limit == nullptr || *limit == '\0' || std::strcmp(limit, capability) == 0;
  };
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512 && allowed("avx512")) return Processor::avx512;
  if (avx2 && (allowed("avx2") || allowed("avx512"))) return Processor::avx2;
#endif
  return Processor::baseline;
}

inline Processor processor() {
  static const Processor chosen = choose_processor();
  return chosen;
}

// Extensions of AVX-512 that this processor has: dot products of small integers, and of bfloat16. Any limit in the
// environment turns them off.
struct Extensions {
  bool vnni = false, bf16 = false;
};

inline Extensions extensions() {
#ifdef __x86_64__
  static const Extensions found = [] {
    const char* limit = std::getenv("TORCH_REDUCTIONS_CPU");
    if (processor() != Processor::avx512 || (limit != nullptr && *limit != '\0')) return Extensions{};
    return Extensions{bool(__builtin_cpu_supports("avx512vnni")), bool(__builtin_cpu_supports("avx512bf16"))};
  }();
  return found;
#else
  return {};
#endif
}

inline const char* cpu_capability() {
  static constexpr const char* kNames[] = {"baseline", "avx2", "avx512"};
  return kNames[int(processor())];
}

}  // namespace torch_reductions::cpu
