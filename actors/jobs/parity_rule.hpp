#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace millrace::actors {

/// The distance of a tensor from its reference, and the magnitude of the reference.
struct Distance {
  double largest = 0, norm = 0;                      // max|found − expected|, |found − expected|₂
  double reference_largest = 0, reference_norm = 0;  // max|expected|, |expected|₂
  std::size_t elements = 0;
  bool comparable = true;  // both have the same number of elements, and every difference is a number
};

[[nodiscard]] Distance distance_between(std::span<const float> found, std::span<const float> expected);

/// A rule's judgement of one tensor, or of several together.
struct Verdict {
  double size = 0;           // the deviation, in the unit that the rule uses
  double limit = 0;          // in the same unit; infinity if the rule only reports
  std::string text;          // `size` with its unit, for messages
  bool few_entries = false;  // the tensor has so few elements that its limit is wider than usual

  [[nodiscard]] bool within() const { return size <= limit; }
};

/// Distances by tensor, under the names of golden.safetensors: "loss", "logits", "hidden.2", "grad.<parameter>".
using Distances = std::map<std::string, Distance>;

/// Decides which distances from the reference are acceptable.
class ParityRule {
 public:
  virtual ~ParityRule() = default;
  /// A verdict for each tensor, and possibly one for all gradients together, named `all_gradients`. A tensor that is not
  /// comparable always exceeds its limit.
  [[nodiscard]] virtual std::map<std::string, Verdict> judge(const Distances& distances) const = 0;
  /// False if the rule only reports distances and accepts all of them.
  [[nodiscard]] virtual bool decides() const { return true; }
  /// A sentence for the report about limits that differ from the usual ones, or "".
  [[nodiscard]] virtual std::string remark() const { return {}; }

  static constexpr const char* all_gradients = "all gradients, mean";
};

/// "grad.model.layers.2.mlp.experts.7.up_proj.weight" → "grad.model.layers.*.mlp.experts.*.up_proj.weight": the same tensor of all layers
/// and all experts forms one group.
[[nodiscard]] std::string group_of(std::string name);

/// The rule for comparing the model in `folder` with its golden vectors: in fp32 the tolerances of tolerance.json, or those of
/// docs/numerics.md without that file; in bf16 the PyTorchRule with the distances of bf16.json, or without that file a rule that
/// only reports. `scale` multiplies every limit; `targets` is the number of tokens over which the loss is averaged. Errors:
/// Error(model).
[[nodiscard]] std::unique_ptr<ParityRule> parity_rule(const std::string& folder, const std::string& dtype, double scale, double targets);

/// The distance caused by storing a result in bf16 alone, relative to the result's norm: 2⁻⁸/√7, the root mean square of the
/// rounding error (uniform within ±2⁻⁸) divided by that of values distributed uniformly over [1, 2).
inline constexpr double one_rounding = 0.00390625 / 2.6457513110645906;

/// Requires our bf16 to be as close to fp32 as PyTorch's bf16 is. A tensor's ratio is |ours − fp32|₂ / |PyTorch's − fp32|₂: at
/// most 1.2 for logits, at most 1.1 on average over all gradients, at most 2 for each single tensor (see single_tensor_limit for
/// exceptions). Where a model amplifies rounding so much that the median of PyTorch's own gradients is off by more than a quarter of its
/// size, every limit is doubled. The loss is not judged by a ratio: its limit is the largest change that logits within their own limit
/// could cause. docs/numerics.md explains the denominators.
class PyTorchRule final : public ParityRule {
 public:
  static constexpr double any_tensor_limit = 2;
  /// 64 times the rounding unit of bf16, 2⁻⁸. Dense models of usual layers have medians of 0.01 to 0.05.
  static constexpr double amplified = 0.25;
  static constexpr double amplified_spread = 2;

  /// `distances` are those of PyTorch's bf16 from fp32, by tensor, relative to the norm of the fp32 tensor. `path` is the file that
  /// they were read from, for error messages.
  PyTorchRule(std::string path, std::map<std::string, double> distances, double scale, double targets);

  /// Errors: Error(model) if PyTorch's distances lack a tensor that is compared.
  [[nodiscard]] std::map<std::string, Verdict> judge(const Distances& distances) const override;
  [[nodiscard]] std::string remark() const override;

 private:
  [[nodiscard]] double pytorch_distance(const std::string& name) const;
  [[nodiscard]] Verdict judge_loss(const Distance& loss, const Distances& distances) const;

  const std::string path_;
  const std::map<std::string, double> distances_;
  const double scale_, targets_;
  double median_gradient_ = 0;  // of PyTorch's distances of gradients
  double spread_ = 1;           // multiplies every limit
};

/// For tensors with fewer elements than this the limit is wider than 2: two equally good results commonly differ by more.
inline constexpr std::size_t few_entries = 24;

/// The largest acceptable ratio of two distances for one tensor: 2, or more for tensors with few entries. Infinite for a single
/// entry.
[[nodiscard]] double single_tensor_limit(std::size_t elements);

}  // namespace millrace::actors
