#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string_view>

namespace millrace::runtime {

class Optimizer;
struct TrainConfig;

/// A value of train.optimizer, and the keys of [train] that this optimizer reads besides learning rate and clipping.
struct OptimizerChoice {
  std::string_view name;
  std::array<std::string_view, 10> keys;
  [[nodiscard]] constexpr bool reads(std::string_view key) const { return std::find(keys.begin(), keys.end(), key) != keys.end(); }
};

using MakeOptimizer = std::shared_ptr<const Optimizer>(const TrainConfig&);
MakeOptimizer make_adamw, make_adam_pax, make_sgd, make_muon;

struct OptimizerRow : OptimizerChoice {
  MakeOptimizer* make;
};

/// All optimizers, in the order of the documentation. To add one, add a row here and a file in this folder that defines its
/// function.
inline constexpr std::array optimizer_table{
    OptimizerRow{{"adamw", {"train.beta1", "train.beta2", "train.epsilon", "train.weight_decay", "train.first_moment"}}, make_adamw},
    OptimizerRow{{"adam_pax", {"train.beta1", "train.beta2", "train.epsilon", "train.weight_decay"}}, make_adam_pax},
    OptimizerRow{{"sgd", {"train.momentum", "train.nesterov", "train.weight_decay"}}, make_sgd},
    OptimizerRow{{"muon",
                  {"train.muon_beta", "train.muon_consistent_rms", "train.muon_weight_decay", "train.muon_exclude", "train.beta1",
                   "train.beta2", "train.epsilon", "train.weight_decay", "train.first_moment"}},
                 make_muon},
};

/// The table without its functions, for the schema of keys, which must not depend on the optimizers' code.
inline constexpr auto optimizer_choices = [] {
  std::array<OptimizerChoice, optimizer_table.size()> choices{};
  for (std::size_t i = 0; i < choices.size(); ++i) choices[i] = optimizer_table[i];
  return choices;
}();

}  // namespace millrace::runtime
