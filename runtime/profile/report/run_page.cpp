#include "runtime/profile/report/run_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "runtime/profile/report/embedded_text.hpp"

namespace millrace::runtime {
namespace {

struct Point {
  double step = 0, value = 0;
};
struct Curve {
  std::string name;
  std::vector<Point> points;
  bool dots = false;  // single points, such as evaluations
};
struct Chart {
  std::string title, unit;
  std::vector<Curve> curves;
  bool from_zero = false;
};

/// What a run has read of a source of its data.
struct Source {
  std::string name;
  double tokens = 0, epochs = 0;
};

constexpr double width = 720, height = 200, left = 76, right = 12, top = 10, bottom = 24;
constexpr std::size_t colours = 5;  // of curves, c0 … c4 in the style; further curves use them again

/// Characters that would be markup are written as entities.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '<')
      result += "&lt;";
    else if (letter == '>')
      result += "&gt;";
    else if (letter == '&')
      result += "&amp;";
    else
      result += letter;
  }
  return result;
}

/// The curves of a file, by name; the numbers of lists as their mean.
class Curves {
 public:
  explicit Curves(std::string_view metrics) {
    while (!metrics.empty()) {
      const std::size_t end = std::min(metrics.find('\n'), metrics.size());
      add(metrics.substr(0, end));
      metrics.remove_prefix(std::min(end + 1, metrics.size()));
    }
  }
  [[nodiscard]] std::size_t steps() const { return steps_; }
  /// Empty if the file does not have it.
  [[nodiscard]] Curve curve(const std::string& field, const std::string& name, bool dots = false) const {
    const auto found = curves_.find(field);
    return {name, found == curves_.end() ? std::vector<Point>{} : found->second, dots};
  }
  [[nodiscard]] const std::set<std::string>& terms() const { return terms_; }
  /// What the newest step read of each source of a mixture; empty for data of one source.
  [[nodiscard]] const std::vector<Source>& sources() const { return sources_; }

 private:
  void add(std::string_view line) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) return;
    const auto step = json.find("step");
    if (step == json.end() || !step->is_number()) return;
    if (json.contains("loss")) ++steps_;
    add_sources(json, step->get<double>());
    for (const auto& [field, value] : json.items()) {
      std::optional<double> number;
      if (value.is_number()) number = value.get<double>();
      if (value.is_array() && !value.empty() && value.front().is_number()) {
        double sum = 0;
        for (const auto& each : value) sum += each.is_number() ? each.get<double>() : 0;
        number = sum / static_cast<double>(value.size());
      }
      if (number) curves_[field].push_back({step->get<double>(), *number});
      // A term of the loss is an exact number too: its hexadecimal twin tells it from times and counts.
      if (field.ends_with("_hex") && json.contains("loss")) terms_.insert(field.substr(0, field.size() - 4));
    }
  }

  /// Every source has a curve of its own: "source_epochs/web".
  void add_sources(const nlohmann::json& json, double step) {
    const auto names = json.find("sources"), tokens = json.find("source_tokens"), epochs = json.find("source_epochs");
    for (const auto& list : {names, tokens, epochs})
      if (list == json.end() || !list->is_array() || list->size() != names->size()) return;
    sources_.clear();
    for (std::size_t i = 0; i < names->size(); ++i) {
      if (!(*names)[i].is_string() || !(*tokens)[i].is_number() || !(*epochs)[i].is_number()) return sources_.clear();
      sources_.push_back({(*names)[i].get<std::string>(), (*tokens)[i].get<double>(), (*epochs)[i].get<double>()});
      curves_["source_epochs/" + sources_.back().name].push_back({step, sources_.back().epochs});
    }
  }

  std::map<std::string, std::vector<Point>> curves_;
  std::vector<Source> sources_;
  std::set<std::string> terms_;
  std::size_t steps_ = 0;
};

/// A step between ticks that is 1, 2 or 5 times a power of ten.
double round_step(double range, double ticks) {
  const double rough = range / ticks, power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power) return factor * power;
  return 10 * power;
}

struct Scale {
  double low = 0, high = 1;
  [[nodiscard]] double place(double value, double from, double to) const { return from + (value - low) / (high - low) * (to - from); }
};

Scale scale_of(const std::vector<Curve>& curves, double Point::*member, bool from_zero) {
  std::optional<double> low, high;
  for (const Curve& curve : curves)
    for (const Point& point : curve.points) {
      if (!std::isfinite(point.*member)) continue;
      low = std::min(low.value_or(point.*member), point.*member);
      high = std::max(high.value_or(point.*member), point.*member);
    }
  Scale scale{low.value_or(0), high.value_or(1)};
  if (from_zero) scale.low = std::min(scale.low, 0.0);
  if (scale.high <= scale.low) scale.high = scale.low + (scale.low == 0 ? 1 : std::fabs(scale.low));
  return scale;
}

std::string draw(const Curve& curve, std::size_t index, const Scale& across, const Scale& up) {
  const auto x = [&](const Point& point) { return across.place(point.step, left, width - right); };
  const auto y = [&](const Point& point) { return up.place(point.value, height - bottom, top); };
  std::string svg;
  if (curve.dots) {
    for (const Point& point : curve.points)
      if (std::isfinite(point.value))
        svg += fmt::format("<circle class=\"c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>", index, x(point), y(point));
    return svg;
  }
  std::string path;
  bool pen = false;
  for (const Point& point : curve.points) {
    const bool finite = std::isfinite(point.value);
    if (finite) path += fmt::format("{}{:.1f} {:.1f}", pen ? "L" : "M", x(point), y(point));
    pen = finite;
  }
  return fmt::format("<path class=\"c{}\" d=\"{}\"/>", index, path);
}

std::string draw(const Chart& chart) {
  const Scale across = scale_of(chart.curves, &Point::step, false);
  Scale up = scale_of(chart.curves, &Point::value, chart.from_zero);
  const double step = round_step(up.high - up.low, 4);
  up = {std::floor(up.low / step) * step, std::ceil(up.high / step) * step};
  std::string svg = fmt::format("<h2>{}</h2><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">", escaped(chart.title), width,
                                height, escaped(chart.title));
  const auto lines = static_cast<int>(std::lround((up.high - up.low) / step));
  for (int line = 0; line <= lines; ++line) {
    const double tick = up.low + line * step;
    const double y = up.place(tick, height - bottom, top);
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text class=\"y\" x=\"{}\" y=\"{:.1f}\">{:.6g}</text>", left,
        width - right, y, y, left - 6, y + 4, std::fabs(tick) < step / 1e6 ? 0.0 : tick);
  }
  const double steps = std::max(1.0, round_step(across.high - across.low, 8));
  const auto first = static_cast<std::int64_t>(std::ceil(across.low / steps)), last_tick = static_cast<std::int64_t>(across.high / steps);
  for (std::int64_t i = first; i <= last_tick; ++i) {
    const double tick = static_cast<double>(i) * steps;
    svg += fmt::format("<text class=\"x\" x=\"{:.1f}\" y=\"{}\">{:.0f}</text>", across.place(tick, left, width - right), height - 6, tick);
  }
  std::string legend;
  for (std::size_t index = 0; index < chart.curves.size(); ++index) {
    const Curve& curve = chart.curves[index];
    svg += draw(curve, index % colours, across, up);
    const auto last =
        std::ranges::find_if(curve.points.rbegin(), curve.points.rend(), [](const Point& point) { return std::isfinite(point.value); });
    legend += fmt::format("<span class=\"c{}\">{}{}</span> ", index % colours, escaped(curve.name),
                          last == curve.points.rend() ? "" : fmt::format(": {:.5g}{}", last->value, chart.unit));
  }
  return svg + "</svg><p class=\"legend\">" + legend + "</p>\n";
}

/// Empty without sources.
std::string table_of(const std::vector<Source>& sources) {
  if (sources.empty()) return {};
  double all = 0;
  for (const Source& source : sources) all += source.tokens;
  std::string table = "<h2>Sources of the data</h2><table><tr><th>source</th><th>tokens</th><th>of all</th><th>epochs</th></tr>\n";
  for (const auto& [name, tokens, epochs] : sources)
    table += fmt::format("<tr><td>{}</td><td>{:.0f}</td><td>{:.2f} %</td><td>{:.2f}</td></tr>\n", escaped(name), tokens,
                         all > 0 ? 100 * tokens / all : 0, epochs);
  return table + "</table>\n";
}

/// After palette.css. The first curve and its dots have the colour of computing; further ones only need to be told apart.
constexpr const char* style =
    R"(:root{--c0:var(--compute);--c1:var(--imbalance);--c2:var(--backward);--c3:var(--weight_gradient);--c4:var(--transport)}
body{font:14px/1.4 system-ui,sans-serif;color:var(--text);background:var(--page);max-width:780px;margin:24px auto;padding:0 16px}
h1{font-size:20px;overflow-wrap:anywhere}h2{font-size:15px;margin:20px 0 4px}svg{width:100%;height:auto;display:block}
text{fill:var(--quiet);font-size:11px}.y{text-anchor:end}.x{text-anchor:middle}.grid{stroke:var(--line)}
path{fill:none;stroke-width:1.5}.legend{margin:2px 0 0 76px}.legend span{display:inline-flex;align-items:baseline;margin-right:14px;white-space:nowrap}
.legend span::before{content:"";flex:none;width:10px;height:10px;border-radius:2px;margin-right:5px;background:var(--c)}
.c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}.c4{--c:var(--c4)}path{stroke:var(--c)}circle{fill:var(--c)}
table{margin-left:76px;border-spacing:14px 2px}td+td,th+th{text-align:right}th{font-weight:600}
@media(max-width:600px){table{margin-left:0}text{font-size:17px}.legend{margin-left:0}.legend span{white-space:normal}})";

}  // namespace

std::string run_page(std::string_view title, std::string_view metrics) {
  const Curves curves(metrics);
  std::vector<Chart> charts;
  const auto add = [&](std::string name, std::string unit, std::vector<Curve> all, bool from_zero = false) {
    std::erase_if(all, [](const Curve& curve) { return curve.points.empty(); });
    if (!all.empty()) charts.push_back({std::move(name), std::move(unit), std::move(all), from_zero});
  };
  add("Loss", "", {curves.curve("loss", "loss"), curves.curve("evaluation_loss", "held-out loss", true)});
  for (const std::string& term : curves.terms())
    if (term != "loss" && term != "gradient_norm") add("Loss term " + term, "", {curves.curve(term, term)});
  add("Gradient norm, before clipping", "", {curves.curve("gradient_norm", "norm")}, true);
  add("Learning rate", "", {curves.curve("learning_rate", "rate")}, true);
  add("Steps that were skipped", "", {curves.curve("step_skipped", "1 if skipped")}, true);
  add("Balance of experts", "",
      {curves.curve("expert_evenness", "evenness of the choices, mean over the routers"),
       curves.curve("hottest_share", "share of the expert chosen most often, mean")},
      true);
  add("Largest attention score", "", {curves.curve("max_logits", "score")});
  add("Tokens of a step", "", {curves.curve("tokens", "tokens")}, true);
  std::vector<Curve> epochs = {curves.curve("epoch", "epoch")};
  for (const Source& source : curves.sources()) epochs.push_back(curves.curve("source_epochs/" + source.name, source.name));
  add("Epochs of the data", "", std::move(epochs), true);
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">"
      "<title>{}</title><style>{}{}</style></head><body><h1>{}</h1>\n<p>{} steps</p>\n",
      escaped(title), embedded_text("palette.css"), style, escaped(title), curves.steps());
  if (charts.empty()) page += "<p>No step has been finished.</p>\n";
  for (const Chart& chart : charts) page += draw(chart);
  page += table_of(curves.sources());
  return page + "</body></html>\n";
}

}  // namespace millrace::runtime
