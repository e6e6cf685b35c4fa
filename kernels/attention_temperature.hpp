#pragma once

#include <cstdint>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

struct AttentionTemperatureOptions {
  float attention_scale = 0.1F;
  std::int64_t floor_scale = 8192;  // positions below this one less one are left as they are

  static constexpr auto members() {
    return std::tuple(member("attention_scale", &AttentionTemperatureOptions::attention_scale),
                      member("floor_scale", &AttentionTemperatureOptions::floor_scale));
  }
};

/// The temperature of Llama 4's layers without rotary embedding, which lets queries of far positions tell keys apart: y[t] = x[t]·a with
/// a = 1 + attention_scale·ln(1 + ⌊(positions[t] + 1) / floor_scale⌋). The quotient is one of integers, so that no position is rounded
/// before it; a is fp32, and the product is rounded once. It is its own gradient: dx is the same function of dy. x, y [T, N] of one dtype
/// (may be the same memory); positions i32 [T], not negative. Throws Error(config) if floor_scale is below 1. Does not depend on the thread
/// count.
void attention_temperature(const ExecutionContext& context, const Tensor& x, const Tensor& positions, AttentionTemperatureOptions options,
                           const Tensor& y);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(attention_temperature)> attention_temperature("attention_temperature");
}  // namespace table

}  // namespace millrace::kernels
