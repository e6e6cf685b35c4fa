#pragma once

#include "runtime/io/file_system.hpp"
#include "runtime/io/metrics_file.hpp"
#include "tools/commands/command.hpp"

namespace millrace::tools {

/// The option --choices RUN of commands that say how often rows of experts are exchanged in several rounds.
[[nodiscard]] inline Option choices_option() {
  return {.name = "choices",
          .value = "RUN",
          .help = "With shared experts: how often their ranks have too little room, by what the routers of this run chose."};
}

/// What the routers of that run chose, by step; empty without the option.
[[nodiscard]] inline std::vector<std::vector<runtime::RouterTokens>> recorded_choices(const Arguments& arguments) {
  if (!arguments.given("choices")) return {};
  return runtime::read_router_tokens(runtime::join_path(arguments.text("choices"), "metrics.jsonl"));
}

}  // namespace millrace::tools
