#pragma once

#include <string>

#include "layers/model_config.hpp"

namespace millrace::actors {

/// "46.7B parameters, 12.9B active", or the exact numbers; without experts the first part alone. A weight is active if it computes on a
/// token.
[[nodiscard]] std::string parameters_text(const layers::ModelConfig& model, bool exact = false);

}  // namespace millrace::actors
