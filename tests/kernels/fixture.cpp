#include "tests/kernels/fixture.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/base/cpu_features.hpp"

namespace millrace::kernels::testing {
namespace {

constexpr Device kDevice{DeviceKind::cuda, 0};

/// Every tensor is surrounded by bytes that must not be written; read as numbers they are NaN, so that reading them is detected as well.
constexpr std::size_t kGuard = 256;
constexpr std::byte kUntouched{0xff};

bool device_is_wanted() {
  const char* const wanted = std::getenv("MILLRACE_TEST_DEVICE");
  return wanted != nullptr && std::string_view(wanted) == "cuda";
}

/// State that tests of a device share. Pinned memory is slow to allocate, so freed memory is reused.
struct OnDevice {
  std::unique_ptr<DeviceContext> context = make_context(kDevice);
  std::multimap<std::size_t, Buffer> free;
  bool handed_out = false;  // since the last wait
};
std::optional<OnDevice> shared;

/// The level in MILLRACE_ISA, if this processor does not support it.
class WithInstructionSet : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* const level = std::getenv("MILLRACE_ISA");
    const Isa detected = detected_cpu_features().isa;
    for (const Isa isa : {Isa::avx2, Isa::avx512})
      if (level != nullptr && level == to_string(isa) && isa > detected)
        GTEST_SKIP() << "this processor has " << to_string(detected) << " at most, not " << level;
  }
};
const auto* const instruction_set = ::testing::AddGlobalTestEnvironment(new WithInstructionSet);

class WithDevice : public ::testing::Environment {
 public:
  void SetUp() override {
    if (!device_is_wanted()) return;
    if (const std::string why = why_no_cuda(); !why.empty()) GTEST_SKIP() << why;
    shared.emplace();
  }
  void TearDown() override { shared.reset(); }
};
const auto* const environment = ::testing::AddGlobalTestEnvironment(new WithDevice);

}  // namespace

DeviceContext* device_queue() { return shared ? shared->context.get() : nullptr; }

void wait() {
  if (!shared) return;
  shared->context->drain();
  shared->handed_out = false;
}

void hand_out() {
  if (shared) shared->handed_out = true;
}

void wait_for_kernels() {
  if (shared && shared->handed_out) wait();
}

Memory::Memory(std::size_t bytes) : bytes_(bytes) {
  wait();
  if (bytes == 0) return;
  bytes += kAlignment + kGuard;
  if (!shared) {
    buffer_ = Buffer(bytes);
    guard();
    return;
  }
  const auto found = shared->free.lower_bound(bytes);
  if (found != shared->free.end() && found->first <= 2 * bytes + 4096) {
    buffer_ = std::move(found->second);
    shared->free.erase(found);
    std::memset(buffer_.data(), 0, buffer_.size());
  } else {
    buffer_ = Buffer(bytes, kDevice, MemorySpace::pinned_host);
  }
  guard();
}

void Memory::guard() const {
  std::fill_n(buffer_.data(), kAlignment, kUntouched);
  std::fill_n(data() + bytes_, kGuard, kUntouched);
}

Memory::~Memory() {
  if (buffer_.data() != nullptr) {
    wait();
    const auto untouched = [](std::byte byte) { return byte == kUntouched; };
    EXPECT_TRUE(std::all_of(buffer_.data(), data(), untouched)) << "something was written before a tensor of " << bytes_ << " bytes";
    EXPECT_TRUE(std::all_of(data() + bytes_, data() + bytes_ + kGuard, untouched))
        << "something was written behind a tensor of " << bytes_ << " bytes";
  }
  if (shared && buffer_.data() != nullptr) shared->free.emplace(buffer_.size(), std::move(buffer_));
}

Buffer scratch_of(const ExecutionContext& context, std::size_t bytes) {
  if (context.host_readable()) return Buffer(bytes);
  return Buffer(bytes, context.device(), MemorySpace::device);
}

}  // namespace millrace::kernels::testing
