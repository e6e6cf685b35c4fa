#include "kernels/context_gate.hpp"

#include "kernels/cuda/rows.cuh"

namespace millrace::kernels::cuda {
namespace {

__device__ __forceinline__ float gate_of(float z) {
  const float root = sqrtf(fmaxf(fabsf(z), context_gate_floor));
  return 1.0F / (1.0F + expf(z > 0 ? -root : z < 0 ? root : 0.0F));
}

/// A row is one stream of one token.
template <class T>
struct GateForward {
  const T* q;
  const T* keys;
  const T* v;
  float* z;
  T* y;
  std::int64_t rows, width, k;

  template <int Lanes, bool Whole>
  __device__ __forceinline__ void at(std::int64_t row) const {
    const float score = row_product<Lanes, Whole>(q + row * width, keys + row * width, width) / sqrtf(static_cast<float>(width));
    if (lane_of_row<Lanes>() == 0) z[row] = score;
    scale_row<Lanes, Whole>(v + row / k * width, gate_of(score), width, y + row * width);
  }
};

template <class T>
struct GateGradient {
  const T* dy;
  const T* q;
  const T* keys;
  const T* v;
  const float* z;
  T* dq;
  T* d_keys;
  std::int64_t rows, width, k;

  template <int Lanes, bool Whole>
  __device__ __forceinline__ void at(std::int64_t row) const {
    const float product = row_product<Lanes, Whole>(dy + row * width, v + row / k * width, width);
    const float size = fabsf(z[row]), gate = gate_of(z[row]);
    float slope = 0;
    if (size > context_gate_floor) slope = product * gate * (1.0F - gate) / (2.0F * sqrtf(size)) / sqrtf(static_cast<float>(width));
    scale_row<Lanes, Whole>(keys + row * width, slope, width, dq + row * width);
    scale_row<Lanes, Whole>(q + row * width, slope, width, d_keys + row * width);
  }
};

template <class T>
struct GatedValueGradient {
  const T* dy;
  const float* z;
  T* dv;
  std::int64_t width, k;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t first = i / width * k;
    float sum = 0;
    for (std::int64_t stream = 0; stream < k; ++stream) sum += gate_of(z[first + stream]) * load(dy + (first + stream) * width + i % width);
    store(dv + i, sum);
  }
};

void context_gate_forward(const ExecutionContext& context, const Tensor& q, const Tensor& keys, const Tensor& v, const Tensor& z,
                          const Tensor& y) {
  const std::int64_t width = v.shape[1];
  with_type(q.dtype, [&]<class T>(T) {
    for_rows<T>(context, "kernels.context_gate_forward", {q.data, keys.data, v.data, y.data},
                GateForward<T>{q.as<T>(), keys.as<T>(), v.as<T>(), z.as<float>(), y.as<T>(), z.elements(), width, q.shape[1] / width});
  });
}

void context_gate_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& q, const Tensor& keys, const Tensor& v,
                           const Tensor& z, const Tensor& dq, const Tensor& d_keys, const Tensor& dv) {
  constexpr const char* component = "kernels.context_gate_gradient";
  const std::int64_t width = v.shape[1], k = q.shape[1] / width;
  with_type(q.dtype, [&]<class T>(T) {
    for_rows<T>(
        context, component, {dy.data, q.data, keys.data, v.data, dq.data, d_keys.data},
        GateGradient<T>{dy.as<T>(), q.as<T>(), keys.as<T>(), v.as<T>(), z.as<float>(), dq.as<T>(), d_keys.as<T>(), z.elements(), width, k});
    for_each(context, component, v.elements(), GatedValueGradient<T>{dy.as<T>(), z.as<float>(), dv.as<T>(), width, k});
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::context_gate_forward, context_gate_forward},
    {Backend::cuda, table::context_gate_gradient, context_gate_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
