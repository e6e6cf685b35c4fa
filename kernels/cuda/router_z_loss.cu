#include "kernels/router_z_loss.hpp"

#include "kernels/cuda/router_losses.cuh"

namespace millrace::kernels::cuda {
namespace {

__device__ __forceinline__ double log_sum_exp(SoftmaxRow row) {
  return static_cast<double>(row.maximum) + log(static_cast<double>(row.sum));
}

template <class T>
struct ZTerm {
  const T* logits;
  std::int64_t experts;
  __device__ double operator()(std::int64_t t) const {
    const double z = log_sum_exp(softmax_row(logits + t * experts, experts));
    return z * z;
  }
};

template <class T>
struct ZGradient {
  const T* logits;
  const float* scale;
  T* d_logits;
  std::int64_t experts;
  __device__ void operator()(std::int64_t t) const {
    const SoftmaxRow row = softmax_row(logits + t * experts, experts);
    const auto by = static_cast<float>(2 * static_cast<double>(scale[0]) * log_sum_exp(row) / static_cast<double>(row.sum));
    for (std::int64_t i = t * experts + threadIdx.x % 32; i < (t + 1) * experts; i += 32)
      store(d_logits + i, expf(load(logits + i) - row.maximum) * by);
  }
};

void router_z_loss(const ExecutionContext& context, const Tensor& logits, const Tensor& loss) {
  with_type(logits.dtype, [&]<class T>(T) {
    sum_tokens(context, "kernels.router_z_loss", logits.shape[0], ZTerm<T>{logits.as<T>(), logits.shape[1]}, 1.0, loss.as<double>());
  });
}

void router_z_loss_input_gradient(const ExecutionContext& context, const Tensor& logits, const Tensor& scale, const Tensor& d_logits) {
  with_type(logits.dtype, [&]<class T>(T) {
    for_each_token(context, "kernels.router_z_loss_input_gradient", logits.shape[0],
                   ZGradient<T>{logits.as<T>(), scale.as<float>(), d_logits.as<T>(), logits.shape[1]});
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::router_z_loss, router_z_loss},
    {Backend::cuda, table::router_z_loss_input_gradient, router_z_loss_input_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
