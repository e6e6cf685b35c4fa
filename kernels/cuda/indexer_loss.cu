#include "kernels/indexer_loss.hpp"

#include <algorithm>

#include "kernels/base/buffer.hpp"
#include "kernels/cuda/key_lists.cuh"
#include "kernels/cuda/router_losses.cuh"

namespace millrace::kernels::cuda {
namespace {

constexpr std::int64_t kQueryTile = 256;  // queries of a row whose numbers per key are in scratch at a time

template <class T>
struct IndexerTokens {
  const T *q, *k, *index_q, *index_k;
  const float* index_weights;
  const std::int32_t* segments;
  KeyLists lists;                                         // length 0: there are none
  std::int64_t sequence, heads, kv_heads, width, places;  // S, H, K, D; L, or S without lists
  std::int64_t index_heads, index_width;                  // Hi, Di
  float scale, index_scale;
  float* numbers;  // for each query of a tile: dI or P, Q, scores, each [places]
  double* terms;   // of all tokens

  /// Key i of token t, as a place of its row; −1 if there is none.
  __device__ std::int32_t key(std::int64_t t, std::int64_t i) const {
    if (lists.length > 0) return lists.at(t, i);
    return i <= t % sequence && segments[t - t % sequence + i] == segments[t] ? static_cast<std::int32_t>(i) : -1;
  }
  /// The number of the key at a place among those of token t; −1 if it is not among them.
  __device__ std::int64_t find(std::int64_t t, std::int32_t place) const {
    if (lists.length > 0) return lists.find(t, place);
    return key(t, place) >= 0 ? place : -1;
  }
  __device__ float* target_of(std::int64_t query) const { return numbers + query * 3 * places; }
  __device__ float weight(std::int64_t t, std::int64_t h) const { return index_weights[t * index_heads + h] * index_scale; }
  __device__ const T* index_query(std::int64_t t, std::int64_t h) const { return index_q + (t * index_heads + h) * index_width; }
  __device__ const T* index_key(std::int64_t t, std::int64_t place) const { return index_k + (t - t % sequence + place) * index_width; }
};

/// x[i] = exp(x[i] − maximum) / sum over the token's keys, by a block whose threads have every kThreads-th key each.
template <class T>
__device__ void block_softmax(const IndexerTokens<T>& at, std::int64_t t, float* x) {
  float top = -INFINITY, sum = 0;
  for (std::int64_t i = threadIdx.x; i < at.places; i += kThreads)
    if (at.key(t, i) >= 0) top = fmaxf(top, x[i]);
  top = block_maximum<kThreads>(top);
  for (std::int64_t i = threadIdx.x; i < at.places; i += kThreads)
    if (at.key(t, i) >= 0) sum += x[i] = expf(x[i] - top);
  sum = block_sum<kThreads>(sum);
  for (std::int64_t i = threadIdx.x; i < at.places; i += kThreads)
    if (at.key(t, i) >= 0) x[i] /= sum;
}

/// P, Q and the token's term. Every number belongs to one thread.
template <class T>
__device__ void read_token(const IndexerTokens<T>& at, std::int64_t t, float* target, float* found, float* scores) {
  const std::int64_t row = t - t % at.sequence, group = at.heads / at.kv_heads;
  const auto for_keys = [&](auto&& body) {
    for (std::int64_t i = threadIdx.x; i < at.places; i += kThreads) {
      const std::int32_t key = at.key(t, i);
      if (key >= 0) body(i, key);
    }
  };
  for (std::int64_t i = threadIdx.x; i < at.places; i += kThreads) target[i] = found[i] = 0;
  for (std::int64_t h = 0; h < at.heads; ++h) {
    for_keys([&](std::int64_t i, std::int64_t key) {
      scores[i] =
          at.scale * thread_dot(at.q + (t * at.heads + h) * at.width, at.k + ((row + key) * at.kv_heads + h / group) * at.width, at.width);
    });
    block_softmax(at, t, scores);
    for_keys([&](std::int64_t i, std::int64_t) { target[i] += scores[i]; });
  }
  float sum = 0;
  for_keys([&](std::int64_t i, std::int64_t) { sum += target[i]; });
  sum = block_sum<kThreads>(sum) + indexer_loss_epsilon;
  for_keys([&](std::int64_t i, std::int64_t key) {
    target[i] /= sum;
    for (std::int64_t h = 0; h < at.index_heads; ++h) {
      const float product = thread_dot(at.index_query(t, h), at.index_key(t, key), at.index_width);
      found[i] += at.weight(t, h) * (product < 0 ? 0.0F : product);
    }
  });
  block_softmax(at, t, found);
  double term = 0;
  for_keys([&](std::int64_t i, std::int64_t) {
    term += static_cast<double>(target[i] * (logf(target[i] + indexer_loss_epsilon) - logf(found[i] + indexer_loss_epsilon)));
  });
  term = block_sum<kThreads>(term);
  if (threadIdx.x == 0) at.terms[t] = term;
}

/// One block for each query of a tile.
template <class T>
__global__ void __launch_bounds__(kThreads) indexer_terms(IndexerTokens<T> at, std::int64_t first) {
  float* target = at.target_of(blockIdx.x);
  read_token(at, first + blockIdx.x, target, target + at.places, target + 2 * at.places);
}

template <class T>
struct IndexerGradients {
  IndexerTokens<T> in;
  const float* scale;
  T *d_index_q, *d_index_k;
  float *d_index_weights, *key_sums;  // key_sums: f32 [S, Di] of one row
};

/// The same, and the gradients of the query's own operands. dI stays in scratch.
template <class T>
__global__ void __launch_bounds__(kThreads) indexer_query_gradients(IndexerGradients<T> at, std::int64_t first) {
  const IndexerTokens<T>& in = at.in;
  const std::int64_t t = first + blockIdx.x;
  float *target = in.target_of(blockIdx.x), *found = target + in.places, *slopes = found + in.places;
  read_token(in, t, target, found, slopes);
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < in.places; i += kThreads) {
    target[i] *= found[i] / (found[i] + indexer_loss_epsilon);
    sum += target[i];
  }
  sum = block_sum<kThreads>(sum);
  for (std::int64_t i = threadIdx.x; i < in.places; i += kThreads) target[i] = at.scale[0] * (found[i] * sum - target[i]);
  for (std::int64_t h = 0; h < in.index_heads; ++h) {
    float dw = 0;
    for (std::int64_t i = threadIdx.x; i < in.places; i += kThreads) {
      const std::int32_t key = in.key(t, i);
      const float product = key < 0 ? 0.0F : thread_dot(in.index_query(t, h), in.index_key(t, key), in.index_width);
      slopes[i] = product > 0 ? target[i] * in.weight(t, h) : 0.0F;
      dw += target[i] * (product < 0 ? 0.0F : product);
    }
    dw = block_sum<kThreads>(dw);  // and every thread sees the slopes of all
    if (threadIdx.x == 0) at.d_index_weights[t * in.index_heads + h] = dw * in.index_scale;
    for (std::int64_t d = threadIdx.x; d < in.index_width; d += kThreads) {
      float dq = 0;
      for (std::int64_t i = 0; i < in.places; ++i) {
        const std::int32_t key = in.key(t, i);
        if (key >= 0) dq += slopes[i] * load(in.index_key(t, key) + d);
      }
      store(at.d_index_q + (t * in.index_heads + h) * in.index_width + d, dq);
    }
    __syncthreads();  // before the slopes of the next head
  }
}

/// One warp for each key of the row: adds what the tile's queries, in order, give to it. The first tile begins at 0.
template <class T>
__global__ void __launch_bounds__(kThreads) indexer_key_gradient(IndexerGradients<T> at, std::int64_t first, std::int64_t queries) {
  const IndexerTokens<T>& in = at.in;
  const std::int64_t place = warp_number();
  if (place >= in.sequence) return;  // exits as a whole warp
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool begins = first % in.sequence == 0, ends = first % in.sequence + queries == in.sequence;
  float* sums = at.key_sums + place * in.index_width;
  for (std::int64_t column = 0; column < in.index_width; column += kWarpColumns) {
    float sum[kLaneColumns] = {};
    if (!begins) add_columns(1.0F, sums, column, in.index_width, sum);
    for (std::int64_t begin = 0; begin < queries; begin += 32) {
      const std::int64_t mine = begin + lane < queries ? in.find(first + begin + lane, static_cast<std::int32_t>(place)) : -1;
      for (int other = 0; other < 32; ++other) {
        const int i = __shfl_sync(0xffffffffU, static_cast<int>(mine), other);
        if (i < 0) continue;
        const std::int64_t query = begin + other, t = first + query;
        const float slope = in.target_of(query)[i];
        for (std::int64_t h = 0; h < in.index_heads; ++h)
          if (warp_dot(in.index_query(t, h), in.index_key(t, place), in.index_width) > 0)
            add_columns(slope * in.weight(t, h), in.index_query(t, h), column, in.index_width, sum);
      }
    }
    if (ends)
      store_columns(sum, 1.0F, column, in.index_width, at.d_index_k + (first - first % in.sequence + place) * in.index_width);
    else
      store_columns(sum, 1.0F, column, in.index_width, sums);
  }
}

// Scratch: the terms, the numbers of a tile's queries, the sums of a row's keys.
std::int64_t places_of(IndexerLossOptions options) { return options.list_length > 0 ? options.list_length : options.sequence; }
std::int64_t tile_of(IndexerLossOptions options) { return std::min(options.sequence, kQueryTile); }
std::size_t term_bytes(const Shape& q) { return align_up(static_cast<std::size_t>(q[0]) * sizeof(double)); }
std::size_t number_bytes(IndexerLossOptions options) {
  return align_up(static_cast<std::size_t>(3 * tile_of(options) * places_of(options)) * sizeof(float));
}

template <class T>
IndexerTokens<T> tokens_of(const ExecutionContext& context, const IndexerLossOperands& in, IndexerLossOptions options, Scratch scratch) {
  return {
      .q = in.q.as<T>(),
      .k = in.k.as<T>(),
      .index_q = in.index_q.as<T>(),
      .index_k = in.index_k.as<T>(),
      .index_weights = in.index_weights.as<float>(),
      .segments = in.segments.as<std::int32_t>(),
      .lists = {in.keys == nullptr ? nullptr : in.keys->as<std::int32_t>(), options.list_length, options.sequence, state_of(context).fault},
      .sequence = options.sequence,
      .heads = in.q.shape[1],
      .kv_heads = in.k.shape[1],
      .width = in.q.shape[2],
      .places = places_of(options),
      .index_heads = in.index_q.shape[1],
      .index_width = in.index_q.shape[2],
      .scale = options.scale,
      .index_scale = options.index_scale,
      .numbers = reinterpret_cast<float*>(scratch.data() + term_bytes(in.q.shape)),
      .terms = reinterpret_cast<double*>(scratch.data())};
}

/// Calls body(first, queries) for the tiles of queries, which end where rows end.
template <class Body>
void for_tiles(std::int64_t tokens, IndexerLossOptions options, Body&& body) {
  for (std::int64_t row = 0; row < tokens; row += options.sequence)
    for (std::int64_t begin = 0; begin < options.sequence; begin += tile_of(options))
      body(row + begin, std::min(tile_of(options), options.sequence - begin));
}

void add_terms(const ExecutionContext& context, const char* component, const double* terms, std::int64_t tokens, const Tensor& loss) {
  launch(context, component, add_token_parts, dim3(1), dim3(kThreads), 0, terms, tokens, 1.0, loss.as<double>());
}

void indexer_loss(const ExecutionContext& context, const IndexerLossOperands& in, IndexerLossOptions options, const Tensor& loss,
                  Scratch scratch) {
  constexpr const char* component = "kernels.indexer_loss";
  with_type(in.q.dtype, [&]<class T>(T) {
    const IndexerTokens<T> at = tokens_of<T>(context, in, options, scratch);
    for_tiles(in.q.shape[0], options, [&](std::int64_t first, std::int64_t queries) {
      launch(context, component, indexer_terms<T>, dim3(static_cast<unsigned>(queries)), dim3(kThreads), 0, at, first);
    });
    add_terms(context, component, at.terms, in.q.shape[0], loss);
  });
}

void indexer_loss_input_gradient(const ExecutionContext& context, const IndexerLossOperands& in, const Tensor& scale,
                                 IndexerLossOptions options, const Tensor& d_index_q, const Tensor& d_index_k,
                                 const Tensor& d_index_weights, const Tensor& loss, Scratch scratch) {
  constexpr const char* component = "kernels.indexer_loss_input_gradient";
  with_type(in.q.dtype, [&]<class T>(T) {
    const IndexerGradients<T> at{
        .in = tokens_of<T>(context, in, options, scratch),
        .scale = scale.as<float>(),
        .d_index_q = d_index_q.as<T>(),
        .d_index_k = d_index_k.as<T>(),
        .d_index_weights = d_index_weights.as<float>(),
        .key_sums = reinterpret_cast<float*>(scratch.data() + term_bytes(in.q.shape) + number_bytes(options)),
    };
    for_tiles(in.q.shape[0], options, [&](std::int64_t first, std::int64_t queries) {
      launch(context, component, indexer_query_gradients<T>, dim3(static_cast<unsigned>(queries)), dim3(kThreads), 0, at, first);
      launch(context, component, indexer_key_gradient<T>, dim3(blocks_of(options.sequence, kThreads / 32)), dim3(kThreads), 0, at, first,
             queries);
    });
    add_terms(context, component, at.in.terms, in.q.shape[0], loss);
  });
}

std::size_t indexer_loss_scratch_bytes(const Shape& q, const Shape& index_q, DType /*dtype*/, IndexerLossOptions options,
                                       const Processor& /*processor*/) {
  return term_bytes(q) + number_bytes(options) + align_up(static_cast<std::size_t>(options.sequence * index_q[2]) * sizeof(float));
}

const InTable in_table[] = {
    {Backend::cuda, table::indexer_loss, indexer_loss},
    {Backend::cuda, table::indexer_loss_input_gradient, indexer_loss_input_gradient},
    {Backend::cuda, table::indexer_loss_scratch_bytes, indexer_loss_scratch_bytes},
};

}  // namespace
}  // namespace millrace::kernels::cuda
