// The device that a file of ops/ is compiled for, and what its kernels use of PyTorch: the stream and memory of the
// GPU, the threads of the CPU.
#pragma once
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <functional>
#include <vector>

#include "tensor.h"

#ifdef USE_CUDA
#include <torch/csrc/stable/accelerator.h>

#include "../cuda/primitives/launch.h"
#define TR_DISPATCH_KEY CUDA
#else
#include "../cpu/threads.h"
#define TR_DISPATCH_KEY CPU
#endif

namespace torch_reductions {

#ifdef USE_CUDA
namespace cuda::ladder {}

inline bool is_only_copy() { return true; }  // Python loads _C_cuda beside the only copy of _C
#else
namespace cpu::ladder {}

bool is_only_copy();  // library.cpp: whether no other copy of _C has registered the operators in this process
#endif

namespace {

#ifdef USE_CUDA
constexpr Devices kDevice = kCuda;
namespace backend = cuda::ladder;

class TorchContext : public cuda::Context {
 public:
  TorchContext(const Tensor& input, int device) : Context(device, current_stream(device)), like_(input) {}

  void* workspace(size_t bytes) override {
    Dims shape;
    shape.push(int64_t(bytes));
    kept_.push_back(empty(shape, Dtype::uint8, like_));
    return kept_.back().mutable_data_ptr();
  }

 private:
  static cudaStream_t current_stream(int device) {
    void* stream;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
    return cudaStream_t(stream);
  }

  const Tensor& like_;
  std::vector<Tensor> kept_;
};
#else
constexpr Devices kDevice = kCpu;
namespace backend = cpu::ladder;
#endif

// Runs one of a family's rungs, such as backend::scan, on the input's device.
template <class Rungs, class Args>
void run_rung(Rungs* rungs, int rung, const Args& args, const Tensor& input) {
#ifdef USE_CUDA
  const int device = input.get_device_index();
  const torch::stable::accelerator::DeviceGuard guard(device);
  TorchContext context(input, device);
#else
  const auto parallel_for = [](int64_t begin, int64_t end, int64_t grain,
                               const std::function<void(int64_t, int64_t)>& part) {
    torch::stable::parallel_for(begin, end, grain, part);
  };
  const cpu::Threads context{int(torch::stable::get_num_threads()), parallel_for};
  static_cast<void>(input);
#endif
  TR_CHECK(rungs(rung, args, context), "variant ", rung, " is in the table and not in this library");
}

inline bool is_float(Dtype dtype) { return dtype <= Dtype::float64; }

}  // namespace
}  // namespace torch_reductions
