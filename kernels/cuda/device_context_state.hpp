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

/// What a kernel found wrong, in pinned memory that both sides see. A kernel writes it by `report` (kernels/cuda/launch.cuh), the first one
/// wins; the host reads it when the work is done.
struct FaultSlot {
  enum Kind : std::uint32_t { none = 0, token = 1, target = 2 };
  std::uint32_t claimed = 0;  // by the first that has something to tell; kind is written when the rest is
  std::uint32_t kind = none;
  std::int32_t value = 0;     // what was found
  std::int64_t position = 0;  // where
  std::int64_t limit = 0;     // wanted less than this
  std::uint32_t noted = 0;    // Queue::note
  std::uint32_t noted_work = 0;
};

/// Blocks of a sum over a tensor, at most: each leaves one double in Queue::State::parts, and one block adds them in order.
inline constexpr int kSumParts = 4096;

}  // namespace millrace::kernels::cuda

namespace millrace::kernels {

struct DeviceContext::State {
  std::array<cudaStream_t, kStreamKinds> lanes{};
  std::array<cudaEvent_t, kStreamKinds> order{};  // what `order` records
  cuda::FaultSlot* fault = nullptr;               // pinned; the device reaches it under the same address
  double* parts = nullptr;                        // device, kSumParts
  std::unique_ptr<cuda::GemmPlans> products;
  std::unique_ptr<cuda::FusedAttentions> attentions;
  bool cudnn = true;       // Queue::Options
  bool capturing = false;  // between Graph::begin and Graph::end
  [[nodiscard]] cudaStream_t lane(StreamKind which) const noexcept { return lanes[static_cast<std::size_t>(which)]; }
  State();
  ~State();
};

}  // namespace millrace::kernels
