#include <fmt/format.h>

#include "tools/commands/command.hpp"

namespace millrace::tools {

std::string build_id() { return fmt::format("millrace {} (g++ {}, C++{})", MILLRACE_VERSION, __VERSION__, __cplusplus / 100 % 100); }

}  // namespace millrace::tools
