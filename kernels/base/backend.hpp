#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace millrace::kernels {

/// The implementations of kernels; each has a folder of its name. `reference` and `cpu` both compute on a CPU: the first are plain
/// loops that define the correct results, the second are the fast ones. DeviceFacts::backend says which backend trains on a kind of
/// device.
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

}  // namespace millrace::kernels
