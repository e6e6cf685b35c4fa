#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/gated_delta_rule.hpp: one row and key head at a time, with all value heads that share it, chunk by chunk; all
/// arithmetic in fp32 on packed copies.
namespace millrace::kernels::cpu {

inline constexpr std::int64_t kChunk = 64;

/// Sizes of one call, in elements. Packed head vectors are padded with zeros to a multiple of 16.
struct GatedDeltaRuleSizes {
  std::int64_t rows;
  std::int64_t sequence;
  std::int64_t key_heads;
  std::int64_t value_heads;
  std::int64_t group;  // value heads of a key head
  std::int64_t head_k_dim;
  std::int64_t head_v_dim;
  std::int64_t keys;    // head_k_dim, padded
  std::int64_t values;  // head_v_dim, padded
  std::int64_t chunks;  // of a row
  float scale;
  bool read_segments;
  bool reset_at_segments;
};

/// Number of floats of a thread's scratch.
#define MILLRACE_SIZE [[nodiscard, gnu::always_inline, maybe_unused]] static inline std::int64_t
MILLRACE_SIZE state_floats(const GatedDeltaRuleSizes& sizes) { return sizes.keys * sizes.values; }
/// Q, K, Kᵀ of a chunk; seven of its square matrices.
MILLRACE_SIZE delta_chunk_floats(const GatedDeltaRuleSizes& sizes) { return 3 * kChunk * sizes.keys + 7 * kChunk * kChunk; }
/// And U, decayed U, O; a state per value head.
MILLRACE_SIZE delta_forward_floats(const GatedDeltaRuleSizes& sizes) {
  return delta_chunk_floats(sizes) + 3 * kChunk * sizes.values + sizes.group * state_floats(sizes);
}
/// And dO, dU, Uᵀ; three products with a state, dQ, dK; a transposed state; per value head a state's gradient, and the states before all
/// chunks and U of all chunks.
MILLRACE_SIZE delta_backward_floats(const GatedDeltaRuleSizes& sizes) {
  return delta_chunk_floats(sizes) + 3 * kChunk * sizes.values + 5 * kChunk * sizes.keys + state_floats(sizes) +
         sizes.group * (state_floats(sizes) + sizes.chunks * (state_floats(sizes) + kChunk * sizes.values));
}
#undef MILLRACE_SIZE

template <class T>
struct GatedDeltaRuleOperands {
  GatedDeltaRuleSizes sizes;
  const T* q;
  const T* k;
  const T* v;
  const float* g;
  const float* beta;
  const std::int32_t* segments;
};

template <class T>
struct GatedDeltaRuleForward {
  GatedDeltaRuleOperands<T> in;
  T* o;
};

template <class T>
struct GatedDeltaRuleBackward {
  GatedDeltaRuleOperands<T> in;
  const T* d_o;
  T* dq;
  T* dk;
  T* dv;
  float* dg;
  float* dbeta;
};

/// One row and key head. `memory` has delta_forward_floats.
MILLRACE_CPU_KERNEL(gated_delta_rule_forward_f32,
                    void(const GatedDeltaRuleForward<float>& at, std::int64_t row, std::int64_t key_head, float* memory));
MILLRACE_CPU_KERNEL(gated_delta_rule_forward_bf16,
                    void(const GatedDeltaRuleForward<BFloat16>& at, std::int64_t row, std::int64_t key_head, float* memory));

/// The gradients of one row and key head. `memory` has delta_backward_floats.
MILLRACE_CPU_KERNEL(gated_delta_rule_backward_f32,
                    void(const GatedDeltaRuleBackward<float>& at, std::int64_t row, std::int64_t key_head, float* memory));
MILLRACE_CPU_KERNEL(gated_delta_rule_backward_bf16,
                    void(const GatedDeltaRuleBackward<BFloat16>& at, std::int64_t row, std::int64_t key_head, float* memory));

}  // namespace millrace::kernels::cpu
