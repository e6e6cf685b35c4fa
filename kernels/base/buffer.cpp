#include "kernels/base/buffer.hpp"

#include <cstdint>
#include <utility>

#include "kernels/base/check.hpp"
#include "kernels/base/device_type.hpp"

namespace millrace::kernels {
Buffer::Buffer(std::size_t bytes, Device device, MemorySpace space) : size_(bytes), space_(space), device_(device) {
  const DeviceType& type = device_type(device);
  MILLRACE_CHECK(type.facts().host_readable == (space == MemorySpace::host), ExitCode::internal, "kernels.buffer", "{} of {}, expected {}",
                 to_string(space), to_string(device), type.facts().host_readable ? "host memory" : "pinned or device memory");
  MILLRACE_CHECK(bytes <= SIZE_MAX / 2, ExitCode::memory, "kernels.buffer", "the system refused {} bytes of {}", bytes, to_string(space));
  if (bytes > 0) data_ = type.allocate(bytes, device, space);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), space_(other.space_), device_(other.device_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    space_ = other.space_;
    device_ = other.device_;
  }
  return *this;
}

Buffer::~Buffer() { release(); }

void Buffer::release() noexcept {
  if (data_ != nullptr) device_type(device_).release(data_, size_, device_, space_);
  data_ = nullptr;
  size_ = 0;
}

}  // namespace millrace::kernels
