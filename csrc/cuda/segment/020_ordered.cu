// Changes: short segments of rows are divided into windows of equal work, a warp each; a long one has a warp or a
//          block, a short one of columns a thread for each line. Tiles are counted from each segment's own first
//          element.
// Costs:   a search in the offsets for each window; a warp that has the first tile of a long segment waits for the
//          others, and joins them all. Of columns with long segments every one is divided into windows, and a second
//          launch joins what these leave.
// Gains:   the bits of the reduction of the segment alone; one huge segment and a million short ones keep the memory
//          equally busy; nothing is read back to the host.
// Order:   Fold(length of the segment), docs/order.md.
// Needs:   7.5 and up.
// See:     ordered/job.cuh, what a window owns; ordered/{packed_rows,long_rows,short_lines,tiny_lines,lines,
//          rest}.cuh, the kernels; Blelloch, Prefix Sums and Their Applications, 1990, section 1.5; Merrill and
//          Garland, Merge-based Parallel Sparse Matrix-Vector Multiplication, 2016: elements and rows counted as work
//          alike.
#include "ladder.h"
#include "ordered/instances.h"

namespace torch_reductions::cuda::segment {

void ordered(const SegmentArgs& args, Context& context) {
  switch (args.function) {
    case Segment::segment_sum:
    case Segment::segment_mean: return segment_sums(args, context);
    case Segment::segment_prod: return segment_prods(args, context);
    case Segment::segment_amax:
    case Segment::segment_amin: return segment_extremes(args, context);
  }
}

}  // namespace torch_reductions::cuda::segment
