// A device function of the emulator vanishes into its caller, so that a return address is a line of the kernel.
#pragma once
#define EMULATED __attribute__((always_inline)) inline
