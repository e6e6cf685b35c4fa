#pragma once

#include <string>

namespace millrace::actors {

/// "CAF 0.17.6": the headers that the actors were compiled from.
[[nodiscard]] std::string caf_version();

}  // namespace millrace::actors
