// Launches of kernels.

#include <algorithm>

#include "tests/emulated_cuda/fibers.hpp"
#include "tests/emulated_cuda/process.hpp"

namespace emulated_cuda {

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> body) {
  if (is_broken()) return done(cudaSuccess);
  const dim3 grid = config.gridDim, block = config.blockDim;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64 || grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 2147483647U ||
      grid.y > 65535 || grid.z > 65535)
    return done(cudaErrorInvalidConfiguration);
  const cudaStream_t stream = stream_of(config.stream);
  if (stream->device != current_device) return done(cudaErrorInvalidResourceHandle);
  if (config.dynamicSmemBytes > 48U << 10) {
    Process& p = process();
    const std::lock_guard lock(p.mutex);
    const auto allowed = p.shared_bytes.find(kernel);
    if (allowed == p.shared_bytes.end() || allowed->second < config.dynamicSmemBytes) return done(cudaErrorInvalidValue);
  }
  push(
      stream, [grid, block, bytes = config.dynamicSmemBytes, run = std::move(body)] { run_grid(grid, block, bytes, run); }, Work::launch);
  return done(cudaSuccess);
}

cudaError_t allow_shared_bytes(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return done(cudaSuccess);
  if (value < 0 || value > 227 << 10) return done(cudaErrorInvalidValue);
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  p.shared_bytes[kernel] = static_cast<std::size_t>(value);
  return done(cudaSuccess);
}

cudaError_t blocks_at_a_time(int* blocks, int threads, std::size_t shared_bytes) {
  *blocks = std::min(2048 / std::max(threads, 1), static_cast<int>((228U << 10) / (shared_bytes + 1024)));
  return done(cudaSuccess);
}

cudaError_t queue(cudaStream_t stream, std::function<void()> work) {
  if (is_broken()) return done(cudaSuccess);
  if (stream_of(stream)->device != current_device) return done(cudaErrorInvalidResourceHandle);
  push(stream, std::move(work), Work::launch);
  return done(cudaSuccess);
}

}  // namespace emulated_cuda
