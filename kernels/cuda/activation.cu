#include "kernels/activation.hpp"

#include <algorithm>

#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

struct ActivationPoint {
  float value, slope;
};

struct SiluCurve {
  static __device__ __forceinline__ ActivationPoint at(float x) {
    const float s = 1.0F / (1.0F + expf(-x));
    return {x * s, s * (1.0F + x * (1.0F - s))};
  }
};

// ½(1 + tanh u) is the logistic function of 2u, which stays precise near 0.
struct GeluCurve {
  static __device__ __forceinline__ ActivationPoint at(float x) {
    constexpr float steep = 2 * 0.797884560802865356F;  // 2·√(2/π)
    constexpr float cubic = 0.044715F;
    const float s = 1.0F / (1.0F + expf(-steep * (x + cubic * (x * x) * x)));
    return {x * s, s + x * s * (1.0F - s) * (steep * (1.0F + 3.0F * cubic * (x * x)))};
  }
};

struct ReluCurve {
  static __device__ __forceinline__ ActivationPoint at(float x) { return {x > 0.0F ? x : 0.0F, x > 0.0F ? 1.0F : 0.0F}; }
};

// Φ(x) = ½·(1 + erf(x/√2)), computed with the complementary function erfc, which is precise where Φ is near 0.
__device__ __forceinline__ float normal_share(float x) { return 0.5F * erfcf(-0.707106781186547524F * x); }

struct GeluErfCurve {
  static __device__ __forceinline__ ActivationPoint at(float x) {
    const float share = normal_share(x);
    return {x * share, share + x * (0.398942280401432678F * expf(-0.5F * (x * x)))};
  }
};

struct Gelu10Curve {
  static __device__ __forceinline__ ActivationPoint at(float x) {
    const ActivationPoint inner = GeluErfCurve::at(x);
    return inner.value > 10.0F ? ActivationPoint{10.0F, 0.0F} : inner;
  }
};

struct QuickGeluCurve {
  static __device__ __forceinline__ ActivationPoint at(float x) {
    const float s = 1.0F / (1.0F + expf(-1.702F * x));
    return {x * s, s * (1.0F + 1.702F * x * (1.0F - s))};
  }
};

struct Relu2Curve {
  static __device__ __forceinline__ ActivationPoint at(float x) { return {x > 0.0F ? x * x : 0.0F, x > 0.0F ? 2.0F * x : 0.0F}; }
};

struct Relu6Curve {
  static __device__ __forceinline__ ActivationPoint at(float x) { return x >= 6.0F ? ActivationPoint{6.0F, 0.0F} : ReluCurve::at(x); }
};

struct LeakyReluCurve {
  static __device__ __forceinline__ ActivationPoint at(float x) {
    return x > 0.0F ? ActivationPoint{x, 1.0F} : ActivationPoint{0.01F * x, 0.01F};
  }
};

struct SigmoidCurve {
  static __device__ __forceinline__ ActivationPoint at(float x) {
    const float s = 1.0F / (1.0F + expf(-x));
    return {s, s / (1.0F + expf(x))};
  }
};

struct TanhCurve {
  static __device__ __forceinline__ ActivationPoint at(float x) {
    const float t = tanhf(x);
    return {t, (1.0F - t) * (1.0F + t)};
  }
};

struct LinearCurve {
  static __device__ __forceinline__ ActivationPoint at(float x) { return {x, 1.0F}; }
};

struct HardSwishCurve {
  static __device__ __forceinline__ ActivationPoint at(float x) {
    if (x <= -3.0F) return {0.0F, 0.0F};
    return x < 3.0F ? ActivationPoint{x * (x + 3.0F) / 6.0F, x / 3.0F + 0.5F} : ActivationPoint{x, 1.0F};
  }
};

// mish: with e = eˣ and n = e·(e + 2), t = tanh(log(1 + eˣ)) = n / (n + 2), and the derivative of t with respect to log(1 + eˣ) is
// 4·(n + 1) / (n + 2)².
struct MishCurve {
  static __device__ __forceinline__ ActivationPoint at(float x) {
    const float e = expf(fminf(x, 20.0F)), n = e * (e + 2.0F), t = n / (n + 2.0F);
    return {x * t, t + x * (4.0F * ((n + 1.0F) / ((n + 2.0F) * (n + 2.0F)))) * (e / (1.0F + e))};
  }
};

struct LaplaceCurve {
  static __device__ __forceinline__ ActivationPoint at(float x) {
    const float z = (x - 0.707107F) / 0.282095F;
    return {normal_share(z), 0.398942280401432678F / 0.282095F * expf(-0.5F * (z * z))};
  }
};

struct SqrtSoftplusCurve {
  static __device__ __forceinline__ ActivationPoint at(float x) {
    if (x > 20.0F) return {sqrtf(x), 0.5F / sqrtf(x)};
    const float e = expf(x), root = sqrtf(log1pf(e));
    return {root, root > 0.0F ? e / (1.0F + e) / (2.0F * root) : 0.0F};  // where eˣ is 0, so is the slope
  }
};

// Learned numbers are in the device's memory, and each thread reads them: all read the same lines.
struct PreluCurve {
  const float* below;
  __device__ __forceinline__ ActivationPoint at(float x) const {
    const float slope = *below;
    return x > 0.0F ? ActivationPoint{x, 1.0F} : ActivationPoint{slope * x, slope};
  }
};

__device__ __forceinline__ float xielu_learned(const float* alpha) {
  return rounded<__nv_bfloat16>(log1pf(expf(rounded<__nv_bfloat16>(*alpha))));
}
// eˣ − 1, of x no nearer to 0 than ε.
__device__ __forceinline__ float xielu_tail(float x) { return expm1f(fminf(x, xielu_epsilon)); }

struct XieluCurve {
  const float *alpha_p, *alpha_n;
  __device__ __forceinline__ ActivationPoint at(float x) const {
    if (x > 0.0F) {
      const float above = xielu_learned(alpha_p);
      return {above * x * x + xielu_beta * x, 2.0F * above * x + xielu_beta};
    }
    const float below = rounded<__nv_bfloat16>(xielu_beta + xielu_learned(alpha_n)), tail = xielu_tail(x);
    return {(tail - x) * below + xielu_beta * x, (x < xielu_epsilon ? tail : -1.0F) * below + xielu_beta};
  }
};

template <class Curve>
struct Value {
  Curve curve;
  __device__ float operator()(float x) const { return curve.at(x).value; }
};
template <class Curve>
struct ValueTimes {
  Curve curve;
  __device__ float operator()(float x, float factor) const { return curve.at(x).value * factor; }
};
template <class Curve>
struct SlopeTimes {
  Curve curve;
  __device__ float operator()(float x, float factor) const { return factor * curve.at(x).slope; }
};

template <class Curve, class T>
struct GluGradient {
  static constexpr int pack = kPack<T>;
  Curve curve;
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
    float gradient[n], value[n], factor[n];
    load_pack<Whole, n>(dy + i, elements - i, gradient);
    load_pack<Whole, n>(gate + i, elements - i, value);
    load_pack<Whole, n>(up + i, elements - i, factor);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const ActivationPoint point = curve.at(value[k]);
      factor[k] = gradient[k] * factor[k] * point.slope;
      value[k] = gradient[k] * point.value;
    }
    store_pack<Whole, n>(d_gate + i, elements - i, factor);
    store_pack<Whole, n>(d_up + i, elements - i, value);
  }
};

// Calls body(curve, number) with the activation and the elements' type.
template <class Body>
void with_curve(Activation activation, ActivationParameters parameters, DType dtype, Body&& body) {
  with_type(dtype, [&]<class T>(T number) {
    switch (activation) {
      case Activation::silu:
        return body(SiluCurve{}, number);
      case Activation::gelu:
        return body(GeluCurve{}, number);
      case Activation::relu:
        return body(ReluCurve{}, number);
      case Activation::gelu_erf:
        return body(GeluErfCurve{}, number);
      case Activation::gelu_10:
        return body(Gelu10Curve{}, number);
      case Activation::quick_gelu:
        return body(QuickGeluCurve{}, number);
      case Activation::relu2:
        return body(Relu2Curve{}, number);
      case Activation::relu6:
        return body(Relu6Curve{}, number);
      case Activation::leaky_relu:
        return body(LeakyReluCurve{}, number);
      case Activation::sigmoid:
        return body(SigmoidCurve{}, number);
      case Activation::tanh:
        return body(TanhCurve{}, number);
      case Activation::linear:
        return body(LinearCurve{}, number);
      case Activation::hardswish:
        return body(HardSwishCurve{}, number);
      case Activation::mish:
        return body(MishCurve{}, number);
      case Activation::laplace:
        return body(LaplaceCurve{}, number);
      case Activation::sqrtsoftplus:
        return body(SqrtSoftplusCurve{}, number);
      case Activation::prelu:
        return body(PreluCurve{parameters[0].as<float>()}, number);
      case Activation::xielu:
        return body(XieluCurve{parameters[0].as<float>(), parameters[1].as<float>()}, number);
    }
  });
}

void activation_forward(const ExecutionContext& context, Activation activation, const Tensor& x, const Tensor& y,
                        ActivationParameters parameters) {
  with_curve(activation, parameters, x.dtype,
             [&]<class Curve, class T>(Curve curve, T) { map<T, T>(context, "kernels.activation_forward", x, y, Value<Curve>{curve}); });
}

void activation_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& x, const Tensor& dx,
                               ActivationParameters parameters) {
  with_curve(activation, parameters, x.dtype, [&]<class Curve, class T>(Curve curve, T) {
    map<T, T, T>(context, "kernels.activation_input_gradient", x, dy, dx, SlopeTimes<Curve>{curve});
  });
}

void glu_forward(const ExecutionContext& context, Activation activation, const Tensor& gate, const Tensor& up, const Tensor& y,
                 ActivationParameters parameters) {
  with_curve(activation, parameters, gate.dtype, [&]<class Curve, class T>(Curve curve, T) {
    map<T, T, T>(context, "kernels.glu_forward", gate, up, y, ValueTimes<Curve>{curve});
  });
}

void glu_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& gate, const Tensor& up,
                        const Tensor& d_gate, const Tensor& d_up, ActivationParameters parameters) {
  constexpr const char* component = "kernels.glu_input_gradient";
  const bool aligned = packs_aligned({dy.data, gate.data, up.data, d_gate.data, d_up.data});
  with_curve(activation, parameters, gate.dtype, [&]<class Curve, class T>(Curve curve, T) {
    for_packs(context, component,
              GluGradient<Curve, T>{curve, dy.as<T>(), gate.as<T>(), up.as<T>(), d_gate.as<T>(), d_up.as<T>(), gate.elements(), aligned});
  });
}

// -- learned numbers ------------------------------------------------------------------------------------------------------------------

constexpr std::int64_t kTermParts = 256;  // maximum; each is a block
constexpr std::int64_t kLeastTerms = 8 * kThreads;
static_assert(kTermParts == kThreads, "a thread for each part's sum");
static_assert(kTermParts * static_cast<std::int64_t>(max_activation_parameters) <= kSumParts);

struct LearnedNumbers {
  const float* values[max_activation_parameters];
  float* sums[max_activation_parameters];
};

// The terms of the learned numbers over the part of a block, less the derivative of their coefficients.
template <class T>
__global__ void __launch_bounds__(kThreads)
    term_parts(Activation activation, const T* dy, const T* x, const T* up, std::int64_t elements, std::int64_t part, double* parts) {
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * part, limit = begin + part, end = limit < elements ? limit : elements;
  double first = 0, second = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const float value = load(x + i), gradient = load(dy + i) * (up == nullptr ? 1.0F : load(up + i));
    if (activation == Activation::prelu)
      first += value > 0.0F ? 0.0 : static_cast<double>(gradient * value);
    else if (value > 0.0F)
      first += static_cast<double>(gradient * (value * value));
    else
      second += static_cast<double>(gradient * (xielu_tail(value) - value));
  }
  first = block_sum<kThreads>(first);
  second = block_sum<kThreads>(second);
  if (threadIdx.x == 0) parts[blockIdx.x] = first;
  if (threadIdx.x == 0) parts[kTermParts + blockIdx.x] = second;
}

// One block for each learned number.
__global__ void __launch_bounds__(kThreads)
    term_totals(Activation activation, LearnedNumbers numbers, std::int64_t count, const double* parts) {
  const double sum = block_sum<kThreads>(threadIdx.x < count ? parts[blockIdx.x * kTermParts + threadIdx.x] : 0.0);
  if (threadIdx.x != 0) return;
  const double learned = rounded<__nv_bfloat16>(*numbers.values[blockIdx.x]);
  const double slope = activation == Activation::prelu ? 1.0 : 1.0 / (1.0 + exp(-learned));
  *numbers.sums[blockIdx.x] += static_cast<float>(sum * slope);
}

void activation_parameter_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& x,
                                   const Tensor* up, ActivationParameters parameters, std::span<const Tensor> d_parameters) {
  constexpr const char* component = "kernels.activation_parameter_gradient";
  if (parameters.empty()) return;
  double* parts = state_of(context).parts;
  LearnedNumbers numbers{};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    numbers.values[i] = parameters[i].as<float>();
    numbers.sums[i] = d_parameters[i].as<float>();
  }
  // Parts depend only on the size, so bits repeat.
  const std::int64_t elements = x.elements();
  const std::int64_t part = std::max((elements + kTermParts - 1) / kTermParts, kLeastTerms);
  const std::int64_t count = (elements + part - 1) / part;
  with_type(x.dtype, [&]<class T>(T) {
    if (count > 0)
      launch(context, component, term_parts<T>, dim3(static_cast<unsigned>(count)), dim3(kThreads), 0, activation, dy.as<T>(), x.as<T>(),
             up == nullptr ? nullptr : up->as<T>(), elements, part, parts);
  });
  launch(context, component, term_totals, dim3(static_cast<unsigned>(parameters.size())), dim3(kThreads), 0, activation, numbers, count,
         static_cast<const double*>(parts));
}

const InTable in_table[] = {
    {Backend::cuda, table::activation_forward, activation_forward},
    {Backend::cuda, table::activation_input_gradient, activation_input_gradient},
    {Backend::cuda, table::glu_forward, glu_forward},
    {Backend::cuda, table::glu_input_gradient, glu_input_gradient},
    {Backend::cuda, table::activation_parameter_gradient, activation_parameter_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
