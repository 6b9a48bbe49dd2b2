// Rows: operands of one or two dims whose elements 31 bits count, the common case. Little code and few parameters,
// which take as long to come as a small input does.
#pragma once
#include "vectors.cuh"

namespace torch_reductions::cuda::add {

template <class T>
struct RowsOperand {
  const T* data;
  int64_t step, row_step;  // from an element to the next one in a row, and to the one below
  Load load;
};

// The elements of one vector of the output, which begins at (row, column) and may go on in the rows below.
template <class T>
__device__ __forceinline__ AlignedVector<T, kElements<T>> load_elements(const RowsOperand<T>& from, unsigned row,
                                                                        unsigned column, unsigned width) {
  constexpr int E = kElements<T>;
  const T* p = from.data + row * from.row_step + column * from.step;
  if (from.load != Load::strided) return load_vector<T, E, false>(p, p, E, from.load, 0);
  AlignedVector<T, E> v;
  const int64_t to_next_row = from.row_step - (width - 1) * from.step;
#pragma unroll
  for (int e = 0; e < E; e++) {
    v.element[e] = *p;
    column++;
    p += column == width ? to_next_row : from.step;
    column = column == width ? 0 : column;
  }
  return v;
}

// A vector of the output per thread, and behind the vectors one of the last elements.
template <class T>
__global__ void __launch_bounds__(kVectorThreads)
    add_rows(const __grid_constant__ RowsOperand<T> input, const __grid_constant__ RowsOperand<T> other, T* output,
             unsigned count, FastDiv width, const __grid_constant__ Adder<T> add) {
  constexpr int E = kElements<T>;
  const unsigned thread = blockIdx.x * kVectorThreads + threadIdx.x, whole = count / E;
  const unsigned i = thread < whole ? thread * E : whole * E + (thread - whole);
  if (i >= count) return;
  const unsigned row = width.div(i), column = i - row * width.divisor;
  if (thread < whole) {
    auto a = load_elements(input, row, column, width.divisor);
    const auto b = load_elements(other, row, column, width.divisor);
#pragma unroll
    for (int e = 0; e < E; e++) a.element[e] = add(a.element[e], b.element[e]);
    reinterpret_cast<AlignedVector<T, E>*>(output)[thread] = a;
  } else {
    output[i] = add(input.data[row * input.row_step + column * input.step],
                    other.data[row * other.row_step + column * other.step]);
  }
}

template <class T>
void add_by_rows(const AddArgs& args, Context& context) {
  const auto operand = [&](const void* data, const int64_t (&strides)[kAddDims]) {
    return RowsOperand<T>{static_cast<const T*>(data), strides[0], args.dims == 1 ? 0 : strides[1],
                          load_of<T>(args, data, strides, rows_are_whole<T>(args))};
  };
  launch(add_rows<T>, vector_blocks<T>(args.count), kVectorThreads, 0, context.stream,
         operand(args.input, args.input_strides), operand(args.other, args.other_strides), static_cast<T*>(args.output),
         unsigned(args.count), FastDiv(args.sizes[0]), Adder<T>(args));
}

}  // namespace torch_reductions::cuda::add
