#include "kernels/l2_norm.hpp"

#include "kernels/cuda/rows.cuh"

namespace millrace::kernels::cuda {
namespace {

template <class T>
struct L2Forward {
  const T* x;
  T* y;
  float* r;
  std::int64_t rows, width;
  float epsilon;

  template <int Lanes, bool Whole>
  __device__ __forceinline__ void at(std::int64_t row) const {
    const T* row_x = x + row * width;
    const float inverse = 1.0F / sqrtf(row_squares<Lanes, Whole>(row_x, width) + rounded<T>(epsilon));
    if (lane_of_row<Lanes>() == 0) r[row] = inverse;
    scale_row<Lanes, Whole>(row_x, inverse, width, y + row * width);
  }
};

template <class T>
struct L2Gradient {
  const T* dy;
  const T* x;
  const float* r;
  T* dx;
  std::int64_t rows, width;

  template <int Lanes, bool Whole>
  __device__ __forceinline__ void at(std::int64_t row) const {
    constexpr int n = kPack<T>;
    const T* row_dy = dy + row * width;
    const T* row_x = x + row * width;
    const float inverse = r[row];
    const float along = row_product<Lanes, Whole>(row_dy, row_x, width) * inverse * inverse;
    for_row_packs<Lanes, T>(width, [&](std::int64_t d) {
      float gradient[n], value[n];
      load_pack<Whole, n>(row_dy + d, width - d, gradient);
      load_pack<Whole, n>(row_x + d, width - d, value);
#pragma unroll
      for (int k = 0; k < n; ++k) value[k] = inverse * (gradient[k] - value[k] * along);
      store_pack<Whole, n>(dx + row * width + d, width - d, value);
    });
  }
};

void l2_norm_forward(const ExecutionContext& context, const Tensor& x, L2NormOptions options, const Tensor& y, const Tensor& r) {
  constexpr const char* component = "kernels.l2_norm_forward";
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  with_type(x.dtype, [&]<class T>(T) {
    for_rows<T>(context, component, {x.data, y.data}, L2Forward<T>{x.as<T>(), y.as<T>(), r.as<float>(), rows, width, options.epsilon});
  });
}

void l2_norm_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& x, const Tensor& r, const Tensor& dx) {
  constexpr const char* component = "kernels.l2_norm_input_gradient";
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  with_type(x.dtype, [&]<class T>(T) {
    for_rows<T>(context, component, {dy.data, x.data, dx.data},
                L2Gradient<T>{dy.as<T>(), x.as<T>(), r.as<float>(), dx.as<T>(), rows, width});
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::l2_norm_forward, l2_norm_forward},
    {Backend::cuda, table::l2_norm_input_gradient, l2_norm_input_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
