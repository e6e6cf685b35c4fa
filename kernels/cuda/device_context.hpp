#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <memory>

#include "kernels/base/device_context.hpp"
#include "kernels/base/execution_context.hpp"

namespace millrace::kernels::cuda {

class GemmPlans;        // kernels/cuda/gemm_plans.hpp
class FusedAttentions;  // kernels/cuda/fused_attention.hpp

/// An error that a kernel found, in pinned memory that host and device see. A kernel writes it by `report`
/// (kernels/cuda/launch.cuh), of which the first call counts; the host reads it when the work is done.
struct FaultSlot {
  enum Kind : std::uint32_t { none = 0, token = 1, target = 2, expert = 3, place = 4, offset = 5, key = 6 };
  std::uint32_t claimed = 0;  // by the first thread that reports; `kind` is written after the rest
  std::uint32_t kind = none;
  std::int32_t value = 0;     // the value found
  std::int64_t position = 0;  // its position
  std::int64_t limit = 0;     // the value should be less than this
  std::uint32_t noted = 0;    // CudaContext::set_breadcrumb
  std::uint32_t noted_work = 0;
};

/// Maximum number of blocks of a sum over a tensor: each writes one double to CudaContext::State::parts, and one block adds
/// them in order.
inline constexpr int kSumParts = 4096;

/// A rank's GPU: its own compute and copy streams, its library handles, and the memory where kernels report errors. GEMM and attention
/// plans are created when a shape is first seen, and graphs are captured once; nothing else allocates after construction.
class CudaContext final : public DeviceContext {
 public:
  CudaContext(Device device, const DeviceOptions& options);
  ~CudaContext() override;

  void copy(StreamKind stream, std::byte* to, const std::byte* from, std::size_t bytes) override;
  void zero(StreamKind stream, std::byte* to, std::size_t bytes) override;
  void wait(StreamKind waiting, StreamKind on) override;
  void drain() override;
  void check(const char* what) override;
  void set_breadcrumb(std::uint32_t number) override;
  [[nodiscard]] std::uint32_t last_operation() const noexcept override;
  void set_action(std::uint32_t number) override;
  [[nodiscard]] std::uint32_t last_action() const noexcept override;
  [[nodiscard]] std::unique_ptr<EventState> make_event(bool timed) override;
  [[nodiscard]] bool graphs() const noexcept override { return graphs_; }
  void begin_capture() override;
  [[nodiscard]] std::unique_ptr<GraphState> end_capture() override;
  void abandon_capture() noexcept override;

  /// What the kernels of this folder use.
  struct State {
    std::array<cudaStream_t, stream_kind_count> lanes{};
    std::array<cudaEvent_t, stream_kind_count> order{};  // recorded by `wait`
    FaultSlot* fault = nullptr;                          // pinned; has the same address on the device
    double* parts = nullptr;                             // device, kSumParts
    std::unique_ptr<GemmPlans> products;
    std::unique_ptr<FusedAttentions> attentions;
    bool cudnn = true;       // DeviceOptions
    bool capturing = false;  // between begin_capture and end_capture
    [[nodiscard]] cudaStream_t lane(StreamKind which) const noexcept { return lanes[static_cast<std::size_t>(which)]; }
    State();
    ~State();
  };
  [[nodiscard]] State& state() noexcept { return state_; }

 private:
  bool graphs_;
  State state_;
};

[[nodiscard]] inline CudaContext::State& state_of(DeviceContext& context) noexcept { return static_cast<CudaContext&>(context).state(); }
[[nodiscard]] inline CudaContext::State& state_of(const ExecutionContext& context) noexcept { return state_of(context.device_context()); }

}  // namespace millrace::kernels::cuda
