// What the library offers: the schema of every operator, and what Python asks of it without PyTorch.
#include <link.h>
#include <torch/csrc/stable/library.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "../common/ladder.h"
#include "../common/names.h"
#include "../cpu/processor.h"
#include "huge_pages.h"

namespace torch_reductions {

// The path of the library that holds the address. dladdr would tie the library to glibc 2.34 or later.
std::string library_at(const void* address) {
  std::pair<uintptr_t, std::string> search{reinterpret_cast<uintptr_t>(address), "this library"};
  const auto visit = [](dl_phdr_info* library, size_t, void* data) {
    auto& [sought, path] = *static_cast<decltype(search)*>(data);
    for (const ElfW(Phdr) & part : std::span(library->dlpi_phdr, library->dlpi_phnum)) {
      if (part.p_type != PT_LOAD || sought - (library->dlpi_addr + part.p_vaddr) >= part.p_memsz) continue;
      path = library->dlpi_name;
      return 1;
    }
    return 0;
  };
  dl_iterate_phdr(visit, &search);
  return search.second;
}

// torch defines a namespace once in a process. STABLE_TORCH_LIBRARY does not look whether it did, and then crashes.
bool is_only_copy() {
  static TorchLibraryHandle definitions;  // kept: torch would forget the operators with it
  static const bool only = [] {
    if (aoti_torch_library_init_def("torch_reductions", __FILE__, __LINE__, &definitions) == TORCH_SUCCESS) return true;
    std::fprintf(stderr,
                 "torch_reductions: %s is refused, because another copy of the library is loaded in this process. Its "
                 "operators stay; load one copy only\n",
                 library_at(&definitions).c_str());
    return false;
  }();
  return only;
}

}  // namespace torch_reductions

STABLE_TORCH_LIBRARY_FRAGMENT(torch_reductions, m) {
  if (!torch_reductions::is_only_copy()) return;
  m.def("sum(Tensor input, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None, int variant=0) -> Tensor");
  m.def("prod(Tensor input, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None, int variant=0) -> Tensor");
  m.def("mean(Tensor input, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None, int variant=0) -> Tensor");
  m.def("amax(Tensor input, int[1] dim=[], bool keepdim=False, *, int variant=0) -> Tensor");
  m.def("amin(Tensor input, int[1] dim=[], bool keepdim=False, *, int variant=0) -> Tensor");
  m.def("argmax(Tensor input, int? dim=None, bool keepdim=False, *, int variant=0) -> Tensor");
  m.def("argmin(Tensor input, int? dim=None, bool keepdim=False, *, int variant=0) -> Tensor");
  // Offsets and mask are positional: torch differentiates no operator with a tensor that is named only.
  m.def(
      "cumsum(Tensor input, int dim, Tensor? cu_seqlens=None, Tensor? mask=None, *, ScalarType? dtype=None, bool "
      "exclusive=False, "
      "bool reverse=False, bool include_initial=False, int variant=0) -> Tensor");
  m.def(
      "cumprod(Tensor input, int dim, Tensor? cu_seqlens=None, Tensor? mask=None, *, ScalarType? dtype=None, bool "
      "exclusive=False, "
      "bool reverse=False, bool include_initial=False, int variant=0) -> Tensor");
  m.def(
      "logcumsumexp(Tensor input, int dim, Tensor? cu_seqlens=None, Tensor? mask=None, *, bool exclusive=False, bool "
      "reverse=False, "
      "bool include_initial=False, int variant=0) -> Tensor");
  m.def(
      "cummax(Tensor input, int dim, Tensor? cu_seqlens=None, Tensor? mask=None, *, bool exclusive=False, bool "
      "reverse=False, "
      "bool include_initial=False, int variant=0) -> (Tensor values, Tensor indices)");
  m.def(
      "cummin(Tensor input, int dim, Tensor? cu_seqlens=None, Tensor? mask=None, *, bool exclusive=False, bool "
      "reverse=False, "
      "bool include_initial=False, int variant=0) -> (Tensor values, Tensor indices)");
  // They return nothing: torch.compile takes no operator of ours that returns what it was given.
  m.def(
      "cumsum.out(Tensor input, int dim, Tensor? cu_seqlens=None, Tensor? mask=None, *, ScalarType? dtype=None, bool "
      "exclusive=False, "
      "bool reverse=False, bool include_initial=False, int variant=0, Tensor(a!) out) -> ()");
  m.def(
      "cumprod.out(Tensor input, int dim, Tensor? cu_seqlens=None, Tensor? mask=None, *, ScalarType? dtype=None, bool "
      "exclusive=False, "
      "bool reverse=False, bool include_initial=False, int variant=0, Tensor(a!) out) -> ()");
  m.def(
      "logcumsumexp.out(Tensor input, int dim, Tensor? cu_seqlens=None, Tensor? mask=None, *, bool exclusive=False, "
      "bool reverse=False, "
      "bool include_initial=False, int variant=0, Tensor(a!) out) -> ()");
  m.def(
      "cummax.out(Tensor input, int dim, Tensor? cu_seqlens=None, Tensor? mask=None, *, bool exclusive=False, bool "
      "reverse=False, "
      "bool include_initial=False, int variant=0, Tensor(a!) values, Tensor(b!) indices) -> ()");
  m.def(
      "cummin.out(Tensor input, int dim, Tensor? cu_seqlens=None, Tensor? mask=None, *, bool exclusive=False, bool "
      "reverse=False, "
      "bool include_initial=False, int variant=0, Tensor(a!) values, Tensor(b!) indices) -> ()");
  // The tensors stand first: torch differentiates no tensor that is named only.
  m.def(
      "linear_recurrence(Tensor gates, Tensor tokens, Tensor? initial, int dim, Tensor? cu_seqlens=None, *, "
      "bool reverse=False, int variant=0) -> Tensor");
  m.def("segment_sum(Tensor input, Tensor cu_seqlens, int dim=0, *, ScalarType? dtype=None, int variant=0) -> Tensor");
  m.def("segment_prod(Tensor input, Tensor cu_seqlens, int dim=0, *, ScalarType? dtype=None, int variant=0) -> Tensor");
  m.def("segment_mean(Tensor input, Tensor cu_seqlens, int dim=0, *, ScalarType? dtype=None, int variant=0) -> Tensor");
  m.def("segment_amax(Tensor input, Tensor cu_seqlens, int dim=0, *, int variant=0) -> Tensor");
  m.def("segment_amin(Tensor input, Tensor cu_seqlens, int dim=0, *, int variant=0) -> Tensor");
  m.def("mm(Tensor input, Tensor mat2, *, ScalarType? out_dtype=None, int[3] parts=1, int variant=0) -> Tensor");
  m.def("bmm(Tensor input, Tensor mat2, *, ScalarType? out_dtype=None, int[3] parts=1, int variant=0) -> Tensor");
  m.def(
      "addmm(Tensor input, Tensor mat1, Tensor mat2, *, float beta=1, float alpha=1, ScalarType? out_dtype=None, "
      "int[3] parts=1, int variant=0) -> Tensor");
  m.def(
      "baddbmm(Tensor input, Tensor batch1, Tensor batch2, *, float beta=1, float alpha=1, ScalarType? out_dtype=None, "
      "int[3] parts=1, int variant=0) -> Tensor");
  m.def("add(Tensor input, Tensor other, *, float alpha=1, int variant=0) -> Tensor");
  m.def("sum_squared_distances(Tensor points, Tensor centers, *, int variant=0) -> Tensor");
  // The tensor stands first, as everywhere.
  m.def("grid_squared_distances(Tensor centers, int height, int width, *, int variant=0) -> Tensor");
}

namespace torch_reductions {
namespace {

// The names of the bits that are set, with commas between them.
template <class Names>
std::string join(unsigned bits, const Names& names) {
  std::string text;
  for (const char* name : names) {
    if (bits & 1) text.append(text.empty() ? "" : ",").append(name);
    bits >>= 1;
  }
  return text;
}

template <size_t N, class Names>
std::string lines(const Rung (&ladder)[N], const Names& functions) {
  static constexpr const char* kDevices[] = {"cpu", "cuda"};
  std::string text;
  for (const Rung& rung : ladder) {
    std::string values;
    for (int i = 0; i < rung.parameter.count; i++) {
      values += (i == 0 ? "" : ",") + parameter_text(rung.parameter.values[i]);
    }
    text += std::to_string(rung.number) + '|' + rung.name + '|' + join(rung.devices, kDevices) + '|' +
            join(rung.functions, functions) + '|' + join(rung.dtypes, kDtypeNames) + '|' + rung.order + '|' +
            rung.idea + '|' + (rung.emulated ? "1" : "0") + '|' + rung.parameter.name + '|' + values + '|' +
            std::to_string(rung.parameter.bare) + '|' + std::to_string(rung.needs.first) + '|' +
            std::to_string(rung.needs.last) + '\n';
  }
  return text;
}

}  // namespace
}  // namespace torch_reductions

#define STRING_(x) #x
#define STRING(x) STRING_(x)
#define EXPORT extern "C" __attribute__((visibility("default")))

// One line per rung: number|name|devices|functions|dtypes|order|idea|emulated|parameter|values|bare|first|last, the
// last three being the index of the bare name's value, and the compute capabilities. Empty for an unknown family.
EXPORT const char* torch_reductions_ladder(const char* family) {
  using namespace torch_reductions;
  static const std::map<std::string_view, std::string> texts = [] {
    std::map<std::string_view, std::string> made;
    for_each_family(
        [&](const char* name, const auto& ladder, const auto& functions) { made[name] = lines(ladder, functions); });
    return made;
  }();
  const auto found = texts.find(family);
  return found == texts.end() ? "" : found->second.c_str();
}

// What was decided when this library was compiled.
EXPORT const char* torch_reductions_build() {
#if defined(__clang__)
  return "clang " __clang_version__ ", C++ " STRING(__cplusplus) ", libtorch target " STRING(TORCH_TARGET_VERSION);
#else
  return "gcc " __VERSION__ ", C++ " STRING(__cplusplus) ", libtorch target " STRING(TORCH_TARGET_VERSION);
#endif
}

// The instruction set that `ordered` uses on this processor.
EXPORT const char* torch_reductions_cpu_capability() { return torch_reductions::cpu::cpu_capability(); }

// Asks for huge pages for memory that torch has allocated: that of an out= which was resized. 0 or errno's value.
EXPORT int torch_reductions_advise_huge_pages(void* data, size_t bytes) {
  return torch_reductions::advise_huge_pages(data, bytes);
}
