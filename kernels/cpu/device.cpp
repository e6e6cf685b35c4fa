#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "kernels/base/device_context.hpp"
#include "kernels/base/device_type.hpp"

// The CPU as a device: every stream is the calling thread.
namespace millrace::kernels::cpu {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t bytes, std::size_t unit) noexcept { return (bytes + unit - 1) / unit * unit; }

std::size_t mapped_size(std::size_t bytes) noexcept { return round_up(bytes, static_cast<std::size_t>(sysconf(_SC_PAGESIZE))); }

std::byte* map(std::size_t bytes, std::size_t requested) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    fail(ExitCode::memory, "kernels.buffer", "the system refused {} of host memory: {}", byte_count(requested), std::strerror(errno));
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

/// The time at which it was recorded; what was enqueued before is done by then.
class CpuEvent final : public EventState {
 public:
  void record(DeviceContext&, StreamKind) override { at_ = std::chrono::steady_clock::now(); }
  void wait(DeviceContext&, StreamKind) const override {}
  [[nodiscard]] bool complete() const override { return true; }
  [[nodiscard]] float since(const EventState& earlier) const override {
    return std::chrono::duration<float, std::milli>(at_ - static_cast<const CpuEvent&>(earlier).at_).count();
  }

 private:
  std::chrono::steady_clock::time_point at_;
};

class CpuContext final : public DeviceContext {
 public:
  CpuContext() noexcept : DeviceContext(Device{}) {}
  void copy(StreamKind, std::byte* to, const std::byte* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void zero(StreamKind, std::byte* to, std::size_t bytes) override {
    if (bytes > 0) std::memset(to, 0, bytes);
  }
  void wait(StreamKind, StreamKind) override {}
  void drain() override {}
  void check(const char*) override {}
  void set_breadcrumb(std::uint32_t) override {}
  [[nodiscard]] std::uint32_t last_operation() const noexcept override { return 0; }
  void set_action(std::uint32_t) override {}
  [[nodiscard]] std::uint32_t last_action() const noexcept override { return 0; }
  [[nodiscard]] std::unique_ptr<EventState> make_event(bool) override { return std::make_unique<CpuEvent>(); }
};

class CpuType final : public DeviceType {
 public:
  CpuType() noexcept : DeviceType(known_device(DeviceKind::cpu)) {}
  [[nodiscard]] std::string why_unavailable() const override { return ""; }
  [[nodiscard]] std::unique_ptr<DeviceContext> make_context(Device, const DeviceOptions&) const override {
    return std::make_unique<CpuContext>();
  }
  [[nodiscard]] std::byte* allocate(std::size_t bytes, Device, MemorySpace) const override {
    const std::size_t mapped = mapped_size(bytes);
    return mapped >= 2 * kHugePage ? map_at_huge_page(mapped) : map(mapped, bytes);
  }
  void release(std::byte* memory, std::size_t bytes, Device, MemorySpace) const noexcept override { munmap(memory, mapped_size(bytes)); }
  void write(Device, std::byte* to, std::span<const std::byte> from) const override {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
  }
};

const CpuType type;
const InDeviceTable in_table(DeviceKind::cpu, type);

}  // namespace
}  // namespace millrace::kernels::cpu

namespace millrace::kernels {

DeviceContext& cpu_context() noexcept {
  static cpu::CpuContext context;
  return context;
}

}  // namespace millrace::kernels
