// Atomic operations. Each ends the thread's turn, so that a loop around one makes progress.
#pragma once
#include <type_traits>

#include "../machine/atomics.h"
#include "bits.h"

namespace emulator {

template <class T, class F>
EMULATED T update(T* p, F f) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);
  const T old = from_bits<T>(begin_update(p, sizeof(T)));
  end_update(p, sizeof(T), to_bits(T(f(old))));
  return old;
}

}  // namespace emulator

#define EMULATED_ATOMIC(name, expression)                               \
  template <class T>                                                    \
  EMULATED T name(T* p, std::type_identity_t<T> v) {                    \
    return emulator::update(p, [&](T old) -> T { return expression; }); \
  }                                                                     \
  template <class T>                                                    \
  EMULATED T name##_block(T* p, std::type_identity_t<T> v) {            \
    return emulator::update(p, [&](T old) -> T { return expression; }); \
  }                                                                     \
  template <class T>                                                    \
  EMULATED T name##_system(T* p, std::type_identity_t<T> v) {           \
    return emulator::update(p, [&](T old) -> T { return expression; }); \
  }
EMULATED_ATOMIC(atomicAdd, old + v)
EMULATED_ATOMIC(atomicSub, old - v)
EMULATED_ATOMIC(atomicExch, v)
EMULATED_ATOMIC(atomicMin, v < old ? v : old)
EMULATED_ATOMIC(atomicMax, old < v ? v : old)
EMULATED_ATOMIC(atomicAnd, old& v)
EMULATED_ATOMIC(atomicOr, old | v)
EMULATED_ATOMIC(atomicXor, old ^ v)
EMULATED_ATOMIC(atomicInc, old >= v ? 0 : old + 1)
EMULATED_ATOMIC(atomicDec, old == 0 || old > v ? v : old - 1)
#undef EMULATED_ATOMIC

template <class T>
EMULATED T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> v) {
  return emulator::update(p, [&](T old) { return old == expected ? v : old; });
}
