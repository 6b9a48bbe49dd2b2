#include "observer.h"

namespace emulator {

static Observer nobody;
Observer* observer = &nobody;
bool is_instrumented = false;

}  // namespace emulator
