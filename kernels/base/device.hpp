#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::kernels {

/// A kind of device, which is the index of its row in the table of devices (kernels/base/device_type.hpp).
enum class DeviceKind : std::uint8_t {
#define MILLRACE_DEVICE(kind, ...) kind,
#include "kernels/base/devices.inc"
#undef MILLRACE_DEVICE
};

/// The kind of memory that bytes lie in. A device can copy from pinned host memory without staging.
enum class MemorySpace : std::uint8_t { host, pinned_host, device };

/// A processor that executes programs: "cpu", "cuda:0".
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

/// Parses the name of a device, with or without an index: "cpu", "cuda", "cuda:1". Throws Error(config) for anything else, and for a
/// device that this build or machine does not have.
[[nodiscard]] Device parse_device(std::string_view text);
/// The kind of device that a text accepted by parse_device names, without checking the machine. The CPU for any other text.
[[nodiscard]] DeviceKind device_kind(std::string_view text);
[[nodiscard]] std::string to_string(Device device);
/// "host memory", "pinned host memory", "device memory".
[[nodiscard]] std::string_view to_string(MemorySpace space) noexcept;

}  // namespace millrace::kernels
