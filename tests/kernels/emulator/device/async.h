// What the PTX of asynchronous copies stands for; the functions are the machine's.
//   cp.async, commit_group, wait_group              cp_async, cp_async_commit, cp_async_wait
//   mbarrier.init, arrive, arrive.expect_tx         mbarrier_init, mbarrier_arrive(barrier, bytes)
//   cp.async.mbarrier.arrive.noinc                  cp_async_mbarrier_arrive
//   mbarrier.try_wait.parity in a loop              mbarrier_wait
//   cp.async.bulk.shared.global with an mbarrier    copy_bulk
#pragma once
#include "../machine/async.h"
