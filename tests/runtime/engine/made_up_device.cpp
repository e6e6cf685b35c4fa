#include "tests/runtime/engine/made_up_device.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

#include "kernels/base/buffer.hpp"

namespace millrace::runtime::testing {
namespace {

class MadeUpType final : public kernels::DeviceType {
 public:
  MadeUpType() noexcept : DeviceType({.name = "made-up", .title = "made-up", .noun = "device", .numbered = true, .asynchronous = true}) {}
  [[nodiscard]] std::string why_unavailable() const override { return ""; }
  [[nodiscard]] std::unique_ptr<kernels::DeviceContext> make_context(kernels::Device, const kernels::DeviceOptions&) const override {
    return std::make_unique<MadeUpContext>();
  }
  [[nodiscard]] std::byte* allocate(std::size_t bytes, kernels::Device, kernels::MemorySpace) const override {
    const std::size_t whole = kernels::align_up(bytes);
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(kernels::kAlignment, whole));
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(memory, 0, whole);
    return memory;
  }
  void release(std::byte* memory, std::size_t, kernels::Device, kernels::MemorySpace) const noexcept override { std::free(memory); }
  void write(kernels::Device, std::byte* to, std::span<const std::byte> from) const override {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
  }
};

const MadeUpType type;
const kernels::InDeviceTable in_table(made_up_kind, type);

std::size_t index(kernels::StreamKind stream) { return static_cast<std::size_t>(stream); }

}  // namespace

void MadeUpContext::copy(kernels::StreamKind stream, std::byte* to, const std::byte* from, std::size_t bytes) {
  ++copies_[index(stream)];
  put_off_[index(stream)].push_back({to, from, bytes});
  if (stream == kernels::StreamKind::compute) flush(stream);  // kernels run at once
}

void MadeUpContext::zero(kernels::StreamKind stream, std::byte* to, std::size_t bytes) {
  flush(stream);
  std::memset(to, 0, bytes);
}

void MadeUpContext::wait(kernels::StreamKind waiting, kernels::StreamKind on) {
  ++waits_[{waiting, on}];
  flush(on);
}

void MadeUpContext::drain() {
  for (std::size_t stream = 0; stream < kernels::stream_kind_count; ++stream) flush(static_cast<kernels::StreamKind>(stream));
}

void MadeUpContext::flush(kernels::StreamKind stream) {
  auto& copies = put_off_[index(stream)];
  for (const Copy& copy : copies) std::memcpy(copy.to, copy.from, copy.bytes);
  copies.clear();
}

std::unique_ptr<kernels::EventState> MadeUpContext::make_event(bool timed) { return kernels::cpu_context().make_event(timed); }

}  // namespace millrace::runtime::testing
