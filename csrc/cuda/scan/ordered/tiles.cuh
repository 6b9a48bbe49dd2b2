// What a block of a recurrence does with its tile. (Those of scans take tile after tile: pipeline.cuh.)
//
// A kernel gives: spot(number) says where a tile lies; ask(spot) begins to copy it into shared memory; up(spot) reads it
// there and leaves the totals of its warps; down(spot, state) writes the results. Where tiles are carried from one to the
// next, total(spot) leaves the totals of the warps of a tile that is not in shared memory, publish(totals, spot, tag) makes
// a tile's total known, and look_back(spot, tag) brings what stands before one.
#pragma once
#include "../../primitives/async.cuh"
#include "carry.cuh"

namespace torch_reductions::cuda {

// The totals of warps: of the tile that is scanned, and of the one whose total runs ahead.
enum Totals { own, running };
inline constexpr int kTotals = 2;

// With `ahead`, the totals run ahead of the scan by so many tiles: a block first publishes the total of a tile further on,
// which stays in the L2 until another block scans it, so that a look-back finds all that it asks for.
template <class Tiles>
__device__ __forceinline__ void scan_tile(const Tiles& tiles, const Board& board, unsigned work, unsigned ahead,
                                          bool carried, bool joined) {
  __shared__ Ticket drawn;
  Ticket ticket{blockIdx.x, 0};
  if (carried) {
    if (threadIdx.x == 0) drawn = draw_ticket(board);
    __syncthreads();
    ticket = drawn;
  }
  const bool scans = ticket.number >= ahead;
  const auto spot = tiles.spot(scans ? ticket.number - ahead : 0);
  if (scans) tiles.ask(spot);
  commit_copies();
  if (ahead > 0) {
    const auto further = tiles.spot(ticket.number < work ? ticket.number : work - 1);
    tiles.total(further);
    __syncthreads();
    if (ticket.number < work) tiles.publish(running, further, ticket.tag);
    if (!scans) return;
  }
  await_copies<0>();
  __syncwarp();
  auto state = tiles.up(spot);
  if (joined) __syncthreads();
  if (carried) {
    if (ahead == 0) tiles.publish(own, spot, ticket.tag);
    tiles.look_back(spot, ticket.tag);
    __syncthreads();
  }
  tiles.down(spot, state);
}

}  // namespace torch_reductions::cuda
