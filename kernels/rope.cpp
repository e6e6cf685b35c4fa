#include "kernels/rope.hpp"

#include "kernels/base/operands.hpp"
#include "kernels/cpu/rope_loops.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/reference/rope.hpp"

namespace millrace::kernels {

void rope(const ExecutionContext& context, const Tensor& x, const Tensor& positions, const Tensor& inverse_frequencies, RopeOptions options,
          const Tensor& y) {
  constexpr const char* who = "kernels.rope";
  check_rank(who, "x", x, 3);
  check_operand(who, "x", x, x.shape, {DType::f32, DType::bf16});
  check_operand(who, "y", y, x.shape, {x.dtype});
  check_operand(who, "positions", positions, {x.shape[0]}, {DType::i32});
  check_operand(who, "inverse_frequencies", inverse_frequencies, {x.shape[2] / 2}, {DType::f32});
  MILLRACE_CHECK(x.shape[2] % 2 == 0, ExitCode::config, who, "head size {} is odd, expected halves of one size", x.shape[2]);
  MILLRACE_CHECK(options.direction == 1 || options.direction == -1, ExitCode::internal, who, "direction = {}, expected 1 or -1",
                 options.direction);
  if (context.on_cuda()) return cuda::rope(context, x, positions, inverse_frequencies, options, y);
  if (context.implementation() == Implementation::reference) return reference::rope(x, positions, inverse_frequencies, options, y);
  const auto loops = [&]<class T>(T) {
    return cpu::Rope<T>{x.as<T>(),
                        positions.as<std::int32_t>(),
                        inverse_frequencies.as<float>(),
                        y.as<T>(),
                        x.shape[1],
                        x.shape[2] / 2,
                        static_cast<float>(options.direction),
                        options.factor,
                        options.interleaved};
  };
  context.team().for_ranges(x.shape[0], 4, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      cpu::pick_rope_f32()(loops(float{}), begin, end);
    else
      cpu::pick_rope_bf16()(loops(BFloat16{}), begin, end);
  });
}

}  // namespace millrace::kernels
