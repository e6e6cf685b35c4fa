#include "kernels/scale_heads.hpp"

#include <cmath>

namespace millrace::kernels::reference {
namespace {

void scale_heads(const HeadOutputs& outputs, std::span<const float> factors, const Tensor& matrix) {
  const std::int64_t columns = matrix.shape[1], width = outputs.width();
  for (std::int64_t i = 0; i < matrix.elements(); ++i) {
    const std::int64_t output = outputs.rows ? i / columns : i % columns, part = output % width;
    const float factor = factors[static_cast<std::size_t>(output / width)];
    if (part < outputs.roots)
      matrix.as<float>()[i] *= std::sqrt(factor);
    else if (part < outputs.roots + outputs.wholes)
      matrix.as<float>()[i] *= factor;
  }
}

const InTable scale_heads_in_table[] = {
    {Backend::reference, table::scale_heads, without_context<scale_heads>},
};

}  // namespace
}  // namespace millrace::kernels::reference
