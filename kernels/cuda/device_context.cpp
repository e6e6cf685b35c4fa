#include "kernels/base/device_context.hpp"

#include <cuda_runtime.h>

#include "kernels/cuda/device_context_state.hpp"
#include "kernels/cuda/fused_attention.hpp"
#include "kernels/cuda/gemm_plans.hpp"
#include "kernels/cuda/status.hpp"

namespace millrace::kernels {
namespace {

constexpr const char* kQueue = "kernels.queue";

/// Reads a word that a kernel may write at any time, so the compiler must not cache or reorder the load.
std::uint32_t kind_of(const cuda::FaultSlot& fault) { return *static_cast<const volatile std::uint32_t*>(&fault.kind); }

}  // namespace

DeviceContext::State::State() = default;

DeviceContext::State::~State() {
  for (cudaStream_t lane : lanes)
    if (lane != nullptr) static_cast<void>(cudaStreamSynchronize(lane));
  products.reset();
  attentions.reset();
  for (cudaEvent_t event : order)
    if (event != nullptr) static_cast<void>(cudaEventDestroy(event));
  for (cudaStream_t lane : lanes)
    if (lane != nullptr) static_cast<void>(cudaStreamDestroy(lane));
  if (fault != nullptr) static_cast<void>(cudaFreeHost(fault));
  if (parts != nullptr) static_cast<void>(cudaFree(parts));
}

DeviceContext::DeviceContext(Device device, Options options) : device_(device), graphs_(options.graphs), state_(std::make_unique<State>()) {
  const std::string why = why_no_cuda();
  MILLRACE_CHECK(why.empty(), ExitCode::config, kQueue, "a queue of {} was asked for: {}", to_string(device), why);
  cuda::check_cuda(cudaSetDevice(device.index), kQueue, "set device");
  // Copies get the higher priority, since computation waits for them.
  int least = 0, greatest = 0;
  cuda::check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), kQueue, "priorities");
  for (std::size_t lane = 0; lane < kStreamKinds; ++lane) {
    const auto kind = static_cast<StreamKind>(lane);
    const int priority = kind == StreamKind::copy_in || kind == StreamKind::copy_out ? greatest : least;
    cuda::check_cuda(cudaStreamCreateWithPriority(&state_->lanes[lane], cudaStreamNonBlocking, priority), kQueue, "stream");
    cuda::check_cuda(cudaEventCreateWithFlags(&state_->order[lane], cudaEventDisableTiming), kQueue, "event");
  }
  void* fault = nullptr;
  cuda::check_cuda(cudaHostAlloc(&fault, sizeof(cuda::FaultSlot), cudaHostAllocPortable | cudaHostAllocMapped), kQueue, "fault slot");
  state_->fault = new (fault) cuda::FaultSlot;
  void* parts = nullptr;
  cuda::check_cuda(cudaMalloc(&parts, cuda::kSumParts * sizeof(double)), kQueue, "sums");
  state_->parts = static_cast<double*>(parts);
  state_->cudnn = options.cudnn;
  state_->products = std::make_unique<cuda::GemmPlans>(device, options.products, options.tf32, options.choices);
}

DeviceContext::~DeviceContext() { static_cast<void>(cudaSetDevice(device_.index)); }

std::size_t DeviceContext::device_bytes(const Options& options) noexcept { return options.products + cuda::kSumParts * sizeof(double); }

void DeviceContext::copy(StreamKind lane, std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0) cuda::check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, state_->lane(lane)), kQueue, "copy");
}

void DeviceContext::zero(StreamKind lane, std::byte* to, std::size_t bytes) {
  if (bytes > 0) cuda::check_cuda(cudaMemsetAsync(to, 0, bytes, state_->lane(lane)), kQueue, "zero");
}

void DeviceContext::wait(StreamKind waiting, StreamKind on) {
  cudaEvent_t event = state_->order[static_cast<std::size_t>(on)];
  cuda::check_cuda(cudaEventRecord(event, state_->lane(on)), kQueue, "record");
  cuda::check_cuda(cudaStreamWaitEvent(state_->lane(waiting), event, 0), kQueue, "wait");
}

void DeviceContext::drain() {
  for (cudaStream_t lane : state_->lanes) {
    const cudaError_t status = cudaStreamSynchronize(lane);
    if (status != cudaSuccess) break;  // check() reports it
  }
  check("the work before");
}

std::uint32_t DeviceContext::last_operation() const noexcept { return *static_cast<const volatile std::uint32_t*>(&state_->fault->noted); }

std::uint32_t DeviceContext::last_action() const noexcept {
  return *static_cast<const volatile std::uint32_t*>(&state_->fault->noted_work);
}

void DeviceContext::check(const char* what) {
  const cudaError_t status = cudaPeekAtLastError();
  if (status != cudaSuccess && status != cudaErrorNotReady)
    fail(ExitCode::device, kQueue, "{} failed at {}: {} ({})", to_string(device_), what, cudaGetErrorString(status),
         cudaGetErrorName(status));
  const std::uint32_t kind = kind_of(*state_->fault);
  if (kind == cuda::FaultSlot::none) return;
  const cuda::FaultSlot fault = *state_->fault;
  state_->fault->kind = cuda::FaultSlot::none;
  state_->fault->claimed = 0;
  if (kind == cuda::FaultSlot::token)
    fail(ExitCode::data, "kernels.embedding", "token {} at position {}, expected 0 to {}", fault.value, fault.position, fault.limit - 1);
  fail(ExitCode::data, "kernels.linear_cross_entropy", "target {} at position {}, expected less than the vocabulary's {}", fault.value,
       fault.position, fault.limit);
}

}  // namespace millrace::kernels
