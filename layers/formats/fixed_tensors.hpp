#pragma once

#include <string>
#include <vector>

#include "layers/parameter.hpp"

namespace millrace::layers {

/// A scalar that checkpoints of transformers contain although it is no parameter: a buffer of a module, which is saved and loaded with the
/// weights. transformers leaves a missing one undefined, so exports contain it.
struct FixedTensor {
  std::string name;
  float value = 0;
};

/// The scalars beside these parameters: `beta` and `eps` of every xielu activation (XIELUActivation of transformers' activations.py).
[[nodiscard]] std::vector<FixedTensor> fixed_tensors(const std::vector<ParameterSpec>& specs);

}  // namespace millrace::layers
