#include "kernels/sparse_attention.hpp"

#include "kernels/base/buffer.hpp"
#include "kernels/cuda/key_lists.cuh"

namespace millrace::kernels::cuda {
namespace {

struct SparseSizes {
  std::int64_t tokens, sequence, heads, kv_heads, width, value_width;  // T, S, H, K, D, Dv
  float scale, soft_cap;

  __device__ std::int64_t row_begin(std::int64_t t) const { return t / sequence * sequence; }
  /// The key/value vector of query head h at a place of the row of token t.
  __device__ std::int64_t kv_vector(std::int64_t t, std::int64_t place, std::int64_t h) const {
    return (row_begin(t) + place) * kv_heads + h / (heads / kv_heads);
  }
  __device__ float capped(float score) const { return soft_cap > 0 ? soft_cap * tanhf(score / soft_cap) : score; }
  /// Derivative of the capped score with respect to the score, from the capped score.
  __device__ float cap_gradient(float score) const {
    const float share = soft_cap > 0 ? score / soft_cap : 0.0F;
    return 1.0F - share * share;
  }
};

template <class T>
struct SparseOperands {
  SparseSizes sizes;
  KeyLists lists;
  const T *q, *k, *v;
};

/// One warp for each query and head: a lane scores a key, 32 keys at a time, and then every lane adds up its features of their values.
template <class T>
__global__ void __launch_bounds__(kThreads) sparse_forward(SparseOperands<T> at, T* o, float* log_sum_exp) {
  const SparseSizes& sizes = at.sizes;
  const std::int64_t vector = warp_number(), t = vector / sizes.heads, h = vector % sizes.heads;
  if (vector >= sizes.tokens * sizes.heads) return;  // exits as a whole warp
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t first = 0; first < sizes.value_width; first += kWarpColumns) {
    float maximum = -INFINITY, sum = 0, value[kLaneColumns] = {};
    for (std::int64_t begin = 0; begin < at.lists.length; begin += 32) {
      const std::int32_t key = begin + lane < at.lists.length ? at.lists.at(t, begin + lane) : -1;
      if (__ballot_sync(0xffffffffU, key >= 0 ? 1 : 0) == 0) break;
      float score = -INFINITY;
      if (key >= 0)
        score = sizes.capped(thread_dot(at.q + vector * sizes.width, at.k + sizes.kv_vector(t, key, h) * sizes.width, sizes.width) *
                             sizes.scale);
      const float next = fmaxf(maximum, warp_maximum(score)), shrink = expf(maximum - next);
      const float weight = key >= 0 ? expf(score - next) : 0.0F;
      sum = sum * shrink + warp_sum(weight);
      for (int n = 0; n < kLaneColumns; ++n) value[n] *= shrink;
      for (int other = 0; other < 32; ++other) {
        const float of_other = __shfl_sync(0xffffffffU, weight, other);
        const std::int32_t its_key = __shfl_sync(0xffffffffU, key, other);
        if (its_key >= 0) add_columns(of_other, at.v + sizes.kv_vector(t, its_key, h) * sizes.value_width, first, sizes.value_width, value);
      }
      maximum = next;
    }
    const bool empty = maximum == -INFINITY && sum == 0;
    store_columns(value, empty ? 0.0F : 1.0F / sum, first, sizes.value_width, o + vector * sizes.value_width);
    if (first == 0 && lane == 0) log_sum_exp[vector] = empty ? -INFINITY : maximum + logf(sum);
  }
}

template <class T>
struct SparseGradient {
  SparseOperands<T> in;
  const T *d_o, *o;
  const float* log_sum_exp;
  float* delta;  // [T, H], d_o · o
  T *dq, *dk, *dv;
};

/// One warp for each query and head, as in the forward.
template <class T>
__global__ void __launch_bounds__(kThreads) sparse_query_gradient(SparseGradient<T> at) {
  const SparseSizes& sizes = at.in.sizes;
  const std::int64_t vector = warp_number(), t = vector / sizes.heads, h = vector % sizes.heads;
  if (vector >= sizes.tokens * sizes.heads) return;  // exits as a whole warp
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const T* d_o = at.d_o + vector * sizes.value_width;
  const float delta = warp_dot(d_o, at.o + vector * sizes.value_width, sizes.value_width);
  if (lane == 0) at.delta[vector] = delta;
  for (std::int64_t first = 0; first < sizes.width; first += kWarpColumns) {
    float sum[kLaneColumns] = {};
    for (std::int64_t begin = 0; begin < at.in.lists.length; begin += 32) {
      const std::int32_t key = begin + lane < at.in.lists.length ? at.in.lists.at(t, begin + lane) : -1;
      if (__ballot_sync(0xffffffffU, key >= 0 ? 1 : 0) == 0) break;
      float slope = 0;
      if (key >= 0) {
        const std::int64_t of_key = sizes.kv_vector(t, key, h);
        const float score =
            sizes.capped(thread_dot(at.in.q + vector * sizes.width, at.in.k + of_key * sizes.width, sizes.width) * sizes.scale);
        const float dp = thread_dot(d_o, at.in.v + of_key * sizes.value_width, sizes.value_width);
        slope = expf(score - at.log_sum_exp[vector]) * (dp - delta) * sizes.cap_gradient(score);
      }
      for (int other = 0; other < 32; ++other) {
        const float of_other = __shfl_sync(0xffffffffU, slope, other);
        const std::int32_t its_key = __shfl_sync(0xffffffffU, key, other);
        if (its_key >= 0) add_columns(of_other, at.in.k + sizes.kv_vector(t, its_key, h) * sizes.width, first, sizes.width, sum);
      }
    }
    store_columns(sum, sizes.scale, first, sizes.width, at.dq + vector * sizes.width);
  }
}

/// One warp for each key and key/value head: 32 queries at a time look it up in their lists, and those that have it add to it in order.
template <class T>
__global__ void __launch_bounds__(kThreads) sparse_key_gradient(SparseGradient<T> at) {
  const SparseSizes& sizes = at.in.sizes;
  const std::int64_t of_key = warp_number(), u = of_key / sizes.kv_heads, kv_head = of_key % sizes.kv_heads;
  if (of_key >= sizes.tokens * sizes.kv_heads) return;  // exits as a whole warp
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t row = sizes.row_begin(u), group = sizes.heads / sizes.kv_heads;
  const std::int64_t widest = sizes.width > sizes.value_width ? sizes.width : sizes.value_width;
  for (std::int64_t first = 0; first < widest; first += kWarpColumns) {
    float dk[kLaneColumns] = {}, dv[kLaneColumns] = {};
    for (std::int64_t begin = 0; begin < sizes.sequence; begin += 32) {
      const bool lists = begin + lane < sizes.sequence && at.in.lists.find(row + begin + lane, static_cast<std::int32_t>(u - row)) >= 0;
      const unsigned found = __ballot_sync(0xffffffffU, lists ? 1 : 0);
      for (int other = 0; other < 32; ++other) {
        if ((found >> other & 1U) == 0) continue;
        const std::int64_t t = row + begin + other;
        for (std::int64_t vector = t * sizes.heads + kv_head * group; vector < t * sizes.heads + (kv_head + 1) * group; ++vector) {
          const T *q = at.in.q + vector * sizes.width, *d_o = at.d_o + vector * sizes.value_width;
          const float score = sizes.capped(warp_dot(q, at.in.k + of_key * sizes.width, sizes.width) * sizes.scale);
          const float p = expf(score - at.log_sum_exp[vector]);
          const float dp = warp_dot(d_o, at.in.v + of_key * sizes.value_width, sizes.value_width);
          add_columns(p * (dp - at.delta[vector]) * sizes.cap_gradient(score), q, first, sizes.width, dk);
          add_columns(p, d_o, first, sizes.value_width, dv);
        }
      }
    }
    store_columns(dk, sizes.scale, first, sizes.width, at.dk + of_key * sizes.width);
    store_columns(dv, 1.0F, first, sizes.value_width, at.dv + of_key * sizes.value_width);
  }
}

template <class T>
SparseOperands<T> operands_of(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keys,
                              SparseAttentionOptions options) {
  return {
      {q.shape[0], options.sequence, q.shape[1], k.shape[1], q.shape[2], value_width(options, q.shape[2]), options.scale, options.soft_cap},
      {keys.as<std::int32_t>(), keys.shape[1], options.sequence, state_of(context).fault},
      q.as<T>(),
      k.as<T>(),
      v.as<T>()};
}

dim3 warps(std::int64_t count) { return dim3(blocks_of(count, kThreads / 32)); }

void sparse_attention_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keys,
                              SparseAttentionOptions options, const Tensor& o, const Tensor& log_sum_exp, Scratch /*scratch*/) {
  with_type(q.dtype, [&]<class T>(T) {
    launch(context, "kernels.sparse_attention_forward", sparse_forward<T>, warps(q.shape[0] * q.shape[1]), dim3(kThreads), 0,
           operands_of<T>(context, q, k, v, keys, options), o.as<T>(), log_sum_exp.as<float>());
  });
}

void sparse_attention_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& o, const Tensor& log_sum_exp, const Tensor& keys, SparseAttentionOptions options,
                                     const Tensor& dq, const Tensor& dk, const Tensor& dv, Scratch scratch) {
  constexpr const char* component = "kernels.sparse_attention_input_gradient";
  with_type(q.dtype, [&]<class T>(T) {
    const SparseGradient<T> at{operands_of<T>(context, q, k, v, keys, options), d_o.as<T>(), o.as<T>(),  log_sum_exp.as<float>(),
                               reinterpret_cast<float*>(scratch.data()),        dq.as<T>(),  dk.as<T>(), dv.as<T>()};
    launch(context, component, sparse_query_gradient<T>, warps(q.shape[0] * q.shape[1]), dim3(kThreads), 0, at);
    launch(context, component, sparse_key_gradient<T>, warps(k.shape[0] * k.shape[1]), dim3(kThreads), 0, at);
  });
}

std::size_t sparse_attention_scratch_bytes(const Shape& q, const Shape& /*k*/, std::int64_t /*list_length*/, DType /*dtype*/,
                                           SparseAttentionOptions /*options*/, const Processor& /*processor*/) {
  return align_up(static_cast<std::size_t>(q[0] * q[1]) * sizeof(float));
}

const InTable in_table[] = {
    {Backend::cuda, table::sparse_attention_forward, sparse_attention_forward},
    {Backend::cuda, table::sparse_attention_input_gradient, sparse_attention_input_gradient},
    {Backend::cuda, table::sparse_attention_scratch_bytes, sparse_attention_scratch_bytes},
};

}  // namespace
}  // namespace millrace::kernels::cuda
