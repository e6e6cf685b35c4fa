#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace millrace::runtime {

/// One observation of one stage (runtime/program/observation.hpp) in a step: what the stage's rank reports.
struct ObservedSums {
  std::int32_t stage = 0, layer = -1;
  std::string name, scope;
  std::int32_t width = 0;  // entries of the observed value
  // [accumulation steps, width], the exact sums of integers; or [microbatches, width], in the order in which the stage has them
  std::vector<double> values;
  auto tie() { return std::tie(stage, layer, name, scope, width, values); }
};

/// An observation, added over the microbatches of the step.
struct Observation {
  std::string name;
  int layer = -1;
  std::string scope;
  std::vector<double> values;
};

/// The observations of a step in model order: by stage of one replica, then in the order in which the stage declared them. A value's rows
/// are added in the order of microbatches, so that the sums do not depend on the layout; of the scores of heads the largest is taken.
/// `reported` may come in any order of stages; `model_stages`: stages of one replica; those of the others follow. Replicas share the
/// microbatches as GlobalOrder says.
[[nodiscard]] std::vector<Observation> add_observations(std::vector<ObservedSums> reported, int model_stages);
/// The same for the observations of this name, which are integers, of one accumulation step.
[[nodiscard]] std::vector<Observation> add_observations_of_step(const std::vector<ObservedSums>& reported, int model_stages,
                                                                std::string_view name, std::size_t accumulation_step);

}  // namespace millrace::runtime
