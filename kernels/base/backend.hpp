#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace millrace::kernels {

/// The implementations of kernels; each has a folder of its name. `reference` has plain loops for the CPU that define the correct results;
/// each of the others has the fast kernels of the kind of device of that name.
enum class Backend : std::uint8_t {
  reference,
#define MILLRACE_DEVICE(kind, ...) kind,
#include "kernels/base/devices.inc"
#undef MILLRACE_DEVICE
};
inline constexpr std::array all_backends = {
    Backend::reference,
#define MILLRACE_DEVICE(kind, ...) Backend::kind,
#include "kernels/base/devices.inc"
#undef MILLRACE_DEVICE
};
inline constexpr std::size_t backend_count = all_backends.size();

[[nodiscard]] constexpr const char* to_string(Backend backend) noexcept {
  switch (backend) {
    case Backend::reference:
      return "reference";
#define MILLRACE_DEVICE(kind, ...) \
  case Backend::kind:              \
    return #kind;
#include "kernels/base/devices.inc"
#undef MILLRACE_DEVICE
  }
  return "?";
}

}  // namespace millrace::kernels
