// What the PTX of asynchronous copies stands for; the functions are the machine's.
//   cp.async, commit_group, wait_group              copy_async, commit_copies, await_copies
//   mbarrier.init, arrive, arrive.expect_tx         mbarrier_init, mbarrier_arrive(barrier, bytes)
//   cp.async.mbarrier.arrive.noinc                  mbarrier_arrive_when_copied
//   mbarrier.try_wait.parity in a loop              mbarrier_wait
//   cp.async.bulk.shared.global with an mbarrier    copy_bulk
#pragma once
#include "../machine/async.h"
