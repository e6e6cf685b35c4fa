#include "kernels/cuda/hopper_device.hpp"

#include <cstdlib>
#include <utility>
#include <vector>

#include "kernels/cuda/launch.cuh"

namespace millrace::kernels::cuda {
namespace {

#ifdef MILLRACE_EMULATED_CUDA

HopperDevice ask(int, const char*) { return {std::getenv("MILLRACE_EMULATED_HOPPER") != nullptr, 4}; }

#else

// Has static shared memory only where it is compiled for 9.0a: if a build leaves that out, the code of another architecture is loaded.
__global__ void marker(int* out) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  __shared__ int number;
  number = static_cast<int>(threadIdx.x);
  __syncthreads();
  if (out != nullptr) *out = number;
#endif
}

HopperDevice ask(int device, const char* component) {
  int major = 0, minor = 0;
  HopperDevice found;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), component, "compute capability");
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), component, "compute capability");
  check_cuda(cudaDeviceGetAttribute(&found.processors, cudaDevAttrMultiProcessorCount, device), component, "processors");
  if (major != 9 || minor != 0) return found;
  cudaFuncAttributes attributes;
  check_cuda(cudaFuncGetAttributes(&attributes, marker), component, "kernel attributes");
  found.usable = attributes.sharedSizeBytes > 0;
  return found;
}

#endif

}  // namespace

const HopperDevice& hopper_device_of(const ExecutionContext& context, const char* component) {
  thread_local std::vector<std::pair<int, HopperDevice>> known;
  const int device = context.device().index;
  for (const auto& [index, found] : known)
    if (index == device) return found;
  return known.emplace_back(device, ask(device, component)).second;
}

}  // namespace millrace::kernels::cuda
