#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace millrace::actors {

/// How far a tensor is from its reference, and how large the reference is.
struct Distance {
  double largest = 0, norm = 0;                      // max|found − expected|, |found − expected|₂
  double reference_largest = 0, reference_norm = 0;  // max|expected|, |expected|₂
  std::size_t elements = 0;
  bool comparable = true;  // both have the same number of elements, and every difference is a number
};

[[nodiscard]] Distance distance_between(std::span<const float> found, std::span<const float> expected);

/// What a rule says about one tensor, or about several together.
struct Verdict {
  double size = 0;           // in the rule's own measure
  double limit = 0;          // infinite where the rule only measures
  std::string text;          // the size in words
  bool few_entries = false;  // so few that the limit is wider than that of any other tensor

  [[nodiscard]] bool within() const { return size <= limit; }
};

/// Distances by tensor, under the names of golden.safetensors: "loss", "logits", "hidden.2", "grad.<parameter>".
using Distances = std::map<std::string, Distance>;

/// Decides which distances from the reference are small enough.
class ParityRule {
 public:
  virtual ~ParityRule() = default;
  /// A verdict about each tensor, and perhaps one more about all gradients under the name `all_gradients`. A tensor that is not comparable
  /// is never within its limit.
  [[nodiscard]] virtual std::map<std::string, Verdict> judge(const Distances& distances) const = 0;
  /// False where the rule only measures.
  [[nodiscard]] virtual bool decides() const { return true; }

  static constexpr const char* all_gradients = "all gradients, mean";
};

/// The rule for a comparison of the model in `folder` with its golden vectors: in fp32 the tolerances of tolerance.json, or those of
/// docs/numerics.md without that file; in bf16 the PyTorchRule with the distances of bf16.json, or without that file a rule that only
/// measures. `scale` multiplies every limit; `targets` is the number of tokens that the loss is the mean over. Errors: Error(model).
[[nodiscard]] std::unique_ptr<ParityRule> parity_rule(const std::string& folder, const std::string& dtype, double scale, double targets);

/// The distance that storing a result in bf16 causes by itself, relative to the result's norm: 2⁻⁸/√7, the root mean square of the rounding
/// error (even within ±2⁻⁸) over that of values spread evenly over [1, 2).
inline constexpr double one_rounding = 0.00390625 / 2.6457513110645906;

/// Our bf16 is as near to fp32 as PyTorch's bf16 is. A tensor's ratio is |ours − fp32|₂ / |PyTorch's − fp32|₂: at most 1.2 for logits, at
/// most 1.1 in the mean over all gradients, at most 2 for any one tensor, but for single_tensor_limit. The loss has no ratio: it may move
/// as far as logits at their limit can move it. docs/numerics.md explains the denominators.
class PyTorchRule final : public ParityRule {
 public:
  static constexpr double any_tensor_limit = 2;

  /// `distances`: PyTorch's, by tensor, relative to the reference's norm. `path` names their file in errors.
  PyTorchRule(std::string path, std::map<std::string, double> distances, double scale, double targets)
      : path_(std::move(path)), distances_(std::move(distances)), scale_(scale), targets_(targets) {}

  /// Errors: Error(model) where a tensor that is compared is missing in PyTorch's distances.
  [[nodiscard]] std::map<std::string, Verdict> judge(const Distances& distances) const override;

 private:
  [[nodiscard]] double pytorch_distance(const std::string& name) const;
  [[nodiscard]] Verdict judge_loss(const Distance& loss, const Distances& distances) const;

  const std::string path_;
  const std::map<std::string, double> distances_;
  const double scale_, targets_;
};

/// A tensor with fewer entries than this has a wider limit than 2: there two equally good results commonly differ by more.
inline constexpr std::size_t few_entries = 24;

/// The largest ratio of two distances that is let pass for one tensor: 2, but for tensors with few entries. Infinite for a single entry.
[[nodiscard]] double single_tensor_limit(std::size_t elements);

}  // namespace millrace::actors
