#include "kernels/rope.hpp"

#include "kernels/cpu/rope_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

void rope(const ExecutionContext& context, const Tensor& x, const Tensor& positions, const Tensor& inverse_frequencies, RopeOptions options,
          const Tensor& y) {
  const auto loops = [&]<class T>(T) {
    return Rope<T>{x.as<T>(),
                   positions.as<std::int32_t>(),
                   inverse_frequencies.as<float>(),
                   y.as<T>(),
                   x.shape[1],
                   x.shape[2],
                   (x.shape[2] - options.unrotated) / 2,
                   static_cast<float>(options.direction),
                   options.factor,
                   options.interleaved,
                   options.rotate_last ? options.unrotated : 0};
  };
  context.team().for_ranges(x.shape[0], 4, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype == DType::f32)
      pick_rope_f32()(loops(float{}), begin, end);
    else
      pick_rope_bf16()(loops(BFloat16{}), begin, end);
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::rope, rope},
};

}  // namespace
}  // namespace millrace::kernels::cpu
