#include "layers/norm.hpp"

namespace millrace::layers {

runtime::ValueId rms_norm(runtime::ProgramBuilder& builder, runtime::ValueId x, std::int64_t width, const kernels::RmsNormOptions& form,
                          const std::string& module, std::string_view name) {
  return runtime::rms_norm(builder, x, builder.parameter(module + ".weight", {width}, runtime::in_f32), form, name);
}

runtime::ValueId layer_norm(runtime::ProgramBuilder& builder, runtime::ValueId x, std::int64_t width, const kernels::LayerNormOptions& form,
                            const std::string& module, std::string_view name) {
  return runtime::layer_norm(builder, x, builder.parameter(module + ".weight", {width}, runtime::in_f32),
                             builder.parameter(module + ".bias", {width}, runtime::in_f32), form, name);
}

}  // namespace millrace::layers
