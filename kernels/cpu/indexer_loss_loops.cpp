#include "kernels/cpu/indexer_loss_loops.hpp"

#include "kernels/cpu/listed_rows.hpp"
#include "kernels/cpu/logarithm.hpp"
#include "kernels/indexer_loss.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr float kEpsilon = 1e-8F;
static_assert(kEpsilon == indexer_loss_epsilon);

MILLRACE_INLINE f32x16 logarithm(f32x16 x) {
  return by_registers(
      x, [](Register v) __attribute__((always_inline)) { return logarithm_of(v); });
}

/// x where y > 0, else 0.
MILLRACE_INLINE f32x16 where_positive(f32x16 x, f32x16 y) {
  auto result = __builtin_bit_cast(Registers, x);
  const auto sign = __builtin_bit_cast(Registers, y);
#pragma GCC unroll 4
  for (int i = 0; i < kRegisters; ++i) result.part[i] = sign.part[i] > 0.0F ? result.part[i] : Register{};
  return __builtin_bit_cast(f32x16, result);
}

/// Arrays of a number per key, and a vector of zeros up to its padded width.
struct Workspace {
  float *target, *found, *scores, *vector;
  std::int32_t* list;
};
template <class T>
MILLRACE_INLINE Workspace lay_out(const IndexerLossTokens<T>& at, float* memory) {
  const std::int64_t keys = padded_by_16(at.length > 0 ? at.length : at.sequence);
  return {memory, memory + keys, memory + 2 * keys, memory + 4 * keys, reinterpret_cast<std::int32_t*>(memory + 3 * keys)};
}

/// The places of the token's keys in its row.
struct Keys {
  const std::int32_t* list;
  std::int64_t count;
};
template <class T>
MILLRACE_INLINE Keys keys_of(const IndexerLossTokens<T>& at, std::int64_t t, std::int32_t* list) {
  std::int64_t count = 0;
  if (at.keys != nullptr) {
    const std::int32_t* given = at.keys + t * at.length;
    while (count < at.length && given[count] >= 0) ++count;
    return {given, count};
  }
  const std::int64_t place = t % at.sequence;
  const std::int32_t* segments = at.segments + (t - place);
  for (std::int64_t u = 0; u <= place; ++u)
    if (segments[u] == segments[place]) list[count++] = static_cast<std::int32_t>(u);
  return {list, count};
}

/// P of the token, over its keys and then zeros.
template <class T>
MILLRACE_INLINE void attention_target(const IndexerLossTokens<T>& at, std::int64_t t, Keys keys, const Workspace& work) {
  const std::int64_t begin = t / at.sequence * at.sequence, group = at.heads / at.kv_heads;
  for (std::int64_t i = 0; i < keys.count; i += 16) store(work.target + i, f32x16{});
  for (std::int64_t h = 0; h < at.heads; ++h) {
    widen(at.q + (t * at.heads + h) * at.width, at.width, at.scale, work.vector);
    const ListedRows<T> rows{at.k + (begin * at.kv_heads + h / group) * at.width, at.kv_heads * at.width, at.width, keys.list, keys.count};
    dots(work.vector, rows, work.scores);
    const f32x16 inverse = splat(1.0F / exponentials(work.scores, keys.count).sum);
    for (std::int64_t i = 0; i < keys.count; i += 16) store(work.target + i, fused(load(work.scores + i), inverse, load(work.target + i)));
  }
  f32x16 sum{};
  for (std::int64_t i = 0; i < keys.count; i += 16) sum += load(work.target + i);
  const float inverse = 1.0F / (sum_lanes(sum) + kEpsilon);
  for (std::int64_t i = 0; i < keys.count; i += 16) store(work.target + i, load(work.target + i) * inverse);
}

template <class T>
MILLRACE_INLINE ListedRows<T> index_rows(const IndexerLossTokens<T>& at, std::int64_t t, Keys keys) {
  return {at.index_k + t / at.sequence * at.sequence * at.index_width, at.index_width, at.index_width, keys.list, keys.count};
}

/// Q of the token, over its keys and then zeros. The products of head h are left at products + h · step.
template <class T>
MILLRACE_INLINE void index_distribution(const IndexerLossTokens<T>& at, std::int64_t t, Keys keys, const Workspace& work, float* products,
                                        std::int64_t step) {
  const ListedRows<T> rows = index_rows(at, t, keys);
  for (std::int64_t i = 0; i < keys.count; i += 16) store(work.found + i, f32x16{});
  for (std::int64_t h = 0; h < at.index_heads; ++h) {
    float* of_head = products + h * step;
    widen(at.index_q + (t * at.index_heads + h) * at.index_width, at.index_width, 1.0F, work.vector);
    dots(work.vector, rows, of_head);
    const f32x16 weight = splat(at.index_weights[t * at.index_heads + h] * at.index_scale);
    for (std::int64_t i = 0; i < keys.count; i += 16)
      store(work.found + i, fused(weight, positive_part(load(of_head + i)), load(work.found + i)));
  }
  const f32x16 inverse = splat(1.0F / exponentials(work.found, keys.count).sum);
  for (std::int64_t i = 0; i < keys.count; i += 16) store(work.found + i, load(work.found + i) * inverse);
}

/// Σ P (log(P + ε) − log(Q + ε)); behind the last key both are 0.
MILLRACE_INLINE double divergence(Keys keys, const Workspace& work) {
  f32x16 sum{};
  for (std::int64_t i = 0; i < keys.count; i += 16) {
    const f32x16 p = load(work.target + i);
    sum += p * (logarithm(p + kEpsilon) - logarithm(load(work.found + i) + kEpsilon));
  }
  return static_cast<double>(sum_lanes(sum));
}

template <class T>
MILLRACE_INLINE double term(const IndexerLossTokens<T>& at, std::int64_t t, float* memory) {
  const Workspace work = lay_out(at, memory);
  const Keys keys = keys_of(at, t, work.list);
  if (keys.count == 0) return 0.0;
  attention_target(at, t, keys, work);
  index_distribution(at, t, keys, work, work.scores, 0);
  return divergence(keys, work);
}

/// Replaces P by dI: factor · (Q · Σ R − R) with R = P · Q / (Q + ε).
MILLRACE_INLINE void score_gradients(Keys keys, float factor, const Workspace& work) {
  f32x16 sum{};
  for (std::int64_t i = 0; i < keys.count; i += 16) {
    const f32x16 q = load(work.found + i), r = load(work.target + i) * (q / (q + kEpsilon));
    store(work.target + i, r);
    sum += r;
  }
  const float all = sum_lanes(sum);
  for (std::int64_t i = 0; i < keys.count; i += 16) store(work.target + i, (load(work.found + i) * all - load(work.target + i)) * factor);
}

/// Key i's sum += Σ_h slopes[h, i] · q[h], over `vectors` vectors from column d on; behind `left` columns nothing is read.
template <int vectors, class T>
MILLRACE_INLINE void add_to_key(const float* slopes, std::int64_t step, std::int64_t heads, const T* q, std::int64_t width,
                                std::int64_t left, float* sum) {
  f32x16 sums[vectors];
#pragma GCC unroll 4
  for (int n = 0; n < vectors; ++n) sums[n] = load(sum + 16 * n);
  for (std::int64_t h = 0; h < heads; ++h) {
    const f32x16 slope = splat(slopes[h * step]);
#pragma GCC unroll 4
    for (int n = 0; n < vectors; ++n) {
      if constexpr (vectors == 1)
        sums[n] = fused(slope, load_lanes(q + h * width, left), sums[n]);
      else
        sums[n] = fused(slope, load(q + h * width + 16 * n), sums[n]);
    }
  }
#pragma GCC unroll 4
  for (int n = 0; n < vectors; ++n) store(sum + 16 * n, sums[n]);
}

template <class T>
MILLRACE_INLINE void key_gradients(const IndexerLossTokens<T>& at, std::int64_t t, Keys keys, const float* slopes, std::int64_t step,
                                   float* key_sums) {
  const T* q = at.index_q + t * at.index_heads * at.index_width;
  for (std::int64_t i = 0; i < keys.count; ++i) {
    float* sum = key_sums + keys.list[i] * padded_by_16(at.index_width);
    std::int64_t d = 0;
    for (; d + 64 <= at.index_width; d += 64) add_to_key<4>(slopes + i, step, at.index_heads, q + d, at.index_width, 64, sum + d);
    for (; d < at.index_width; d += 16) add_to_key<1>(slopes + i, step, at.index_heads, q + d, at.index_width, at.index_width - d, sum + d);
  }
}

template <class T>
MILLRACE_INLINE double gradient(const IndexerLossTokens<T>& at, std::int64_t t, const IndexerLossGradients<T>& to, float* memory,
                                float* products) {
  const Workspace work = lay_out(at, memory);
  const Keys keys = keys_of(at, t, work.list);
  const std::int64_t step = padded_by_16(at.length > 0 ? at.length : at.sequence);
  attention_target(at, t, keys, work);
  index_distribution(at, t, keys, work, products, step);
  const double term = divergence(keys, work);
  score_gradients(keys, to.factor, work);
  const ListedRows<T> rows = index_rows(at, t, keys);
  for (std::int64_t h = 0; h < at.index_heads; ++h) {
    float* of_head = products + h * step;
    const f32x16 weight = splat(at.index_weights[t * at.index_heads + h] * at.index_scale);
    f32x16 sum{};
    for (std::int64_t i = 0; i < keys.count; i += 16) {
      const f32x16 product = load(of_head + i), slope = load(work.target + i);
      sum = fused(slope, positive_part(product), sum);
      store(of_head + i, where_positive(slope * weight, product));
    }
    to.d_index_weights[t * at.index_heads + h] = sum_lanes(sum) * at.index_scale;
    weighted_sum(of_head, rows, work.vector);
    narrow(work.vector, at.index_width, 1.0F, to.d_index_q + (t * at.index_heads + h) * at.index_width);
  }
  key_gradients(at, t, keys, products, step, to.key_sums);
  return term;
}

}  // namespace

namespace MILLRACE_ISA {

double indexer_term_f32(const IndexerLossTokens<float>& at, std::int64_t t, float* memory) { return term(at, t, memory); }
double indexer_term_bf16(const IndexerLossTokens<BFloat16>& at, std::int64_t t, float* memory) { return term(at, t, memory); }
double indexer_gradient_f32(const IndexerLossTokens<float>& at, std::int64_t t, const IndexerLossGradients<float>& to, float* memory,
                            float* products) {
  return gradient(at, t, to, memory, products);
}
double indexer_gradient_bf16(const IndexerLossTokens<BFloat16>& at, std::int64_t t, const IndexerLossGradients<BFloat16>& to, float* memory,
                             float* products) {
  return gradient(at, t, to, memory, products);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
