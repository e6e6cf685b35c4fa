#include <cublasLt.h>
#include <cuda_runtime.h>
#ifdef MILLRACE_CUDNN
#include <cudnn_version.h>
#endif

#include "kernels/base/device_context.hpp"
#include "kernels/cuda/status.hpp"

namespace millrace::kernels {

std::string why_no_cuda() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // clears the error, which the next call would return
    return fmt::format("no CUDA device: {}", cudaGetErrorString(status));
  }
  return count > 0 ? "" : "no CUDA device on this machine";
}

std::vector<DeviceDescription> cuda_devices() {
  std::vector<DeviceDescription> devices;
  if (!why_no_cuda().empty()) return devices;
  int count = 0;
  cuda::check_cuda(cudaGetDeviceCount(&count), "kernels.devices", "count");
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties;
    DeviceDescription device;
    device.device = {DeviceKind::cuda, index};
    cuda::check_cuda(cudaGetDeviceProperties(&properties, index), "kernels.devices", "properties");
    device.total_bytes = properties.totalGlobalMem;
    device.name = properties.name;
    device.major = properties.major;
    device.minor = properties.minor;
    devices.push_back(device);
  }
  return devices;
}

DeviceMemory device_memory(Device device) {
  if (device.kind != DeviceKind::cuda) return {};
  int before = 0;
  std::size_t free = 0, total = 0;
  cuda::check_cuda(cudaGetDevice(&before), "kernels.devices", "current device");
  cuda::check_cuda(cudaSetDevice(device.index), "kernels.devices", "set device");
  cuda::check_cuda(cudaMemGetInfo(&free, &total), "kernels.devices", "free memory");
  cuda::check_cuda(cudaSetDevice(before), "kernels.devices", "set device");
  return {total - free, total};
}

std::string cuda_libraries() {
  if (!why_no_cuda().empty()) return "";
  int driver = 0, runtime = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  std::string text = fmt::format("CUDA {}.{} (driver {}.{}), cuBLASLt {}", runtime / 1000, runtime % 1000 / 10, driver / 1000,
                                 driver % 1000 / 10, cublasLtGetVersion());
#ifdef MILLRACE_CUDNN
  text += fmt::format(", cuDNN {}.{}.{}", CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL);
#endif
  return text;
}

void use_device(Device device) {
  if (device.kind == DeviceKind::cuda) cuda::check_cuda(cudaSetDevice(device.index), "kernels.devices", "set device");
}

void connect_peers(std::span<const Device> devices) {
  constexpr const char* who = "kernels.devices";
  int before = 0;
  if (!devices.empty()) cuda::check_cuda(cudaGetDevice(&before), who, "current device");
  for (const Device from : devices) {
    for (const Device to : devices) {
      int reaches = 0;
      if (from.index == to.index || cudaDeviceCanAccessPeer(&reaches, from.index, to.index) != cudaSuccess || reaches == 0) continue;
      cuda::check_cuda(cudaSetDevice(from.index), who, "set device");
      const cudaError_t status = cudaDeviceEnablePeerAccess(to.index, 0);
      static_cast<void>(cudaGetLastError());  // a connection that exists already is not an error
      if (status != cudaErrorPeerAccessAlreadyEnabled) cuda::check_cuda(status, who, "peer access");
    }
  }
  if (!devices.empty()) cuda::check_cuda(cudaSetDevice(before), who, "set device");
}

}  // namespace millrace::kernels
