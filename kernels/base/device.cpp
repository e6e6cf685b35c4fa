#include "kernels/base/device.hpp"

#include <fmt/format.h>

#include "kernels/base/device_type.hpp"

namespace millrace::kernels {

std::string to_string(Device device) {
  const DeviceFacts& facts = device_type(device).facts();
  return facts.numbered ? fmt::format("{}:{}", facts.name, device.index) : facts.name;
}

std::string_view to_string(MemorySpace space) noexcept {
  switch (space) {
    case MemorySpace::host:
      return "host memory";
    case MemorySpace::pinned_host:
      return "pinned host memory";
    case MemorySpace::device:
      return "device memory";
  }
  return "?";
}

}  // namespace millrace::kernels
