#include "actors/jobs/parity_report.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "actors/jobs/parity_rule.hpp"
#include "kernels/base/count.hpp"
#include "layers/formats/stored_elements.hpp"
#include "runtime/io/hash.hpp"

namespace millrace::actors {
namespace {

/// One line of the report: a group of tensors, represented by the one that is closest to its limit or farthest beyond it.
class Group {
 public:
  void add(const std::string& name, const Distance& distance, Verdict verdict) {
    ++count_;
    largest_ = std::max(largest_, distance.largest);
    if (!name_.empty() && !is_worse(verdict, worst_)) return;
    name_ = name;
    worst_ = std::move(verdict);
  }
  [[nodiscard]] bool within() const { return worst_.within(); }
  void print(const std::string& title, bool decided) const {
    fmt::print("{:<44} {:>3} tensors | largest difference {:.3e} | {}{}{}\n", title, count_, largest_, worst_.text,
               count_ > 1 || name_ != title ? fmt::format(" ({})", name_) : "",
               !within() ? " | BEYOND"
               : decided ? " | ok"
                         : "");
  }

 private:
  static bool is_worse(const Verdict& a, const Verdict& b) {
    if (a.within() != b.within()) return !a.within();
    const double part_a = a.size / a.limit, part_b = b.size / b.limit;  // 0 if there is no limit
    return part_a != part_b ? part_a > part_b : a.size > b.size;
  }

  int count_ = 0;
  double largest_ = 0;
  std::string name_;  // of the worst tensor
  Verdict worst_;
};

/// Whether a tensor of the reference is not compared: an input, or what MaxText recorded on the way (the choices of routers, terms of each
/// layer, the rows that n-grams look up), on which logits, loss and gradients depend.
bool is_not_compared(const std::string& name) {
  constexpr std::array inputs = {"input_ids", "positions", "segment_ids", "targets", "targets_segmentation", "loss_mask"};
  return std::ranges::find(inputs, name) != inputs.end() || name.starts_with("router.") || name.starts_with("aux.") ||
         name.starts_with("engram.");
}

/// Combines microbatches of one row into the shape of the golden tensors.
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

/// Removes the captured loss terms; returns the z-loss's part of the language model's term, whose values are pairs {loss, z-loss}.
double take_z_loss(std::map<std::string, std::vector<float>>& found) {
  double sum = 0;
  for (const auto& [name, values] : found)
    for (std::size_t i = 1; name.starts_with("loss_sums.lm_loss.") && i < values.size(); i += 2) sum += static_cast<double>(values[i]);
  std::erase_if(found, [](const auto& each) { return each.first.starts_with("loss_sums."); });
  return sum;
}

/// Converts gradients to the tensors that model files have of their parameters. Of a parameter that is not trained there is one, of zeros,
/// only where the reference has one too.
void store_gradients(const PipelinePlan& plan, const runtime::SafetensorsFile& golden, std::map<std::string, std::vector<float>>& found) {
  for (const auto& spec : plan.parameters) {
    auto gradient = found.extract("grad." + spec.name);
    if (gradient.empty()) continue;
    for (auto& [name, values] : layers::as_stored(spec, gradient.mapped()))
      if (spec.trained || golden.find("grad." + name) != nullptr) found["grad." + name] = std::move(values);
  }
}

/// Prints which tensors have a wider limit because of their few entries, and which of those exceed the usual one.
void print_few_entries(const std::map<std::string, Verdict>& verdicts, double usual_limit) {
  std::set<std::string> groups;
  std::vector<std::string> beyond;
  for (const auto& [name, verdict] : verdicts) {
    if (!verdict.few_entries) continue;
    groups.insert(group_of(name));
    if (verdict.size > usual_limit) beyond.push_back(name);
  }
  if (groups.empty()) return;
  fmt::print("few entries: limits wider than {:.2f} for {}; {}\n", usual_limit, fmt::join(groups, ", "),
             beyond.empty() ? fmt::format("none is beyond {:.2f}", usual_limit)
                            : fmt::format("beyond {:.2f}: {}", usual_limit, fmt::join(beyond, ", ")));
}

}  // namespace

bool report_parity(const ParitySettings& settings, const PipelinePlan& plan, const runtime::SafetensorsFile& golden, ParityOutput output) {
  const auto rows = static_cast<std::size_t>(plan.schedule.microbatches);
  auto found = assemble(output, rows);
  const auto targets = static_cast<double>(output.counts.valid_targets);
  const auto terms = runtime::add_loss_terms(output.losses, plan.schedule.placement.model_stages(), output.counts);
  const double z_sum = take_z_loss(found), loss = terms.total;
  found["loss"] = {static_cast<float>(loss)};
  if (plan.model.numerics == "maxtext") {
    // MaxText computes no such loss where it trains nothing by it.
    if (const auto* main = terms.find("lm_loss")) found["xent_sum"] = {main->evaluation_only ? 0.0F : static_cast<float>(main->sum)};
    found["total_weights"] = {static_cast<float>(targets)};
    found["z_loss"] = {static_cast<float>(z_sum / targets)};
    for (const char* of_other_models : {"moe_lb_loss", "mtp_loss", "indexer_loss"}) found[of_other_models] = {0};
  }
  for (const auto& term : terms.terms)
    if (term.auxiliary) found[term.name] = {static_cast<float>(term.value)};
  store_gradients(plan, golden, found);

  fmt::print("parity    {} | {} | {} x {}, {} | {} | {} of {}\n", settings.folder, settings.dtype, counted(settings.ranks, "rank"),
             counted(settings.chunks, "chunk"), settings.schedule, plan.layout_text(), counted(plan.schedule.microbatches, "microbatch"),
             counted(plan.rows, "row"));
  Distances distances;
  for (const auto& tensor : golden.tensors()) {
    if (is_not_compared(tensor.name)) continue;
    std::size_t elements = 1;
    for (const auto size : tensor.shape) elements *= static_cast<std::size_t>(size);
    std::vector<float> expected(elements);
    golden.read(tensor.name, std::span<float>(expected));
    const auto mine = found.find(tensor.name);
    distances[tensor.name] = distance_between(mine != found.end() ? mine->second : std::vector<float>(), expected);
  }
  for (const auto& [name, values] : found)
    if (name.starts_with("grad.") && golden.find(name) == nullptr) distances[name] = distance_between(values, {});

  const auto rule = parity_rule(settings.folder, settings.dtype, settings.tolerance, targets);
  const auto verdicts = rule->judge(distances);
  std::map<std::string, Group> groups;
  for (const auto& [name, distance] : distances)
    groups[group_of(name.starts_with("hidden.") ? "hidden" : name)].add(name, distance, verdicts.at(name));
  bool within = true;
  for (const auto& [title, group] : groups) {
    group.print(title, rule->decides());
    within = within && group.within();
  }
  if (const auto mean = verdicts.find(ParityRule::all_gradients); mean != verdicts.end()) {
    fmt::print("{:<44} {} | {}\n", mean->first, mean->second.text, mean->second.within() ? "ok" : "BEYOND");
    within = within && mean->second.within();
  }
  print_few_entries(verdicts, settings.tolerance * PyTorchRule::any_tensor_limit);
  if (const auto remark = rule->remark(); !remark.empty()) fmt::print("limits    {}\n", remark);

  runtime::StateHash hash;
  for (const auto& [name, values] : found) {
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(values.size())};
    hash.add(name, "F32", shape, std::as_bytes(std::span(values)));
  }
  const char* const verdict = !within           ? "BEYOND TOLERANCE"
                              : rule->decides() ? "within tolerance"
                                                : "no verdict: the folder has no bf16.json with the distances of PyTorch's bf16";
  fmt::print("loss      {} ({:a})\nhash      {}\n{}\n", loss, loss, hash.digest().hex(), verdict);
  std::fflush(stdout);
  return within;
}

}  // namespace millrace::actors
