#include "kernels/rms_norm.hpp"

#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

template <class T>
struct RmsForward {
  const T* x;
  const float* w;
  T* y;
  float* r;
  std::int64_t rows, width;
  float epsilon, offset;
  bool round_first;
};

template <int Lanes, bool Whole, class T>
__global__ void __launch_bounds__(kThreads) rms_forward_rows(RmsForward<T> at) {
  constexpr int n = kPack<T>;
  const std::int64_t row = row_of_lanes<Lanes>();
  if (row >= at.rows) return;  // either all lanes of a row exit or none
  const int lane = static_cast<int>(threadIdx.x) % Lanes;
  const T* x = at.x + row * at.width;
  T* y = at.y + row * at.width;
  float squares = 0;
  for (std::int64_t d = lane * n; d < at.width; d += Lanes * n) {
    float value[n];
    load_pack<Whole, n>(x + d, at.width - d, value);
#pragma unroll
    for (int k = 0; k < n; ++k) squares += value[k] * value[k];
  }
  const float inverse = 1.0F / sqrtf(row_sum<Lanes>(squares) / static_cast<float>(at.width) + at.epsilon);
  if (lane == 0) at.r[row] = inverse;
  for (std::int64_t d = lane * n; d < at.width; d += Lanes * n) {
    float value[n], weight[n];
    load_pack<Whole, n>(x + d, at.width - d, value);
    load_pack<Whole, n>(at.w + d, at.width - d, weight);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const float normal = value[k] * inverse;
      value[k] = (at.round_first ? rounded<T>(normal) : normal) * (weight[k] + at.offset);
    }
    store_pack<Whole, n>(y + d, at.width - d, value);
  }
}

template <class T>
struct RmsGradient {
  const T* dy;
  const T* x;
  const float* w;
  const float* r;
  const T* addend;  // or nullptr
  T* dx;
  std::int64_t rows, width;
  float offset;
};

template <int Lanes, bool Whole, class T>
__global__ void __launch_bounds__(kThreads) rms_gradient_rows(RmsGradient<T> at) {
  constexpr int n = kPack<T>;
  const std::int64_t row = row_of_lanes<Lanes>();
  if (row >= at.rows) return;
  const int lane = static_cast<int>(threadIdx.x) % Lanes;
  const T* dy = at.dy + row * at.width;
  const T* x = at.x + row * at.width;
  float products = 0;
  for (std::int64_t d = lane * n; d < at.width; d += Lanes * n) {
    float gradient[n], value[n], weight[n];
    load_pack<Whole, n>(dy + d, at.width - d, gradient);
    load_pack<Whole, n>(x + d, at.width - d, value);
    load_pack<Whole, n>(at.w + d, at.width - d, weight);
#pragma unroll
    for (int k = 0; k < n; ++k) products += gradient[k] * (weight[k] + at.offset) * value[k];
  }
  const float inverse = at.r[row];
  const float along = row_sum<Lanes>(products) / static_cast<float>(at.width) * inverse * inverse;
  for (std::int64_t d = lane * n; d < at.width; d += Lanes * n) {
    float gradient[n], value[n], weight[n], added[n] = {};
    load_pack<Whole, n>(dy + d, at.width - d, gradient);
    load_pack<Whole, n>(x + d, at.width - d, value);
    load_pack<Whole, n>(at.w + d, at.width - d, weight);
    if (at.addend != nullptr) load_pack<Whole, n>(at.addend + row * at.width + d, at.width - d, added);
#pragma unroll
    for (int k = 0; k < n; ++k) value[k] = inverse * (gradient[k] * (weight[k] + at.offset) - value[k] * along) + added[k];
    store_pack<Whole, n>(at.dx + row * at.width + d, at.width - d, value);
  }
}

template <class T>
struct RmsTerms {
  static constexpr int sums = 1;
  const T* dy;
  const T* x;
  const float* r;
  std::int64_t width;
  float* into[sums];
  __device__ __forceinline__ void operator()(std::int64_t row, std::int64_t column, float (&sum)[sums]) const {
    const std::int64_t at = row * width + column;
    sum[0] += load(dy + at) * load(x + at) * r[row];
  }
};

void rms_norm_forward(const ExecutionContext& context, const Tensor& x, const Tensor& w, RmsNormOptions options, const Tensor& y,
                      const Tensor& r) {
  constexpr const char* component = "kernels.rms_norm_forward";
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  with_type(x.dtype, [&]<class T>(T) {
    with_lanes(rows, width, [&]<int Lanes>(std::integral_constant<int, Lanes>, unsigned blocks) {
      const bool whole = width % kPack<T> == 0 && packs_aligned({x.data, w.data, y.data});
      launch(context, component, whole ? rms_forward_rows<Lanes, true, T> : rms_forward_rows<Lanes, false, T>, dim3(blocks), dim3(kThreads),
             0,
             RmsForward<T>{x.as<T>(), w.as<float>(), y.as<T>(), r.as<float>(), rows, width, options.epsilon, options.offset,
                           options.round_first});
    });
  });
}

void rms_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& r,
                             RmsNormOptions options, const Tensor& dx, const Tensor* addend) {
  constexpr const char* component = "kernels.rms_norm_input_gradient";
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  with_type(x.dtype, [&]<class T>(T) {
    with_lanes(rows, width, [&]<int Lanes>(std::integral_constant<int, Lanes>, unsigned blocks) {
      const T* added = addend == nullptr ? nullptr : addend->as<T>();
      const bool whole = width % kPack<T> == 0 && packs_aligned({dy.data, x.data, w.data, added, dx.data});
      launch(context, component, whole ? rms_gradient_rows<Lanes, true, T> : rms_gradient_rows<Lanes, false, T>, dim3(blocks),
             dim3(kThreads), 0,
             RmsGradient<T>{dy.as<T>(), x.as<T>(), w.as<float>(), r.as<float>(), added, dx.as<T>(), rows, width, options.offset});
    });
  });
}

void rms_norm_weight_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& r, const Tensor& dw) {
  constexpr const char* component = "kernels.rms_norm_weight_gradient";
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  with_type(x.dtype, [&]<class T>(T) {
    add_column_sums(context, component, rows, width, RmsTerms<T>{dy.as<T>(), x.as<T>(), r.as<float>(), width, {dw.as<float>()}});
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::rms_norm_forward, rms_norm_forward},
    {Backend::cuda, table::rms_norm_input_gradient, rms_norm_input_gradient},
    {Backend::cuda, table::rms_norm_weight_gradient, rms_norm_weight_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
