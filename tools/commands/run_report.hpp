#pragma once

#include <string>

namespace millrace::tools {

/// Draws the curves of a run's metrics.jsonl into `report.html` in its folder; returns the page's path. Errors: Error(usage) if the folder
/// has no metrics, Error(storage).
std::string write_run_report(const std::string& run_directory);

}  // namespace millrace::tools
