#pragma once

#include <vector>

#include "runtime/engine/observation_sums.hpp"

namespace millrace::runtime {

/// Statistics of the residual stream behind one decoder layer, over all tokens of a step (MaxText's record_internal_nn_metrics).
struct LayerActivation {
  int layer = -1;
  double fraction_zero = 0;  // share of the elements that are exactly 0
  double mean = 0;
  double deviation = 0;  // the population's standard deviation
};

/// Those of all layers that were observed, in the order of the observations.
[[nodiscard]] std::vector<LayerActivation> layer_activations(const std::vector<Observation>& observations);

}  // namespace millrace::runtime
