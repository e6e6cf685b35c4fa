#include "kernels/cpu/hyper_streams_loops.hpp"

#include "kernels/cpu/simd/lanes.hpp"

namespace millrace::kernels::cpu {
namespace {

MILLRACE_INLINE float number(const float* x, std::int64_t i) { return x[i]; }
MILLRACE_INLINE float number(const BFloat16* x, std::int64_t i) { return to_float(x[i]); }
MILLRACE_INLINE void put(float* y, std::int64_t i, float value) { y[i] = value; }
MILLRACE_INLINE void put(BFloat16* y, std::int64_t i, float value) { y[i] = to_bfloat16(value); }

/// y = Σ_i weight(i) · x_i over k rows of `width` features, plus by · add if that is given.
template <class T, class Weight>
MILLRACE_INLINE void weighted_sum(const T* x, std::int64_t k, std::int64_t width, const Weight& weight, const T* add, float by, T* y) {
  for (std::int64_t d = 0; d < width; d += 16) {
    f32x16 sum{};
    if (add != nullptr) sum = load_lanes(add + d, width - d) * by;
    for (std::int64_t i = 0; i < k; ++i) sum += load_lanes(x + i * width + d, width - d) * weight(i);
    store_lanes(y + d, sum, width - d);
  }
}

template <class T>
MILLRACE_INLINE void expand(const HyperStreams<T>& at, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t)
    for (std::int64_t i = 0; i < at.k; ++i) {
      const T* from = at.one + t * at.width;
      T* to = at.to_streams + (t * at.k + i) * at.width;
      for (std::int64_t d = 0; d < at.width; ++d) to[d] = from[d];
    }
}

template <class T>
MILLRACE_INLINE void reduce(const HyperStreams<T>& at, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t)
    weighted_sum<T>(
        at.streams + t * at.k * at.width, at.k, at.width, [](std::int64_t) { return 1.0F; }, nullptr, 0, at.to_one + t * at.width);
}

template <class T>
MILLRACE_INLINE void collect(const HyperStreams<T>& at, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t)
    weighted_sum<T>(
        at.streams + t * at.k * at.width, at.k, at.width, [&](std::int64_t i) { return number(at.pre, t * at.k + i); }, nullptr, 0,
        at.to_one + t * at.width);
}

template <class T>
MILLRACE_INLINE void collect_gradient(const HyperStreams<T>& at, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = at.width;
  for (std::int64_t t = begin; t < end; ++t) {
    const T* dy = at.one + t * width;
    for (std::int64_t i = 0; i < at.k; ++i) {
      const std::int64_t row = (t * at.k + i) * width;
      const float pre = number(at.pre, t * at.k + i);
      for (std::int64_t d = 0; d < width; d += 16) store_lanes(at.to_streams + row + d, load_lanes(dy + d, width - d) * pre, width - d);
      put(at.to_gates, t * at.k + i, dot_product(at.streams + row, dy, width));
    }
  }
}

template <class T>
MILLRACE_INLINE void spread(const HyperStreams<T>& at, std::int64_t begin, std::int64_t end) {
  const std::int64_t k = at.k, width = at.width;
  for (std::int64_t t = begin; t < end; ++t)
    for (std::int64_t m = 0; m < k; ++m)
      weighted_sum<T>(
          at.streams + t * k * width, k, width, [&](std::int64_t i) { return number(at.map, (t * k + i) * k + m); }, at.one + t * width,
          number(at.post, t * k + m), at.to_streams + (t * k + m) * width);
}

template <class T>
MILLRACE_INLINE void spread_gradient(const HyperStreams<T>& at, std::int64_t begin, std::int64_t end) {
  const std::int64_t k = at.k, width = at.width;
  for (std::int64_t t = begin; t < end; ++t) {
    const T* dy = at.dy + t * k * width;
    weighted_sum<T>(
        dy, k, width, [&](std::int64_t m) { return number(at.post, t * k + m); }, nullptr, 0, at.to_one + t * width);
    for (std::int64_t m = 0; m < k; ++m) put(at.to_gates, t * k + m, dot_product(at.one + t * width, dy + m * width, width));
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t row = t * k + i;
      weighted_sum<T>(
          dy, k, width, [&](std::int64_t m) { return number(at.map, row * k + m); }, nullptr, 0, at.to_streams + row * width);
      for (std::int64_t m = 0; m < k; ++m) put(at.to_map, row * k + m, dot_product(at.streams + row * width, dy + m * width, width));
    }
  }
}

}  // namespace

namespace MILLRACE_ISA {

void expand_streams_f32(const HyperStreams<float>& at, std::int64_t begin, std::int64_t end) { expand(at, begin, end); }
void expand_streams_bf16(const HyperStreams<BFloat16>& at, std::int64_t begin, std::int64_t end) { expand(at, begin, end); }
void reduce_streams_f32(const HyperStreams<float>& at, std::int64_t begin, std::int64_t end) { reduce(at, begin, end); }
void reduce_streams_bf16(const HyperStreams<BFloat16>& at, std::int64_t begin, std::int64_t end) { reduce(at, begin, end); }
void collect_streams_f32(const HyperStreams<float>& at, std::int64_t begin, std::int64_t end) { collect(at, begin, end); }
void collect_streams_bf16(const HyperStreams<BFloat16>& at, std::int64_t begin, std::int64_t end) { collect(at, begin, end); }
void collect_streams_gradient_f32(const HyperStreams<float>& at, std::int64_t begin, std::int64_t end) { collect_gradient(at, begin, end); }
void collect_streams_gradient_bf16(const HyperStreams<BFloat16>& at, std::int64_t begin, std::int64_t end) {
  collect_gradient(at, begin, end);
}
void spread_streams_f32(const HyperStreams<float>& at, std::int64_t begin, std::int64_t end) { spread(at, begin, end); }
void spread_streams_bf16(const HyperStreams<BFloat16>& at, std::int64_t begin, std::int64_t end) { spread(at, begin, end); }
void spread_streams_gradient_f32(const HyperStreams<float>& at, std::int64_t begin, std::int64_t end) { spread_gradient(at, begin, end); }
void spread_streams_gradient_bf16(const HyperStreams<BFloat16>& at, std::int64_t begin, std::int64_t end) {
  spread_gradient(at, begin, end);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
