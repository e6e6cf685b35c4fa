#include "kernels/base/activation.hpp"

#include "kernels/activation.hpp"
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

// Φ(x) = ½·(1 + erf(x/√2)), by the complement, which keeps its digits where it is near 0.
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

// With e = eˣ the tangent is n / (n + 2), n = e·(e + 2), and its slope by log(1 + eˣ) 4·(n + 1) / (n + 2)².
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

template <class Curve>
struct Value {
  __device__ float operator()(float x) const { return Curve::at(x).value; }
};
template <class Curve>
struct ValueTimes {
  __device__ float operator()(float x, float factor) const { return Curve::at(x).value * factor; }
};
template <class Curve>
struct SlopeTimes {
  __device__ float operator()(float x, float factor) const { return factor * Curve::at(x).slope; }
};

template <class Curve, class T>
struct GluGradient {
  static constexpr int pack = kPack<T>;
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
      const ActivationPoint point = Curve::at(value[k]);
      factor[k] = gradient[k] * factor[k] * point.slope;
      value[k] = gradient[k] * point.value;
    }
    store_pack<Whole, n>(d_gate + i, elements - i, factor);
    store_pack<Whole, n>(d_up + i, elements - i, value);
  }
};

// Calls body(curve, number) with the activation and the elements' type.
template <class Body>
void with_curve(Activation activation, DType dtype, Body&& body) {
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
    }
  });
}

void activation_forward(const ExecutionContext& context, Activation activation, const Tensor& x, const Tensor& y) {
  with_curve(activation, x.dtype,
             [&]<class Curve, class T>(Curve, T) { map<T, T>(context, "kernels.activation_forward", x, y, Value<Curve>{}); });
}

void activation_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& x,
                               const Tensor& dx) {
  with_curve(activation, x.dtype, [&]<class Curve, class T>(Curve, T) {
    map<T, T, T>(context, "kernels.activation_input_gradient", x, dy, dx, SlopeTimes<Curve>{});
  });
}

void glu_forward(const ExecutionContext& context, Activation activation, const Tensor& gate, const Tensor& up, const Tensor& y) {
  with_curve(activation, gate.dtype,
             [&]<class Curve, class T>(Curve, T) { map<T, T, T>(context, "kernels.glu_forward", gate, up, y, ValueTimes<Curve>{}); });
}

void glu_input_gradient(const ExecutionContext& context, Activation activation, const Tensor& dy, const Tensor& gate, const Tensor& up,
                        const Tensor& d_gate, const Tensor& d_up) {
  constexpr const char* who = "kernels.glu_input_gradient";
  const bool aligned = packs_aligned({dy.data, gate.data, up.data, d_gate.data, d_up.data});
  with_curve(activation, gate.dtype, [&]<class Curve, class T>(Curve, T) {
    for_packs(context, who,
              GluGradient<Curve, T>{dy.as<T>(), gate.as<T>(), up.as<T>(), d_gate.as<T>(), d_up.as<T>(), gate.elements(), aligned});
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::activation_forward, activation_forward},
    {Backend::cuda, table::activation_input_gradient, activation_input_gradient},
    {Backend::cuda, table::glu_forward, glu_forward},
    {Backend::cuda, table::glu_input_gradient, glu_input_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
