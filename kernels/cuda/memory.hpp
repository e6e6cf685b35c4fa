#pragma once

#include <cstddef>
#include <span>

#include "kernels/base/device.hpp"

/// Memory from CUDA: on a device, or pinned on the host. Zeroed.
namespace millrace::kernels::cuda {

/// Throws Error(memory), which names the bytes requested and free, or Error(config) for a device that does not exist.
[[nodiscard]] std::byte* allocate(std::size_t bytes, Device device, MemorySpace space);
/// Copies to the device; returns when the copy is done.
void write(Device device, std::byte* to, std::span<const std::byte> from);
void release(std::byte* memory, Device device, MemorySpace space) noexcept;

}  // namespace millrace::kernels::cuda
