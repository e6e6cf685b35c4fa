#include <cublasLt.h>
#include <cuda_runtime.h>
#ifdef MILLRACE_CUDNN
#include <cudnn_version.h>
#endif

#include "kernels/base/device_type.hpp"
#include "kernels/cuda/device_context.hpp"
#include "kernels/cuda/memory.hpp"
#include "kernels/cuda/status.hpp"

namespace millrace::kernels::cuda {
namespace {

constexpr const char* component = "kernels.devices";

std::string why_unavailable() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // clears the error, which the next call would return
    return fmt::format("no CUDA device: {}", cudaGetErrorString(status));
  }
  return count > 0 ? "" : "no CUDA device on this machine";
}

std::vector<DeviceDescription> devices() {
  std::vector<DeviceDescription> all;
  if (!why_unavailable().empty()) return all;
  int count = 0;
  check_cuda(cudaGetDeviceCount(&count), component, "count");
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties;
    DeviceDescription device;
    device.device = {DeviceKind::cuda, index};
    check_cuda(cudaGetDeviceProperties(&properties, index), component, "properties");
    device.total_bytes = properties.totalGlobalMem;
    device.name = properties.name;
    device.major = properties.major;
    device.minor = properties.minor;
    all.push_back(device);
  }
  return all;
}

DeviceMemory memory_in_use(Device device) {
  int before = 0;
  std::size_t free = 0, total = 0;
  check_cuda(cudaGetDevice(&before), component, "current device");
  check_cuda(cudaSetDevice(device.index), component, "set device");
  check_cuda(cudaMemGetInfo(&free, &total), component, "free memory");
  check_cuda(cudaSetDevice(before), component, "set device");
  return {total - free, total};
}

std::string libraries() {
  if (!why_unavailable().empty()) return "";
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

void select(Device device) { check_cuda(cudaSetDevice(device.index), component, "set device"); }

void connect_peers(std::span<const Device> devices) {
  int before = 0;
  if (!devices.empty()) check_cuda(cudaGetDevice(&before), component, "current device");
  for (const Device from : devices) {
    for (const Device to : devices) {
      int reaches = 0;
      if (from.index == to.index || cudaDeviceCanAccessPeer(&reaches, from.index, to.index) != cudaSuccess || reaches == 0) continue;
      check_cuda(cudaSetDevice(from.index), component, "set device");
      const cudaError_t status = cudaDeviceEnablePeerAccess(to.index, 0);
      static_cast<void>(cudaGetLastError());  // a connection that exists already is not an error
      if (status != cudaErrorPeerAccessAlreadyEnabled) check_cuda(status, component, "peer access");
    }
  }
  if (!devices.empty()) check_cuda(cudaSetDevice(before), component, "set device");
}

class CudaType final : public DeviceType {
 public:
  CudaType() noexcept : DeviceType(known_device(DeviceKind::cuda)) {}
  [[nodiscard]] std::string why_unavailable() const override { return cuda::why_unavailable(); }
  [[nodiscard]] std::vector<DeviceDescription> devices() const override { return cuda::devices(); }
  [[nodiscard]] std::string libraries() const override { return cuda::libraries(); }
  [[nodiscard]] DeviceMemory memory_in_use(Device device) const override { return cuda::memory_in_use(device); }
  void select(Device device) const override { cuda::select(device); }
  void connect_peers(std::span<const Device> devices) const override { cuda::connect_peers(devices); }
  [[nodiscard]] std::unique_ptr<DeviceContext> make_context(Device device, const DeviceOptions& options) const override {
    return std::make_unique<CudaContext>(device, options);
  }
  [[nodiscard]] std::size_t context_bytes(const DeviceOptions& options) const noexcept override {
    return options.products + kSumParts * sizeof(double);
  }
  [[nodiscard]] std::byte* allocate(std::size_t bytes, Device device, MemorySpace space) const override {
    return cuda::allocate(bytes, device, space);
  }
  void release(std::byte* memory, std::size_t, Device device, MemorySpace space) const noexcept override {
    cuda::release(memory, device, space);
  }
  void write(Device device, std::byte* to, std::span<const std::byte> from) const override {
    if (!from.empty()) cuda::write(device, to, from);
  }
};

const CudaType type;
const InDeviceTable in_table(DeviceKind::cuda, type);

}  // namespace
}  // namespace millrace::kernels::cuda
