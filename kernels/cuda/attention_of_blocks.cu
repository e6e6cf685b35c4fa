#include "kernels/cuda/attention_of_blocks.hpp"

#include "kernels/cuda/attention_kernels.hpp"
#include "kernels/cuda/attention_tile.cuh"

namespace millrace::kernels::cuda {
namespace {

/// Numbers of a head vector that a lane holds: every 32nd.
constexpr int kHeld = static_cast<int>(kMaximumHeadSize) / 32;
constexpr int kWarps = kThreads / 32;

/// The choices of one call, and the sizes of their operands.
struct Picks {
  AttentionSizes sizes;
  const std::int32_t* segments;
  const std::int32_t* choice;
  std::int64_t block, words;

  /// Whether the query at index `query` of a row, whose choice and segment these are, sees the key at index `key`, whose segment is given.
  __device__ bool sees(const std::int32_t* chosen, int query, int key, std::int32_t query_segment, std::int32_t key_segment) const {
    const Seen seen = seen_by(sizes, query);
    const std::int64_t b = key / block;
    return key >= seen.begin && key < seen.end && query_segment == key_segment &&
           (static_cast<unsigned>(chosen[b / 32]) >> (b % 32) & 1U) != 0;
  }
};

__device__ __forceinline__ int block_lane() { return static_cast<int>(threadIdx.x) % 32; }
/// The index of this warp among all of the launch.
__device__ __forceinline__ std::int64_t block_warp() { return static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; }

template <class T>
__device__ __forceinline__ void load_vector(const T* x, int width, float (&held)[kHeld]) {
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int d = block_lane() + 32 * i;
    held[i] = d < width ? load(x + d) : 0.0F;
  }
}
template <class T>
__device__ __forceinline__ void store_vector(T* y, int width, const float (&held)[kHeld], float factor) {
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int d = block_lane() + 32 * i;
    if (d < width) store(y + d, held[i] * factor);
  }
}
/// The product of a vector in memory with one that the warp holds, returned to all lanes.
template <class T>
__device__ __forceinline__ float product_with(const T* x, int width, const float (&held)[kHeld]) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int d = block_lane() + 32 * i;
    if (d < width) sum += load(x + d) * held[i];
  }
  return warp_sum(sum);
}
template <class T>
__device__ __forceinline__ void add_vector(float factor, const T* x, int width, float (&held)[kHeld]) {
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int d = block_lane() + 32 * i;
    if (d < width) held[i] += factor * load(x + d);
  }
}

template <class T>
struct PickedForward {
  Picks picks;
  const T *q, *k, *v;
  const float* sinks;  // or null
  T* o;
  float* log_sum_exp;
};

/// A warp for each query of each head, whose keys come in order.
template <class T>
__global__ void __launch_bounds__(kThreads) picked_forward(PickedForward<T> at) {
  const AttentionSizes& sizes = at.picks.sizes;
  const std::int64_t vector = block_warp();
  if (vector >= sizes.rows * sizes.sequence * sizes.heads) return;  // exits as a whole warp
  const std::int64_t token = vector / sizes.heads, head = vector % sizes.heads, kv_head = head / (sizes.heads / sizes.kv_heads);
  const std::int64_t row_begin = token / sizes.sequence * sizes.sequence;
  const auto query = static_cast<int>(token - row_begin);
  const auto width = static_cast<int>(sizes.width), value_width = static_cast<int>(sizes.value_width);
  const std::int32_t* chosen = at.picks.choice + vector * at.picks.words;
  float q[kHeld], sums[kHeld] = {};
  load_vector(at.q + vector * width, width, q);
  float maximum = at.sinks == nullptr ? -INFINITY : at.sinks[head], sum = at.sinks == nullptr ? 0.0F : 1.0F;
  const Seen seen = seen_by(sizes, query);
  for (int key = seen.begin < 0 ? 0 : seen.begin; key < seen.end; ++key) {
    const std::int64_t u = row_begin + key, place = u * sizes.kv_heads + kv_head;
    if (!at.picks.sees(chosen, query, key, at.picks.segments[token], at.picks.segments[u])) continue;
    const float score = capped(sizes, product_with(at.k + place * width, width, q));
    const float larger = fmaxf(maximum, score), kept = expf(maximum - larger), weight = expf(score - larger);
    maximum = larger;
    sum = sum * kept + weight;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) sums[i] *= kept;
    add_vector(weight, at.v + place * value_width, value_width, sums);
  }
  store_vector(at.o + vector * value_width, value_width, sums, 1 / sum);
  if (block_lane() == 0) at.log_sum_exp[vector] = maximum + logf(sum);
}

template <class T>
struct PickedBackward {
  Picks picks;
  const T *d_o, *q, *k, *v, *o;
  const float* log_sum_exp;
  float* delta;
  T *dq, *dk, *dv;
};

/// The probability of a pair and the gradient of q · k, for all lanes.
struct PairGradient {
  float probability, gradient;
  __device__ PairGradient(const AttentionSizes& sizes, float product, float d_probability, float log_sum_exp, float delta) {
    const float score = capped(sizes, product);
    probability = expf(score - log_sum_exp);
    gradient = probability * (d_probability - delta) * cap_gradient(sizes, score);
  }
};

/// dq and delta, a warp for each query of each head, whose keys come in order.
template <class T>
__global__ void __launch_bounds__(kThreads) picked_query_gradients(PickedBackward<T> at) {
  const AttentionSizes& sizes = at.picks.sizes;
  const std::int64_t vector = block_warp();
  if (vector >= sizes.rows * sizes.sequence * sizes.heads) return;  // exits as a whole warp
  const std::int64_t token = vector / sizes.heads, head = vector % sizes.heads, kv_head = head / (sizes.heads / sizes.kv_heads);
  const std::int64_t row_begin = token / sizes.sequence * sizes.sequence;
  const auto query = static_cast<int>(token - row_begin);
  const auto width = static_cast<int>(sizes.width), value_width = static_cast<int>(sizes.value_width);
  const std::int32_t* chosen = at.picks.choice + vector * at.picks.words;
  float q[kHeld], d_o[kHeld], dq[kHeld] = {};
  load_vector(at.q + vector * width, width, q);
  load_vector(at.d_o + vector * value_width, value_width, d_o);
  const float delta = product_with(at.o + vector * value_width, value_width, d_o);
  if (block_lane() == 0) at.delta[vector] = delta;
  const Seen seen = seen_by(sizes, query);
  for (int key = seen.begin < 0 ? 0 : seen.begin; key < seen.end; ++key) {
    const std::int64_t u = row_begin + key, place = u * sizes.kv_heads + kv_head;
    if (!at.picks.sees(chosen, query, key, at.picks.segments[token], at.picks.segments[u])) continue;
    const PairGradient pair(sizes, product_with(at.k + place * width, width, q), product_with(at.v + place * value_width, value_width, d_o),
                            at.log_sum_exp[vector], delta);
    add_vector(pair.gradient, at.k + place * width, width, dq);
  }
  store_vector(at.dq + vector * width, width, dq, 1);
}

/// dk and dv, a warp for each key of each key/value head: query heads of the group in order, and for each its queries in order.
template <class T>
__global__ void __launch_bounds__(kThreads) picked_key_gradients(PickedBackward<T> at) {
  const AttentionSizes& sizes = at.picks.sizes;
  const std::int64_t place = block_warp();
  if (place >= sizes.rows * sizes.sequence * sizes.kv_heads) return;  // exits as a whole warp
  const std::int64_t u = place / sizes.kv_heads, kv_head = place % sizes.kv_heads, group = sizes.heads / sizes.kv_heads;
  const std::int64_t row_begin = u / sizes.sequence * sizes.sequence;
  const auto key = static_cast<int>(u - row_begin);
  const auto width = static_cast<int>(sizes.width), value_width = static_cast<int>(sizes.value_width);
  float k[kHeld], v[kHeld], dk[kHeld] = {}, dv[kHeld] = {};
  load_vector(at.k + place * width, width, k);
  load_vector(at.v + place * value_width, value_width, v);
  const Seen queries = seeing(sizes, key, key);
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
    for (int query = queries.begin; query < queries.end; ++query) {
      const std::int64_t token = row_begin + query, vector = token * sizes.heads + head;
      if (!at.picks.sees(at.picks.choice + vector * at.picks.words, query, key, at.picks.segments[token], at.picks.segments[u])) continue;
      const PairGradient pair(sizes, product_with(at.q + vector * width, width, k),
                              product_with(at.d_o + vector * value_width, value_width, v), at.log_sum_exp[vector], at.delta[vector]);
      add_vector(pair.probability, at.d_o + vector * value_width, value_width, dv);
      add_vector(pair.gradient, at.q + vector * width, width, dk);
    }
  store_vector(at.dk + place * width, width, dk, 1);
  store_vector(at.dv + place * value_width, value_width, dv, 1);
}

Picks picks_of(const Tensor& q, const Tensor& k, const Tensor& segments, AttentionOptions options, const Tensor& choice) {
  return {attention_sizes(q.shape, k.shape, options), segments.as<std::int32_t>(), choice.as<std::int32_t>(), options.block,
          choice.shape[2]};
}

}  // namespace

void attention_of_blocks_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& segments,
                                 AttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, const Tensor* sinks,
                                 const Tensor& choice) {
  with_type(q.dtype, [&](auto type) {
    using T = decltype(type);
    launch(context, "kernels.attention_forward", picked_forward<T>, dim3(blocks_of(q.shape[0] * q.shape[1], kWarps)), dim3(kThreads), 0,
           PickedForward<T>{picks_of(q, k, segments, options, choice), q.as<T>(), k.as<T>(), v.as<T>(),
                            sinks == nullptr ? nullptr : sinks->as<float>(), o.as<T>(), log_sum_exp.as<float>()});
  });
}

void attention_of_blocks_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k,
                                        const Tensor& v, const Tensor& o, const Tensor& log_sum_exp, const Tensor& segments,
                                        AttentionOptions options, const Tensor& dq, const Tensor& dk, const Tensor& dv,
                                        const Tensor& choice, float* delta) {
  constexpr const char* component = "kernels.attention_input_gradient";
  with_type(q.dtype, [&](auto type) {
    using T = decltype(type);
    const PickedBackward<T> at{picks_of(q, k, segments, options, choice),
                               d_o.as<T>(),
                               q.as<T>(),
                               k.as<T>(),
                               v.as<T>(),
                               o.as<T>(),
                               log_sum_exp.as<float>(),
                               delta,
                               dq.as<T>(),
                               dk.as<T>(),
                               dv.as<T>()};
    launch(context, component, picked_query_gradients<T>, dim3(blocks_of(q.shape[0] * q.shape[1], kWarps)), dim3(kThreads), 0, at);
    launch(context, component, picked_key_gradients<T>, dim3(blocks_of(k.shape[0] * k.shape[1], kWarps)), dim3(kThreads), 0, at);
  });
}

}  // namespace millrace::kernels::cuda
