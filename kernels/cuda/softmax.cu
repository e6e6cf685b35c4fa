#include "kernels/softmax.hpp"

#include "kernels/cuda/router_losses.cuh"

namespace millrace::kernels::cuda {
namespace {

template <class T>
struct Softmax {
  const T* x;
  T* y;
  std::int64_t width;
  __device__ void operator()(std::int64_t t) const {
    const SoftmaxRow row = softmax_row(x + t * width, width);
    for (std::int64_t i = threadIdx.x % 32; i < width; i += 32)
      store(y + t * width + i, expf(load(x + t * width + i) - row.maximum) / row.sum);
  }
};

template <class T>
struct SoftmaxGradient {
  const T *dy, *y;
  T* dx;
  std::int64_t width;
  __device__ void operator()(std::int64_t t) const {
    const std::int64_t first = t * width;
    float mean = 0;
    for (std::int64_t i = threadIdx.x % 32; i < width; i += 32) mean += load(dy + first + i) * load(y + first + i);
    mean = warp_sum(mean);
    for (std::int64_t i = threadIdx.x % 32; i < width; i += 32) store(dx + first + i, load(y + first + i) * (load(dy + first + i) - mean));
  }
};

void softmax(const ExecutionContext& context, const Tensor& x, const Tensor& y) {
  with_type(x.dtype, [&]<class T>(T) {
    for_each_token(context, "kernels.softmax", x.shape[0], Softmax<T>{x.as<T>(), y.as<T>(), x.shape[1]});
  });
}

void softmax_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& y, const Tensor& dx) {
  with_type(y.dtype, [&]<class T>(T) {
    for_each_token(context, "kernels.softmax_input_gradient", y.shape[0],
                   SoftmaxGradient<T>{dy.as<T>(), y.as<T>(), dx.as<T>(), y.shape[1]});
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::softmax, softmax},
    {Backend::cuda, table::softmax_input_gradient, softmax_input_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
