#include "kernels/cuda/memory.hpp"

#include <cuda_runtime.h>

#include <cstring>

#include "kernels/base/count.hpp"
#include "kernels/base/device_type.hpp"
#include "kernels/cuda/status.hpp"

namespace millrace::kernels::cuda {
namespace {

constexpr const char* component = "kernels.buffer";

std::byte* allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    fail(ExitCode::memory, component, "the system refused {} of pinned host memory", byte_count(bytes));
  }
  check_cuda(status, component, "pinned host memory");
  std::memset(memory, 0, bytes);
  return static_cast<std::byte*>(memory);
}

}  // namespace

std::byte* allocate(std::size_t bytes, Device device, MemorySpace space) {
  const std::string why = device_type(device).why_unavailable();
  MILLRACE_CHECK(why.empty(), ExitCode::config, component, "memory of {} was requested, but {}", to_string(device), why);
  check_cuda(cudaSetDevice(device.index), component, "set device");
  if (space == MemorySpace::pinned_host) return allocate_pinned(bytes);
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    std::size_t free = 0, total = 0;
    static_cast<void>(cudaMemGetInfo(&free, &total));
    fail(ExitCode::memory, component, "{} refused {}; {} of its {} are free", to_string(device), byte_count(bytes), byte_count(free),
         byte_count(total));
  }
  check_cuda(status, component, "device memory");
  // Runs on the device's default stream, which no other stream waits for; so wait here, before the run.
  check_cuda(cudaMemset(memory, 0, bytes), component, "device memory");
  check_cuda(cudaDeviceSynchronize(), component, "device memory");
  return static_cast<std::byte*>(memory);
}

void write(Device device, std::byte* to, std::span<const std::byte> from) {
  check_cuda(cudaSetDevice(device.index), component, "set device");
  check_cuda(cudaMemcpy(to, from.data(), from.size(), cudaMemcpyHostToDevice), component, "copy to the device");
  check_cuda(cudaDeviceSynchronize(), component, "copy to the device");
}

void release(std::byte* memory, Device device, MemorySpace space) noexcept {
  static_cast<void>(cudaSetDevice(device.index));
  static_cast<void>(space == MemorySpace::pinned_host ? cudaFreeHost(memory) : cudaFree(memory));
}

}  // namespace millrace::kernels::cuda
