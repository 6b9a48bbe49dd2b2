#include "pack.h"

#include <algorithm>
#include <bit>

#include "pack.cuh"

namespace torch_reductions::cuda::matmul {
namespace {

// An operand as matrices of m or n, and k.
struct GemmOperand {
  const void* data;
  int64_t mn, k, batch, mn_stride, k_stride, batch_stride;
};

int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// The operand as rows along k, or along m or n. Where it has one row, or one matrix serves all batches, the stride is
// free to choose.
OperandLayout layout_of(const GemmOperand& o, Major major, int size) {
  const bool k_rows = major == Major::k;
  MatrixBatch rows{o.data,
                   k_rows ? o.k : o.mn,
                   k_rows ? o.mn : o.k,
                   o.batch_stride == 0 ? 1 : o.batch,
                   k_rows ? o.mn_stride : o.k_stride,
                   o.batch_stride};
  if (rows.rows == 1) rows.row_stride = round_up(rows.columns, kMapAlignment / size);
  if (rows.outer == 1) rows.outer_stride = rows.rows * rows.row_stride;
  return {rows, major};
}

// Can the TMA read them?
bool reads(const MatrixBatch& rows, int size) {
  const int64_t row = rows.row_stride * size, outer = rows.outer_stride * size;
  return reinterpret_cast<uintptr_t>(rows.data) % kMapAlignment == 0 && row % kMapAlignment == 0 &&
         outer % kMapAlignment == 0 && rows.row_stride >= rows.columns && row < kMapStrideLimit &&
         outer < kMapStrideLimit;
}

// Rows in the workspace: padded to whole tile rows, unless they are so short that the padding would be most of them.
MatrixBatch room_for(const MatrixBatch& like, int64_t columns, int64_t rows, int size, Context& context) {
  const int64_t stride = round_up(columns, (columns * size < kTileRowBytes ? kMapAlignment : kTileRowBytes) / size);
  void* const data = context.workspace(size_t(like.outer * rows * stride * size));
  return {data, columns, rows, like.outer, stride, rows * stride};
}

Packing packing(const MatrixBatch& from, const MatrixBatch& to, int size) {
  return {static_cast<const char*>(from.data),
          static_cast<char*>(const_cast<void*>(to.data)),
          from.columns * size,
          from.rows,
          from.row_stride * size,
          from.outer_stride * size,
          to.row_stride * size,
          to.outer_stride * size};
}

// The operand as it lies if the TMA can read it, otherwise a copy; `rows` learns which rows are still to be copied.
OperandLayout prepare(const GemmOperand& o, int size, Rows& rows, Context& context) {
  const bool along_k = o.k_stride == 1 || o.k == 1, along_mn = o.mn_stride == 1 || o.mn == 1;
  const OperandLayout as_k = layout_of(o, Major::k, size), as_mn = layout_of(o, Major::mn, size);
  if (along_k && reads(as_k.rows, size)) return as_k;
  if (along_mn && size == 2 && reads(as_mn.rows, size)) return as_mn;
  const OperandLayout from = along_k ? as_k : as_mn;
  if (along_k || size == 2) {
    const MatrixBatch to = room_for(from.rows, from.rows.columns, from.rows.rows, size, context);
    const int64_t pieces = ceil_div(from.rows.columns * size, int64_t(kPackVectors * 16));
    const int operand = rows.all[0] > 0, log_lanes = std::min(int(std::bit_width(uint64_t(pieces - 1))), 5);
    rows.packing[operand] = packing(from.rows, to, size), rows.log_lanes[operand] = log_lanes;
    rows.parts[operand] = ceil_div(pieces, int64_t(1) << log_lanes);
    rows.all[operand] = from.rows.outer * from.rows.rows * rows.parts[operand] << log_lanes;
    return {to, from.major};
  }
  const MatrixBatch to = room_for(from.rows, from.rows.rows, from.rows.columns, size, context);
  const int64_t across = ceil_div(from.rows.columns, int64_t(kAcross)), down = ceil_div(from.rows.rows, int64_t(kDown));
  launch(transpose_bytes, from.rows.outer * across * down, kPackThreads, 0, context.stream,
         packing(from.rows, to, size), unsigned(across), unsigned(down));
  return {to, Major::k};
}

}  // namespace

Operands pack(const MatmulArgs& args, Context& context) {
  const int size = size_of(args.dtype);
  Rows rows{};
  const OperandLayout a =
      prepare({args.a.data, args.m, args.k, args.batch, args.a.row_stride, args.a.column_stride, args.a.batch_stride},
              size, rows, context);
  const OperandLayout b =
      prepare({args.b.data, args.n, args.k, args.batch, args.b.column_stride, args.b.row_stride, args.b.batch_stride},
              size, rows, context);
  if (const int64_t all = rows.all[0] + rows.all[1]; all > 0)
    launch(copy_rows, ceil_div(all, int64_t(kPackThreads)), kPackThreads, 0, context.stream, rows);
  return {a, b};
}

}  // namespace torch_reductions::cuda::matmul
