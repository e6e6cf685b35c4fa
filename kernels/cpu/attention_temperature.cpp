#include "kernels/attention_temperature.hpp"

#include <cmath>

#include "kernels/cpu/elementwise_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kTokenGrain = 4;

void attention_temperature(const ExecutionContext& context, const Tensor& x, const Tensor& positions, AttentionTemperatureOptions options,
                           const Tensor& y) {
  const std::int64_t width = x.shape[1];
  const auto run = [&]<class T>(T, auto* scale) {
    context.team().for_ranges(x.shape[0], kTokenGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t token = begin; token < end; ++token) {
        const std::int64_t passed = (std::int64_t{positions.as<std::int32_t>()[token]} + 1) / options.floor_scale;
        const auto factor = static_cast<float>(1 + double{options.attention_scale} * std::log1p(static_cast<double>(passed)));
        scale(x.as<T>(), factor, y.as<T>(), token * width, (token + 1) * width);
      }
    });
  };
  if (x.dtype == DType::f32)
    run(float{}, pick_scale_f32());
  else
    run(BFloat16{}, pick_scale_bf16());
}

const InTable in_table[] = {
    {Backend::cpu, table::attention_temperature, attention_temperature},
};

}  // namespace
}  // namespace millrace::kernels::cpu
