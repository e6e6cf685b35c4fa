#include "kernels/cpu/sparse_attention_loops.hpp"

#include "kernels/cpu/listed_rows.hpp"

namespace millrace::kernels::cpu {
namespace {

/// The rows of one operand, [T, K, width], that token t lists.
template <class T>
MILLRACE_INLINE ListedRows<T> listed(const SparseAttentionSizes& sizes, const T* x, std::int64_t width, std::int64_t kv_head,
                                     std::int64_t t, const std::int32_t* list, std::int64_t count) {
  const std::int64_t begin = t / sizes.sequence * sizes.sequence;
  return {x + (begin * sizes.kv_heads + kv_head) * width, sizes.kv_heads * width, width, list, count};
}

MILLRACE_INLINE std::int64_t length_of(const std::int32_t* list, std::int64_t length) {
  std::int64_t count = 0;
  while (count < length && list[count] >= 0) ++count;
  return count;
}

MILLRACE_INLINE void cap(float* scores, std::int64_t count, float soft_cap) {
  if (soft_cap <= 0) return;
  for (std::int64_t i = 0; i < count; i += 16) store(scores + i, hyperbolic_tangent(load(scores + i) / soft_cap) * soft_cap);
}

template <class T>
MILLRACE_INLINE void forward(const SparseForward<T>& at, std::int64_t kv_head, std::int64_t begin, std::int64_t end, float* memory) {
  const SparseAttentionSizes& sizes = at.sizes;
  float *q = memory, *scores = q + sizes.padded, *o = scores + sizes.list_padded;
  const std::int64_t group = sizes.heads / sizes.kv_heads;
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int32_t* list = at.keys + t * sizes.length;
    const std::int64_t count = length_of(list, sizes.length);
    const ListedRows<T> keys = listed(sizes, at.k, sizes.width, kv_head, t, list, count);
    const ListedRows<T> values = listed(sizes, at.v, sizes.value_width, kv_head, t, list, count);
    for (std::int64_t vector = t * sizes.heads + kv_head * group; vector < t * sizes.heads + (kv_head + 1) * group; ++vector) {
      widen(at.q + vector * sizes.width, sizes.width, sizes.scale, q);
      dots(q, keys, scores);
      cap(scores, count, sizes.soft_cap);
      const Exponentials all = exponentials(scores, count);
      weighted_sum(scores, values, o);
      const bool empty = count == 0;
      narrow(o, sizes.value_width, empty ? 0.0F : 1.0F / all.sum, at.o + vector * sizes.value_width);
      at.log_sum_exp[vector] = empty ? -__builtin_inff() : all.maximum + __builtin_logf(all.sum);
    }
  }
}

template <class T>
MILLRACE_INLINE void backward(const SparseBackward<T>& at, std::int64_t row, std::int64_t kv_head, float* memory) {
  const SparseAttentionSizes& sizes = at.sizes;
  float *dk = memory, *dv = dk + sizes.sequence * sizes.padded;
  float *q = dv + sizes.sequence * sizes.value_padded, *dq = q + sizes.padded, *d_o = dq + sizes.padded;
  float *p = d_o + sizes.value_padded, *ds = p + sizes.list_padded;
  for (std::int64_t i = 0; i < sizes.sequence * (sizes.padded + sizes.value_padded); i += 16) store(memory + i, f32x16{});
  const std::int64_t group = sizes.heads / sizes.kv_heads, first = row * sizes.sequence;
  for (std::int64_t t = first; t < first + sizes.sequence; ++t) {
    const std::int32_t* list = at.keys + t * sizes.length;
    const std::int64_t count = length_of(list, sizes.length);
    const ListedRows<T> keys = listed(sizes, at.k, sizes.width, kv_head, t, list, count);
    const ListedRows<T> values = listed(sizes, at.v, sizes.value_width, kv_head, t, list, count);
    for (std::int64_t vector = t * sizes.heads + kv_head * group; vector < t * sizes.heads + (kv_head + 1) * group; ++vector) {
      widen(at.q + vector * sizes.width, sizes.width, sizes.scale, q);
      widen(at.d_o + vector * sizes.value_width, sizes.value_width, 1.0F, d_o);
      const float delta = sum_lanes(dot_lanes(d_o, at.o + vector * sizes.value_width, sizes.value_width));
      const float log_sum = at.log_sum_exp[vector];
      dots(q, keys, p);
      cap(p, count, sizes.soft_cap);
      dots(d_o, values, ds);
      for (std::int64_t i = 0; i < count; i += 16) {
        const f32x16 score = load(p + i), share = score * (sizes.soft_cap > 0 ? 1.0F / sizes.soft_cap : 0.0F);
        const f32x16 probability = exponential(score - log_sum);
        store(ds + i, probability * (load(ds + i) - delta) * (1.0F - share * share));
        store(p + i, probability);
      }
      for (std::int64_t i = 0; i < count; ++i) {
        add_scaled(ds[i], q, sizes.width, dk + list[i] * sizes.padded);
        add_scaled(p[i], d_o, sizes.value_width, dv + list[i] * sizes.value_padded);
      }
      weighted_sum(ds, keys, dq);
      narrow(dq, sizes.width, sizes.scale, at.dq + vector * sizes.width);
    }
  }
  for (std::int64_t u = 0; u < sizes.sequence; ++u) {
    const std::int64_t vector = (first + u) * sizes.kv_heads + kv_head;
    narrow(dk + u * sizes.padded, sizes.width, 1.0F, at.dk + vector * sizes.width);
    narrow(dv + u * sizes.value_padded, sizes.value_width, 1.0F, at.dv + vector * sizes.value_width);
  }
}

}  // namespace

namespace MILLRACE_ISA {

void sparse_forward_f32(const SparseForward<float>& at, std::int64_t kv_head, std::int64_t begin, std::int64_t end, float* memory) {
  forward(at, kv_head, begin, end, memory);
}
void sparse_forward_bf16(const SparseForward<BFloat16>& at, std::int64_t kv_head, std::int64_t begin, std::int64_t end, float* memory) {
  forward(at, kv_head, begin, end, memory);
}
void sparse_backward_f32(const SparseBackward<float>& at, std::int64_t row, std::int64_t kv_head, float* memory) {
  backward(at, row, kv_head, memory);
}
void sparse_backward_bf16(const SparseBackward<BFloat16>& at, std::int64_t row, std::int64_t kv_head, float* memory) {
  backward(at, row, kv_head, memory);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
