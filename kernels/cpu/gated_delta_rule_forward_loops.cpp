#include "kernels/cpu/gated_delta_rule_chunk.hpp"

namespace millrace::kernels::cpu {
namespace {

template <class T>
MILLRACE_INLINE void write_rows(const GatedDeltaRuleForward<T>& at, const Chunk& chunk, std::int64_t head, const float* o) {
  const GatedDeltaRuleSizes& sizes = at.in.sizes;
  for (std::int64_t t = 0; t < chunk.count; ++t) {
    T* to = at.o + ((chunk.first + t) * sizes.value_heads + head) * sizes.head_v_dim;
    for (std::int64_t d = 0; d < sizes.head_v_dim; d += 16) store_lanes(to + d, load(o + t * sizes.values + d), sizes.head_v_dim - d);
  }
}

template <class T>
MILLRACE_INLINE void forward(const GatedDeltaRuleForward<T>& at, std::int64_t row, std::int64_t key_head, float* memory) {
  const GatedDeltaRuleSizes& sizes = at.in.sizes;
  float* minus_l = nullptr;
  const Keys keys = lay_out(sizes, memory, minus_l);
  float* p = minus_l + kSquare;
  float* u = memory + delta_chunk_floats(sizes);
  float* decayed = u + kChunk * sizes.values;
  float* o = decayed + kChunk * sizes.values;
  float* states = o + kChunk * sizes.values;
  Chunk chunk;
  Decays decays;
  for (std::int64_t index = 0; index < sizes.chunks; ++index) {
    describe(at.in, row, index, chunk);
    pack_keys(at.in, chunk, key_head, true, keys);
    for (std::int64_t member = 0; member < sizes.group; ++member) {
      const std::int64_t head = key_head * sizes.group + member;
      float* state = states + member * state_floats(sizes);
      describe(at.in, chunk, head, decays);
      weigh(chunk, decays, keys, minus_l, p, nullptr);
      update(at.in, chunk, decays, head, keys.k, minus_l, state, u);
      if (chunk.continues) {
        multiply(Part::whole, chunk.count, sizes.values, sizes.head_k_dim,
                 {keys.q, sizes.keys, state, sizes.values, o, sizes.values, false});
        for (std::int64_t t = 0; t < chunk.count; ++t) scale_row(o + t * sizes.values, sizes.values, decays.from_start[t]);
      }
      multiply(Part::depth_to_diagonal, chunk.count, sizes.values, chunk.count,
               {p, kChunk, u, sizes.values, o, sizes.values, chunk.continues});
      write_rows(at, chunk, head, o);
      if (index + 1 < sizes.chunks) advance(sizes, chunk, decays, keys.k, u, decayed, state, state);
    }
  }
}

}  // namespace

namespace MILLRACE_ISA {

void gated_delta_rule_forward_f32(const GatedDeltaRuleForward<float>& at, std::int64_t row, std::int64_t key_head, float* memory) {
  forward(at, row, key_head, memory);
}
void gated_delta_rule_forward_bf16(const GatedDeltaRuleForward<BFloat16>& at, std::int64_t row, std::int64_t key_head, float* memory) {
  forward(at, row, key_head, memory);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
