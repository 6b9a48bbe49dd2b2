// Changes: the library that NVIDIA tunes for each architecture, called as a user would: for comparison with
//          the rungs above.
// Costs:   seconds of compilation per type, so only cumsum; several rows, and those in reverse, are scanned by a key,
//          for which each element's number is divided by the length.
// Gains:   decoupled look-back with several elements per thread, block sizes and pauses chosen for the type and the
//          device.
// Order:   CUB's own: it depends on the device, on CUB's version and, for floats, on which blocks were first.
// Needs:   compute capability 7.5.
// Local:   DeviceScanKernel (8 bytes): CUB bounds its registers, and integers spill one of them.
// See:     NVIDIA CCCL, cub::DeviceScan: InclusiveSum (one row) and InclusiveSumByKey (several).
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cstddef>
#include <iterator>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // of a class without members, in CUB
#include <cub/device/device_scan.cuh>
#pragma GCC diagnostic pop

#include "textbook.cuh"

namespace torch_reductions::cuda::scan {
namespace {

template <class T>
using SumRows = ScanRows<Sum<T>, T>;

template <class T>
struct RowOf {
  SumRows<T> rows;
  __device__ int64_t operator()(int64_t i) const { return i / rows.length; }
};

template <class T>
struct Element {
  SumRows<T> rows;
  __device__ T operator()(int64_t i) const { return rows.load(i / rows.length, i % rows.length); }
};

// An iterator over the results: what is assigned at i is the fold of the elements up to i.
template <class T>
struct Places {
  using iterator_category = std::random_access_iterator_tag;
  using value_type = void;
  using difference_type = int64_t;
  using pointer = void;
  struct reference {
    const SumRows<T>& rows;
    int64_t i;
    __device__ const reference& operator=(T value) const {
      rows.store(i / rows.length, i % rows.length, value);
      return *this;
    }
  };
  SumRows<T> rows;
  int64_t first = 0;

  HOST_DEVICE reference operator[](int64_t i) const { return {rows, first + i}; }
  HOST_DEVICE reference operator*() const { return {rows, first}; }
  HOST_DEVICE Places operator+(int64_t i) const { return {rows, first + i}; }
};

// CUB's convention: the first call, without memory, returns how much it needs.
template <class Run>
void run_cub(Context& context, Run run) {
  size_t bytes = 0;
  check(run(nullptr, bytes), "cub::DeviceScan");
  check(run(context.workspace(bytes), bytes), "cub::DeviceScan");
}

template <class T>
void scan_type(const ScanArgs& args, Context& context) {
  const T* const input = static_cast<const T*>(args.input);
  T* const output = static_cast<T*>(args.output);
  if (args.outer == 1 && !args.reverse) {
    if (args.exclusive) check(cudaMemsetAsync(output, 0, sizeof(T), context.stream), "cudaMemsetAsync");
    const int64_t count = args.results - args.exclusive;
    if (count == 0) return;
    return run_cub(context, [&](void* memory, size_t& bytes) {
      return cub::DeviceScan::InclusiveSum(memory, bytes, input, output + args.exclusive, count, context.stream);
    });
  }
  if (args.length == 0) {
    const size_t bytes = size_t(args.outer) * sizeof(T);
    return check(cudaMemsetAsync(output, 0, bytes, context.stream), "cudaMemsetAsync");
  }
  const SumRows<T> rows{input, output, args.length, args.results, args.exclusive, args.reverse};
  const thrust::counting_iterator<int64_t> numbers(0);
  const auto keys = thrust::make_transform_iterator(numbers, RowOf<T>{rows});
  const auto elements = thrust::make_transform_iterator(numbers, Element<T>{rows});
  run_cub(context, [&](void* memory, size_t& bytes) {
    return cub::DeviceScan::InclusiveSumByKey(memory, bytes, keys, elements, Places<T>{rows}, args.outer * args.length,
                                              ::cuda::std::equal_to<>{}, context.stream);
  });
}

}  // namespace

void cub_scan(const ScanArgs& args, Context& context) {
  if (args.function != Scan::cumsum) fail("the rung cub has cumsum only");
  switch (args.dtype) {
    case Dtype::int32: return scan_type<uint32_t>(args, context);  // unsigned, because they wrap
    case Dtype::int64: return scan_type<uint64_t>(args, context);
    case Dtype::float32: return scan_type<float>(args, context);
    case Dtype::float64: return scan_type<double>(args, context);
    default: fail("this rung takes int32, int64, float32 and float64");
  }
}

}  // namespace torch_reductions::cuda::scan
