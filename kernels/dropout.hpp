#pragma once

#include <cstdint>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// Which features are dropped: a pure function of (samples[t], site, feature), so that the tokens of a sample share a mask, as in
/// MaxText, and the mask depends neither on rank nor on order or recomputation.
struct DropoutOptions {
  float rate = 0.0F;       // fraction of features that become 0; 0 <= rate < 1
  std::uint64_t site = 0;  // identifies the layer and the place in it

  static constexpr auto members() { return std::tuple(member("rate", &DropoutOptions::rate), member("site", &DropoutOptions::site)); }
};

/// y = x / (1 − rate) if the feature is kept, else 0; a token whose sample is 0 is not changed (Srivastava et al., JMLR 15,
/// 2014). x, y [T, D] of one dtype (may be the same memory); samples i32 [T]. The gradient is the same function of dy. Does not
/// depend on the thread count. A rate outside of [0, 1) throws Error(config).
void dropout(const ExecutionContext& context, const Tensor& x, const Tensor& samples, DropoutOptions options, const Tensor& y);

/// Whether a feature of a sample (not 0) is kept.
[[nodiscard]] bool dropout_keeps(std::int32_t sample, DropoutOptions options, std::int64_t feature) noexcept;

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(dropout)> dropout("dropout");
}  // namespace table

}  // namespace millrace::kernels
