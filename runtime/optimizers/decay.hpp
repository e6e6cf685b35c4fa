#pragma once

#include <string_view>

#include "kernels/base/shape.hpp"
#include "runtime/optimizers/name_patterns.hpp"
#include "runtime/train_config.hpp"

namespace millrace::runtime {

/// Which parameters weight decay applies to. With train.numerics = hf it applies to parameters with two or more axes, and so not to
/// norm scales and biases, as is usual in PyTorch, nor to the scales of several norms that are stored as one tensor. With maxtext it
/// applies to all of them, as in MaxText. In both cases train.decay_mask excludes further parameters (MaxText's adamw_mask, which its Muon
/// does not read).
class DecayRule {
 public:
  DecayRule() = default;  // applies to matrices only
  /// Throws Error(config) for an entry of train.decay_mask that is not a regular expression.
  explicit DecayRule(const TrainConfig& train);

  /// Whether weight decay applies to the parameter of this name and shape.
  [[nodiscard]] bool decays(std::string_view name, const kernels::Shape& shape) const;

 private:
  bool vectors_ = false;
  NamePatterns mask_;
};

}  // namespace millrace::runtime
