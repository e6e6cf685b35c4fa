#pragma once

#include <cstdint>

#include "kernels/cpu/gated_delta_rule_loops.hpp"
#include "kernels/cpu/simd/lanes.hpp"
#include "kernels/cpu/simd/transpose_16x16.hpp"
#include "kernels/cpu/tile_product.hpp"

/// Code that the gated delta rule's forward and backward share: packing, decays, the matrices of a chunk, the solution of (I + L)·U = R.
/// The words are those of kernels/gated_delta_rule.hpp. Only for sources of millrace_cpu_kernel().
namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kSquare = kChunk * kChunk;

// -- products: each a call, so that their blocks are compiled once ------------------------------------------------------------------------

[[gnu::noinline]] void multiply(Part part, std::int64_t rows, std::int64_t columns, std::int64_t depth, const Product& x) {
  product<false>(part, rows, columns, depth, x);
}
/// With the transpose of `a`.
[[gnu::noinline]] void multiply_transposed(Part part, std::int64_t rows, std::int64_t columns, std::int64_t depth, const Product& x) {
  product<true>(part, rows, columns, depth, x);
}

// -- packing ------------------------------------------------------------------------------------------------------------------------------

/// Row t of `packed` = factor · row t of x, with zeros up to `padded`. Rows whose flag is set are zero.
template <class T>
MILLRACE_INLINE void pack_rows(const T* x, std::int64_t step, std::int64_t count, std::int64_t width, std::int64_t padded, float factor,
                               const bool* zero, float* packed) {
  for (std::int64_t t = 0; t < count; ++t)
    for (std::int64_t d = 0; d < padded; d += 16)
      store(packed + t * padded + d, zero != nullptr && zero[t] ? f32x16{} : load_lanes(x + t * step + d, width - d) * factor);
}

/// out[column · out_step + row] = in[row · in_step + column] for `rows` rows of `columns` columns, a multiple of 16. The rows of `out` have
/// `tall` elements, a multiple of 16, of which those beyond `rows` become zero.
[[gnu::noinline]] void transpose(const float* in, std::int64_t in_step, std::int64_t rows, std::int64_t columns, float* out,
                                 std::int64_t out_step, std::int64_t tall) {
  for (std::int64_t row = 0; row < tall; row += 16)
    for (std::int64_t column = 0; column < columns; column += 16) {
      f32x16 square[16];
      const float* from = in + row * in_step + column;
      for (std::int64_t i = 0; i < 16; ++i) square[i] = row + i < rows ? load(from + i * in_step) : f32x16{};
      transpose_16x16(square);
      for (std::int64_t i = 0; i < 16; ++i) store(out + (column + i) * out_step + row, square[i]);
    }
}

MILLRACE_INLINE void scale_row(float* row, std::int64_t width, float factor) {
  for (std::int64_t d = 0; d < width; d += 16) store(row + d, load(row + d) * factor);
}
MILLRACE_INLINE void clear(float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 16) store(to + i, f32x16{});
}

// -- a chunk ------------------------------------------------------------------------------------------------------------------------------

/// Tokens of a chunk. They form runs: tokens of one state, which begins anew with each run but perhaps the first.
struct Chunk {
  std::int64_t first;  // token, counted from the microbatch's first
  std::int64_t count;
  bool continues;  // the first run has the state of the chunk before
  bool padding[kChunk];
  std::int32_t start[kChunk];  // the first token of the token's run, counted in the chunk
};

template <class T>
MILLRACE_INLINE void describe(const GatedDeltaRuleOperands<T>& in, std::int64_t row, std::int64_t index, Chunk& chunk) {
  const GatedDeltaRuleSizes& sizes = in.sizes;
  chunk.first = row * sizes.sequence + index * kChunk;
  chunk.count = smaller(kChunk, sizes.sequence - index * kChunk);
  chunk.continues = index > 0;
  std::int32_t start = 0;
  for (std::int64_t t = 0; t < chunk.count; ++t) {
    const std::int32_t* segment = in.segments + chunk.first + t;
    chunk.padding[t] = sizes.read_segments && segment[0] == 0;
    if (sizes.read_segments && sizes.reset_at_segments && (index > 0 || t > 0) && segment[0] != segment[-1]) {
      start = static_cast<std::int32_t>(t);
      if (t == 0) chunk.continues = false;
    }
    chunk.start[t] = start;
  }
}

/// Decays of one value head in a chunk. γ restarts with each run and is the sum of two floats: its differences are then as exact as the
/// exponential, however large the decays before them were.
struct Decays {
  alignas(64) float gamma[kChunk];
  alignas(64) float gamma_rest[kChunk];
  alignas(64) float from_start[kChunk];  // factor of the state that comes in: 0 behind a border
  alignas(64) float to_end[kChunk];      // factor of a token's update in the state that goes out: 0 before a border
  float beta[kChunk];
  float through;  // factor of the state that comes in in the one that goes out
};

template <class T>
MILLRACE_INLINE void describe(const GatedDeltaRuleOperands<T>& in, const Chunk& chunk, std::int64_t head, Decays& decays) {
  double sum = 0;
  for (std::int64_t t = 0; t < kChunk; ++t) {
    const std::int64_t at = (chunk.first + t) * in.sizes.value_heads + head;
    if (t < chunk.count) {
      if (chunk.start[t] == t) sum = 0;
      // What a run's first token adds cancels in every difference; it counts only in the factors of the state that comes in.
      if (!chunk.padding[t]) sum += static_cast<double>(in.g[at]);
      decays.beta[t] = in.beta[at];
    }
    decays.gamma[t] = static_cast<float>(sum);
    decays.gamma_rest[t] = static_cast<float>(sum - static_cast<double>(decays.gamma[t]));
  }
  const std::int64_t last = chunk.count - 1;
  for (std::int64_t t = 0; t < kChunk; t += 16) {
    const f32x16 gamma = load(decays.gamma + t), rest = load(decays.gamma_rest + t), from_start = exponential(gamma);
    store(decays.from_start + t, from_start + from_start * rest);
    store(decays.to_end + t, exponential((decays.gamma[last] - gamma) + (decays.gamma_rest[last] - rest)));
  }
  for (std::int64_t t = 0; t < chunk.count; ++t) {
    if (chunk.start[t] > 0 || !chunk.continues) decays.from_start[t] = 0;
    if (t < chunk.start[last]) decays.to_end[t] = 0;
  }
  decays.through = decays.from_start[last];
}

/// All ones in the lanes of tokens j = column … column + 15 with from <= j <= to.
MILLRACE_INLINE u32x16 lanes_within(std::int64_t column, std::int64_t from, std::int64_t to) {
  const i32x16 index = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const i32x16 token = index + static_cast<std::int32_t>(column);
  return ~(u32x16)(((token - static_cast<std::int32_t>(from)) | (static_cast<std::int32_t>(to) - token)) >> 31);
}
MILLRACE_INLINE f32x16 only(f32x16 x, u32x16 lanes) { return (f32x16)((u32x16)x & lanes); }

/// Λ_ij of token i, for sixteen tokens j from `column` on; 0 for later tokens and other runs.
MILLRACE_INLINE f32x16 decay_lanes(const Chunk& chunk, const Decays& decays, std::int64_t i, std::int64_t column) {
  const f32x16 difference = (decays.gamma[i] - load(decays.gamma + column)) + (decays.gamma_rest[i] - load(decays.gamma_rest + column));
  return only(exponential(difference), lanes_within(column, chunk.start[i], i));
}

/// The packed operands of a chunk, and the square matrices that its value heads share. Those are computed up to the diagonal; what is
/// beyond has any value.
struct Keys {
  float* q;             // [64, keys], times the scale
  float* k;             // [64, keys]
  float* k_transposed;  // [keys, 64]
  float* kk;            // KKᵀ
  float* qk;            // QKᵀ
};

/// The first delta_chunk_floats of a thread's memory: this, and five more square matrices from `squares` on.
MILLRACE_INLINE Keys lay_out(const GatedDeltaRuleSizes& sizes, float* memory, float*& squares) {
  const std::int64_t tile = kChunk * sizes.keys;
  squares = memory + 3 * tile + 2 * kSquare;
  return {memory, memory + tile, memory + 2 * tile, memory + 3 * tile, memory + 3 * tile + kSquare};
}

/// Packs a chunk of one key head and multiplies what its value heads share; Q only if `queries`.
template <class T>
MILLRACE_INLINE void pack_keys(const GatedDeltaRuleOperands<T>& in, const Chunk& chunk, std::int64_t key_head, bool queries,
                               const Keys& to) {
  const GatedDeltaRuleSizes& sizes = in.sizes;
  const std::int64_t step = sizes.key_heads * sizes.head_k_dim, begin = (chunk.first * sizes.key_heads + key_head) * sizes.head_k_dim;
  const std::int64_t columns = (chunk.count + 15) / 16 * 16;
  pack_rows(in.k + begin, step, chunk.count, sizes.head_k_dim, sizes.keys, 1.0F, chunk.padding, to.k);
  transpose(to.k, sizes.keys, chunk.count, sizes.keys, to.k_transposed, kChunk, columns);
  multiply(Part::columns_to_diagonal, chunk.count, columns, sizes.head_k_dim,
           {to.k, sizes.keys, to.k_transposed, kChunk, to.kk, kChunk, false});
  if (!queries) return;
  pack_rows(in.q + begin, step, chunk.count, sizes.head_k_dim, sizes.keys, sizes.scale, nullptr, to.q);
  multiply(Part::columns_to_diagonal, chunk.count, columns, sizes.head_k_dim,
           {to.q, sizes.keys, to.k_transposed, kChunk, to.qk, kChunk, false});
}

/// −L and, where they are not null, P = QKᵀ∘Λ and Λ of one value head; all zero beyond the diagonal.
MILLRACE_INLINE void weigh(const Chunk& chunk, const Decays& decays, const Keys& keys, float* minus_l, float* p, float* lambda) {
  for (std::int64_t i = 0; i < chunk.count; ++i)
    for (std::int64_t column = 0; column < kChunk; column += 16) {
      const std::int64_t at = i * kChunk + column;
      f32x16 decay{}, lower{}, weight{};
      if (column <= i) {
        decay = decay_lanes(chunk, decays, i, column);
        lower = only(load(keys.kk + at), lanes_within(column, chunk.start[i], i - 1)) * decay * -decays.beta[i];
        if (p != nullptr) weight = only(load(keys.qk + at), lanes_within(column, chunk.start[i], i)) * decay;
      }
      store(minus_l + at, lower);
      if (p != nullptr) store(p + at, weight);
      if (lambda != nullptr) store(lambda + at, decay);
    }
}

// -- triangles ----------------------------------------------------------------------------------------------------------------------------

constexpr std::int64_t kSolved = 16;  // rows that are solved one by one, after a product with all that are solved already

/// Row i += Σ over j in [begin, end) of factor(j)·row j, in order.
template <class Factor>
MILLRACE_INLINE void add_rows(float* x, std::int64_t width, std::int64_t i, std::int64_t begin, std::int64_t end, Factor factor) {
  for (std::int64_t d = 0; d < width; d += 16) {
    constexpr int vectors = static_cast<int>(16 / kWide);
    Wide sum[vectors];
    for (int n = 0; n < vectors; ++n) sum[n] = load_wide(x + i * width + d + n * kWide);
    for (std::int64_t j = begin; j < end; ++j) {
      const Wide left = broadcast(factor(j));
      for (int n = 0; n < vectors; ++n) sum[n] = multiply_add(left, load_wide(x + j * width + d + n * kWide), sum[n]);
    }
    for (int n = 0; n < vectors; ++n) __builtin_memcpy(x + i * width + d + n * kWide, &sum[n], sizeof(Wide));
  }
}

/// Solves (I + L)·x = x in place, x [count, width].
[[gnu::noinline]] void solve(const float* minus_l, std::int64_t count, std::int64_t width, float* x) {
  for (std::int64_t row = 0; row < count; row += kSolved) {
    const std::int64_t end = smaller(row + kSolved, count);
    if (row > 0) multiply(Part::whole, end - row, width, row, {minus_l + row * kChunk, kChunk, x, width, x + row * width, width, true});
    for (std::int64_t i = row + 1; i < end; ++i)
      add_rows(
          x, width, i, row, i, [&](std::int64_t j) __attribute__((always_inline)) { return minus_l + i * kChunk + j; });
  }
}

// -- the state ----------------------------------------------------------------------------------------------------------------------------

/// U of a chunk and value head: diag(β)·(V − diag(e^γ)·KΩ), solved. Nothing reads `state` if no run continues it.
template <class T>
MILLRACE_INLINE void update(const GatedDeltaRuleOperands<T>& in, const Chunk& chunk, const Decays& decays, std::int64_t head,
                            const float* k, const float* minus_l, const float* state, float* u) {
  const GatedDeltaRuleSizes& sizes = in.sizes;
  if (chunk.continues)
    multiply(Part::whole, chunk.count, sizes.values, sizes.head_k_dim, {k, sizes.keys, state, sizes.values, u, sizes.values, false});
  for (std::int64_t t = 0; t < chunk.count; ++t) {
    const T* v = in.v + ((chunk.first + t) * sizes.value_heads + head) * sizes.head_v_dim;
    float* row = u + t * sizes.values;
    for (std::int64_t d = 0; d < sizes.values; d += 16) {
      f32x16 error = chunk.padding[t] ? f32x16{} : load_lanes(v + d, sizes.head_v_dim - d);
      if (chunk.continues) error -= load(row + d) * decays.from_start[t];
      store(row + d, error * decays.beta[t]);
    }
  }
  solve(minus_l, chunk.count, sizes.values, u);
}

/// The state after a chunk, from the state before it, which may be the same memory: e^γ_c·Ω + Kᵀ·diag(e^(γ_c − γ))·U.
MILLRACE_INLINE void advance(const GatedDeltaRuleSizes& sizes, const Chunk& chunk, const Decays& decays, const float* k, const float* u,
                             float* decayed, const float* before, float* after) {
  for (std::int64_t t = 0; t < chunk.count; ++t)
    for (std::int64_t d = 0; d < sizes.values; d += 16)
      store(decayed + t * sizes.values + d, load(u + t * sizes.values + d) * decays.to_end[t]);
  const bool carried = decays.through != 0;
  if (carried)
    for (std::int64_t i = 0; i < sizes.head_k_dim * sizes.values; i += 16) store(after + i, load(before + i) * decays.through);
  multiply_transposed(Part::whole, sizes.head_k_dim, sizes.values, chunk.count,
                      {k, sizes.keys, decayed, sizes.values, after, sizes.values, carried});
}

}  // namespace
}  // namespace millrace::kernels::cpu
