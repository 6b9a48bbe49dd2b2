"""The CUDA emulator of the tests: docs/emulator.md."""
