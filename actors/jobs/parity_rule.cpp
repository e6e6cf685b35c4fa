#include "actors/jobs/parity_rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::actors {
namespace {

constexpr const char* component = "actors.parity";
constexpr int max_depth = 8;
constexpr double max_tolerance = 1e30;
constexpr double infinity = std::numeric_limits<double>::infinity();

constexpr double logits_limit = 1.2, mean_gradient_limit = 1.1, any_tensor_limit = PyTorchRule::any_tensor_limit;

bool is_gradient(const std::string& name) { return name.starts_with("grad."); }

const Verdict not_comparable{infinity, 0, "missing, of another size, or not a number"};

double relative_norm(const Distance& distance) {
  return distance.norm == 0 ? 0.0 : distance.norm / distance.reference_norm;  // infinite if the reference is zero
}

Verdict measured(const Distance& distance) {
  const double part = relative_norm(distance);
  return {part, infinity, fmt::format("norm {:.3e} of the reference's", part)};
}

/// fp32: absolute bounds, or bounds relative to the reference's largest entry; for a gradient of a single number to the largest one of
/// that number in any layer.
class ToleranceRule final : public ParityRule {
 public:
  ToleranceRule(const std::string& folder, double scale, double targets) : scale_(scale), targets_(targets) {
    const auto path = runtime::join_path(folder, "tolerance.json");
    if (runtime::kind_of(path) == runtime::PathKind::missing) return;
    const auto json = runtime::parse_json(runtime::read_text_file(path, 1 << 16, ExitCode::model), max_depth, ExitCode::model, path);
    const runtime::JsonReader tolerance(json, path, ExitCode::model);
    const auto number = [&](const char* key) { return tolerance.member(key).number(0, max_tolerance); };
    loss_ = {number("loss"), true};
    logits_ = {number("logits"), true};
    hidden_ = {number("hidden"), false};
    gradient_ = {number("grad"), false};
    gradient_floor_ = tolerance.number("grad_floor", 0, max_tolerance).value_or(0.0);
  }

  [[nodiscard]] std::map<std::string, Verdict> judge(const Distances& distances) const override {
    std::map<std::string, double> largest;  // by group, of gradients of single numbers
    for (const auto& [name, distance] : distances) {
      if (!is_number(name, distance)) continue;
      double& of_group = largest[group_of(name)];
      of_group = std::max(of_group, distance.reference_largest);
    }
    std::map<std::string, Verdict> verdicts;
    for (const auto& [name, distance] : distances)
      verdicts[name] = judge(name, distance, is_number(name, distance) ? largest.at(group_of(name)) : distance.reference_largest);
    return verdicts;
  }

 private:
  /// A gradient with one entry, such as that of the number by which Gemma 4 multiplies a layer's output. If it is near 0 by cancellation
  /// its own size says nothing of the terms, so it is compared with the same number of the other layers, as if they were one tensor.
  [[nodiscard]] static bool is_number(const std::string& name, const Distance& distance) {
    return is_gradient(name) && distance.elements == 1;
  }

  struct Limit {
    double value = 0;
    bool absolute = false;  // if false: relative to the reference's largest entry
  };

  /// `largest`: what relative limits are relative to.
  [[nodiscard]] Verdict judge(const std::string& name, const Distance& distance, double largest) const {
    if (!distance.comparable) return not_comparable;
    const Limit& limit = is_gradient(name) ? gradient_ : distance.elements == 1 ? loss_ : name == "logits" ? logits_ : hidden_;
    double allowed = limit.value * (limit.absolute ? 1.0 : largest);
    if (name == "xent_sum" && limit.absolute) allowed *= targets_;
    if (is_gradient(name)) allowed = std::max(allowed, gradient_floor_);
    const double part = distance.largest == 0 ? 0.0 : distance.largest / (allowed * scale_);
    return {part, 1, fmt::format("{:6.1f}% of what is allowed", 100 * part)};
  }

  double scale_, targets_;
  Limit loss_{1e-5}, logits_{2e-5}, hidden_{2e-5}, gradient_{1e-4};
  double gradient_floor_ = 0;  // absolute: sufficient for a gradient all of whose entries are smaller
};

/// Reports all distances and accepts everything that is comparable.
class MeasuringRule final : public ParityRule {
 public:
  [[nodiscard]] std::map<std::string, Verdict> judge(const Distances& distances) const override {
    std::map<std::string, Verdict> verdicts;
    for (const auto& [name, distance] : distances) verdicts[name] = distance.comparable ? measured(distance) : not_comparable;
    return verdicts;
  }
  [[nodiscard]] bool decides() const override { return false; }
};

/// Reads the norms in bf16.json: {"logits": {"largest": …, "norm": …}, …}, and "loss": a number, which no rule uses.
std::map<std::string, double> read_pytorch_distances(const std::string& path) {
  std::map<std::string, double> distances;
  const auto json = runtime::parse_json(runtime::read_text_file(path, 1 << 22, ExitCode::model), max_depth, ExitCode::model, path);
  const runtime::JsonReader file(json, path, ExitCode::model);
  for (const auto& [name, entry] : file.object().items()) {
    if (name != "loss") distances[name] = file.member(name).member("norm").number(0, std::numeric_limits<double>::max());
  }
  return distances;
}

}  // namespace

std::string group_of(std::string name) {
  for (const std::string_view before : {".layers.", ".layers_", "transformer.h.", ".experts."}) {
    const auto at = name.find(before);
    if (at == std::string::npos) continue;
    const auto begin = at + before.size();
    const auto end = std::min(name.find('.', begin), name.size());
    const bool numbered = end > begin && std::all_of(name.begin() + begin, name.begin() + end, [](char c) { return c >= '0' && c <= '9'; });
    if (numbered) name.replace(begin, end - begin, "*");
  }
  return name;
}

Distance distance_between(std::span<const float> found, std::span<const float> expected) {
  Distance distance;
  distance.elements = expected.size();
  distance.comparable = found.size() == expected.size();
  double square = 0, reference_square = 0;
  for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    const double reference = expected[i], difference = std::fabs(static_cast<double>(found[i]) - reference);
    distance.comparable = distance.comparable && std::isfinite(difference);
    distance.largest = std::max(distance.largest, difference);
    distance.reference_largest = std::max(distance.reference_largest, std::fabs(reference));
    square += difference * difference;
    reference_square += reference * reference;
  }
  distance.norm = std::sqrt(square);
  distance.reference_norm = std::sqrt(reference_square);
  return distance;
}

// The logarithm of the ratio of two norms of n independent errors of equal size is approximately normal with variance 1/(n − 1):
// Fisher's z. Two equally good results exceed exp(3.72/√(n − 1)) once in ten thousand tensors, and exceed 2 once in 2000 with 24
// entries. With 16 entries this gives once in 250, while 7 in 168 were measured (docs/numerics.md): errors of so few sums are not
// independent.
double single_tensor_limit(std::size_t elements) {
  if (elements <= 1) return infinity;
  return elements >= few_entries ? any_tensor_limit : std::exp(3.72 / std::sqrt(static_cast<double>(elements - 1)));
}

PyTorchRule::PyTorchRule(std::string path, std::map<std::string, double> distances, double scale, double targets)
    : path_(std::move(path)), distances_(std::move(distances)), scale_(scale), targets_(targets) {
  std::vector<double> gradients;
  for (const auto& [name, distance] : distances_)
    if (is_gradient(name)) gradients.push_back(distance);
  if (!gradients.empty()) {
    const auto middle = gradients.begin() + static_cast<std::ptrdiff_t>(gradients.size() / 2);
    std::ranges::nth_element(gradients, middle);
    median_gradient_ = *middle;
  }
  if (median_gradient_ > amplified) spread_ = amplified_spread;
}

double PyTorchRule::pytorch_distance(const std::string& name) const {
  const auto found = distances_.find(name);
  MILLRACE_CHECK(found != distances_.end(), ExitCode::model, component, "{}: has no {}, expected every tensor of golden.safetensors", path_,
                 name);
  return std::max(found->second, one_rounding);
}

// The gradient of a token's loss with respect to its logits is softmax − onehot, whose norm is less than √2. Logits that change
// by d (over all tokens together) therefore change the mean over n tokens by at most √2/n · Σ|d_t| <= √(2/n)·|d|.
Verdict PyTorchRule::judge_loss(const Distance& loss, const Distances& distances) const {
  const auto logits = distances.find("logits");
  if (!loss.comparable || logits == distances.end()) return not_comparable;
  const double moved = spread_ * logits_limit * pytorch_distance("logits") * logits->second.reference_norm;
  const double part = loss.largest / (std::sqrt(2 / targets_) * moved);
  return {part, scale_, fmt::format("{:.1f}% of what logits at their limit allow", 100 * part)};
}

std::string PyTorchRule::remark() const {
  if (spread_ == 1) return {};
  return fmt::format(
      "half of PyTorch's own bf16 gradients are at least {:.0f} % of their size from fp32 (more than {:.0f} %), so equally good results "
      "differ widely: limits are multiplied by {:.0f} (docs/numerics.md)",
      100 * median_gradient_, 100 * amplified, spread_);
}

std::map<std::string, Verdict> PyTorchRule::judge(const Distances& distances) const {
  std::map<std::string, Verdict> verdicts;
  double sum = 0;
  int gradients = 0;
  for (const auto& [name, distance] : distances) {
    if (name == "loss") {
      verdicts[name] = judge_loss(distance, distances);
    } else if (!distance.comparable) {
      verdicts[name] = not_comparable;
    } else if (distance.elements == 1 && !is_gradient(name)) {
      verdicts[name] = measured(distance);  // a count, or another part of the loss
    } else {
      const double ratio = relative_norm(distance) / pytorch_distance(name);
      const double usual = name == "logits" ? logits_limit : single_tensor_limit(distance.elements), limit = spread_ * usual;
      const bool few = usual > any_tensor_limit;
      verdicts[name] = {ratio, scale_ * limit,
                        fmt::format("{:.2f} times PyTorch's bf16, at most {:.2f}{}", ratio, scale_ * limit,
                                    few ? fmt::format(" for {}", counted(distance.elements, "entry")) : ""),
                        few};
      if (!is_gradient(name) || distance.elements == 1) continue;
      sum += ratio;
      ++gradients;
    }
  }
  if (gradients > 0) {
    const double mean = sum / gradients, limit = scale_ * spread_ * mean_gradient_limit;
    verdicts[all_gradients] = {mean, limit, fmt::format("{:.2f} times PyTorch's bf16, at most {:.2f}", mean, limit)};
  }
  return verdicts;
}

std::unique_ptr<ParityRule> parity_rule(const std::string& folder, const std::string& dtype, double scale, double targets) {
  if (dtype != "bf16") return std::make_unique<ToleranceRule>(folder, scale, targets);
  const auto path = runtime::join_path(folder, "bf16.json");
  if (runtime::kind_of(path) == runtime::PathKind::missing) return std::make_unique<MeasuringRule>();
  return std::make_unique<PyTorchRule>(path, read_pytorch_distances(path), scale, targets);
}

}  // namespace millrace::actors
