// Fences, accesses that other blocks race with, and loads and stores that carry a hint for the caches.
#pragma once
#include <type_traits>

#include "../machine/atomics.h"
#include "../machine/machine.h"
#include "bits.h"

namespace emulator {

// ld.relaxed and st.relaxed: one access, never torn, and one that a fence can make an order of.
template <class T>
EMULATED T load_relaxed(const T* p) {
  return from_bits<T>(load_word(p, sizeof(T)));
}
template <class T>
EMULATED void store_relaxed(T* p, std::type_identity_t<T> value) {
  store_word(p, sizeof(T), to_bits(value));
}

}  // namespace emulator

EMULATED void __threadfence() { emulator::fence(); }
EMULATED void __threadfence_block() { emulator::fence(); }
EMULATED void __threadfence_system() { emulator::fence(); }
EMULATED void __nanosleep(unsigned) { emulator::end_turn(true); }

#define EMULATED_LOAD(name)     \
  template <class T>            \
  EMULATED T name(const T* p) { \
    return *p;                  \
  }
EMULATED_LOAD(__ldg)
EMULATED_LOAD(__ldca)
EMULATED_LOAD(__ldcg)
EMULATED_LOAD(__ldcs)
EMULATED_LOAD(__ldlu)
EMULATED_LOAD(__ldcv)
#undef EMULATED_LOAD
#define EMULATED_STORE(name)                                \
  template <class T>                                        \
  EMULATED void name(T* p, std::type_identity_t<T> value) { \
    *p = value;                                             \
  }
EMULATED_STORE(__stwb)
EMULATED_STORE(__stcg)
EMULATED_STORE(__stcs)
EMULATED_STORE(__stwt)
#undef EMULATED_STORE
