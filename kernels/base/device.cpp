#include "kernels/base/device.hpp"

#include <charconv>

#include "kernels/base/check.hpp"

namespace millrace::kernels {

Device parse_device(std::string_view text) {
  constexpr const char* who = "kernels.device";
  if (text == "cpu") return {};
  if (!text.starts_with("cuda")) fail(ExitCode::config, who, "device \"{}\", wanted \"cpu\", \"cuda\" or \"cuda:N\"", text);
  int index = 0;
  if (text != "cuda") {
    const std::string_view number = text.substr(4).starts_with(':') ? text.substr(5) : std::string_view{};
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
    MILLRACE_CHECK(!number.empty() && error == std::errc{} && end == number.data() + number.size() && index >= 0, ExitCode::config, who,
                   "device \"{}\", wanted \"cpu\", \"cuda\" or \"cuda:N\"", text);
  }
  fail(ExitCode::config, who, "device \"cuda:{}\", but this build has no CUDA kernels; wanted \"cpu\"", index);
}

std::string to_string(Device device) { return device.kind == DeviceKind::cpu ? "cpu" : fmt::format("cuda:{}", device.index); }

}  // namespace millrace::kernels
