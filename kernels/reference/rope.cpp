#include "kernels/reference/rope.hpp"

#include <cmath>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {

void rope(const Tensor& x, const Tensor& positions, const Tensor& inverse_frequencies, int direction, const Tensor& y) {
  const std::int64_t tokens = x.shape[0];
  const std::int64_t heads = x.shape[1];
  const std::int64_t width = x.shape[2];
  const std::int64_t half = width / 2;
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(positions.as<std::int32_t>()[t]) * inverse_frequencies.as<float>()[i];
      const float cosine = rounded(x.dtype, std::cos(angle));
      const float sine = rounded(x.dtype, std::sin(angle)) * static_cast<float>(direction);
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t first = (t * heads + h) * width + i;
        const float a = load(x, first);
        const float b = load(x, first + half);
        store(y, first, a * cosine - b * sine);
        store(y, first + half, b * cosine + a * sine);
      }
    }
}

}  // namespace millrace::kernels::reference
