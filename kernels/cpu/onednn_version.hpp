#pragma once

#include <string>

namespace millrace::kernels::cpu {

/// "oneDNN 2.6.3": the library that is loaded. Bits of matrix products depend on it.
[[nodiscard]] std::string onednn_version();

}  // namespace millrace::kernels::cpu
