#include "kernels/rope.hpp"

#include "kernels/base/operands.hpp"
#include "kernels/cpu/rope_loops.hpp"
#include "kernels/reference/rope.hpp"

namespace millrace::kernels {

void rope(const Stream& stream, const Tensor& x, const Tensor& positions, const Tensor& inverse_frequencies, int direction,
          const Tensor& y) {
  constexpr const char* who = "kernels.rope";
  require_cpu(stream, who);
  check_rank(who, "x", x, 3);
  check_operand(who, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(who, "y", y, x.shape, {x.dtype});
  check_operand(who, "positions", positions, {x.shape[0]}, {DType::i32});
  check_operand(who, "inverse_frequencies", inverse_frequencies, {x.shape[2] / 2}, {DType::f32});
  MILLRACE_CHECK(x.shape[2] % 2 == 0, ExitCode::config, who, "head size {} is odd, wanted halves of one size", x.shape[2]);
  MILLRACE_CHECK(direction == 1 || direction == -1, ExitCode::internal, who, "direction = {}, wanted 1 or -1", direction);
  if (stream.implementation() == Implementation::reference) return reference::rope(x, positions, inverse_frequencies, direction, y);
  stream.team().for_ranges(x.shape[0], 4, [&](std::int64_t begin, std::int64_t end) {
    const auto* position = positions.as<std::int32_t>();
    const auto* frequency = inverse_frequencies.as<float>();
    const auto sign = static_cast<float>(direction);
    if (x.dtype == DType::f32)
      cpu::pick_rope_f32()({x.as<float>(), position, frequency, y.as<float>(), x.shape[1], x.shape[2] / 2, sign}, begin, end);
    else
      cpu::pick_rope_bf16()({x.as<BFloat16>(), position, frequency, y.as<BFloat16>(), x.shape[1], x.shape[2] / 2, sign}, begin, end);
  });
}

}  // namespace millrace::kernels
