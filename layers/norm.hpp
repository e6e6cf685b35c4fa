#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/program/builder.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {

/// RMSNorm (Zhang & Sennrich, arXiv 1910.07467): x / √(mean(x²) + ε) · weight, x [T, width], weight `<module>.weight` [width] in fp32.
/// `name` is what the operation is called within the current scope.
[[nodiscard]] runtime::ValueId rms_norm(runtime::ProgramBuilder& builder, runtime::ValueId x, std::int64_t width,
                                        const kernels::RmsNormOptions& form, const std::string& module, std::string_view name);

/// LayerNorm (Ba et al., arXiv 1607.06450): (x − mean) / √(variance + ε) · weight + bias, `<module>.weight` and `.bias` [width] in fp32.
[[nodiscard]] runtime::ValueId layer_norm(runtime::ProgramBuilder& builder, runtime::ValueId x, std::int64_t width,
                                          const kernels::LayerNormOptions& form, const std::string& module, std::string_view name);

}  // namespace millrace::layers
