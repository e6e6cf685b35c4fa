#include <fmt/format.h>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/run_report.hpp"

namespace millrace::tools {
namespace {

int report(const Arguments& arguments) {
  MILLRACE_CHECK(arguments.positional().size() == 1, ExitCode::usage, "millrace report", "{}, expected RUN_DIRECTORY",
                 counted(arguments.positional().size(), "path"));
  fmt::print("{}\n", write_run_report(arguments.positional().front()));
  return 0;
}

}  // namespace

Command report_command() {
  return {.name = "report",
          .words = "RUN_DIRECTORY",
          .summary = "Draw the curves of a run (loss, norm, learning rate, skipped steps, balance) into its report.html.",
          .notes = "A training run does so when it ends.",
          .offer = offer_folders,
          .run = report};
}

}  // namespace millrace::tools
