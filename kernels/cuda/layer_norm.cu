#include "kernels/layer_norm.hpp"

#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/rows.cuh"

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

  template <int Lanes, bool Whole>
  __device__ __forceinline__ void at(std::int64_t row) const {
    constexpr int n = kPack<T>;
    const T* row_x = x + row * width;
    T* row_y = y + row * width;
    float sum = 0;
    for_row_packs<Lanes, T>(width, [&](std::int64_t d) {
      float value[n];
      load_pack<Whole, n>(row_x + d, width - d, value);
#pragma unroll
      for (int k = 0; k < n; ++k) sum += value[k];
    });
    const float mean = row_sum<Lanes>(sum) / static_cast<float>(width);
    float squares = 0;
    for_row_packs<Lanes, T>(width, [&](std::int64_t d) {
      float value[n];
      load_pack<Whole, n>(row_x + d, width - d, value);
#pragma unroll
      for (int k = 0; k < n; ++k)
        if (k < width - d) squares += (value[k] - mean) * (value[k] - mean);
    });
    const float inverse = 1.0F / sqrtf(row_sum<Lanes>(squares) / static_cast<float>(width) + epsilon);
    if (lane_of_row<Lanes>() == 0) {
      m[row] = mean;
      r[row] = inverse;
    }
    for_row_packs<Lanes, T>(width, [&](std::int64_t d) {
      float value[n], weight[n], bias[n];
      load_pack<Whole, n>(row_x + d, width - d, value);
      load_pack<Whole, n>(w + d, width - d, weight);
      load_pack<Whole, n>(b + d, width - d, bias);
#pragma unroll
      for (int k = 0; k < n; ++k) value[k] = (value[k] - mean) * inverse * (weight[k] + offset) + bias[k];
      store_pack<Whole, n>(row_y + d, width - d, value);
    });
  }
};

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

  template <int Lanes, bool Whole>
  __device__ __forceinline__ void at(std::int64_t row) const {
    constexpr int n = kPack<T>;
    const T* row_dy = dy + row * width;
    const T* row_x = x + row * width;
    const float mean = m[row], inverse = r[row];
    float sum = 0, products = 0;
    for_row_packs<Lanes, T>(width, [&](std::int64_t d) {
      float gradient[n], value[n], weight[n];
      load_pack<Whole, n>(row_dy + d, width - d, gradient);  // 0 beyond the row
      load_pack<Whole, n>(row_x + d, width - d, value);
      load_pack<Whole, n>(w + d, width - d, weight);
#pragma unroll
      for (int k = 0; k < n; ++k) {
        const float g = gradient[k] * (weight[k] + offset);
        sum += g;
        products += g * ((value[k] - mean) * inverse);
      }
    });
    const float level = row_sum<Lanes>(sum) / static_cast<float>(width);
    const float along = row_sum<Lanes>(products) / static_cast<float>(width);
    for_row_packs<Lanes, T>(width, [&](std::int64_t d) {
      float gradient[n], value[n], weight[n];
      load_pack<Whole, n>(row_dy + d, width - d, gradient);
      load_pack<Whole, n>(row_x + d, width - d, value);
      load_pack<Whole, n>(w + d, width - d, weight);
#pragma unroll
      for (int k = 0; k < n; ++k) value[k] = inverse * (gradient[k] * (weight[k] + offset) - level - (value[k] - mean) * inverse * along);
      store_pack<Whole, n>(dx + row * width + d, width - d, value);
    });
  }
};

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
    for_rows<T>(context, component, {x.data, w.data, b.data, y.data},
                LayerForward<T>{x.as<T>(), w.as<float>(), b.as<float>(), y.as<T>(), m.as<float>(), r.as<float>(), rows, width,
                                options.epsilon, options.offset});
  });
}

void layer_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& m,
                               const Tensor& r, LayerNormOptions options, const Tensor& dx) {
  constexpr const char* component = "kernels.layer_norm_input_gradient";
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  with_type(x.dtype, [&]<class T>(T) {
    for_rows<T>(
        context, component, {dy.data, x.data, w.data, dx.data},
        LayerGradient<T>{dy.as<T>(), x.as<T>(), w.as<float>(), m.as<float>(), r.as<float>(), dx.as<T>(), rows, width, options.offset});
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
