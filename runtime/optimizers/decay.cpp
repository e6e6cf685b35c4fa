#include "runtime/optimizers/decay.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"

namespace millrace::runtime {

DecayRule::DecayRule(const TrainConfig& train) : vectors_(train.numerics == "maxtext") {
  for (const std::string& expression : train.decay_mask) {
    try {
      mask_.emplace_back(expression);
    } catch (const std::regex_error& error) {
      fail(ExitCode::config, "runtime.decay", "train.decay_mask has \"{}\", expected a regular expression ({})", expression, error.what());
    }
  }
}

bool DecayRule::decays(std::string_view name, const kernels::Shape& shape) const {
  if (!vectors_ && shape.rank() < 2) return false;
  std::string path(name);
  std::ranges::replace(path, '.', '/');
  return std::ranges::none_of(mask_, [&](const std::regex& expression) { return std::regex_search(path, expression); });
}

}  // namespace millrace::runtime
