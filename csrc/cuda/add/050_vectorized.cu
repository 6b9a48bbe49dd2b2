// vectorized
// Changes: a thread adds a vector of 16 bytes, or where operands lie otherwise four, or single elements far apart, all
//          of whose loads are in flight at once. This is what auto runs.
// Costs:   a kernel for each way that operands lie: as the output does, in rows, across it.
// Gains:   every type and layout at the speed of the memory; a transposed operand goes through shared memory.
// Order:   alpha other + input, rounded once, in float32 for half types: no neighbour takes part.
// Needs:   7.5 and up; any layout. 16-byte accesses where rows and addresses are multiples of 16 bytes.
// See:     vectorized/vectors.cuh, rows.cuh, tiles.cuh; Luitjens, CUDA Pro Tip: Increase Performance with Vectorized
//          Memory Access, 2013.
#include "ladder.h"
#include "vectorized/rows.cuh"
#include "vectorized/tiles.cuh"
#include "vectorized/vectors.cuh"

namespace torch_reductions::cuda::add {
namespace {

// Integers are added without a sign, so that one kernel serves both kinds.
template <class T>
using Stored = std::conditional_t<std::is_integral_v<T>, AddType<T>, T>;

}  // namespace

void vectorized(const AddArgs& args, Context& context) {
  const Across across = find_across(args);
  with_storage(args.dtype, [&]<class Storage>(std::type_identity<Storage>) {
    using T = Stored<Storage>;
    if (across.rows > 0) add_by_tiles<T>(args, across, context);
    else if (lie_flat<T>(args)) add_where_flat<T>(args, context);
    else if (args.dims <= 2 && args.count <= INT32_MAX) add_by_rows<T>(args, context);
    else add_by_vectors<T>(args, context);
  });
}

}  // namespace torch_reductions::cuda::add
