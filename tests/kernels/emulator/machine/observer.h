// Who is told what the threads of an instrumented kernel do (tsan.cpp): the race detector, or the counters.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "machine.h"

namespace emulator {

enum class Relaxed { load, store, update };

// This one lets everything pass. pc: of the instruction, for a report.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void begin_launch() {}
  virtual void begin_block(Block&) {}
  virtual void end_block(Block&) {}

  // What orders.
  virtual void barrier(const std::vector<Thread*>& /* members */, const Place&) {}
  virtual void warp_barrier(Block&, unsigned /* warp */, unsigned /* lanes */) {}
  virtual void fence() {}                                                    // of the running thread
  virtual void relaxed(const void*, size_t, Relaxed, uintptr_t /* pc */) {}  // a fence around it may use this access
  virtual void release_to(const void* /* object */) {}                       // as with fences around them:
  virtual void acquire_from(const void* /* object */) {}                     // mbarrier, cluster barrier

  // What is ordered.
  virtual void access(const void*, size_t, bool /* write */, uintptr_t /* pc */) {}
  // Not by the running thread's own loads and stores: what cp.async writes, and what the engines of bulk copies and of
  // wgmma do.
  virtual void access_later(const void*, size_t, bool /* write */, uintptr_t /* pc */) {}
  virtual void mbarrier(const void* barrier, uintptr_t pc) { relaxed(barrier, sizeof(uint64_t), Relaxed::update, pc); }

  // What the lanes of a warp did together, and where a thread is.
  virtual void warp_operation(const char* /* kind */, const Warp&, const Place&) {}
  virtual void reaches(uintptr_t /* pc */) {}   // a basic block
  virtual void compares(uintptr_t /* pc */) {}  // in it, perhaps for the branch at its end
};

extern Observer* observer;    // never null
Observer& race_detector();    // of an instrumented program, unless it counts
extern bool is_instrumented;  // whether there is anything to tell

}  // namespace emulator
