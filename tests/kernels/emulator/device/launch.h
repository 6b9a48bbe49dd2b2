// What launch.h of the product calls in the place of <<<>>>, and the built-in variables.
#pragma once
#include "../machine/machine.h"

namespace emulator {

const uint3& thread_index();
const uint3& block_index();
const dim3& block_shape();
const dim3& grid_shape();

template <class... Parameters>
void launch(void (*kernel)(Parameters...), const Launch& launch, std::type_identity_t<Parameters>... arguments) {
  const auto call = [&] { kernel(arguments...); };  // not in the heap: machine/counts.cpp knows the stack
  run_grid(launch, reinterpret_cast<const void*>(kernel), std::ref(call));
}

template <class... Parameters>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t,
            std::type_identity_t<Parameters>... arguments) {
  launch(kernel, Launch{grid, block, shared_bytes}, arguments...);
}

}  // namespace emulator
