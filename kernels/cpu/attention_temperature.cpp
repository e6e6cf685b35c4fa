#include "kernels/attention_temperature.hpp"

#include <cmath>

#include "kernels/cpu/elementwise_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

void attention_temperature(const ExecutionContext& context, const Tensor& x, const Tensor& positions, AttentionTemperatureOptions options,
                           const Tensor& y) {
  const std::int64_t width = x.shape[1];
  context.team().for_ranges(x.shape[0], 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t passed = (std::int64_t{positions.as<std::int32_t>()[token]} + 1) / options.floor_scale;
      const auto factor = static_cast<float>(1 + double{options.attention_scale} * std::log1p(static_cast<double>(passed)));
      if (x.dtype == DType::f32)
        pick_scale_f32()(x.as<float>(), factor, y.as<float>(), token * width, (token + 1) * width);
      else
        pick_scale_bf16()(x.as<BFloat16>(), factor, y.as<BFloat16>(), token * width, (token + 1) * width);
    }
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::attention_temperature, attention_temperature},
};

}  // namespace
}  // namespace millrace::kernels::cpu
