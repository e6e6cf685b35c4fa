#include "runtime/io/metrics_file.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "runtime/io/json_reader.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* metrics_file_component = "runtime.metrics";
constexpr std::string_view first_line = "{\"schema\":1,\"kind\":\"millrace.metrics\"}\n";
constexpr std::uint64_t max_file_bytes = std::uint64_t{1} << 36;
constexpr auto every_step = std::numeric_limits<std::uint64_t>::max();

std::string formatted(const char* format, double value) {
  std::array<char, 64> text{};
  const int length = std::snprintf(text.data(), text.size(), format, value);
  return {text.data(), static_cast<std::size_t>(length)};
}

// Lines are written here and not by nlohmann: metrics of two runs are compared as text, so that the form of a number must not depend on a
// library's version.
std::string number_text(double value) {
  if (std::isfinite(value)) return formatted("%.17g", value);
  return std::isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"";
}

std::string in_quotes(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_text(std::int64_t value) { return std::to_string(value); }
std::string json_text(double value) { return number_text(value); }
std::string json_text(const std::string& value) { return in_quotes(value); }
template <class Entry>
std::string json_text(const std::vector<Entry>& list) {
  std::string text;
  for (const Entry& entry : list) text += (text.empty() ? "[" : ",") + json_text(entry);
  return text.empty() ? "[]" : text + "]";
}

void add_field(std::string& line, const std::string& name, const MetricValue& value) {
  const auto key = "," + in_quotes(name) + ":";
  if (const auto* exact = std::get_if<ExactNumber>(&value)) {
    line += key + number_text(exact->value) + "," + in_quotes(name + "_hex") + ":\"" + hexadecimal(exact->value) + "\"";
    return;
  }
  std::visit(
      [&]<class Plain>(const Plain& plain) {
        if constexpr (!std::is_same_v<Plain, ExactNumber>) line += key + json_text(plain);
      },
      value);
}

/// The step of a line; nothing for a line that was not written by us.
std::optional<std::uint64_t> step_of_line(std::string_view line) {
  try {
    const auto record = parse_json(line, 8, ExitCode::data, "metrics");
    return JsonReader(record, "metrics", ExitCode::data).member("step").count();
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Removes the next whole line, with its newline, from the front of `text`; returns nothing if the rest is torn or empty.
std::optional<std::string_view> take_line(std::string_view& text) {
  const auto end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const auto line = text.substr(0, end + 1);
  text.remove_prefix(end + 1);
  return line;
}

/// The part of a file to keep: whole lines of steps up to `step`.
std::string kept_lines(std::string_view text, std::uint64_t step, const std::string& path) {
  std::string kept;
  bool first = true;
  while (const auto line = take_line(text)) {
    if (first) {
      MILLRACE_CHECK(*line == first_line, ExitCode::data, metrics_file_component, "{}: the first line is not {}", path,
                     first_line.substr(0, first_line.size() - 1));
      kept += *line;
      first = false;
      continue;
    }
    const auto at = step == every_step ? std::optional<std::uint64_t>(0) : step_of_line(*line);
    if (at && *at <= step) kept += *line;
  }
  return kept;
}

File open_metrics(const std::string& path, std::uint64_t last_step) {
  make_directories(parent_path(path));
  cut_metrics_back_to(path, last_step);
  auto file = File::append(path);
  if (file.size() == 0) file.write(first_line);
  sync_directory(parent_path(path));  // also if the file existed: its creator may have been killed before this sync
  return file;
}

}  // namespace

std::string hexadecimal(double value) { return formatted("%a", value); }

std::string to_json_line(const MetricsRecord& record) {
  std::string line = "{\"step\":" + std::to_string(record.step);
  for (const auto& [name, value] : record.fields) add_field(line, name, value);
  return line + "}\n";
}

MetricsFile::MetricsFile(const std::string& path) : MetricsFile(path, every_step) {}
MetricsFile::MetricsFile(const std::string& path, std::uint64_t last_step) : file_(open_metrics(path, last_step)) {}

void MetricsFile::append(const MetricsRecord& record) {
  const auto before = file_.size();
  try {
    file_.write(to_json_line(record));
  } catch (const Error&) {
    file_.truncate(before);  // a partial line must not become the beginning of the next
    throw;
  }
}

std::map<std::uint64_t, ExactStep> read_exact_steps(const std::string& path) {
  std::map<std::uint64_t, ExactStep> steps;
  if (kind_of(path) == PathKind::missing) return steps;
  const auto file = read_text_file(path, max_file_bytes, ExitCode::storage);
  std::string_view text = file;
  while (const auto line = take_line(text)) try {
      const auto parsed = parse_json(*line, 8, ExitCode::data, "metrics");
      const JsonReader record(parsed, "metrics", ExitCode::data);
      ExactStep step{record.member("loss_hex").text(), record.member("gradient_norm_hex").text()};
      steps[record.member("step").count()] = std::move(step);
    } catch (const Error&) {  // the header line, an evaluation, or a torn line
    }
  return steps;
}

std::vector<std::vector<RouterTokens>> read_router_tokens(const std::string& path) {
  std::vector<std::vector<RouterTokens>> steps;
  const auto file = read_text_file(path, max_file_bytes, ExitCode::storage);
  std::string_view text = file;
  while (const auto line = take_line(text)) try {
      const auto parsed = parse_json(*line, 8, ExitCode::data, "metrics");
      const JsonReader record(parsed, "metrics", ExitCode::data);
      const auto names = record.member("routers").elements(), counts = record.member("expert_tokens").elements();
      std::vector<RouterTokens> step;
      for (std::size_t router = 0; router < std::min(names.size(), counts.size()); ++router) {
        step.push_back({names[router].text(), {}});
        for (const JsonReader& count : counts[router].elements()) step.back().tokens.push_back(static_cast<std::int64_t>(count.count()));
      }
      steps.push_back(std::move(step));
    } catch (const Error&) {  // the header line, an evaluation, or a torn line
    }
  return steps;
}

void cut_metrics_back_to(const std::string& path, std::uint64_t step) {
  if (kind_of(path) == PathKind::missing) return;
  const auto text = read_text_file(path, max_file_bytes, ExitCode::storage);
  const auto kept = kept_lines(text, step, path);
  if (kept != text) write_text_file(path, kept);
}

}  // namespace millrace::runtime
