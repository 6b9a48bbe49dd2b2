// Constant memory that streams share without disturbing one another.
//
// A module has 64 KB of it, at one place for all that runs on a device: a copy of new centers there would change what
// another stream's kernel is reading. So the bank is divided into slots, and each has one owner. A stream has a slot of
// its own from its first call on: its copies and kernels follow one another. A graph is replayed on any stream, at any
// time, so that each capture has one too, of which the graph keeps hold: it is free when the graph, and what was
// instantiated from it, are gone. When no slot is free, the same kernel reads the centers from global memory, with the
// same bits. More centers than a slot holds go through it in parts of a power of two of them; a center that is larger
// than a slot stays in global memory.
#pragma once
#include "../../common/args.h"
#include "../primitives/launch.h"

namespace torch_reductions::cuda::distance {

constexpr int kBankBytes = 64 << 10, kSlotBytes = 4 << 10, kSlots = kBankBytes / kSlotBytes;

// The centers [begin, begin + length); of those that go before them the totals of blocks wait in memory.
struct ConstantPart {
  int slot;  // where they are; negative: not in constant memory
  int64_t begin, length, most;
  void* waiting;  // accumulators, as WaitingInMemory has them; of parts none where there is only one
};

// What a kernel keeps in memory of the centers that it has added: the totals of parts, or the distances one by one.
enum class Waiting { parts, centers };

// Copies part after part into a slot of the bank, a __constant__ array, and launches a kernel after each copy.
void each_constant_part(const void* bank, const DistanceArgs& args, Context& context,
                        void (*launch_part)(const DistanceArgs& args, Context& context, const ConstantPart& part),
                        Waiting waiting = Waiting::parts);

}  // namespace torch_reductions::cuda::distance
