#pragma once

#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/shape.hpp"
#include "runtime/train_config.hpp"

namespace millrace::runtime {

/// Which parameters weight decay applies to. With train.numerics = hf it applies to parameters with two or more axes, and so not to
/// norm scales and biases, as is usual in PyTorch. With maxtext it applies to all of them, as in MaxText. In both cases
/// train.decay_mask excludes further parameters (MaxText's adamw_mask).
class DecayRule {
 public:
  DecayRule() = default;  // applies to matrices only
  /// Throws Error(config) for an entry of train.decay_mask that is not a regular expression.
  explicit DecayRule(const TrainConfig& train);

  /// Whether weight decay applies to the parameter of this name and shape. The expressions are searched in its path, which is the name
  /// with "/" in place of ".": "params/decoder/layers_0/mlp/wi_0/kernel".
  [[nodiscard]] bool decays(std::string_view name, const kernels::Shape& shape) const;

 private:
  bool vectors_ = false;
  std::vector<std::regex> mask_;
};

}  // namespace millrace::runtime
