#include "kernels/cpu/onednn_version.hpp"

#include <fmt/format.h>

#include <oneapi/dnnl/dnnl.hpp>

namespace millrace::kernels::cpu {

std::string onednn_version() {
  const dnnl_version_t& version = *dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version.major, version.minor, version.patch);
}

}  // namespace millrace::kernels::cpu
