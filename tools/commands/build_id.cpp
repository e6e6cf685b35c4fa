#include <fmt/format.h>

#include "actors/setup/caf_version.hpp"
#include "cluster/host/versions.hpp"
#include "configs/load.hpp"
#include "kernels/base/device_type.hpp"
#include "tools/commands/command.hpp"

namespace millrace::tools {
namespace {

std::string compiler() { return fmt::format("g++ {}, C++{}", __VERSION__, __cplusplus / 100 % 100); }

/// "CUDA 12.4, cuDNN 9.1", or "CUDA: this build has no CUDA kernels".
std::string devices_text() {
  std::string text;
  for (const kernels::DeviceKind kind : kernels::device_kinds()) {
    const auto& type = kernels::device_type(kind);
    if (!type.facts().numbered) continue;
    const auto libraries = type.libraries(), missing = type.why_unavailable();
    text += fmt::format("{}{}", text.empty() ? "" : "; ",
                        !libraries.empty() ? libraries : fmt::format("{} none: {}", type.facts().title, missing));
  }
  return text;
}

}  // namespace

std::string build_id() { return fmt::format("millrace {} ({}, {})", MILLRACE_VERSION, source_commit(), compiler()); }

std::string version_text() {
  return fmt::format(
      "millrace {}\n"
      "commit     {}\n"
      "build      {}, {}\n"
      "libraries  {}, {}, {}, {}\n"
      "devices    {}",
      MILLRACE_VERSION, source_commit(), MILLRACE_BUILD_TYPE, compiler(), actors::caf_version(), cluster::boost_version(),
      cluster::mpi_version(), configs::toml_version(), devices_text());
}

}  // namespace millrace::tools
