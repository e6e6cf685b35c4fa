#include "runtime/optimizers/decay.hpp"

namespace millrace::runtime {

DecayRule::DecayRule(const TrainConfig& train) : vectors_(train.numerics == "maxtext") {
  const NamePatterns mask("train.decay_mask", train.decay_mask);
  if (!vectors_ || train.optimizer != "muon") mask_ = mask;
}

bool DecayRule::decays(std::string_view name, const kernels::Shape& shape) const {
  return (vectors_ || (shape.rank() >= 2 && !name.ends_with(".scale"))) && !mask_.match(name);
}

}  // namespace millrace::runtime
