#pragma once

#include <cstddef>
#include <span>

#include "kernels/base/device.hpp"

namespace millrace::kernels {

/// Owns a page-aligned, zeroed block of memory for the lifetime of a rank: host memory (which requests huge pages), GPU memory,
/// or pinned host memory for a GPU's copies. Throws Error(memory), which names the size, if the system refuses.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes, Device device = {}, MemorySpace space = MemorySpace::host);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] MemorySpace space() const noexcept { return space_; }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  void release() noexcept;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  MemorySpace space_ = MemorySpace::host;
  Device device_;
};

/// Offsets in arenas are rounded up to this: a pair of cache lines, which is also a good alignment for vector loads.
inline constexpr std::size_t kAlignment = 128;
[[nodiscard]] constexpr std::size_t align_up(std::size_t bytes) noexcept { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace millrace::kernels
