#include "kernels/base/device.hpp"

#include <charconv>

#include "kernels/base/check.hpp"
#include "kernels/base/device_context.hpp"

namespace millrace::kernels {

Device parse_device(std::string_view text) {
  constexpr const char* who = "kernels.device";
  if (text == "cpu") return {};
  if (!text.starts_with("cuda")) fail(ExitCode::config, who, "device \"{}\", expected \"cpu\", \"cuda\" or \"cuda:N\"", text);
  int index = 0;
  if (text != "cuda") {
    const std::string_view number = text.substr(4).starts_with(':') ? text.substr(5) : std::string_view{};
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
    MILLRACE_CHECK(!number.empty() && error == std::errc{} && end == number.data() + number.size() && index >= 0, ExitCode::config, who,
                   "device \"{}\", expected \"cpu\", \"cuda\" or \"cuda:N\"", text);
  }
  const std::string why = why_no_cuda();
  MILLRACE_CHECK(why.empty(), ExitCode::config, who, "device \"{}\", but {}; expected \"cpu\"", text, why);
  const auto devices = cuda_devices();
  MILLRACE_CHECK(static_cast<std::size_t>(index) < devices.size(), ExitCode::config, who,
                 "device \"{}\", but this machine has {}, expected {}", text,
                 devices.size() == 1 ? "one GPU" : fmt::format("{} GPUs", devices.size()),
                 devices.size() == 1 ? "\"cuda\"" : fmt::format("\"cuda:0\" to \"cuda:{}\"", devices.size() - 1));
  return {DeviceKind::cuda, index};
}

std::string to_string(Device device) { return device.kind == DeviceKind::cpu ? "cpu" : fmt::format("cuda:{}", device.index); }

std::string_view to_string(MemorySpace space) noexcept {
  switch (space) {
    case MemorySpace::host:
      return "host memory";
    case MemorySpace::pinned_host:
      return "pinned host memory";
    case MemorySpace::device:
      return "device memory";
  }
  return "?";
}

}  // namespace millrace::kernels
