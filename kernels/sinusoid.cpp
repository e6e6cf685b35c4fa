#include "kernels/sinusoid.hpp"

#include <cmath>

#include "kernels/base/operands.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/reference/sinusoid.hpp"

namespace millrace::kernels {
namespace {

/// Once a step on the embedding: sines cost more than anything that vectors could save here.
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

}  // namespace

void add_sinusoid(const ExecutionContext& context, const Tensor& x, const Tensor& positions, const Tensor& inverse_timescales,
                  const Tensor& y) {
  constexpr const char* who = "kernels.add_sinusoid";
  check_rank(who, "x", x, 2);
  MILLRACE_CHECK(x.shape[1] % 2 == 0, ExitCode::config, who, "width {} is odd, expected halves of one size", x.shape[1]);
  check_operand(who, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(who, "y", y, x.shape, {x.dtype});
  check_operand(who, "positions", positions, {x.shape[0]}, {DType::i32});
  check_operand(who, "inverse_timescales", inverse_timescales, {x.shape[1] / 2}, {DType::f32});
  if (context.on_cuda()) return cuda::add_sinusoid(context, x, positions, inverse_timescales, y);
  if (context.implementation() == Implementation::reference) return reference::add_sinusoid(x, positions, inverse_timescales, y);
  context.team().for_ranges(x.shape[0], 4, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      rows<float>(x, positions, inverse_timescales, y, begin, end);
    else
      rows<BFloat16>(x, positions, inverse_timescales, y, begin, end);
  });
}

}  // namespace millrace::kernels
