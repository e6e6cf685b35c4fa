#include "kernels/dropout.hpp"

#include "kernels/base/dropout_mask.hpp"
#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

constexpr int kDropoutThreads = 128;

template <class T>
struct DropoutRows {
  const T* x;
  const std::int32_t* samples;
  T* y;
  std::int64_t width;
  std::uint64_t site;
  float rate, factor;
};

template <bool Whole, class T>
__global__ void __launch_bounds__(kDropoutThreads) dropout_row(DropoutRows<T> at) {
  constexpr int n = kPack<T>;
  const std::int64_t row = blockIdx.x;
  const std::int32_t sample = at.samples[row];
  const std::uint64_t key = dropout_key(sample, at.site);
  for (std::int64_t d = static_cast<std::int64_t>(threadIdx.x) * n; d < at.width; d += kDropoutThreads * n) {
    float value[n];
    load_pack<Whole, n>(at.x + row * at.width + d, at.width - d, value);
    if (sample != 0) {
#pragma unroll
      for (int k = 0; k < n; ++k) value[k] = dropout_keeps(key, at.rate, d + k) ? value[k] * at.factor : 0.0F;
    }
    store_pack<Whole, n>(at.y + row * at.width + d, at.width - d, value);
  }
}

void dropout(const ExecutionContext& context, const Tensor& x, const Tensor& samples, DropoutOptions options, const Tensor& y) {
  constexpr const char* component = "kernels.dropout";
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  if (x.elements() == 0) return;
  const float factor = 1.0F / (1.0F - options.rate);
  with_type(x.dtype, [&]<class T>(T) {
    const bool whole = width % kPack<T> == 0 && packs_aligned({x.data, y.data});
    launch(context, component, whole ? dropout_row<true, T> : dropout_row<false, T>, dim3(blocks_of(rows, 1)), dim3(kDropoutThreads), 0,
           DropoutRows<T>{x.as<T>(), samples.as<std::int32_t>(), y.as<T>(), width, options.site, options.rate, factor});
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::dropout, dropout},
};

}  // namespace
}  // namespace millrace::kernels::cuda
