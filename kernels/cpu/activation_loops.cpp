#include "kernels/cpu/activation_loops.hpp"

#include <type_traits>

#include "kernels/cpu/error_function.hpp"
#include "kernels/cpu/logarithm.hpp"
#include "kernels/cpu/simd/lanes.hpp"

namespace millrace::kernels::cpu {
namespace {

struct Point {
  f32x16 value, slope;
};

struct Silu {
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return x * sigmoid(x); }
  [[gnu::always_inline]] static Point point(f32x16 x) {
    const f32x16 s = sigmoid(x);
    return {x * s, s * (1.0F + x * (1.0F - s))};
  }
};

struct Gelu {
  static constexpr float kSteep = 0.797884560802865356F;  // √(2/π)
  static constexpr float kCubic = 0.044715F;
  [[gnu::always_inline]] static f32x16 tangent(f32x16 x) { return hyperbolic_tangent(kSteep * (x + kCubic * (x * x) * x)); }
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return 0.5F * x * (1.0F + tangent(x)); }
  [[gnu::always_inline]] static Point point(f32x16 x) {
    const f32x16 t = tangent(x);
    const f32x16 half = 0.5F * (1.0F + t);
    return {x * half, half + 0.5F * x * (1.0F - t * t) * (kSteep * (1.0F + 3.0F * kCubic * (x * x)))};
  }
};

struct Relu {
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return x > 0.0F ? x : f32x16{}; }
  [[gnu::always_inline]] static Point point(f32x16 x) { return {value(x), x > 0.0F ? f32x16{} + 1.0F : f32x16{}}; }
};

struct GeluErf {
  static constexpr float kDensity = 0.398942280401432678F;  // 1/√(2π)
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return x * normal_share(x); }
  [[gnu::always_inline]] static Point point(f32x16 x) {
    const f32x16 share = normal_share(x);
    return {x * share, share + x * (kDensity * exponential(-0.5F * (x * x)))};
  }
};

struct Gelu10 {
  [[gnu::always_inline]] static f32x16 value(f32x16 x) {
    const f32x16 y = GeluErf::value(x);
    return y > 10.0F ? f32x16{} + 10.0F : y;  // it is never below −0.17
  }
  [[gnu::always_inline]] static Point point(f32x16 x) {
    const Point inner = GeluErf::point(x);
    return {value(x), inner.value > 10.0F ? f32x16{} : inner.slope};
  }
};

struct QuickGelu {
  static constexpr float kSteep = 1.702F;
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return x * sigmoid(kSteep * x); }
  [[gnu::always_inline]] static Point point(f32x16 x) {
    const f32x16 s = sigmoid(kSteep * x);
    return {x * s, s * (1.0F + kSteep * x * (1.0F - s))};
  }
};

struct Relu2 {
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return Relu::value(x) * Relu::value(x); }
  [[gnu::always_inline]] static Point point(f32x16 x) { return {value(x), 2.0F * Relu::value(x)}; }
};

struct Relu6 {
  [[gnu::always_inline]] static f32x16 value(f32x16 x) {
    const f32x16 y = Relu::value(x);
    return y > 6.0F ? f32x16{} + 6.0F : y;
  }
  [[gnu::always_inline]] static Point point(f32x16 x) {
    const f32x16 below = x < 6.0F ? f32x16{} + 1.0F : f32x16{};
    return {value(x), x > 0.0F ? below : f32x16{}};
  }
};

struct LeakyRelu {
  static constexpr float kBelow = 0.01F;
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return x > 0.0F ? x : kBelow * x; }
  [[gnu::always_inline]] static Point point(f32x16 x) { return {value(x), x > 0.0F ? f32x16{} + 1.0F : f32x16{} + kBelow}; }
};

struct Sigmoid {
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return sigmoid(x); }
  [[gnu::always_inline]] static Point point(f32x16 x) { return {sigmoid(x), sigmoid(x) * sigmoid(-x)}; }
};

struct Tanh {
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return hyperbolic_tangent(x); }
  [[gnu::always_inline]] static Point point(f32x16 x) {
    const f32x16 t = hyperbolic_tangent(x);
    return {t, (1.0F - t) * (1.0F + t)};
  }
};

struct Linear {
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return x; }
  [[gnu::always_inline]] static Point point(f32x16 x) { return {x, f32x16{} + 1.0F}; }
};

struct HardSwish {
  // Below −3 the other factor is 0; x stops there, as −∞ times 0 would be NaN.
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return (x < -3.0F ? f32x16{} - 3.0F : x) * Relu6::value(x + 3.0F) / 6.0F; }
  [[gnu::always_inline]] static Point point(f32x16 x) {
    const f32x16 below = x < 3.0F ? x / 3.0F + 0.5F : f32x16{} + 1.0F;
    return {value(x), x > -3.0F ? below : f32x16{}};
  }
};

/// mish: with e = eˣ, tanh(log(1 + eˣ)) = e·(e + 2) / (e·(e + 2) + 2). x is limited to 20, beyond which the value is 1.
struct Mish {
  [[gnu::always_inline]] static f32x16 power(f32x16 x) { return exponential(x > 20.0F ? f32x16{} + 20.0F : x); }
  [[gnu::always_inline]] static f32x16 value(f32x16 x) {
    const f32x16 e = power(x), n = e * (e + 2.0F);
    return x * (n / (n + 2.0F));
  }
  [[gnu::always_inline]] static Point point(f32x16 x) {
    const f32x16 e = power(x), n = e * (e + 2.0F), t = n / (n + 2.0F);
    // 1 − t² = 4·(n + 1) / (n + 2)², and log(1 + eˣ) has the slope e / (1 + e).
    return {x * t, t + x * (4.0F * ((n + 1.0F) / ((n + 2.0F) * (n + 2.0F)))) * (e / (1.0F + e))};
  }
};

struct Laplace {
  static constexpr float kMean = 0.707107F, kDeviation = 0.282095F;  // rounded to six digits, as in torch
  static constexpr float kDensity = GeluErf::kDensity / kDeviation;
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return normal_share((x - kMean) / kDeviation); }
  [[gnu::always_inline]] static Point point(f32x16 x) {
    const f32x16 z = (x - kMean) / kDeviation;
    return {normal_share(z), kDensity * exponential(-0.5F * (z * z))};
  }
};

struct SqrtSoftplus {
  [[gnu::always_inline]] static f32x16 value(f32x16 x) { return point(x).value; }
  [[gnu::always_inline]] static Point point(f32x16 x) {
    const f32x16 e = exponential(x > 20.0F ? f32x16{} + 20.0F : x);
    const f32x16 near = by_registers(
        e, [](Register v) __attribute__((always_inline)) { return logarithm_of_one_plus(v); });
    f32x16 root = x > 20.0F ? x : near;
    for (int lane = 0; lane < 16; ++lane) root[lane] = __builtin_sqrtf(root[lane]);
    const f32x16 slope = (x > 20.0F ? f32x16{} + 1.0F : e / (1.0F + e)) / (2.0F * root);
    return {root, root > 0.0F ? slope : f32x16{}};  // where eˣ is 0, so is the slope
  }
};

struct Prelu {
  float below;
  [[gnu::always_inline]] f32x16 value(f32x16 x) const { return x > 0.0F ? x : below * x; }
  [[gnu::always_inline]] Point point(f32x16 x) const { return {value(x), x > 0.0F ? f32x16{} + 1.0F : f32x16{} + below}; }
};

/// eˣ − 1, of x no nearer to 0 than ε.
MILLRACE_INLINE f32x16 xielu_tail(f32x16 x) {
  return by_registers(
      x < xielu_epsilon ? x : f32x16{} + xielu_epsilon, [](Register v) __attribute__((always_inline)) { return exponential_minus_one(v); });
}

struct Xielu {
  float above, below;
  [[gnu::always_inline]] explicit Xielu(const Curve& curve) : above(curve.coefficients[0]), below(curve.coefficients[1]) {}
  [[gnu::always_inline]] f32x16 value(f32x16 x) const { return point(x).value; }
  [[gnu::always_inline]] Point point(f32x16 x) const {
    const f32x16 tail = xielu_tail(x), half = xielu_beta * x;
    const f32x16 tail_slope = x < xielu_epsilon ? tail : f32x16{} - 1.0F;
    return {(x > 0.0F ? above * x * x : (tail - x) * below) + half, (x > 0.0F ? 2.0F * above * x : tail_slope * below) + xielu_beta};
  }
};

/// body(curve) of the activation.
template <class Body>
MILLRACE_INLINE void with_curve(const Curve& curve, Body&& body) {
  switch (curve.activation) {
    case Activation::silu:
      return body(Silu{});
    case Activation::gelu:
      return body(Gelu{});
    case Activation::relu:
      return body(Relu{});
    case Activation::gelu_erf:
      return body(GeluErf{});
    case Activation::gelu_10:
      return body(Gelu10{});
    case Activation::quick_gelu:
      return body(QuickGelu{});
    case Activation::relu2:
      return body(Relu2{});
    case Activation::relu6:
      return body(Relu6{});
    case Activation::leaky_relu:
      return body(LeakyRelu{});
    case Activation::sigmoid:
      return body(Sigmoid{});
    case Activation::tanh:
      return body(Tanh{});
    case Activation::linear:
      return body(Linear{});
    case Activation::hardswish:
      return body(HardSwish{});
    case Activation::mish:
      return body(Mish{});
    case Activation::laplace:
      return body(Laplace{});
    case Activation::sqrtsoftplus:
      return body(SqrtSoftplus{});
    case Activation::prelu:
      return body(Prelu{curve.coefficients[0]});
    case Activation::xielu:
      return body(Xielu(curve));
  }
  __builtin_unreachable();
}

/// The elements that a loop takes at a time.
using Block = f32x16[kTogether];
constexpr std::int64_t kStride = 16 * kTogether;

/// The activation that most models have, operation by operation.
MILLRACE_INLINE void to_silu_values(Block& x) {
  Block s;
  unrolled<kTogether>([&](int i) __attribute__((always_inline)) { s[i] = x[i]; });
  sigmoids(s);
  unrolled<kTogether>([&](int i) __attribute__((always_inline)) { x[i] *= s[i]; });
}
MILLRACE_INLINE void to_silu_points(Block& x, Block& slopes) {
  Block s;
  unrolled<kTogether>([&](int i) __attribute__((always_inline)) { s[i] = x[i]; });
  sigmoids(s);
  unrolled<kTogether>([&](int i) __attribute__((always_inline)) {
    slopes[i] = s[i] * (1.0F + x[i] * (1.0F - s[i]));
    x[i] *= s[i];
  });
}

// The curves are computed in functions that all loops call with a block: a copy in each loop would take most of the compile time.

/// Replaces every x by the curve's value.
[[gnu::noinline]] void to_values(const Curve& curve, Block& x) {
  with_curve(
      curve, [&]<class Function>(const Function& function) __attribute__((always_inline)) {
        if constexpr (std::is_same_v<Function, Silu>)
          to_silu_values(x);
        else
#pragma GCC unroll 1
          for (f32x16& each : x) each = function.value(each);
      });
}

/// Replaces every x by the curve's value, and sets the slopes.
[[gnu::noinline]] void to_points(const Curve& curve, Block& x, Block& slopes) {
  with_curve(
      curve, [&]<class Function>(const Function& function) __attribute__((always_inline)) {
        if constexpr (std::is_same_v<Function, Silu>) return to_silu_points(x, slopes);
#pragma GCC unroll 1
        for (int i = 0; i < kTogether; ++i) {
          const Point point = function.point(x[i]);
          x[i] = point.value;
          slopes[i] = point.slope;
        }
      });
}

// The operands are copied, since the compiler would otherwise read their pointers again after every store.
template <class T>
MILLRACE_INLINE void forward(ActivationForward<T> at, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; i += kStride) {
    Block x;
    load_lanes(at.x + i, x, end - i);
    to_values(at.curve, x);
    store_lanes(at.y + i, x, end - i);
  }
}

template <class T>
MILLRACE_INLINE void gradient(ActivationGradient<T> at, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; i += kStride) {
    Block x, slopes, dx;
    load_lanes(at.x + i, x, end - i);
    to_points(at.curve, x, slopes);
    load_lanes(at.dy + i, dx, end - i);
    unrolled<kTogether>([&](int k) __attribute__((always_inline)) { dx[k] *= slopes[k]; });
    store_lanes(at.dx + i, dx, end - i);
  }
}

template <class T>
MILLRACE_INLINE void forward(GluForward<T> at, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; i += kStride) {
    Block y, up;
    load_lanes(at.gate + i, y, end - i);
    to_values(at.curve, y);
    load_lanes(at.up + i, up, end - i);
    unrolled<kTogether>([&](int k) __attribute__((always_inline)) { y[k] *= up[k]; });
    store_lanes(at.y + i, y, end - i);
  }
}

template <class T>
MILLRACE_INLINE void gradient(GluGradient<T> at, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; i += kStride) {
    Block values, slopes, dy, up;
    load_lanes(at.gate + i, values, end - i);
    to_points(at.curve, values, slopes);
    load_lanes(at.dy + i, dy, end - i);
    load_lanes(at.up + i, up, end - i);
    unrolled<kTogether>([&](int k) __attribute__((always_inline)) {
      slopes[k] = dy[k] * up[k] * slopes[k];
      values[k] = dy[k] * values[k];
    });
    store_lanes(at.d_gate + i, slopes, end - i);
    store_lanes(at.d_up + i, values, end - i);
  }
}

/// A sum in double of fp32 lanes.
struct LaneSum {
  f64x8 low{}, high{};
  [[gnu::always_inline]] void add(f32x16 v) {
    low += __builtin_convertvector(lower_half(v), f64x8);
    high += __builtin_convertvector(upper_half(v), f64x8);
  }
  [[nodiscard, gnu::always_inline]] double total() const { return sum_lanes(low + high); }
};

template <class T>
MILLRACE_INLINE void terms(const ParameterTerms<T>& at, std::int64_t begin, std::int64_t end, double* sums) {
  LaneSum first, second;
  for (std::int64_t i = begin; i < end; i += 16) {
    const f32x16 x = load_lanes(at.x + i, end - i);
    f32x16 dy = load_lanes(at.dy + i, end - i);
    if (at.up != nullptr) dy *= load_lanes(at.up + i, end - i);
    if (at.activation == Activation::prelu) {
      first.add(x > 0.0F ? f32x16{} : dy * x);
    } else {
      first.add(x > 0.0F ? dy * (x * x) : f32x16{});
      second.add(x > 0.0F ? f32x16{} : dy * (xielu_tail(x) - x));
    }
  }
  sums[0] = first.total();
  sums[1] = second.total();
}

}  // namespace

namespace MILLRACE_ISA {

void activation_forward_f32(const ActivationForward<float>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void activation_forward_bf16(const ActivationForward<BFloat16>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void activation_gradient_f32(const ActivationGradient<float>& at, std::int64_t begin, std::int64_t end) { gradient(at, begin, end); }
void activation_gradient_bf16(const ActivationGradient<BFloat16>& at, std::int64_t begin, std::int64_t end) { gradient(at, begin, end); }
void glu_forward_f32(const GluForward<float>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void glu_forward_bf16(const GluForward<BFloat16>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void glu_gradient_f32(const GluGradient<float>& at, std::int64_t begin, std::int64_t end) { gradient(at, begin, end); }
void glu_gradient_bf16(const GluGradient<BFloat16>& at, std::int64_t begin, std::int64_t end) { gradient(at, begin, end); }
void activation_terms_f32(const ParameterTerms<float>& at, std::int64_t begin, std::int64_t end, double* sums) {
  terms(at, begin, end, sums);
}
void activation_terms_bf16(const ParameterTerms<BFloat16>& at, std::int64_t begin, std::int64_t end, double* sums) {
  terms(at, begin, end, sums);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
