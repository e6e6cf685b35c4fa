#pragma once

#include <span>
#include <string>

#include "layers/parameter.hpp"

namespace millrace::actors {

/// "46.7B parameters, 12.9B active", or the exact numbers; without experts the first part alone. A weight is active if it computes on a
/// token. `parameters` are those of a whole model, a tied table once.
[[nodiscard]] std::string parameters_text(std::span<const layers::ParameterSpec> parameters, bool exact = false);

}  // namespace millrace::actors
