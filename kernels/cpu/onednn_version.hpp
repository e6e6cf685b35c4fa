#pragma once

#include <string>

namespace millrace::kernels::cpu {

/// Returns "oneDNN 2.6.3": the version of the loaded library, which the bits of matrix products depend on.
[[nodiscard]] std::string onednn_version();

}  // namespace millrace::kernels::cpu
