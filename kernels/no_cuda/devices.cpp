#include "kernels/base/check.hpp"
#include "kernels/base/cuda_memory.hpp"
#include "kernels/base/device_context.hpp"
#include "kernels/base/range.hpp"

namespace millrace::kernels {

std::vector<DeviceDescription> cuda_devices() { return {}; }
DeviceMemory device_memory(Device) { return {}; }
std::string why_no_cuda() { return "this build has no CUDA kernels"; }
std::string cuda_libraries() { return ""; }
void use_device(Device) {}
void connect_peers(std::span<const Device>) {}

Range::Range(const char*) noexcept {}
Range::~Range() = default;

std::byte* cuda::allocate(std::size_t, Device device, MemorySpace) {
  fail(ExitCode::config, "kernels.buffer", "memory of {} was asked for, but {}", to_string(device), why_no_cuda());
}
void cuda::write(Device, std::byte*, std::span<const std::byte>) {}
void cuda::release(std::byte*, Device, MemorySpace) noexcept {}

}  // namespace millrace::kernels
