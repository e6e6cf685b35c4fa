#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/sparse_attention.hpp for the query heads of one key/value head.
namespace millrace::kernels::cpu {

struct SparseAttentionSizes {
  std::int64_t sequence, heads, kv_heads, width, value_width, length;  // S, H, K, D, Dv, L
  std::int64_t padded, value_padded, list_padded;                      // D, Dv and L up to multiples of 16
  float scale, soft_cap;
};

/// Floats that a call needs.
[[nodiscard]] constexpr std::int64_t sparse_forward_floats(const SparseAttentionSizes& sizes) {
  return sizes.padded + sizes.list_padded + sizes.value_padded;
}
[[nodiscard]] constexpr std::int64_t sparse_backward_floats(const SparseAttentionSizes& sizes) {
  return (sizes.sequence + 2) * sizes.padded + (sizes.sequence + 1) * sizes.value_padded + 2 * sizes.list_padded;
}

template <class T>
struct SparseForward {
  SparseAttentionSizes sizes;
  const T *q, *k, *v;
  const std::int32_t* keys;
  T* o;
  float* log_sum_exp;
};
template <class T>
struct SparseBackward {
  SparseAttentionSizes sizes;
  const T *d_o, *q, *k, *v, *o;
  const float* log_sum_exp;
  const std::int32_t* keys;
  T *dq, *dk, *dv;
};

/// Tokens [begin, end).
MILLRACE_CPU_KERNEL(sparse_forward_f32,
                    void(const SparseForward<float>& at, std::int64_t kv_head, std::int64_t begin, std::int64_t end, float* memory));
MILLRACE_CPU_KERNEL(sparse_forward_bf16,
                    void(const SparseForward<BFloat16>& at, std::int64_t kv_head, std::int64_t begin, std::int64_t end, float* memory));
/// The tokens of one row.
MILLRACE_CPU_KERNEL(sparse_backward_f32, void(const SparseBackward<float>& at, std::int64_t row, std::int64_t kv_head, float* memory));
MILLRACE_CPU_KERNEL(sparse_backward_bf16, void(const SparseBackward<BFloat16>& at, std::int64_t row, std::int64_t kv_head, float* memory));

}  // namespace millrace::kernels::cpu
