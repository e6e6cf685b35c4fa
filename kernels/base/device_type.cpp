#include "kernels/base/device_type.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "kernels/base/check.hpp"
#include "kernels/base/device_context.hpp"

namespace millrace::kernels {
namespace {

constexpr std::array kinds{
#define MILLRACE_DEVICE(kind, ...) DeviceKind::kind,
#include "kernels/base/devices.inc"
#undef MILLRACE_DEVICE
};

/// By DeviceKind.
constexpr std::array known{
#define MILLRACE_DEVICE(kind, ...) DeviceFacts{.name = #kind, .backend = Backend::kind, __VA_ARGS__},
#include "kernels/base/devices.inc"
#undef MILLRACE_DEVICE
};

// Code that has no device in hand computes on the CPU. Ranks are placed on any other device by its number.
static_assert(kinds.front() == DeviceKind::cpu);
static_assert(std::all_of(known.begin() + 1, known.end(), [](const DeviceFacts& facts) { return facts.numbered; }),
              "in devices.inc, every kind but cpu must be numbered");

/// Kinds that tests define come after the built-in ones.
constexpr std::size_t max_kinds = known.size() + 4;

// Constant-initialised, so that rows can be registered at namespace scope in any order.
constinit std::array<const DeviceType*, max_kinds> rows{};

constexpr std::size_t index(DeviceKind kind) noexcept { return static_cast<std::size_t>(kind); }

const DeviceType absent[] = {
#define MILLRACE_DEVICE(kind, ...) DeviceType(known[index(DeviceKind::kind)]),
#include "kernels/base/devices.inc"
#undef MILLRACE_DEVICE
};

}  // namespace

std::span<const DeviceKind> device_kinds() noexcept { return kinds; }

const DeviceType& device_type(DeviceKind kind) noexcept {
  const DeviceType* row = rows[index(kind)];
  return row != nullptr ? *row : absent[index(kind)];
}

const DeviceFacts& known_device(DeviceKind kind) noexcept { return known[index(kind)]; }

InDeviceTable::InDeviceTable(DeviceKind kind, const DeviceType& type) noexcept { rows[index(kind)] = &type; }

bool computes_on(Backend backend, DeviceKind kind) noexcept {
  const Backend fast = device_type(kind).facts().backend;
  return backend == fast || (backend == Backend::reference && fast == Backend::cpu);
}

std::string DeviceType::why_unavailable() const { return fmt::format("this build has no {} kernels", facts_.title); }

std::unique_ptr<DeviceContext> DeviceType::make_context(Device device, const DeviceOptions&) const {
  fail(ExitCode::config, "kernels.device_context", "a context of {} was requested, but {}", to_string(device), why_unavailable());
}

std::byte* DeviceType::allocate(std::size_t, Device device, MemorySpace) const {
  fail(ExitCode::config, "kernels.buffer", "memory of {} was requested, but {}", to_string(device), why_unavailable());
}

void DeviceType::release(std::byte*, std::size_t, Device, MemorySpace) const noexcept {}

void DeviceType::write(Device device, std::byte*, std::span<const std::byte>) const {
  fail(ExitCode::config, "kernels.buffer", "a copy to {} was requested, but {}", to_string(device), why_unavailable());
}

std::unique_ptr<DeviceContext> make_context(Device device, const DeviceOptions& options) {
  return device_type(device).make_context(device, options);
}

Device parse_device(std::string_view text) {
  constexpr const char* component = "kernels.device";
  std::string expected;
  std::size_t kind = known.size();
  for (std::size_t i = 0; i < known.size(); ++i) {
    const DeviceFacts& facts = known[i];
    const bool last = i + 1 == known.size();
    expected += fmt::format("{}\"{}\"", expected.empty() ? "" : last && !facts.numbered ? " or " : ", ", facts.name);
    if (facts.numbered) expected += fmt::format("{}\"{}:N\"", last ? " or " : ", ", facts.name);
    if (text == facts.name || (facts.numbered && text.starts_with(facts.name))) kind = i;
  }
  if (kind == known.size()) fail(ExitCode::config, component, "device \"{}\", expected {}", text, expected);
  Device device{static_cast<DeviceKind>(kind), 0};
  const DeviceFacts& facts = known[kind];
  if (!facts.numbered) return device;
  if (text != facts.name) {
    const std::string_view rest = text.substr(std::string_view(facts.name).size());
    const std::string_view number = rest.starts_with(':') ? rest.substr(1) : std::string_view{};
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), device.index);
    MILLRACE_CHECK(!number.empty() && error == std::errc{} && end == number.data() + number.size() && device.index >= 0, ExitCode::config,
                   component, "device \"{}\", expected {}", text, expected);
  }
  const std::string why = device_type(device).why_unavailable();
  MILLRACE_CHECK(why.empty(), ExitCode::config, component, "device \"{}\", but {}; expected \"cpu\"", text, why);
  const std::size_t there = device_type(device).devices().size();
  MILLRACE_CHECK(static_cast<std::size_t>(device.index) < there, ExitCode::config, component,
                 "device \"{}\", but this machine has {}, expected {}", text,
                 there == 1 ? fmt::format("one {}", facts.noun) : fmt::format("{} {}s", there, facts.noun),
                 there == 1 ? fmt::format("\"{}\"", facts.name) : fmt::format("\"{0}:0\" to \"{0}:{1}\"", facts.name, there - 1));
  return device;
}

DeviceKind device_kind(std::string_view text) {
  for (std::size_t i = 0; i < known.size(); ++i)
    if (text.starts_with(known[i].name)) return static_cast<DeviceKind>(i);
  return DeviceKind::cpu;
}

std::vector<DeviceDescription> cuda_devices() { return device_type(DeviceKind::cuda).devices(); }
std::string why_no_cuda() { return device_type(DeviceKind::cuda).why_unavailable(); }

}  // namespace millrace::kernels
