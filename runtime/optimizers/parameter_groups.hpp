#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/base/shape.hpp"
#include "runtime/optimizers/decay.hpp"
#include "runtime/optimizers/name_patterns.hpp"
#include "runtime/optimizers/optimizer.hpp"
#include "runtime/train_config.hpp"

namespace millrace::runtime {

/// Groups of parameters with a learning rate and weight decay of their own, selected by name (train.groups). A parameter belongs to the
/// first group whose expression is found in its name; without a group the scalars of the optimizer and DecayRule apply.
class ParameterGroups {
 public:
  ParameterGroups() = default;  // there are none
  /// Throws Error(config) for an entry of train.groups or train.decay_mask that is not a regular expression, and if
  /// train.group_rates or train.group_weight_decays is neither empty nor as long as train.groups.
  explicit ParameterGroups(const TrainConfig& train);

  [[nodiscard]] std::size_t size() const noexcept { return groups_.size(); }
  [[nodiscard]] const GroupScalars& scalars_of(std::size_t group) const { return groups_.at(group).scalars; }
  /// The index of the parameter's group.
  [[nodiscard]] std::optional<std::size_t> group_of(std::string_view name) const;
  /// The rate and decay of the parameter's group.
  [[nodiscard]] GroupScalars scalars(std::string_view name) const;
  /// Whether weight decay applies to the parameter: in a group with a decay of its own it does, else DecayRule says so.
  [[nodiscard]] bool decays(std::string_view name, const kernels::Shape& shape) const;

 private:
  struct Group {
    NamePatterns names;
    GroupScalars scalars;
  };
  DecayRule decay_;
  std::vector<Group> groups_;
};

}  // namespace millrace::runtime
