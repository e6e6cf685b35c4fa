#include "layers/formats/fixed_tensors.hpp"

#include <string_view>

#include "kernels/base/activation.hpp"

namespace millrace::layers {

std::vector<FixedTensor> fixed_tensors(const std::vector<ParameterSpec>& specs) {
  constexpr std::string_view learned = ".alpha_p";
  std::vector<FixedTensor> tensors;
  for (const ParameterSpec& spec : specs) {
    if (!spec.name.ends_with(learned)) continue;
    const std::string module = spec.name.substr(0, spec.name.size() - learned.size());
    tensors.push_back({module + ".beta", kernels::xielu_beta});
    tensors.push_back({module + ".eps", kernels::xielu_epsilon});
  }
  return tensors;
}

}  // namespace millrace::layers
