#include <cublasLt.h>
#include <cuda_runtime.h>
#ifdef MILLRACE_CUDNN
#include <cudnn_version.h>
#endif

#include "kernels/base/queue.hpp"
#include "kernels/cuda/status.hpp"

namespace millrace::kernels {

std::string why_no_cuda() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // it would come out of the next call
    return fmt::format("no CUDA device: {}", cudaGetErrorString(status));
  }
  return count > 0 ? "" : "no CUDA device on this machine";
}

std::vector<DeviceDescription> cuda_devices() {
  std::vector<DeviceDescription> devices;
  if (!why_no_cuda().empty()) return devices;
  int count = 0, before = 0;
  cuda::check_cuda(cudaGetDeviceCount(&count), "kernels.devices", "count");
  cuda::check_cuda(cudaGetDevice(&before), "kernels.devices", "current device");
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties;
    DeviceDescription device;
    device.device = {DeviceKind::cuda, index};
    cuda::check_cuda(cudaGetDeviceProperties(&properties, index), "kernels.devices", "properties");
    cuda::check_cuda(cudaSetDevice(index), "kernels.devices", "set device");
    cuda::check_cuda(cudaMemGetInfo(&device.free_bytes, &device.total_bytes), "kernels.devices", "free memory");
    device.name = properties.name;
    device.major = properties.major;
    device.minor = properties.minor;
    devices.push_back(device);
  }
  cuda::check_cuda(cudaSetDevice(before), "kernels.devices", "set device");
  return devices;
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

bool reaches_peer(Device from, Device to) {
  if (from.kind != DeviceKind::cuda || to.kind != DeviceKind::cuda) return false;
  if (from == to) return true;
  int reaches = 0;
  return cudaDeviceCanAccessPeer(&reaches, from.index, to.index) == cudaSuccess && reaches == 1;
}

}  // namespace millrace::kernels
