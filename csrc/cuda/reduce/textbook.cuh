// What the textbook's rungs share: how rows are split over blocks, the passes until one value per row is left, and the
// final step.
//
// The input is [outer, length] in contiguous rows. A pass turns [outer, length] into [outer, parts]: block b reduces
// part b % parts of row b / parts and writes partials[b]. The next pass takes the partials for its rows.
#pragma once

#include "../../common/ceil_div.h"
#include "../../common/operators.h"
#include "../primitives/shared.cuh"
#include "ladder.h"

namespace torch_reductions::cuda::reduce {

inline constexpr int kUsualThreads = 512;  // four such blocks fit on an SM: some work while others wait at a barrier
inline constexpr int kMaxThreads = 1024;
inline constexpr int64_t kMaxBlocks = 0x7fffffff;

// body(std::type_identity<T>(), std::type_identity<Op>()) for the types and operators of the textbook's rungs.
template <class Body>
void with_operator(const ReduceArgs& args, Body body) {
  auto with_types = [&]<class T, class A>(std::type_identity<T> type, std::type_identity<A>) {
    switch (args.function) {
      case Function::sum:
      case Function::mean: return body(type, std::type_identity<Sum<A>>());
      case Function::prod: return body(type, std::type_identity<Prod<A>>());
      case Function::amax: return body(type, std::type_identity<Max<A>>());
      case Function::amin: return body(type, std::type_identity<Min<A>>());
      default: fail("this rung has no argmax and no argmin");
    }
  };
  auto with_type = [&]<class T>(std::type_identity<T> type) { with_types(type, std::type_identity<Accumulator<T>>()); };
  switch (args.input_dtype) {
    case Dtype::int32: {
      // For a result of int32 an accumulator of int32 has the same bits, because both wrap, and half as many bytes
      // move.
      const std::type_identity<int32_t> int32;
      return args.output_dtype == Dtype::int32 ? with_types(int32, int32) : with_type(int32);
    }
    case Dtype::int64: return with_type(std::type_identity<int64_t>());
    case Dtype::float32: return with_type(std::type_identity<float>());
    case Dtype::float64: return with_type(std::type_identity<double>());
    default: fail("this rung takes int32, int64, float32 and float64");
  }
}

// body(std::integral_constant<int, threads>()) for the block sizes that the rungs with a template are compiled for.
template <class Body>
void with_threads(int threads, Body body) {
  switch (threads) {
    case 64: return body(std::integral_constant<int, 64>());
    case 128: return body(std::integral_constant<int, 128>());
    case 256: return body(std::integral_constant<int, 256>());
    case 512: return body(std::integral_constant<int, 512>());
    case 1024: return body(std::integral_constant<int, 1024>());
    default: fail("this rung has no such block size");
  }
}

// How a rung splits a row: `each` elements per thread, in blocks of the given size, or of 64 threads for short rows and
// up to 512 for long ones.
struct LaunchConfig {
  int block_size;  // 0: the row's length decides
  int each = 1;
  int growth = 2;                  // the factor from one block size to the next
  int64_t max_parts = kMaxBlocks;  // a kernel with a grid-stride loop needs no more blocks than fill the device

  int threads(int64_t length) const {
    int threads = block_size == 0 ? 64 : block_size;
    while (block_size == 0 && threads < kUsualThreads && int64_t(threads) * each < length) threads *= growth;
    return threads;
  }
  int64_t parts(int64_t length) const { return min(ceil_div(length, int64_t(threads(length)) * each), max_parts); }
};

// Where the results go, and the final step of each.
template <class A>
struct RowOutput {
  void* data;
  Dtype dtype;
  A divisor;  // the length for a mean, else 1

  __device__ void store(int64_t row, A value) const {
    if constexpr (std::is_floating_point_v<A>) {
      static_cast<A*>(data)[row] = value / divisor;
    } else if constexpr (sizeof(A) == 4) {
      static_cast<A*>(data)[row] = value;
    } else {
      switch (dtype) {
        case Dtype::boolean: static_cast<uint8_t*>(data)[row] = value != 0; break;
        case Dtype::uint8: static_cast<uint8_t*>(data)[row] = uint8_t(value); break;
        case Dtype::int8: static_cast<int8_t*>(data)[row] = int8_t(value); break;
        case Dtype::int16: static_cast<int16_t*>(data)[row] = int16_t(value); break;
        case Dtype::int32: static_cast<int32_t*>(data)[row] = int32_t(value); break;
        default: static_cast<int64_t*>(data)[row] = value;
      }
    }
  }
};

template <class A>
RowOutput<A> output_of(const ReduceArgs& args, int64_t first_row = 0) {
  char* data = static_cast<char*>(args.output) + first_row * size_of(args.output_dtype);
  return {data, args.output_dtype, A(args.function == Function::mean ? args.length : 1)};
}

template <class A>
__global__ void finish_kernel(const A* values, RowOutput<A> output, int64_t rows) {
  const int64_t row = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row < rows) output.store(row, values[row]);
}

// Writes one value per row to the output.
template <class A>
void finish(const ReduceArgs& args, Context& context, const A* values) {
  launch(finish_kernel<A>, ceil_div(args.outer, 256), 256, 0, context.stream, values, output_of<A>(args), args.outer);
}

template <class A>
A* workspace(Context& context, int64_t count) {
  return static_cast<A*>(context.workspace(size_t(count) * sizeof(A)));
}

// One launch of a rung's kernel.
template <class Op, class T>
struct Pass {
  T* rows;                       // [blocks / parts, length]
  typename Op::Value* partials;  // [blocks / parts, parts]
  int64_t length;
  unsigned parts, blocks;
  int threads;
};

// Runs one pass, in several launches where one grid cannot hold the blocks. Gives the partials; length is their number.
template <class Op, class T, class Launch>
typename Op::Value* run_pass(T* rows, int64_t outer, int64_t& length, const LaunchConfig& config, Context& context,
                             Launch launch_pass) {
  const int64_t parts = config.parts(length), step = kMaxBlocks / parts;
  auto* partials = workspace<typename Op::Value>(context, outer * parts);
  for (int64_t row = 0; row < outer; row += step) {
    const int64_t blocks = min(step, outer - row) * parts;
    launch_pass(Pass<Op, T>{rows + row * length, partials + row * parts, length, unsigned(parts), unsigned(blocks),
                            config.threads(length)});
  }
  length = parts;
  return partials;
}

// The rungs in shared memory and registers: the first pass reads the input, the others the partials of the one before.
template <class Launch>
void reduce_in_passes(const ReduceArgs& args, Context& context, const LaunchConfig& config, Launch launch_pass) {
  with_operator(args, [&]<class T, class Op>(std::type_identity<T>, std::type_identity<Op>) {
    int64_t length = args.length;
    const typename Op::Value* values =
        run_pass<Op>(static_cast<const T*>(args.input), args.outer, length, config, context, launch_pass);
    while (length > 1) values = run_pass<Op>(values, args.outer, length, config, context, launch_pass);
    finish(args, context, values);
  });
}

template <class T, class A>
__global__ void convert_kernel(const T* input, A* output, int64_t count) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) output[i] = A(input[i]);
}

// The rungs that work in place: the input is first copied to a workspace, as accumulators.
template <class Launch>
void reduce_in_place(const ReduceArgs& args, Context& context, const LaunchConfig& config, Launch launch_pass) {
  with_operator(args, [&]<class T, class Op>(std::type_identity<T>, std::type_identity<Op>) {
    using A = typename Op::Value;
    int64_t length = args.length;
    const int64_t count = args.outer * length;
    A* values = workspace<A>(context, count);
    launch(convert_kernel<T, A>, ceil_div(count, 256), 256, 0, context.stream, args.input, values, count);
    while (length > 1) values = run_pass<Op>(values, args.outer, length, config, context, launch_pass);
    finish(args, context, values);
  });
}

// What this block reduces: `size` elements from `begin` on, at most `span` of them.
struct Part {
  int64_t begin;
  int size;
};

__device__ inline Part part_of_block(int64_t length, unsigned parts, int span) {
  const int64_t row = blockIdx.x / parts, skipped = int64_t(blockIdx.x % parts) * span, left = length - skipped;
  return {row * length + skipped, left < span ? int(left) : span};
}

}  // namespace torch_reductions::cuda::reduce
