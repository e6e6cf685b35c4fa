#include "tools/commands/run_report.hpp"

#include "kernels/base/check.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/profile/report/run_page.hpp"

namespace millrace::tools {

std::string write_run_report(const std::string& run_directory) {
  const auto metrics = runtime::join_path(run_directory, "metrics.jsonl");
  MILLRACE_CHECK(runtime::kind_of(metrics) != runtime::PathKind::missing, ExitCode::usage, "millrace report",
                 "{} has no metrics.jsonl, expected the directory of a run", run_directory);
  const auto page = runtime::join_path(run_directory, "report.html");
  runtime::write_text_file(page,
                           runtime::run_page(run_directory, runtime::read_text_file(metrics, std::uint64_t{1} << 31, ExitCode::data)));
  return page;
}

}  // namespace millrace::tools
