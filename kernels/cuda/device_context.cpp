#include "kernels/cuda/device_context.hpp"

#include <cuda_runtime.h>

#include "kernels/base/device_type.hpp"
#include "kernels/cuda/fused_attention.hpp"
#include "kernels/cuda/gemm_plans.hpp"
#include "kernels/cuda/status.hpp"

namespace millrace::kernels::cuda {
namespace {

constexpr const char* component = "kernels.device_context";

/// Reads a word that a kernel may write at any time, so the compiler must not cache or reorder the load.
std::uint32_t kind_of(const FaultSlot& fault) { return *static_cast<const volatile std::uint32_t*>(&fault.kind); }

}  // namespace

CudaContext::State::State() = default;

CudaContext::State::~State() {
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

CudaContext::CudaContext(Device device, const DeviceOptions& options) : DeviceContext(device), graphs_(options.graphs) {
  const std::string why = device_type(device).why_unavailable();
  MILLRACE_CHECK(why.empty(), ExitCode::config, component, "a context of {} was requested, but {}", to_string(device), why);
  check_cuda(cudaSetDevice(device.index), component, "set device");
  // Copies get the higher priority, since computation waits for them.
  int least = 0, greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), component, "priorities");
  for (std::size_t lane = 0; lane < stream_kind_count; ++lane) {
    const auto kind = static_cast<StreamKind>(lane);
    const int priority = kind == StreamKind::copy_in || kind == StreamKind::copy_out ? greatest : least;
    check_cuda(cudaStreamCreateWithPriority(&state_.lanes[lane], cudaStreamNonBlocking, priority), component, "stream");
    check_cuda(cudaEventCreateWithFlags(&state_.order[lane], cudaEventDisableTiming), component, "event");
  }
  void* fault = nullptr;
  check_cuda(cudaHostAlloc(&fault, sizeof(FaultSlot), cudaHostAllocPortable | cudaHostAllocMapped), component, "fault slot");
  state_.fault = new (fault) FaultSlot;
  void* parts = nullptr;
  check_cuda(cudaMalloc(&parts, kSumParts * sizeof(double)), component, "sums");
  state_.parts = static_cast<double*>(parts);
  state_.cudnn = options.cudnn;
  state_.products = std::make_unique<GemmPlans>(device, options.products, options.tf32, options.choices);
}

CudaContext::~CudaContext() { static_cast<void>(cudaSetDevice(device().index)); }

void CudaContext::copy(StreamKind stream, std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0) check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, state_.lane(stream)), component, "copy");
}

void CudaContext::zero(StreamKind stream, std::byte* to, std::size_t bytes) {
  if (bytes > 0) check_cuda(cudaMemsetAsync(to, 0, bytes, state_.lane(stream)), component, "zero");
}

void CudaContext::wait(StreamKind waiting, StreamKind on) {
  cudaEvent_t event = state_.order[static_cast<std::size_t>(on)];
  check_cuda(cudaEventRecord(event, state_.lane(on)), component, "record");
  check_cuda(cudaStreamWaitEvent(state_.lane(waiting), event, 0), component, "wait");
}

void CudaContext::drain() {
  for (cudaStream_t lane : state_.lanes) {
    const cudaError_t status = cudaStreamSynchronize(lane);
    if (status != cudaSuccess) break;  // check() reports it
  }
  check("the work before");
}

std::uint32_t CudaContext::last_operation() const noexcept { return *static_cast<const volatile std::uint32_t*>(&state_.fault->noted); }

std::uint32_t CudaContext::last_action() const noexcept { return *static_cast<const volatile std::uint32_t*>(&state_.fault->noted_work); }

void CudaContext::check(const char* what) {
  const cudaError_t status = cudaPeekAtLastError();
  if (status != cudaSuccess && status != cudaErrorNotReady)
    fail(ExitCode::device, component, "{} failed at {}: {} ({})", to_string(device()), what, cudaGetErrorString(status),
         cudaGetErrorName(status));
  const std::uint32_t kind = kind_of(*state_.fault);
  if (kind == FaultSlot::none) return;
  const FaultSlot fault = *state_.fault;
  state_.fault->kind = FaultSlot::none;
  state_.fault->claimed = 0;
  if (kind == FaultSlot::token)
    fail(ExitCode::data, "kernels.embedding", "token {} at position {}, expected 0 to {}", fault.value, fault.position, fault.limit - 1);
  if (kind == FaultSlot::expert)
    fail(ExitCode::internal, "kernels.expert_rows", "expert {} at position {}, expected 0 to {}", fault.value, fault.position,
         fault.limit - 1);
  if (kind == FaultSlot::place)
    fail(ExitCode::internal, "kernels.expert_rows", "place {} at position {}, expected 0 to {}", fault.value, fault.position,
         fault.limit - 1);
  if (kind == FaultSlot::offset)
    fail(ExitCode::internal, "kernels.grouped_matmul", "offset {} is {}, expected increasing ones from 0 to at most {}", fault.position,
         fault.value, fault.limit);
  if (kind == FaultSlot::key)
    fail(ExitCode::internal, "kernels.sparse_attention", "key {} at position {}, expected 0 to {}", fault.value, fault.position,
         fault.limit - 1);
  fail(ExitCode::data, "kernels.linear_cross_entropy", "target {} at position {}, expected less than the vocabulary's {}", fault.value,
       fault.position, fault.limit);
}

}  // namespace millrace::kernels::cuda
