#pragma once

#include <string>
#include <vector>

#include "tools/commands/command_line.hpp"

namespace millrace::tools {

/// The manual page of all commands, from the description that --help prints too, in roff's macros of man(7).
[[nodiscard]] std::string man_page(const std::vector<Command>& commands);

}  // namespace millrace::tools
