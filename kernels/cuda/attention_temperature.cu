#include "kernels/attention_temperature.hpp"

#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

// One pack of a token.
template <class T>
struct ScaleToken {
  const T* x;
  const std::int32_t* positions;
  T* y;
  std::int64_t width, packs, floor_scale;  // packs of a token
  float attention_scale;
  bool aligned;

  __device__ void operator()(std::int64_t index) const {
    const std::int64_t token = index / packs, first = index % packs * kPack<T>;
    const std::int64_t passed = (std::int64_t{positions[token]} + 1) / floor_scale;
    const float factor = 1.0F + attention_scale * log1pf(static_cast<float>(passed));
    if (aligned)
      scale<true>(token * width + first, kPack<T>, factor);
    else
      scale<false>(token * width + first, width - first, factor);
  }

  template <bool Whole>
  __device__ void scale(std::int64_t at, std::int64_t count, float factor) const {
    float value[kPack<T>];
    load_pack<Whole, kPack<T>>(x + at, count, value);
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) value[i] *= factor;
    store_pack<Whole, kPack<T>>(y + at, count, value);
  }
};

void attention_temperature(const ExecutionContext& context, const Tensor& x, const Tensor& positions, AttentionTemperatureOptions options,
                           const Tensor& y) {
  with_type(x.dtype, [&]<class T>(T) {
    const std::int64_t width = x.shape[1], packs = (width + kPack<T> - 1) / kPack<T>;
    for_each(context, "kernels.attention_temperature", x.shape[0] * packs,
             ScaleToken<T>{x.as<T>(), positions.as<std::int32_t>(), y.as<T>(), width, packs, options.floor_scale, options.attention_scale,
                           width % kPack<T> == 0 && packs_aligned({x.data, y.data})});
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::attention_temperature, attention_temperature},
};

}  // namespace
}  // namespace millrace::kernels::cuda
