#include "kernels/sinusoid.hpp"

#include <cmath>

namespace millrace::kernels::cpu {
namespace {

/// Runs once per step on the embedding, and its time is spent in sines, so vector code would save little.
template <class T>
void rows(const Tensor& x, const Tensor& positions, const Tensor& inverse_timescales, const Tensor& y, std::int64_t begin,
          std::int64_t end) {
  const std::int64_t width = x.shape[1], half = width / 2;
  for (std::int64_t token = begin; token < end; ++token) {
    const T* from = x.as<T>() + token * width;
    T* to = y.as<T>() + token * width;
    const auto position = static_cast<float>(positions.as<std::int32_t>()[token]);
    for (std::int64_t i = 0; i < half; ++i) {
      const float angle = position * inverse_timescales.as<float>()[i];
      to[i] = from_float<T>(to_float(from[i]) + std::sin(angle));
      to[half + i] = from_float<T>(to_float(from[half + i]) + std::cos(angle));
    }
  }
}

void add_sinusoid(const ExecutionContext& context, const Tensor& x, const Tensor& positions, const Tensor& inverse_timescales,
                  const Tensor& y) {
  context.team().for_ranges(x.shape[0], 4, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      rows<float>(x, positions, inverse_timescales, y, begin, end);
    else
      rows<BFloat16>(x, positions, inverse_timescales, y, begin, end);
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::add_sinusoid, add_sinusoid},
};

}  // namespace
}  // namespace millrace::kernels::cpu
