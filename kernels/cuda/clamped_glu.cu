#include "kernels/clamped_glu.hpp"

#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

__device__ __forceinline__ float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }
// Comparisons with a NaN are false, so that it is not replaced by a limit.
__device__ __forceinline__ float at_most(float x, float limit) { return x > limit ? limit : x; }
__device__ __forceinline__ float within(float x, float limit) { return x < -limit ? -limit : at_most(x, limit); }

struct Forward {
  ClampedGluOptions options;
  __device__ float operator()(float gate, float up) const {
    const float g = at_most(gate, options.limit), u = within(up, options.limit);
    return (u + options.offset) * (g * sigmoid(options.steepness * g));
  }
};

template <class T>
struct Gradient {
  static constexpr int pack = kPack<T>;
  ClampedGluOptions options;
  const T* dy;
  const T* gate;
  const T* up;
  T* d_gate;
  T* d_up;
  std::int64_t elements;
  bool aligned;
  template <bool Whole>
  __device__ void at(std::int64_t i) const {
    constexpr int n = pack;
    float gradient[n], first[n], second[n];
    load_pack<Whole, n>(dy + i, elements - i, gradient);
    load_pack<Whole, n>(gate + i, elements - i, first);
    load_pack<Whole, n>(up + i, elements - i, second);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const float g = at_most(first[k], options.limit), u = within(second[k], options.limit), s = sigmoid(options.steepness * g);
      const float d_first = gradient[k] * (u + options.offset) * (s * (1.0F + options.steepness * g * (1.0F - s)));
      first[k] = first[k] <= options.limit ? d_first : 0.0F;
      second[k] = fabsf(second[k]) <= options.limit ? gradient[k] * (g * s) : 0.0F;
    }
    store_pack<Whole, n>(d_gate + i, elements - i, first);
    store_pack<Whole, n>(d_up + i, elements - i, second);
  }
};

void clamped_glu_forward(const ExecutionContext& context, const Tensor& gate, const Tensor& up, ClampedGluOptions options,
                         const Tensor& y) {
  with_type(y.dtype, [&]<class T>(T) { map<T, T, T>(context, "kernels.clamped_glu_forward", gate, up, y, Forward{options}); });
}

void clamped_glu_input_gradient(const ExecutionContext& context, const Tensor& dy, const Tensor& gate, const Tensor& up,
                                ClampedGluOptions options, const Tensor& d_gate, const Tensor& d_up) {
  const bool aligned = packs_aligned({dy.data, gate.data, up.data, d_gate.data, d_up.data});
  with_type(dy.dtype, [&]<class T>(T) {
    for_packs(context, "kernels.clamped_glu_input_gradient",
              Gradient<T>{options, dy.as<T>(), gate.as<T>(), up.as<T>(), d_gate.as<T>(), d_up.as<T>(), dy.elements(), aligned});
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::clamped_glu_forward, clamped_glu_forward},
    {Backend::cuda, table::clamped_glu_input_gradient, clamped_glu_input_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
