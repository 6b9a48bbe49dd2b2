// Changes: the library that NVIDIA tunes for each architecture, called as a user would: for comparison with
//          the rungs above.
// Costs:   two launches and a workspace; seconds of compilation per type, so only sum and amax.
// Gains:   vector loads, several loads in flight and block sizes chosen for the type and the device.
// Order:   CUB's own: it depends on the device and on CUB's version.
// Needs:   compute capability 7.5.
// Local:   DeviceSegmentedReduceKernel (8 bytes): CUB bounds its registers, and int64 amax spills a pair.
// See:     NVIDIA CCCL, cub::DeviceReduce (one row) and cub::DeviceSegmentedReduce (several: one block per row).
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_reduce.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <cuda/std/functional>

#include "textbook.cuh"

namespace torch_reductions::cuda::reduce {
namespace {

// cuda::std::plus is what CUB knows and tunes for; NaN wins in ours, not in cuda::maximum.
struct Maximum {
  template <class T>
  HOST_DEVICE T operator()(T left, T right) const {
    return Max<T>::combine(left, right);
  }
};

struct RowStart {
  int64_t length;
  HOST_DEVICE int64_t operator()(int64_t row) const { return row * length; }
};

// The accumulator is the type of Op(initial, input): int64 where int32 are summed.
template <class T, class A, class Op>
void run_cub(const ReduceArgs& args, Context& context, A* output, Op op, A initial) {
  const T* input = static_cast<const T*>(args.input);
  // CUB's convention: the first call, without memory, returns how much it needs.
  const auto run = [&](void* memory, size_t& bytes) {
    if (args.outer == 1) {
      return cub::DeviceReduce::Reduce(memory, bytes, input, output, args.length, op, initial, context.stream);
    }
    const auto starts = thrust::make_transform_iterator(thrust::counting_iterator<int64_t>(0), RowStart{args.length});
    return cub::DeviceSegmentedReduce::Reduce(memory, bytes, input, output, args.outer, starts, starts + 1, op, initial,
                                              context.stream);
  };
  size_t bytes = 0;
  check(run(nullptr, bytes), "cub::DeviceReduce");
  check(run(context.workspace(bytes), bytes), "cub::DeviceReduce");
}

template <class T>
void reduce_type(const ReduceArgs& args, Context& context) {
  using A = Accumulator<T>;
  if (args.function == Function::amax) {
    run_cub<T>(args, context, static_cast<T*>(args.output), Maximum{}, Max<T>::identity());
  } else if (size_of(args.output_dtype) == sizeof(A)) {
    run_cub<T>(args, context, static_cast<A*>(args.output), ::cuda::std::plus<>{}, A(0));
  } else {  // a sum of integers in a narrower type
    A* values = workspace<A>(context, args.outer);
    run_cub<T>(args, context, values, ::cuda::std::plus<>{}, A(0));
    finish<A>(args, context, values);
  }
}

}  // namespace

void cub_reduce(const ReduceArgs& args, Context& context) {
  if (args.function != Function::sum && args.function != Function::amax) {
    fail("the rung cub has sum and amax only");
  }
  switch (args.input_dtype) {
    case Dtype::int32: return reduce_type<int32_t>(args, context);
    case Dtype::int64: return reduce_type<int64_t>(args, context);
    case Dtype::float32: return reduce_type<float>(args, context);
    case Dtype::float64: return reduce_type<double>(args, context);
    default: fail("this rung takes int32, int64, float32 and float64");
  }
}

}  // namespace torch_reductions::cuda::reduce
