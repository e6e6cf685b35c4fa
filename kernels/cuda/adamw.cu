#include <cmath>

#include "kernels/adamw.hpp"
#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

constexpr int kAdamwTensors = 32;  // of a launch
constexpr int kAdamwPack = 4;
constexpr std::int64_t kAdamwChunk = 4096;  // elements of a block

struct AdamwPlace {
  float* p;
  float* m;
  float* v;
  float* gradient;
  __nv_bfloat16* copy;
  std::int64_t elements;
  unsigned first_block;
  float keep;  // 1 − lr·decay
  bool aligned;
};

struct AdamwBatch {
  AdamwPlace places[kAdamwTensors];
  int count;
  float gradient_scale, beta1, rest1, beta2, rest2, negative_step_size, correction, epsilon;
};
static_assert(sizeof(AdamwBatch) < 4096, "kernel arguments");

template <bool Whole>
__device__ __forceinline__ void adamw_pack(const AdamwBatch& batch, const AdamwPlace& at, std::int64_t i, std::int64_t left) {
  constexpr int n = kAdamwPack;
  float p[n], m[n], v[n], gradient[n];
  load_pack<Whole, n>(at.gradient + i, left, gradient);
  load_pack<Whole, n>(at.p + i, left, p);
  load_pack<Whole, n>(at.m + i, left, m);
  load_pack<Whole, n>(at.v + i, left, v);
#pragma unroll
  for (int k = 0; k < n; ++k) {
    const float g = gradient[k] * batch.gradient_scale;
    m[k] = batch.beta1 * m[k] + batch.rest1 * g;
    v[k] = batch.beta2 * v[k] + batch.rest2 * g * g;
    p[k] = p[k] * at.keep + batch.negative_step_size * m[k] / (sqrtf(v[k]) / batch.correction + batch.epsilon);
    gradient[k] = 0.0F;
  }
  store_pack<Whole, n>(at.p + i, left, p);
  store_pack<Whole, n>(at.m + i, left, m);
  store_pack<Whole, n>(at.v + i, left, v);
  store_pack<Whole, n>(at.gradient + i, left, gradient);
  if (at.copy != nullptr) store_pack<Whole, n>(at.copy + i, left, p);
}

__global__ void __launch_bounds__(kThreads) adamw_chunks(AdamwBatch batch) {
  int which = 0;
  while (which + 1 < batch.count && batch.places[which + 1].first_block <= blockIdx.x) ++which;
  const AdamwPlace& at = batch.places[which];
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x - at.first_block) * kAdamwChunk;
  const std::int64_t end = begin + kAdamwChunk < at.elements ? begin + kAdamwChunk : at.elements;
  for (std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x) * kAdamwPack; i < end; i += kThreads * kAdamwPack) {
    if (at.aligned && end - i >= kAdamwPack)
      adamw_pack<true>(batch, at, i, end - i);
    else
      adamw_pack<false>(batch, at, i, end - i);
  }
}

void adamw(const ExecutionContext& context, const AdamwScalars& scalars, std::span<const AdamwTensors> tensors) {
  constexpr const char* who = "kernels.adamw";
  const auto t = static_cast<double>(scalars.update);
  AdamwBatch batch = {};
  batch.gradient_scale = scalars.gradient_scale;
  batch.beta1 = static_cast<float>(scalars.beta1);
  batch.rest1 = static_cast<float>(1.0 - scalars.beta1);
  batch.beta2 = static_cast<float>(scalars.beta2);
  batch.rest2 = static_cast<float>(1.0 - scalars.beta2);
  batch.negative_step_size = -static_cast<float>(scalars.learning_rate / (1.0 - std::pow(scalars.beta1, t)));
  batch.correction = static_cast<float>(std::sqrt(1.0 - std::pow(scalars.beta2, t)));
  batch.epsilon = static_cast<float>(scalars.epsilon);
  const auto keep = static_cast<float>(1.0 - scalars.learning_rate * scalars.weight_decay);
  unsigned blocks = 0;
  const auto flush = [&] {
    if (batch.count > 0) launch(context, who, adamw_chunks, dim3(blocks), dim3(kThreads), 0, batch);
    batch.count = 0;
    blocks = 0;
  };
  for (const auto& [p, m, v, gradient, copy, decays] : tensors) {
    if (p.elements() == 0) continue;
    batch.places[batch.count++] = {p.as<float>(),
                                   m.as<float>(),
                                   v.as<float>(),
                                   gradient.as<float>(),
                                   copy.as<__nv_bfloat16>(),
                                   p.elements(),
                                   blocks,
                                   decays ? keep : 1.0F,
                                   packs_aligned({p.data, m.data, v.data, gradient.data, copy.data})};
    blocks += blocks_of(p.elements(), kAdamwChunk);
    if (batch.count == kAdamwTensors) flush();
  }
  flush();
}

const InTable in_table[] = {
    {Backend::cuda, table::adamw, adamw},
};

}  // namespace
}  // namespace millrace::kernels::cuda
