#include "kernels/cpu/activation_loops.hpp"

#include "kernels/cpu/lanes.hpp"

namespace millrace::kernels::cpu {
namespace {

struct Point {
  f32x16 value, slope;
};

MILLRACE_INLINE f32x16 sigmoid(f32x16 x) { return 1.0F / (1.0F + exponential(-x)); }

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

template <class Function, class T>
MILLRACE_INLINE void forward(const ActivationForward<T>& at, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; i += 16) store_lanes(at.y + i, Function::value(load_lanes(at.x + i, end - i)), end - i);
}

template <class Function, class T>
MILLRACE_INLINE void gradient(const ActivationGradient<T>& at, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; i += 16)
    store_lanes(at.dx + i, load_lanes(at.dy + i, end - i) * Function::point(load_lanes(at.x + i, end - i)).slope, end - i);
}

template <class Function, class T>
MILLRACE_INLINE void forward(const GluForward<T>& at, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; i += 16)
    store_lanes(at.y + i, Function::value(load_lanes(at.gate + i, end - i)) * load_lanes(at.up + i, end - i), end - i);
}

template <class Function, class T>
MILLRACE_INLINE void gradient(const GluGradient<T>& at, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; i += 16) {
    const f32x16 dy = load_lanes(at.dy + i, end - i);
    const Point point = Function::point(load_lanes(at.gate + i, end - i));
    store_lanes(at.d_gate + i, dy * load_lanes(at.up + i, end - i) * point.slope, end - i);
    store_lanes(at.d_up + i, dy * point.value, end - i);
  }
}

template <class Loops>
MILLRACE_INLINE void run_forward(const Loops& at, std::int64_t begin, std::int64_t end) {
  if (at.activation == Activation::silu)
    forward<Silu>(at, begin, end);
  else if (at.activation == Activation::gelu)
    forward<Gelu>(at, begin, end);
  else
    forward<Relu>(at, begin, end);
}

template <class Loops>
MILLRACE_INLINE void run_gradient(const Loops& at, std::int64_t begin, std::int64_t end) {
  if (at.activation == Activation::silu)
    gradient<Silu>(at, begin, end);
  else if (at.activation == Activation::gelu)
    gradient<Gelu>(at, begin, end);
  else
    gradient<Relu>(at, begin, end);
}

}  // namespace

namespace MILLRACE_ISA {

void activation_forward_f32(const ActivationForward<float>& at, std::int64_t begin, std::int64_t end) { run_forward(at, begin, end); }
void activation_forward_bf16(const ActivationForward<BFloat16>& at, std::int64_t begin, std::int64_t end) { run_forward(at, begin, end); }
void activation_gradient_f32(const ActivationGradient<float>& at, std::int64_t begin, std::int64_t end) { run_gradient(at, begin, end); }
void activation_gradient_bf16(const ActivationGradient<BFloat16>& at, std::int64_t begin, std::int64_t end) {
  run_gradient(at, begin, end);
}
void glu_forward_f32(const GluForward<float>& at, std::int64_t begin, std::int64_t end) { run_forward(at, begin, end); }
void glu_forward_bf16(const GluForward<BFloat16>& at, std::int64_t begin, std::int64_t end) { run_forward(at, begin, end); }
void glu_gradient_f32(const GluGradient<float>& at, std::int64_t begin, std::int64_t end) { run_gradient(at, begin, end); }
void glu_gradient_bf16(const GluGradient<BFloat16>& at, std::int64_t begin, std::int64_t end) { run_gradient(at, begin, end); }

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
