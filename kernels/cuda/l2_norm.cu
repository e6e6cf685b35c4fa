#include "kernels/l2_norm.hpp"

#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

template <class T>
struct L2Forward {
  const T* x;
  T* y;
  float* r;
  std::int64_t rows, width;
  float epsilon;
};

template <int Lanes, bool Whole, class T>
__global__ void __launch_bounds__(kThreads) l2_forward_rows(L2Forward<T> at) {
  constexpr int n = kPack<T>;
  const std::int64_t row = row_of_lanes<Lanes>();
  if (row >= at.rows) return;  // either all lanes of a row exit or none
  const int lane = static_cast<int>(threadIdx.x) % Lanes;
  const T* x = at.x + row * at.width;
  float squares = 0;
  for (std::int64_t d = lane * n; d < at.width; d += Lanes * n) {
    float value[n];
    load_pack<Whole, n>(x + d, at.width - d, value);
#pragma unroll
    for (int k = 0; k < n; ++k) squares += value[k] * value[k];
  }
  const float inverse = 1.0F / sqrtf(row_sum<Lanes>(squares) + rounded<T>(at.epsilon));
  if (lane == 0) at.r[row] = inverse;
  for (std::int64_t d = lane * n; d < at.width; d += Lanes * n) {
    float value[n];
    load_pack<Whole, n>(x + d, at.width - d, value);
#pragma unroll
    for (int k = 0; k < n; ++k) value[k] *= inverse;
    store_pack<Whole, n>(at.y + row * at.width + d, at.width - d, value);
  }
}

template <class T>
struct L2Gradient {
  const T* dy;
  const T* x;
  const float* r;
  T* dx;
  std::int64_t rows, width;
};

template <int Lanes, bool Whole, class T>
__global__ void __launch_bounds__(kThreads) l2_gradient_rows(L2Gradient<T> at) {
  constexpr int n = kPack<T>;
  const std::int64_t row = row_of_lanes<Lanes>();
  if (row >= at.rows) return;
  const int lane = static_cast<int>(threadIdx.x) % Lanes;
  const T* dy = at.dy + row * at.width;
  const T* x = at.x + row * at.width;
  float products = 0;
  for (std::int64_t d = lane * n; d < at.width; d += Lanes * n) {
    float gradient[n], value[n];
    load_pack<Whole, n>(dy + d, at.width - d, gradient);
    load_pack<Whole, n>(x + d, at.width - d, value);
#pragma unroll
    for (int k = 0; k < n; ++k) products += gradient[k] * value[k];
  }
  const float inverse = at.r[row];
  const float along = row_sum<Lanes>(products) * inverse * inverse;
  for (std::int64_t d = lane * n; d < at.width; d += Lanes * n) {
    float gradient[n], value[n];
    load_pack<Whole, n>(dy + d, at.width - d, gradient);
    load_pack<Whole, n>(x + d, at.width - d, value);
#pragma unroll
    for (int k = 0; k < n; ++k) value[k] = inverse * (gradient[k] - value[k] * along);
    store_pack<Whole, n>(at.dx + row * at.width + d, at.width - d, value);
  }
}

void l2_norm_forward(const ExecutionContext& context, const Tensor& x, L2NormOptions options, const Tensor& y, const Tensor& r) {
  constexpr const char* component = "kernels.l2_norm_forward";
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  with_type(x.dtype, [&]<class T>(T) {
    with_lanes(rows, width, [&]<int Lanes>(std::integral_constant<int, Lanes>, unsigned blocks) {
      const bool whole = width % kPack<T> == 0 && packs_aligned({x.data, y.data});
      launch(context, component, whole ? l2_forward_rows<Lanes, true, T> : l2_forward_rows<Lanes, false, T>, dim3(blocks), dim3(kThreads),
             0, L2Forward<T>{x.as<T>(), y.as<T>(), r.as<float>(), rows, width, options.epsilon});
    });
  });
}

void l2_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& r, const Tensor& dx) {
  constexpr const char* component = "kernels.l2_norm_input_gradient";
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  with_type(x.dtype, [&]<class T>(T) {
    with_lanes(rows, width, [&]<int Lanes>(std::integral_constant<int, Lanes>, unsigned blocks) {
      const bool whole = width % kPack<T> == 0 && packs_aligned({dy.data, x.data, dx.data});
      launch(context, component, whole ? l2_gradient_rows<Lanes, true, T> : l2_gradient_rows<Lanes, false, T>, dim3(blocks), dim3(kThreads),
             0, L2Gradient<T>{dy.as<T>(), x.as<T>(), r.as<float>(), dx.as<T>(), rows, width});
    });
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::l2_norm_forward, l2_norm_forward},
    {Backend::cuda, table::l2_norm_input_gradient, l2_norm_input_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
