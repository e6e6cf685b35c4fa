#include "kernels/cpu/score_maxima_loops.hpp"

#include "kernels/cpu/simd/vector.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kQueries = 4;  // whose scores share a load of keys

MILLRACE_INLINE float as_float(float x) { return x; }
MILLRACE_INLINE float as_float(BFloat16 x) {
  const std::uint32_t bits = static_cast<std::uint32_t>(x.bits) << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

/// The keys of a row as columns, sixteen at a time; those beyond the row are 0.
template <class T>
MILLRACE_INLINE void columns_of(const ScoreMaximaOperands<T>& at, std::int64_t row, std::int64_t kv_head, std::int64_t padded, float* to) {
  const std::int64_t sequence = at.options.sequence;
  for (std::int64_t u = 0; u < padded; ++u) {
    const T* key = at.k + ((row * sequence + smaller(u, sequence - 1)) * at.kv_heads + kv_head) * at.width;
    for (std::int64_t d = 0; d < at.width; ++d) to[d * padded + u] = u < sequence ? as_float(key[d]) : 0.0F;
  }
}

template <class T>
MILLRACE_INLINE float maximum(const ScoreMaximaOperands<T>& at, std::int64_t row, std::int64_t head, float* memory) {
  constexpr float lowest = -__builtin_inff();
  const std::int64_t sequence = at.options.sequence, padded = (sequence + 15) / 16 * 16, width = at.width;
  columns_of(at, row, head / (at.heads / at.kv_heads), padded, memory);
  const std::int32_t* segments = at.segments + row * sequence;
  i32x16 lanes;
  for (int lane = 0; lane < 16; ++lane) lanes[lane] = lane;
  f32x16 largest = splat(lowest);
  for (std::int64_t first = 0; first < sequence; first += kQueries) {
    const std::int64_t queries = smaller(kQueries, sequence - first);
    std::int64_t begin[kQueries], end[kQueries], from = sequence, to = 0;
    const T* query[kQueries];
    for (std::int64_t i = 0; i < kQueries; ++i) {
      const std::int64_t place = first + smaller(i, queries - 1);  // the last one again, which changes no maximum
      const SeenKeys seen = seen_keys(at.options, place);
      begin[i] = seen.begin;
      end[i] = smaller(seen.end, sequence);
      from = smaller(from, begin[i]);
      to = to < end[i] ? end[i] : to;
      query[i] = at.q + ((row * sequence + place) * at.heads + head) * width;
    }
    for (std::int64_t u = from / 16 * 16; u < to; u += 16) {
      f32x16 scores[kQueries] = {};
      for (std::int64_t d = 0; d < width; ++d) {
        const f32x16 keys = load(memory + d * padded + u);
        for (std::int64_t i = 0; i < kQueries; ++i) scores[i] += as_float(query[i][d]) * keys;
      }
      i32x16 segment = {};
      for (int lane = 0; lane < 16; ++lane) segment[lane] = segments[smaller(u + lane, sequence - 1)];
      const i32x16 places = lanes + static_cast<std::int32_t>(u);
      for (std::int64_t i = 0; i < kQueries; ++i) {
        const std::int32_t own = segments[first + smaller(i, queries - 1)];
        const i32x16 seen =
            (places >= static_cast<std::int32_t>(begin[i])) & (places < static_cast<std::int32_t>(end[i])) & (segment == own);
        const f32x16 score = scores[i] * at.options.scale;
        largest = (seen & (score > largest)) ? score : largest;
      }
    }
  }
  float result = lowest;
  for (int lane = 0; lane < 16; ++lane) result = largest[lane] > result ? largest[lane] : result;
  return result;
}

}  // namespace

namespace MILLRACE_ISA {

float score_maximum_f32(const ScoreMaximaOperands<float>& at, std::int64_t row, std::int64_t head, float* memory) {
  return maximum(at, row, head, memory);
}
float score_maximum_bf16(const ScoreMaximaOperands<BFloat16>& at, std::int64_t row, std::int64_t head, float* memory) {
  return maximum(at, row, head, memory);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
