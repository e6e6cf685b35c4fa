#pragma once

#include <cstddef>
#include <span>

#include "kernels/base/device.hpp"

/// Memory that CUDA gives: of a device, or of the host, pinned. For Buffer alone. Zeroed. A build without CUDA refuses.
namespace millrace::kernels::cuda {

/// Throws Error(memory) naming what was wanted and what is free, Error(config) for a device that is not there.
[[nodiscard]] std::byte* allocate(std::size_t bytes, Device device, MemorySpace space);
/// Copies to the device; done when it returns.
void write(Device device, std::byte* to, std::span<const std::byte> from);
void release(std::byte* memory, Device device, MemorySpace space) noexcept;

}  // namespace millrace::kernels::cuda
