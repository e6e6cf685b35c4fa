#include "kernels/attention_temperature.hpp"

#include <cmath>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

void attention_temperature(const Tensor& x, const Tensor& positions, AttentionTemperatureOptions options, const Tensor& y) {
  const std::int64_t width = x.shape[1];
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const std::int64_t passed = (std::int64_t{positions.as<std::int32_t>()[i / width]} + 1) / options.floor_scale;
    const double factor = 1 + double{options.attention_scale} * std::log1p(static_cast<double>(passed));
    store(y, i, load(x, i) * static_cast<float>(factor));
  }
}

const InTable attention_temperature_in_table[] = {
    {Backend::reference, table::attention_temperature, without_context<attention_temperature>},
};

}  // namespace
}  // namespace millrace::kernels::reference
