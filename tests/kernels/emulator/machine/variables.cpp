// The built-in variables. Functions of this file, which is never instrumented: reading them is no access to memory.
#include "../device/launch.h"

namespace emulator {

const uint3& thread_index() { return current->index; }
const uint3& block_index() { return current->block->index; }
const dim3& block_shape() { return current->block->grid->launch.block; }
const dim3& grid_shape() { return current->block->grid->launch.grid; }

}  // namespace emulator
