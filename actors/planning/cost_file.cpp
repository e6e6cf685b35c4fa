#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "actors/planning/model_costs.hpp"
#include "kernels/base/check.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/split.hpp"

namespace millrace::actors {
namespace {

std::vector<std::string> cells_of(std::string_view line) {
  auto cells = runtime::split(line, ',');
  for (auto& cell : cells) cell.erase(0, cell.find_first_not_of(" \t"));
  for (auto& cell : cells)
    while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\t' || cell.back() == '\r')) cell.pop_back();
  return cells;
}

/// A cost file while it is being parsed.
class CostFile {
 public:
  CostFile(const std::string& path, int layers) : path_(path), layers_(static_cast<std::size_t>(layers)) {}

  void line(int number, std::string_view text) {
    number_ = number;
    const auto cells = cells_of(text);
    if ((cells.size() == 1 && cells[0].empty()) || cells[0].starts_with('#')) return;
    check(cells.size() == 4 || cells.size() == 5, text, "part,F,I,W or part,F,I,W,B");
    runtime::StageCost cost{time(cells[1]), time(cells[2]), time(cells[3]), 0};
    cost.backward = cells.size() == 5 ? time(cells[4]) : cost.input_gradient + cost.weight_gradient;
    if (cells[0] == "embedding") return once(embedding_, cost, text);
    if (cells[0] == "head") return once(head_, cost, text);
    if (cells[0] == "layer") return once(other_, cost, text);
    check(cells[0].starts_with("layer "), cells[0], "embedding, layer, layer N, layer N-M or head");
    const auto range = cells[0].substr(6);
    const auto dash = range.find('-');
    const int first = layer(range.substr(0, dash)), last = dash == std::string::npos ? first : layer(range.substr(dash + 1));
    check(first <= last, range, "the smaller number first");
    for (int index = first; index <= last; ++index) once(layers_[static_cast<std::size_t>(index)], cost, text);
  }

  runtime::LayerCosts costs() const {
    runtime::LayerCosts costs{expected(embedding_, "embedding"), {}, expected(head_, "head")};
    for (std::size_t index = 0; index < layers_.size(); ++index)
      costs.layers.push_back(layers_[index] ? *layers_[index] : expected(other_, fmt::format("layer {}", index)));
    return costs;
  }

 private:
  void check(bool right, std::string_view found, std::string_view expected) const {
    MILLRACE_CHECK(right, ExitCode::config, "millrace plan", "{}:{}: found \"{}\", expected {}", path_, number_, found, expected);
  }

  double time(const std::string& text) const {
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    check(!text.empty() && *end == 0 && std::isfinite(number) && number >= 0, text, "milliseconds, 0 or more");
    return number;
  }

  int layer(const std::string& text) const {
    int number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    check(error == std::errc{} && end == text.data() + text.size() && number >= 0 && static_cast<std::size_t>(number) < layers_.size(),
          text, fmt::format("a layer of the model, 0 to {}", static_cast<int>(layers_.size()) - 1));
    return number;
  }

  void once(std::optional<runtime::StageCost>& place, const runtime::StageCost& cost, std::string_view text) const {
    check(!place, text, "every part once");
    place = cost;
  }

  runtime::StageCost expected(const std::optional<runtime::StageCost>& cost, const std::string& part) const {
    MILLRACE_CHECK(cost.has_value(), ExitCode::config, "millrace plan", "{}: says nothing of {}, expected a line for every part", path_,
                   part);
    return *cost;
  }

  const std::string& path_;
  int number_ = 0;
  std::optional<runtime::StageCost> embedding_, head_, other_;
  std::vector<std::optional<runtime::StageCost>> layers_;
};

bool same(const runtime::StageCost& a, const runtime::StageCost& b) {
  return a.forward == b.forward && a.input_gradient == b.input_gradient && a.weight_gradient == b.weight_gradient &&
         a.backward == b.backward;
}

}  // namespace

runtime::LayerCosts parse_costs(const std::vector<std::string>& lines, const std::string& place, int layers) {
  CostFile file(place, layers);
  for (std::size_t index = 0; index < lines.size(); ++index) file.line(static_cast<int>(index) + 1, lines[index]);
  return file.costs();
}

ModelCosts read_costs(const std::string& path, int layers) {
  const auto text = runtime::read_text_file(path, std::uint64_t{16} << 20, ExitCode::config);
  return {parse_costs(runtime::split(text, '\n'), path, layers), "ms", path, ""};
}

std::vector<std::string> print_costs(const runtime::LayerCosts& costs) {
  std::vector<std::string> lines;
  const auto line = [&](const std::string& part, const runtime::StageCost& cost) {
    lines.push_back(
        fmt::format("{},{:.6g},{:.6g},{:.6g},{:.6g}", part, cost.forward, cost.input_gradient, cost.weight_gradient, cost.backward));
  };
  line("embedding", costs.embedding);
  for (std::size_t first = 0; first < costs.layers.size();) {
    std::size_t end = first + 1;
    while (end < costs.layers.size() && same(costs.layers[first], costs.layers[end])) ++end;
    const bool all = first == 0 && end == costs.layers.size(), one = end == first + 1;
    line(all ? "layer" : one ? fmt::format("layer {}", first) : fmt::format("layer {}-{}", first, end - 1), costs.layers[first]);
    first = end;
  }
  line("head", costs.head);
  return lines;
}

}  // namespace millrace::actors
