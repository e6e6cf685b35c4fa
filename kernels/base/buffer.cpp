#include "kernels/base/buffer.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/base/check.hpp"
#include "kernels/base/cuda_memory.hpp"

namespace millrace::kernels {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t bytes, std::size_t unit) noexcept { return (bytes + unit - 1) / unit * unit; }

std::size_t mapped_size(std::size_t bytes) noexcept { return round_up(bytes, static_cast<std::size_t>(sysconf(_SC_PAGESIZE))); }

std::byte* map(std::size_t bytes, std::size_t wanted) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    fail(ExitCode::memory, "kernels.buffer", "the system refused {} bytes ({:.2f} GiB) of host memory: {}", wanted,
         static_cast<double>(wanted) / (1 << 30), std::strerror(errno));
  return static_cast<std::byte*>(memory);
}

/// Maps one huge page more than needed and unmaps both ends, so that the memory begins at a huge page.
std::byte* map_at_huge_page(std::size_t bytes) {
  std::byte* memory = map(bytes + kHugePage, bytes);
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::size_t head = round_up(address, kHugePage) - address;
  if (head > 0) munmap(memory, head);
  if (kHugePage > head) munmap(memory + head + bytes, kHugePage - head);
  madvise(memory + head, bytes, MADV_HUGEPAGE);
  return memory + head;
}

}  // namespace

Buffer::Buffer(std::size_t bytes, Device device, MemorySpace space) : size_(bytes), space_(space), device_(device) {
  MILLRACE_CHECK((device.kind == DeviceKind::cpu) == (space == MemorySpace::host), ExitCode::internal, "kernels.buffer",
                 "{} of {}, expected host memory of a CPU, pinned or device memory of a GPU", to_string(space), to_string(device));
  MILLRACE_CHECK(bytes <= SIZE_MAX / 2, ExitCode::memory, "kernels.buffer", "the system refused {} bytes of {}", bytes, to_string(space));
  if (bytes == 0) return;
  if (space != MemorySpace::host) {
    data_ = cuda::allocate(bytes, device, space);
    return;
  }
  const std::size_t mapped = mapped_size(bytes);
  data_ = mapped >= 2 * kHugePage ? map_at_huge_page(mapped) : map(mapped, bytes);
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
  if (data_ != nullptr && space_ == MemorySpace::host)
    munmap(data_, mapped_size(size_));
  else if (data_ != nullptr)
    cuda::release(data_, device_, space_);
  data_ = nullptr;
  size_ = 0;
}

}  // namespace millrace::kernels
