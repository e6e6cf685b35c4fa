#include "kernels/layer_norm.hpp"

#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

template <class T>
struct LayerForward {
  const T* x;
  const float* w;
  const float* b;
  T* y;
  float* m;
  float* r;
  std::int64_t rows, width;
  float epsilon, offset;
};

template <int Lanes, bool Whole, class T>
__global__ void __launch_bounds__(kThreads) layer_forward_rows(LayerForward<T> at) {
  constexpr int n = kPack<T>;
  const std::int64_t row = row_of_lanes<Lanes>();
  if (row >= at.rows) return;  // either all lanes of a row exit or none
  const int lane = static_cast<int>(threadIdx.x) % Lanes;
  const T* x = at.x + row * at.width;
  T* y = at.y + row * at.width;
  float sum = 0;
  for (std::int64_t d = lane * n; d < at.width; d += Lanes * n) {
    float value[n];
    load_pack<Whole, n>(x + d, at.width - d, value);
#pragma unroll
    for (int k = 0; k < n; ++k) sum += value[k];
  }
  const float mean = row_sum<Lanes>(sum) / static_cast<float>(at.width);
  float squares = 0;
  for (std::int64_t d = lane * n; d < at.width; d += Lanes * n) {
    float value[n];
    load_pack<Whole, n>(x + d, at.width - d, value);
#pragma unroll
    for (int k = 0; k < n; ++k)
      if (k < at.width - d) squares += (value[k] - mean) * (value[k] - mean);
  }
  const float inverse = 1.0F / sqrtf(row_sum<Lanes>(squares) / static_cast<float>(at.width) + at.epsilon);
  if (lane == 0) {
    at.m[row] = mean;
    at.r[row] = inverse;
  }
  for (std::int64_t d = lane * n; d < at.width; d += Lanes * n) {
    float value[n], weight[n], bias[n];
    load_pack<Whole, n>(x + d, at.width - d, value);
    load_pack<Whole, n>(at.w + d, at.width - d, weight);
    load_pack<Whole, n>(at.b + d, at.width - d, bias);
#pragma unroll
    for (int k = 0; k < n; ++k) value[k] = (value[k] - mean) * inverse * (weight[k] + at.offset) + bias[k];
    store_pack<Whole, n>(y + d, at.width - d, value);
  }
}

template <class T>
struct LayerGradient {
  const T* dy;
  const T* x;
  const float* w;
  const float* m;
  const float* r;
  T* dx;
  std::int64_t rows, width;
  float offset;
};

template <int Lanes, bool Whole, class T>
__global__ void __launch_bounds__(kThreads) layer_gradient_rows(LayerGradient<T> at) {
  constexpr int n = kPack<T>;
  const std::int64_t row = row_of_lanes<Lanes>();
  if (row >= at.rows) return;
  const int lane = static_cast<int>(threadIdx.x) % Lanes;
  const T* dy = at.dy + row * at.width;
  const T* x = at.x + row * at.width;
  const float mean = at.m[row], inverse = at.r[row];
  float sum = 0, products = 0;
  for (std::int64_t d = lane * n; d < at.width; d += Lanes * n) {
    float gradient[n], value[n], weight[n];
    load_pack<Whole, n>(dy + d, at.width - d, gradient);  // 0 beyond the row
    load_pack<Whole, n>(x + d, at.width - d, value);
    load_pack<Whole, n>(at.w + d, at.width - d, weight);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const float g = gradient[k] * (weight[k] + at.offset);
      sum += g;
      products += g * ((value[k] - mean) * inverse);
    }
  }
  const float level = row_sum<Lanes>(sum) / static_cast<float>(at.width);
  const float along = row_sum<Lanes>(products) / static_cast<float>(at.width);
  for (std::int64_t d = lane * n; d < at.width; d += Lanes * n) {
    float gradient[n], value[n], weight[n];
    load_pack<Whole, n>(dy + d, at.width - d, gradient);
    load_pack<Whole, n>(x + d, at.width - d, value);
    load_pack<Whole, n>(at.w + d, at.width - d, weight);
#pragma unroll
    for (int k = 0; k < n; ++k) value[k] = inverse * (gradient[k] * (weight[k] + at.offset) - level - (value[k] - mean) * inverse * along);
    store_pack<Whole, n>(at.dx + row * at.width + d, at.width - d, value);
  }
}

template <class T>
struct LayerTerms {
  static constexpr int sums = 2;
  const T* dy;
  const T* x;
  const float* m;
  const float* r;
  std::int64_t width;
  float* into[sums];
  __device__ __forceinline__ void operator()(std::int64_t row, std::int64_t column, float (&sum)[sums]) const {
    const float gradient = load(dy + row * width + column);
    sum[0] += gradient * ((load(x + row * width + column) - m[row]) * r[row]);
    sum[1] += gradient;
  }
};

void layer_norm_forward(const ExecutionContext& context, const Tensor& x, const Tensor& w, const Tensor& b, LayerNormOptions options,
                        const Tensor& y, const Tensor& m, const Tensor& r) {
  constexpr const char* component = "kernels.layer_norm_forward";
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  with_type(x.dtype, [&]<class T>(T) {
    with_lanes(rows, width, [&]<int Lanes>(std::integral_constant<int, Lanes>, unsigned blocks) {
      const bool whole = width % kPack<T> == 0 && packs_aligned({x.data, w.data, b.data, y.data});
      launch(context, component, whole ? layer_forward_rows<Lanes, true, T> : layer_forward_rows<Lanes, false, T>, dim3(blocks),
             dim3(kThreads), 0,
             LayerForward<T>{x.as<T>(), w.as<float>(), b.as<float>(), y.as<T>(), m.as<float>(), r.as<float>(), rows, width, options.epsilon,
                             options.offset});
    });
  });
}

void layer_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& m,
                               const Tensor& r, LayerNormOptions options, const Tensor& dx) {
  constexpr const char* component = "kernels.layer_norm_input_gradient";
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  with_type(x.dtype, [&]<class T>(T) {
    with_lanes(rows, width, [&]<int Lanes>(std::integral_constant<int, Lanes>, unsigned blocks) {
      const bool whole = width % kPack<T> == 0 && packs_aligned({dy.data, x.data, w.data, dx.data});
      launch(context, component, whole ? layer_gradient_rows<Lanes, true, T> : layer_gradient_rows<Lanes, false, T>, dim3(blocks),
             dim3(kThreads), 0,
             LayerGradient<T>{dy.as<T>(), x.as<T>(), w.as<float>(), m.as<float>(), r.as<float>(), dx.as<T>(), rows, width, options.offset});
    });
  });
}

void layer_norm_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& m, const Tensor& r,
                                const Tensor& dw, const Tensor& db) {
  constexpr const char* component = "kernels.layer_norm_weight_gradient";
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  with_type(x.dtype, [&]<class T>(T) {
    add_column_sums(context, component, rows, width,
                    LayerTerms<T>{dy.as<T>(), x.as<T>(), m.as<float>(), r.as<float>(), width, {dw.as<float>(), db.as<float>()}});
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::layer_norm_forward, layer_norm_forward},
    {Backend::cuda, table::layer_norm_input_gradient, layer_norm_input_gradient},
    {Backend::cuda, table::layer_norm_weight_gradient, layer_norm_weight_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
