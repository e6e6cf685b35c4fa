#include "runtime/engine/layer_activation.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/program/observation.hpp"

namespace millrace::runtime {

std::vector<LayerActivation> layer_activations(const std::vector<Observation>& observations) {
  std::vector<LayerActivation> layers;
  for (const Observation& each : observations) {
    if (each.name != activation_name) continue;
    const double count = each.values.at(0);
    LayerActivation& layer = layers.emplace_back(LayerActivation{.layer = each.layer});
    if (count == 0) continue;
    layer.fraction_zero = each.values.at(1) / count;
    layer.mean = each.values.at(2) / count;
    // Rounding may leave a difference of equal numbers just below 0.
    layer.deviation = std::sqrt(std::max(0.0, each.values.at(3) / count - layer.mean * layer.mean));
  }
  return layers;
}

}  // namespace millrace::runtime
