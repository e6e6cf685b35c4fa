#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <memory>

#include "kernels/base/device_context.hpp"

namespace millrace::kernels::cuda {

class GemmPlans;        // kernels/cuda/gemm_plans.hpp
class FusedAttentions;  // kernels/cuda/fused_attention.hpp

/// An error that a kernel found, in pinned memory that host and device see. A kernel writes it by `report`
/// (kernels/cuda/launch.cuh), of which the first call counts; the host reads it when the work is done.
struct FaultSlot {
  enum Kind : std::uint32_t { none = 0, token = 1, target = 2 };
  std::uint32_t claimed = 0;  // by the first thread that reports; `kind` is written after the rest
  std::uint32_t kind = none;
  std::int32_t value = 0;     // the value found
  std::int64_t position = 0;  // its position
  std::int64_t limit = 0;     // the value should be less than this
  std::uint32_t noted = 0;    // DeviceContext::set_breadcrumb
  std::uint32_t noted_work = 0;
};

/// Maximum number of blocks of a sum over a tensor: each writes one double to DeviceContext::State::parts, and one block adds
/// them in order.
inline constexpr int kSumParts = 4096;

}  // namespace millrace::kernels::cuda

namespace millrace::kernels {

struct DeviceContext::State {
  std::array<cudaStream_t, kStreamKinds> lanes{};
  std::array<cudaEvent_t, kStreamKinds> order{};  // recorded by `wait`
  cuda::FaultSlot* fault = nullptr;               // pinned; has the same address on the device
  double* parts = nullptr;                        // device, kSumParts
  std::unique_ptr<cuda::GemmPlans> products;
  std::unique_ptr<cuda::FusedAttentions> attentions;
  bool cudnn = true;       // DeviceContext::Options
  bool capturing = false;  // between Graph::begin and Graph::end
  [[nodiscard]] cudaStream_t lane(StreamKind which) const noexcept { return lanes[static_cast<std::size_t>(which)]; }
  State();
  ~State();
};

}  // namespace millrace::kernels
