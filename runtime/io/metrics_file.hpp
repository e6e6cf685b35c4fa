#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/io/file_system.hpp"

namespace millrace::runtime {

/// A number that is compared bit for bit. It is written as a decimal with 17 digits under its name, and as a hexadecimal float
/// under name + "_hex".
struct ExactNumber {
  double value = 0;
};

/// A list is a JSON array.
using MetricValue = std::variant<std::int64_t, double, ExactNumber, std::string, std::vector<std::int64_t>, std::vector<double>,
                                 std::vector<std::string>, std::vector<std::vector<std::int64_t>>>;

/// One line, with its fields in the order given. `step` counts completed steps, from 1.
struct MetricsRecord {
  std::uint64_t step = 0;
  std::vector<std::pair<std::string, MetricValue>> fields;
};

/// Formats a line such as {"step":40,"loss":1.25,"loss_hex":"0x1.4p+0", …}. Doubles have 17 significant digits; values that JSON
/// cannot represent are the strings "nan", "inf" or "-inf".
[[nodiscard]] std::string to_json_line(const MetricsRecord& record);
/// A double as C's %a prints it: "0x1.4p+0".
[[nodiscard]] std::string hexadecimal(double value);

/// metrics.jsonl: a first line {"schema":1,"kind":"millrace.metrics"}, then one JSON object per line, written to the file as it
/// is appended. One writer. Errors: Error(storage).
class MetricsFile {
 public:
  /// Opens or creates a file whose lines end with `last_step`: later lines (a killed run got further than its last checkpoint)
  /// are cut off atomically, and so is a torn last line. Error(data) for a file of another schema. Without `last_step` only a
  /// torn line is cut off.
  explicit MetricsFile(const std::string& path);
  MetricsFile(const std::string& path, std::uint64_t last_step);

  void append(const MetricsRecord& record);
  /// Syncs the file to the disk; called before a checkpoint is committed, so that no committed step lacks its line.
  void sync() { file_.sync(); }
  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }

 private:
  File file_;
};

/// Loss and gradient norm of a step, read from hexadecimal floats.
struct ExactStep {
  std::string loss, gradient_norm;
  bool operator==(const ExactStep&) const = default;
};
/// What the router with this name chose in a step: the choices of each expert.
struct RouterTokens {
  std::string router;
  std::vector<std::int64_t> tokens;
};
/// The choices of all routers, by step; lines without them are skipped. Error(storage) if the file cannot be read.
[[nodiscard]] std::vector<std::vector<RouterTokens>> read_router_tokens(const std::string& path);

/// The exact values of all steps that have them; lines that are not ours are skipped. A missing file gives none.
[[nodiscard]] std::map<std::uint64_t, ExactStep> read_exact_steps(const std::string& path);

/// Removes the lines of steps after `step`, and a torn last line. Atomic. A missing file is no error.
void cut_metrics_back_to(const std::string& path, std::uint64_t step);

}  // namespace millrace::runtime
