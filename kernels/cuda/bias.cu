#include "kernels/bias.hpp"

#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

constexpr int kBiasThreads = 128;
constexpr std::int64_t kBiasRows = 4;  // per block, which reads b once for all of them

template <class T>
struct BiasForward {
  const T* x;
  const float* b;
  T* y;
  std::int64_t rows, width;
};

template <bool Whole, class T>
__global__ void __launch_bounds__(kBiasThreads) bias_rows(BiasForward<T> at) {
  constexpr int n = kPack<T>;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * kBiasRows;
  const std::int64_t end = begin + kBiasRows < at.rows ? begin + kBiasRows : at.rows;
  for (std::int64_t d = static_cast<std::int64_t>(threadIdx.x) * n; d < at.width; d += kBiasThreads * n) {
    float added[n];
    load_pack<Whole, n>(at.b + d, at.width - d, added);
    for (std::int64_t row = begin; row < end; ++row) {
      float value[n];
      load_pack<Whole, n>(at.x + row * at.width + d, at.width - d, value);
#pragma unroll
      for (int k = 0; k < n; ++k) value[k] += added[k];
      store_pack<Whole, n>(at.y + row * at.width + d, at.width - d, value);
    }
  }
}

template <class T>
struct BiasTerms {
  static constexpr int sums = 1;
  const T* dy;
  std::int64_t width;
  float* into[sums];
  __device__ __forceinline__ void operator()(std::int64_t row, std::int64_t column, float (&sum)[sums]) const {
    sum[0] += load(dy + row * width + column);
  }
};

void bias_forward(const ExecutionContext& context, const Tensor& x, const Tensor& b, const Tensor& y) {
  constexpr const char* component = "kernels.bias_forward";
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  if (x.elements() == 0) return;
  with_type(x.dtype, [&]<class T>(T) {
    const bool whole = width % kPack<T> == 0 && packs_aligned({x.data, b.data, y.data});
    launch(context, component, whole ? bias_rows<true, T> : bias_rows<false, T>, dim3(blocks_of(rows, kBiasRows)), dim3(kBiasThreads), 0,
           BiasForward<T>{x.as<T>(), b.as<float>(), y.as<T>(), rows, width});
  });
}

void bias_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& db) {
  constexpr const char* component = "kernels.bias_weight_gradient";
  const std::int64_t rows = dy.shape[0], width = dy.shape[1];
  with_type(dy.dtype, [&]<class T>(T) {
    add_column_sums(context, component, rows, width, BiasTerms<T>{dy.as<T>(), width, {db.as<float>()}});
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::bias_forward, bias_forward},
    {Backend::cuda, table::bias_weight_gradient, bias_weight_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
