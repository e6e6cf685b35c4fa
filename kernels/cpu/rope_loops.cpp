#include "kernels/cpu/rope_loops.hpp"

#include <math.h>

#include "kernels/cpu/simd/lanes.hpp"
#include "kernels/cpu/sines.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kAngles = 64;  // number of angles whose sines are computed at a time; all heads of a token share them

template <class T>
MILLRACE_INLINE void rotate(const Rope<T>& at, std::int64_t token, std::int64_t first, std::int64_t count, const float* cosines,
                            const float* sines) {
  for (std::int64_t head = 0; head < at.heads; ++head) {
    const std::int64_t offset = (token * at.heads + head) * at.width + at.rotated_begin + first;
    const T* x = at.x + offset;
    T* y = at.y + offset;
    for (std::int64_t i = 0; i < count; i += 16) {
      const f32x16 cosine = load(cosines + i);
      const f32x16 sine = load(sines + i);
      const f32x16 a = load_lanes(x + i, count - i);
      const f32x16 b = load_lanes(x + i + at.half, count - i);
      store_lanes(y + i, a * cosine - b * sine, count - i);
      store_lanes(y + i + at.half, b * cosine + a * sine, count - i);
    }
  }
}

// For neighbouring pairs: each angle is stored twice, and the sine of the even one is negative.
template <class T>
MILLRACE_INLINE void rotate_neighbours(const Rope<T>& at, std::int64_t token, std::int64_t first, std::int64_t count, const float* cosines,
                                       const float* sines) {
  for (std::int64_t i = 0; i < count; i += 8) {
    float low[8], high[8];
    __builtin_memcpy(low, cosines + i, sizeof low);
    __builtin_memcpy(high, sines + i, sizeof high);
    f32x16 cosine, sine;
    for (int lane = 0; lane < 16; ++lane) {
      cosine[lane] = low[lane / 2];
      sine[lane] = lane % 2 == 0 ? -high[lane / 2] : high[lane / 2];
    }
    for (std::int64_t head = 0; head < at.heads; ++head) {
      const std::int64_t offset = (token * at.heads + head) * at.width + at.rotated_begin + 2 * (first + i);
      const f32x16 pairs = load_lanes(at.x + offset, 2 * (count - i));
      const f32x16 swapped = __builtin_shufflevector(pairs, pairs, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
      store_lanes(at.y + offset, pairs * cosine + swapped * sine, 2 * (count - i));
    }
  }
}

template <class T>
MILLRACE_INLINE void copy_unrotated(const Rope<T>& at, std::int64_t token) {
  const bool before = at.rotated_begin > 0;
  const std::int64_t begin = before ? 0 : 2 * at.half, end = before ? at.rotated_begin : at.width;
  for (std::int64_t head = 0; head < at.heads; ++head) {
    const std::int64_t offset = (token * at.heads + head) * at.width;
    for (std::int64_t d = begin; d < end; ++d) at.y[offset + d] = at.x[offset + d];
  }
}

// For angles so large that sines_of() does not support them.
MILLRACE_INLINE Sines far_sines(f32x16 angle) {
  Sines result;
  for (int lane = 0; lane < 16; ++lane) {
    result.cosine[lane] = cosf(angle[lane]);
    result.sine[lane] = sinf(angle[lane]);
  }
  return result;
}

// The operands are copied, since the compiler would otherwise read their pointers again after every store.
template <class T>
MILLRACE_INLINE void rope(const Rope<T> at, std::int64_t begin, std::int64_t end) {
  float cosines[kAngles] = {};
  float sines[kAngles] = {};
  float highest = 0;
  for (std::int64_t i = 0; i < at.half; ++i) {
    const float size = fabsf(at.inverse_frequencies[i]);
    highest = size > highest ? size : highest;
  }
  for (std::int64_t t = begin; t < end; ++t) {
    for (std::int64_t first = 0; first < at.half; first += kAngles) {
      const std::int64_t count = at.half - first < kAngles ? at.half - first : kAngles;
      const auto position = static_cast<float>(at.positions[t]);
      const bool far = fabsf(position) * highest > kFarthestAngle;
      for (std::int64_t i = 0; i < count; i += 16) {
        const f32x16 angle = load_lanes(at.inverse_frequencies + first + i, count - i) * position;
        const Sines turned = far ? far_sines(angle) : sines_of(angle);
        store(cosines + i, round_to<T>(turned.cosine * at.factor));
        store(sines + i, round_to<T>(turned.sine * at.factor) * at.direction);
      }
      if (at.interleaved)
        rotate_neighbours(at, t, first, count, cosines, sines);
      else
        rotate(at, t, first, count, cosines, sines);
    }
    if (at.x != at.y) copy_unrotated(at, t);
  }
}

}  // namespace

namespace MILLRACE_ISA {

void rope_f32(const Rope<float>& at, std::int64_t begin, std::int64_t end) { rope(at, begin, end); }
void rope_bf16(const Rope<BFloat16>& at, std::int64_t begin, std::int64_t end) { rope(at, begin, end); }

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
