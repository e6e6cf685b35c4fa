#include "layers/norm.hpp"

#include "runtime/program/operations.hpp"

namespace millrace::layers {

runtime::ValueId rms_norm(runtime::ProgramBuilder& builder, runtime::ValueId x, std::int64_t width, double epsilon,
                          const std::string& module, std::string_view name) {
  const runtime::ValueId weight = builder.parameter(module + ".weight", {width});
  return runtime::rms_norm(builder, x, weight, static_cast<float>(epsilon), name);
}

}  // namespace millrace::layers
