#include "kernels/cpu/gated_delta_rule_chunk.hpp"

namespace millrace::kernels::cpu {
namespace {

/// Memory of a thread beside the packed keys.
struct Workspace {
  float *minus_l, *p, *lambda;      // square
  float* x;                         // dO·Uᵀ, then its product with Λ: the gradient of QKᵀ
  float* n;                         // dU·Uᵀ, then the gradient of KKᵀ, with β
  float *d_o, *d_u, *u_transposed;  // of 64 tokens and the value features
  float *to_q, *to_k, *by_state;    // [64, keys]: dO·Ωᵀ, dU·Ωᵀ, U·dΩᵀ
  float *dq, *dk;                   // [64, keys], sums over the value heads
  float* transposed;                // a transposed state
  float* d_states;                  // per value head, the gradient of the state behind the chunk, then before it
  float* states;                    // per value head, the states before all chunks
  float* updates;                   // per value head, U of all chunks
};

MILLRACE_INLINE Workspace lay_out(const GatedDeltaRuleSizes& sizes, float* memory, Keys& keys) {
  Workspace work;
  keys = lay_out(sizes, memory, work.minus_l);
  const std::int64_t values = kChunk * sizes.values, wide = kChunk * sizes.keys;
  work.p = work.minus_l + kSquare;
  work.lambda = work.p + kSquare;
  work.x = work.lambda + kSquare;
  work.n = work.x + kSquare;
  work.d_o = memory + delta_chunk_floats(sizes);
  work.d_u = work.d_o + values;
  work.u_transposed = work.d_u + values;
  work.to_q = work.u_transposed + values;
  work.to_k = work.to_q + wide;
  work.by_state = work.to_k + wide;
  work.dq = work.by_state + wide;
  work.dk = work.dq + wide;
  work.transposed = work.dk + wide;
  work.d_states = work.transposed + state_floats(sizes);
  work.states = work.d_states + sizes.group * state_floats(sizes);
  work.updates = work.states + sizes.group * sizes.chunks * state_floats(sizes);
  return work;
}

MILLRACE_INLINE float* state_of(const GatedDeltaRuleSizes& sizes, const Workspace& work, std::int64_t member, std::int64_t chunk) {
  return work.states + (member * sizes.chunks + chunk) * state_floats(sizes);
}
MILLRACE_INLINE float* update_of(const GatedDeltaRuleSizes& sizes, const Workspace& work, std::int64_t member, std::int64_t chunk) {
  return work.updates + (member * sizes.chunks + chunk) * kChunk * sizes.values;
}

/// Solves (I + L)ᵀ·x = x in place.
[[gnu::noinline]] void solve_transposed(const float* minus_l, std::int64_t count, std::int64_t width, float* x) {
  for (std::int64_t row = (count - 1) / kSolved * kSolved; row >= 0; row -= kSolved) {
    const std::int64_t end = smaller(row + kSolved, count);
    if (end < count)
      multiply_transposed(Part::whole, end - row, width, count - end,
                          {minus_l + end * kChunk + row, kChunk, x + end * width, width, x + row * width, width, true});
    for (std::int64_t i = end - 2; i >= row; --i)
      add_rows(
          x, width, i, i + 1, end, [&](std::int64_t j) __attribute__((always_inline)) { return minus_l + j * kChunk + i; });
  }
}

/// The forward's states and U, which it did not keep.
template <class T>
MILLRACE_INLINE void recompute(const GatedDeltaRuleOperands<T>& in, std::int64_t row, std::int64_t key_head, const Keys& keys,
                               const Workspace& work) {
  const GatedDeltaRuleSizes& sizes = in.sizes;
  Chunk chunk;
  Decays decays;
  for (std::int64_t index = 0; index < sizes.chunks; ++index) {
    describe(in, row, index, chunk);
    pack_keys(in, chunk, key_head, false, keys);
    for (std::int64_t member = 0; member < sizes.group; ++member) {
      const std::int64_t head = key_head * sizes.group + member;
      const float* state = state_of(sizes, work, member, index);
      float* u = update_of(sizes, work, member, index);
      describe(in, chunk, head, decays);
      weigh(chunk, decays, keys, work.minus_l, nullptr, nullptr);
      update(in, chunk, decays, head, keys.k, work.minus_l, state, u);
      if (index + 1 < sizes.chunks) advance(sizes, chunk, decays, keys.k, u, work.d_o, state, state_of(sizes, work, member, index + 1));
    }
  }
}

MILLRACE_INLINE float dot(const float* a, const float* b, std::int64_t count) {
  f32x16 sum{};
  for (std::int64_t i = 0; i < count; i += 16) sum += load(a + i) * load(b + i);
  return sum_lanes(sum);
}

/// Gradients of γ and β per token, summed before they are stored. `held` is the gradient of a decay through the state that goes out, for
/// each token before it in its run.
struct Scalars {
  double gamma[kChunk];
  double beta[kChunk];
  double held[kChunk];
};

/// Makes the gradients of QKᵀ and KKᵀ of dO·Uᵀ and dU·Uᵀ, zero beyond the diagonal, and sums those of γ and β through Λ and β.
MILLRACE_INLINE void split_weights(const Chunk& chunk, const Decays& decays, const Keys& keys, const Workspace& work, Scalars& scalars) {
  f32x16 columns[kChunk / 16] = {};
  for (std::int64_t i = 0; i < chunk.count; ++i) {
    f32x16 row{}, rate{};
    for (std::int64_t column = 0; column < kChunk; column += 16) {
      const std::int64_t at = i * kChunk + column;
      f32x16 x{}, n{};
      if (column <= i) {
        const f32x16 decay = load(work.lambda + at);
        const u32x16 seen = lanes_within(column, chunk.start[i], i), before = lanes_within(column, chunk.start[i], i - 1);
        x = only(load(work.x + at), seen) * decay;
        n = only(load(work.n + at), before) * -decay;
        const f32x16 m = n * only(load(keys.kk + at), before);
        n *= decays.beta[i];
        // The diagonal has no decay. It would cancel, and leave its rounding behind where decays are strong.
        const f32x16 both = x * only(load(keys.qk + at), before) + m * decays.beta[i];
        rate += m;
        row += both;
        columns[column / 16] += both;
      }
      store(work.x + at, x);
      store(work.n + at, n);
    }
    scalars.beta[i] = static_cast<double>(sum_lanes(rate));
    scalars.gamma[i] = static_cast<double>(sum_lanes(row));
  }
  for (std::int64_t j = 0; j < chunk.count; ++j) scalars.gamma[j] -= static_cast<double>(columns[j / 16][j % 16]);
}

/// Adds the parts of dQ, dK and of the gradients of γ and β that come through the states: dO·Ωᵀ, dU·Ωᵀ and U·dΩᵀ.
MILLRACE_INLINE void through_states(const GatedDeltaRuleSizes& sizes, const Chunk& chunk, const Decays& decays, bool last, const Keys& keys,
                                    const Workspace& work, Scalars& scalars) {
  for (std::int64_t t = 0; t < chunk.count; ++t) {
    const std::int64_t at = t * sizes.keys;
    scalars.held[t] = 0;
    if (chunk.continues && decays.from_start[t] != 0) {
      const float factor = decays.from_start[t], rate = -decays.beta[t] * factor;
      const float along_k = dot(keys.k + at, work.to_k + at, sizes.keys);
      scalars.beta[t] -= static_cast<double>(factor * along_k);
      scalars.gamma[t] += static_cast<double>(factor * dot(keys.q + at, work.to_q + at, sizes.keys) + rate * along_k);
      for (std::int64_t d = 0; d < sizes.keys; d += 16) {
        store(work.dq + at + d, load(work.dq + at + d) + load(work.to_q + at + d) * factor);
        store(work.dk + at + d, load(work.dk + at + d) + load(work.to_k + at + d) * rate);
      }
    }
    if (last || decays.to_end[t] == 0) continue;
    const float factor = decays.to_end[t];
    scalars.held[t] = static_cast<double>(factor * dot(keys.k + at, work.by_state + at, sizes.keys));
    for (std::int64_t d = 0; d < sizes.keys; d += 16)
      store(work.dk + at + d, load(work.dk + at + d) + load(work.by_state + at + d) * factor);
  }
}

/// Stores dv, dβ and dg of one value head. The gradient of a decay is the sum of those of γ from its token on in its run, and of `held` of
/// the tokens before it in its run; it is 0 where a run begins anew, since no state is left to decay.
template <class T>
MILLRACE_INLINE void write_values(const GatedDeltaRuleBackward<T>& at, const Chunk& chunk, const Decays& decays, std::int64_t head,
                                  const Workspace& work, Scalars& scalars) {
  const GatedDeltaRuleSizes& sizes = at.in.sizes;
  double suffix = 0, before[kChunk];
  for (std::int64_t t = 0; t < chunk.count; ++t) before[t] = t == 0 ? 0 : before[t - 1] + scalars.held[t - 1];
  for (std::int64_t t = chunk.count - 1; t >= 0; --t) {
    const std::int64_t number = (chunk.first + t) * sizes.value_heads + head;
    const float* d_u = work.d_u + t * sizes.values;
    f32x16 along_v{};
    for (std::int64_t d = 0; d < sizes.head_v_dim; d += 16) {
      const std::int64_t left = sizes.head_v_dim - d;
      const f32x16 gradient = load(d_u + d);
      if (!chunk.padding[t]) along_v += load_lanes(at.in.v + number * sizes.head_v_dim + d, left) * gradient;
      store_lanes(at.dv + number * sizes.head_v_dim + d, chunk.padding[t] ? f32x16{} : gradient * decays.beta[t], left);
    }
    at.dbeta[number] = static_cast<float>(scalars.beta[t] + static_cast<double>(sum_lanes(along_v)));
    suffix += scalars.gamma[t];
    const bool begins = chunk.start[t] == t && (t > 0 || !chunk.continues);
    at.dg[number] = chunk.padding[t] || begins ? 0.0F : static_cast<float>(suffix + before[t]);
    if (chunk.start[t] == t) suffix = 0;
  }
}

/// One value head of a chunk.
template <class T>
MILLRACE_INLINE void backward_head(const GatedDeltaRuleBackward<T>& at, const Chunk& chunk, std::int64_t index, std::int64_t head,
                                   std::int64_t member, const Keys& keys, const Workspace& work) {
  const GatedDeltaRuleSizes& sizes = at.in.sizes;
  const std::int64_t count = chunk.count, columns = (count + 15) / 16 * 16, values = sizes.values;
  const bool last = index + 1 == sizes.chunks;  // then no state goes out
  const float* state = state_of(sizes, work, member, index);
  const float* u = update_of(sizes, work, member, index);
  float* d_state = work.d_states + member * state_floats(sizes);
  Decays decays;
  describe(at.in, chunk, head, decays);
  weigh(chunk, decays, keys, work.minus_l, work.p, work.lambda);
  pack_rows(at.d_o + (chunk.first * sizes.value_heads + head) * sizes.head_v_dim, sizes.value_heads * sizes.head_v_dim, count,
            sizes.head_v_dim, values, 1.0F, nullptr, work.d_o);
  // The gradient of U from the state that goes out and from O, and through the solution that of the right side.
  if (!last) {
    multiply(Part::whole, count, values, sizes.head_k_dim, {keys.k, sizes.keys, d_state, values, work.d_u, values, false});
    for (std::int64_t t = 0; t < count; ++t) scale_row(work.d_u + t * values, values, decays.to_end[t]);
  }
  multiply_transposed(Part::depth_from_diagonal, count, values, count, {work.p, kChunk, work.d_o, values, work.d_u, values, !last});
  solve_transposed(work.minus_l, count, values, work.d_u);
  transpose(u, values, count, values, work.u_transposed, kChunk, columns);
  multiply(Part::columns_to_diagonal, count, columns, sizes.head_v_dim,
           {work.d_o, values, work.u_transposed, kChunk, work.x, kChunk, false});
  multiply(Part::columns_to_diagonal, count, columns, sizes.head_v_dim,
           {work.d_u, values, work.u_transposed, kChunk, work.n, kChunk, false});
  Scalars scalars;
  split_weights(chunk, decays, keys, work, scalars);
  if (chunk.continues) {
    transpose(state, values, sizes.head_k_dim, values, work.transposed, sizes.keys, sizes.keys);
    multiply(Part::whole, count, sizes.keys, sizes.head_v_dim,
             {work.d_o, values, work.transposed, sizes.keys, work.to_q, sizes.keys, false});
    multiply(Part::whole, count, sizes.keys, sizes.head_v_dim,
             {work.d_u, values, work.transposed, sizes.keys, work.to_k, sizes.keys, false});
    if (!last && decays.through != 0)
      scalars.gamma[count - 1] += static_cast<double>(decays.through) * static_cast<double>(dot(state, d_state, sizes.head_k_dim * values));
  }
  if (!last) {
    transpose(d_state, values, sizes.head_k_dim, values, work.transposed, sizes.keys, sizes.keys);
    multiply(Part::whole, count, sizes.keys, sizes.head_v_dim, {u, values, work.transposed, sizes.keys, work.by_state, sizes.keys, false});
  }
  through_states(sizes, chunk, decays, last, keys, work, scalars);
  write_values(at, chunk, decays, head, work, scalars);
  multiply(Part::depth_to_diagonal, count, sizes.keys, count, {work.x, kChunk, keys.k, sizes.keys, work.dq, sizes.keys, true});
  multiply_transposed(Part::depth_from_diagonal, count, sizes.keys, count, {work.x, kChunk, keys.q, sizes.keys, work.dk, sizes.keys, true});
  multiply(Part::depth_to_diagonal, count, sizes.keys, count, {work.n, kChunk, keys.k, sizes.keys, work.dk, sizes.keys, true});
  multiply_transposed(Part::depth_from_diagonal, count, sizes.keys, count, {work.n, kChunk, keys.k, sizes.keys, work.dk, sizes.keys, true});
  if (!chunk.continues) return clear(d_state, state_floats(sizes));
  // The gradient of the state that came in.
  for (std::int64_t t = 0; t < count; ++t) {
    scale_row(work.d_o + t * values, values, decays.from_start[t]);
    scale_row(work.d_u + t * values, values, -decays.beta[t] * decays.from_start[t]);
  }
  const bool carried = !last && decays.through != 0;
  if (carried) scale_row(d_state, sizes.head_k_dim * values, decays.through);
  multiply_transposed(Part::whole, sizes.head_k_dim, values, count, {keys.q, sizes.keys, work.d_o, values, d_state, values, carried});
  multiply_transposed(Part::whole, sizes.head_k_dim, values, count, {keys.k, sizes.keys, work.d_u, values, d_state, values, true});
}

template <class T>
MILLRACE_INLINE void write_keys(const GatedDeltaRuleBackward<T>& at, const Chunk& chunk, std::int64_t key_head, const Workspace& work) {
  const GatedDeltaRuleSizes& sizes = at.in.sizes;
  for (std::int64_t t = 0; t < chunk.count; ++t) {
    const std::int64_t begin = ((chunk.first + t) * sizes.key_heads + key_head) * sizes.head_k_dim;
    for (std::int64_t d = 0; d < sizes.head_k_dim; d += 16) {
      const std::int64_t left = sizes.head_k_dim - d;
      store_lanes(at.dq + begin + d, load(work.dq + t * sizes.keys + d) * sizes.scale, left);
      store_lanes(at.dk + begin + d, chunk.padding[t] ? f32x16{} : load(work.dk + t * sizes.keys + d), left);
    }
  }
}

template <class T>
MILLRACE_INLINE void backward(const GatedDeltaRuleBackward<T>& at, std::int64_t row, std::int64_t key_head, float* memory) {
  const GatedDeltaRuleSizes& sizes = at.in.sizes;
  Keys keys;
  const Workspace work = lay_out(sizes, memory, keys);
  recompute(at.in, row, key_head, keys, work);
  Chunk chunk;
  for (std::int64_t index = sizes.chunks - 1; index >= 0; --index) {
    describe(at.in, row, index, chunk);
    pack_keys(at.in, chunk, key_head, true, keys);
    clear(work.dq, 2 * kChunk * sizes.keys);
    for (std::int64_t member = 0; member < sizes.group; ++member)
      backward_head(at, chunk, index, key_head * sizes.group + member, member, keys, work);
    write_keys(at, chunk, key_head, work);
  }
}

}  // namespace

namespace MILLRACE_ISA {

void gated_delta_rule_backward_f32(const GatedDeltaRuleBackward<float>& at, std::int64_t row, std::int64_t key_head, float* memory) {
  backward(at, row, key_head, memory);
}
void gated_delta_rule_backward_bf16(const GatedDeltaRuleBackward<BFloat16>& at, std::int64_t row, std::int64_t key_head, float* memory) {
  backward(at, row, key_head, memory);
}

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
