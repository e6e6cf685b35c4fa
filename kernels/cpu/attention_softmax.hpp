#pragma once

#include <cstdint>

#include "kernels/cpu/attention_tile.hpp"

/// The online softmax of attention's forward, in fp32 and on tile registers. Only for sources of millrace_cpu_kernel() and
/// millrace_tile_kernel().
namespace millrace::kernels::cpu {
namespace {

// A row's reference is updated to its largest score only if that exceeds the reference by more than this, in powers of two: it
// costs a few bits of the probabilities' range, and rows hardly ever have to be rescaled. The decision depends only on the row's
// own scores.
constexpr float kSlack = 8.0F;

/// What is kept of a tile of queries from one tile of keys to the next.
struct SoftmaxState {
  float* o;          // [64, value_padded], not yet divided by the sums
  float* sums;       // [64, 16], one sum per lane of a register
  float* reference;  // [64], subtracted from scores: within kSlack of the largest so far
};

template <class T>
MILLRACE_INLINE void begin_softmax(const AttentionForward<T>& at, std::int64_t head, std::int64_t queries, const SoftmaxState& state) {
  // A sink acts as a first score that comes before all others and has no value.
  f32x16 sum{};
  if (at.sinks != nullptr) sum[0] = 1.0F;
  for (std::int64_t t = 0; t < queries; ++t) {
    store(state.sums + 16 * t, sum);
    state.reference[t] = at.sinks != nullptr ? at.sinks[head] * kLog2E : kMinusInfinity;
  }
}

MILLRACE_INLINE void scale_row(float* row, std::int64_t width, Wide factor) {
  for (std::int64_t d = 0; d < width; d += kWide) store_wide(row + d, load_wide(row + d) * factor);
}

/// Turns the scores of query t into probabilities relative to the row's reference; rescales sums and outputs when the reference rises.
template <bool masked, bool capped, int vectors>
MILLRACE_INLINE void softmax_row(const AttentionSizes& sizes, const ScoreTile& tile, bool first, const SoftmaxState& state, std::int64_t t,
                                 Wide (&score)[vectors]) {
  Wide largest[2] = {wide(kMinusInfinity), wide(kMinusInfinity)};
#pragma GCC unroll 16
  for (int i = 0; i < vectors; ++i) {
    if (capped) score[i] = cap_scores(score[i], sizes.soft_cap);
    if (masked) score[i] = tile.visible(t, i) ? score[i] : wide(kMinusInfinity);
    largest[i % 2] = largest[i % 2] > score[i] ? largest[i % 2] : score[i];
  }
  const Wide larger = largest[0] > largest[1] ? largest[0] : largest[1];
  float reference = state.reference[t];
  if (any_lane_above(larger, reference + kSlack)) [[unlikely]] {
    const float before = reference;
    reference = largest_lane(larger);
    const Wide shrink = power_of_two(wide(before - reference));
    store_wide(state.sums + 16 * t, load_wide(state.sums + 16 * t) * shrink);
    if (!first) scale_row(state.o + t * sizes.value_padded, sizes.value_padded, shrink);
    state.reference[t] = reference;
  }
  const Wide base = wide(reference == kMinusInfinity ? 0.0F : reference);  // nothing seen yet: keep −∞ − base at −∞
  Wide sum = load_wide(state.sums + 16 * t);
#pragma GCC unroll 16
  for (int i = 0; i < vectors; ++i) {
    score[i] = power_of_two(score[i] - base);
    sum += score[i];
  }
  store_wide(state.sums + 16 * t, sum);
}

template <class T>
MILLRACE_INLINE void finish_softmax(const AttentionForward<T>& at, std::int64_t first_token, std::int64_t head, std::int64_t queries,
                                    const SoftmaxState& state) {
  const AttentionSizes& sizes = at.sizes;
  for (std::int64_t t = 0; t < queries; ++t) {
    const float sum = sum_of_lanes(load_wide(state.sums + 16 * t));
    const std::int64_t vector = (first_token + t) * sizes.heads + head;
    const float inverse = 1.0F / sum;
    for (std::int64_t d = 0; d < sizes.value_width; d += 16)
      store_lanes(at.o + vector * sizes.value_width + d, load(state.o + t * sizes.value_padded + d) * inverse, sizes.value_width - d);
    at.log_sum_exp[vector] = state.reference[t] * kLn2 + __builtin_logf(sum);
  }
}

}  // namespace
}  // namespace millrace::kernels::cpu
