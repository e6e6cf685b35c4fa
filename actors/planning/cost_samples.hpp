#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "runtime/schedule/simulator/layer_assignment.hpp"

namespace millrace::actors {

/// One run of one pass: milliseconds by the clock, and of a processor for the computing thread that needed most.
struct CostSample {
  double wall = 0, processor = 0;
};

/// The samples of a part of a model: of its passes, by ActionKind, and of its update.
struct PartSamples {
  std::string name;  // "embedding", "layer", "head"
  std::array<std::vector<CostSample>, 4> passes;
  std::vector<CostSample> updates;
};

/// The costs that samples give, and whether they can be believed.
struct JudgedCosts {
  std::vector<runtime::StageCost> parts;
  int measurements = 1;
  bool least = false;  // the least of all samples rather than their median
  std::string doubt;   // why they are not to be believed; empty if they are
};

/// The costs of a model's parts from samples that `measure` takes, the same parts each time. The medians of one measurement, if they can
/// be believed; otherwise up to three further ones are taken, and the least of all samples. They are believed if
///
///     processor time    the samples took at most 1.15 times that of the threads that compute: nothing else had the cores
///
///     backward          of every part, B takes between half of I + W and one and a half of it: it does the same work
///
/// Otherwise `doubt` says which of the two fails, with the numbers.
[[nodiscard]] JudgedCosts judge_costs(const std::function<std::vector<PartSamples>()>& measure);

/// The relation of a part's times that no machine can have, with its numbers: B takes more than one and a half of I + W, or less than half
/// of it. Empty if there is none.
[[nodiscard]] std::string impossible_cost(const std::string& part, const runtime::StageCost& cost);
/// The same for all parts of a model, the first of which is named.
[[nodiscard]] std::string impossible_costs(const runtime::LayerCosts& costs);

}  // namespace millrace::actors
