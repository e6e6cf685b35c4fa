#include "actors/parity_report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/io/file_system.hpp"
#include "runtime/io/hash.hpp"

namespace millrace::actors {
namespace {

/// How close is close enough. Each limit is absolute, or a part of the reference's largest entry, or of its norm.
enum class Measure { absolute, of_largest, of_norm };
struct Limit {
  double value = 0;
  Measure measure = Measure::of_largest;
};
struct Tolerance {
  Limit loss{1e-5, Measure::of_largest};
  Limit logits{2e-5, Measure::of_largest};
  Limit hidden{2e-5, Measure::of_largest};
  Limit gradient{1e-4, Measure::of_largest};
  double gradient_floor = 0;  // absolute: where all entries of a gradient are smaller, this close is enough
};

Tolerance read_tolerance(const ParitySettings& settings) {
  Tolerance tolerance;
  const auto path = runtime::join_path(settings.folder, "tolerance.json");
  if (settings.dtype == "bf16") {
    tolerance.loss = {1e-2, Measure::of_largest};
    tolerance.logits = {3e-2, Measure::of_largest};
    tolerance.hidden = {5e-2, Measure::of_norm};  // a row that the final norm scales up scales its rounding up too
    tolerance.gradient = {5e-2, Measure::of_norm};
  } else if (runtime::kind_of(path) != runtime::PathKind::missing) {
    try {
      const auto json = nlohmann::json::parse(runtime::read_text_file(path, 1 << 16, ExitCode::model));
      tolerance.loss = {json.at("loss").get<double>(), Measure::absolute};
      tolerance.logits = {json.at("logits").get<double>(), Measure::absolute};
      tolerance.hidden = {json.at("hidden").get<double>(), Measure::of_largest};
      tolerance.gradient = {json.at("grad").get<double>(), Measure::of_largest};
      tolerance.gradient_floor = json.value("grad_floor", 0.0);
    } catch (const nlohmann::json::exception& error) {
      fail(ExitCode::model, "actors.parity", "{}: {}", path, error.what());
    }
  }
  for (auto* limit : {&tolerance.loss, &tolerance.logits, &tolerance.hidden, &tolerance.gradient}) limit->value *= settings.tolerance;
  tolerance.gradient_floor *= settings.tolerance;
  return tolerance;
}

struct Difference {
  double largest = 0;  // |a − b|
  double ratio = 0;    // of what is allowed; beyond 1 is too much
  std::string tensor;
};

Difference compare(const std::string& name, const std::vector<float>& found, const std::vector<float>& wanted, Limit limit, double floor) {
  double largest = 0, reference = 0, square = 0, reference_square = 0;
  bool finite = found.size() == wanted.size();
  for (std::size_t i = 0; i < std::min(found.size(), wanted.size()); ++i) {
    const double difference = std::fabs(static_cast<double>(found[i]) - wanted[i]);
    finite = finite && std::isfinite(difference);
    largest = std::max(largest, difference);
    reference = std::max(reference, std::fabs(static_cast<double>(wanted[i])));
    square += difference * difference;
    reference_square += static_cast<double>(wanted[i]) * wanted[i];
  }
  double measured = largest, allowed = limit.value;
  if (limit.measure == Measure::of_largest) allowed *= reference;
  if (limit.measure == Measure::of_norm) {
    measured = std::sqrt(square);
    allowed *= std::sqrt(reference_square);
  }
  allowed = std::max(allowed, floor);
  const double ratio = !finite ? HUGE_VAL : measured == 0 ? 0.0 : measured / allowed;
  return {largest, ratio, name};
}

/// One line of the report: a group of tensors by its worst one.
class Group {
 public:
  explicit Group(std::string title) : title_(std::move(title)) {}
  void add(const Difference& difference) {
    ++count_;
    largest_ = std::max(largest_, difference.largest);
    if (worst_.tensor.empty() || difference.ratio > worst_.ratio) worst_ = difference;
  }
  void missing(const std::string& name) {
    ++count_;
    worst_ = {HUGE_VAL, HUGE_VAL, name + " (missing)"};
  }
  [[nodiscard]] bool print() const {
    const bool within = worst_.ratio <= 1;
    fmt::print("{:<44} {:>3} tensors | largest difference {:.3e} | {:6.1f}% of what is allowed{} | {}\n", title_, count_, largest_,
               100 * worst_.ratio, count_ > 1 ? fmt::format(" ({})", worst_.tensor) : "", within ? "ok" : "BEYOND");
    return within;
  }

 private:
  std::string title_;
  int count_ = 0;
  double largest_ = 0;
  Difference worst_;
};

/// "grad.model.layers.2.mlp.up_proj.weight" → "grad model.layers.*.mlp.up_proj.weight": the same tensor of all layers is one group.
std::string group_of(const std::string& name) {
  for (const std::string_view before : {".layers.", ".layers_", "transformer.h."}) {
    const auto at = name.find(before);
    if (at == std::string::npos) continue;
    const auto begin = at + before.size(), end = name.find('.', begin);
    return name.substr(0, begin) + "*" + name.substr(std::min(end, name.size()));
  }
  return name;
}

bool is_input(const std::string& name) {
  constexpr std::array inputs = {"input_ids", "positions", "segment_ids", "targets", "targets_segmentation", "loss_mask"};
  return std::ranges::find(inputs, name) != inputs.end();
}

/// Microbatches of one row, put together as golden has them.
std::map<std::string, std::vector<float>> assemble(const ParityOutput& output, std::size_t rows) {
  std::map<std::string, std::vector<float>> whole;
  std::map<std::string, std::map<int, const std::vector<float>*>> parts;
  for (const auto& tensor : output.tensors) {
    const auto slash = tensor.name.rfind('/');
    if (slash == std::string::npos) {
      whole[tensor.name] = tensor.values;
    } else {
      parts[tensor.name.substr(0, slash)][std::stoi(tensor.name.substr(slash + 1))] = &tensor.values;
    }
  }
  for (const auto& [name, by_row] : parts) {
    if (by_row.size() != rows) continue;  // reported as missing
    for (const auto& [row, values] : by_row) whole[name].insert(whole[name].end(), values->begin(), values->end());
  }
  return whole;
}

/// Gradients of parameters that files keep transposed, as files keep them.
void store_transposed(const PipelinePlan& plan, std::map<std::string, std::vector<float>>& found) {
  for (const auto& spec : plan.parameters) {
    const auto gradient = found.find("grad." + spec.name);
    if (!spec.stored.transposed || gradient == found.end()) continue;
    const auto computed = gradient->second;
    const auto rows = static_cast<std::size_t>(spec.shape[0]), columns = static_cast<std::size_t>(spec.shape[1]);
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t column = 0; column < columns; ++column) gradient->second[column * rows + row] = computed[row * columns + column];
  }
}

}  // namespace

bool report_parity(const ParitySettings& settings, const PipelinePlan& plan, const runtime::SafetensorsFile& golden, ParityOutput output) {
  const auto tolerance = read_tolerance(settings);
  const auto rows = static_cast<std::size_t>(plan.schedule.microbatches);
  auto found = assemble(output, rows);
  const auto targets = static_cast<double>(output.valid_targets);
  double sum = 0, z_sum = 0;
  for (const double loss_sum : output.losses) sum += loss_sum;
  const auto sums = found.extract("loss_sums");  // pairs {loss, z-loss}
  for (std::size_t i = 1; !sums.empty() && i < sums.mapped().size(); i += 2) z_sum += static_cast<double>(sums.mapped()[i]);
  const double loss = sum / targets;
  found["loss"] = {static_cast<float>(loss)};
  if (plan.model.numerics == "maxtext") {
    found["xent_sum"] = {static_cast<float>(sum)};
    found["total_weights"] = {static_cast<float>(targets)};
    found["z_loss"] = {static_cast<float>(z_sum / targets)};
    for (const char* of_other_models : {"moe_lb_loss", "mtp_loss", "indexer_loss"}) found[of_other_models] = {0};
  }
  store_transposed(plan, found);

  fmt::print("parity    {} | {} | {} ranks x {} chunks, {} | {} | {} microbatches of {} rows\n", settings.folder, settings.dtype,
             settings.ranks, settings.chunks, settings.schedule, plan.layout_text(), plan.schedule.microbatches, plan.rows);
  std::map<std::string, Group> groups;
  for (const auto& tensor : golden.tensors()) {
    if (is_input(tensor.name)) continue;
    const auto title = group_of(tensor.name.starts_with("hidden.") ? "hidden" : tensor.name);
    auto& group = groups.try_emplace(title, title).first->second;
    const auto mine = found.find(tensor.name);
    std::size_t elements = 1;
    for (const auto size : tensor.shape) elements *= static_cast<std::size_t>(size);
    if (mine == found.end() || mine->second.size() != elements) {
      group.missing(tensor.name);
      continue;
    }
    std::vector<float> wanted(elements);
    golden.read(tensor.name, std::span<float>(wanted));
    const bool gradient = tensor.name.starts_with("grad.");
    const bool scalar = elements == 1;
    auto limit = gradient ? tolerance.gradient : scalar ? tolerance.loss : tensor.name == "logits" ? tolerance.logits : tolerance.hidden;
    if (tensor.name == "xent_sum" && limit.measure == Measure::absolute) limit.value *= targets;
    group.add(compare(tensor.name, mine->second, wanted, limit, gradient ? tolerance.gradient_floor : 0));
  }
  for (const auto& [name, values] : found) {
    if (!name.starts_with("grad.") || golden.find(name) != nullptr) continue;
    groups.try_emplace("extra", "extra").first->second.missing(name);
  }
  bool within = true;
  for (const auto& [title, group] : groups) within = group.print() && within;

  runtime::StateHash hash;
  for (const auto& [name, values] : found) {
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(values.size())};
    hash.add(name, "F32", shape, std::as_bytes(std::span(values)));
  }
  fmt::print("loss      {} ({:a})\nhash      {}\n{}\n", loss, loss, hash.digest().hex(), within ? "within tolerance" : "BEYOND TOLERANCE");
  std::fflush(stdout);
  return within;
}

}  // namespace millrace::actors
