#include "kernels/rope.hpp"

#include <cmath>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

void rope(const Tensor& x, const Tensor& positions, const Tensor& inverse_frequencies, RopeOptions options, const Tensor& y) {
  const std::int64_t tokens = x.shape[0];
  const std::int64_t heads = x.shape[1];
  const std::int64_t width = x.shape[2];
  const std::int64_t half = (width - options.unrotated) / 2;
  const std::int64_t rotated_begin = options.rotate_last ? options.unrotated : 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(positions.as<std::int32_t>()[t]) * inverse_frequencies.as<float>()[i];
      const float cosine = rounded(x.dtype, std::cos(angle) * options.factor);
      const float sine = rounded(x.dtype, std::sin(angle) * options.factor) * static_cast<float>(options.direction);
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t first = (t * heads + h) * width + rotated_begin + (options.interleaved ? 2 * i : i);
        const std::int64_t second = first + (options.interleaved ? 1 : half);
        const float a = load(x, first);
        const float b = load(x, second);
        store(y, first, a * cosine - b * sine);
        store(y, second, b * cosine + a * sine);
      }
    }
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t d = 0; d < width; ++d)
        if (d < rotated_begin || d >= rotated_begin + 2 * half) store(y, (t * heads + h) * width + d, load(x, (t * heads + h) * width + d));
  }
}

const InTable rope_in_table[] = {
    {Backend::reference, table::rope, without_context<rope>},
};

}  // namespace
}  // namespace millrace::kernels::reference
