#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/base/device.hpp"

namespace millrace::kernels {

/// Who implements kernels; each is a folder of this name. `reference` and `cpu` both compute on a CPU: the plain loops that define the
/// truth, and the fast ones.
enum class Backend : std::uint8_t { reference, cpu, cuda };
inline constexpr std::array all_backends = {Backend::reference, Backend::cpu, Backend::cuda};
inline constexpr std::size_t backend_count = all_backends.size();

[[nodiscard]] constexpr const char* to_string(Backend backend) noexcept {
  switch (backend) {
    case Backend::reference:
      return "reference";
    case Backend::cpu:
      return "cpu";
    case Backend::cuda:
      return "cuda";
  }
  return "?";
}

/// The devices that a backend computes on.
[[nodiscard]] constexpr DeviceKind device_kind_of(Backend backend) noexcept {
  return backend == Backend::cuda ? DeviceKind::cuda : DeviceKind::cpu;
}

/// The backend that trains on a device of this kind.
[[nodiscard]] constexpr Backend backend_of(DeviceKind kind) noexcept { return kind == DeviceKind::cuda ? Backend::cuda : Backend::cpu; }

}  // namespace millrace::kernels
