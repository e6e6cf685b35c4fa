#include "kernels/embedding.hpp"

#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

constexpr int kEmbeddingThreads = 128;
constexpr int kEmbeddingPack = 8;                                        // columns per thread
constexpr int kEmbeddingColumns = kEmbeddingThreads * kEmbeddingPack;    // per block
constexpr int kTokensEach = 4;                                           // checked by a thread between two barriers
constexpr std::int64_t kTokensAtOnce = kEmbeddingThreads * kTokensEach;  // checked by a block between two barriers

template <class From, class To>
struct EmbeddingForward {
  const std::int32_t* tokens;
  const From* table;
  To* y;
  std::int64_t vocabulary, width;
  FaultSlot* fault;
};

template <bool Whole, class From, class To>
__global__ void __launch_bounds__(kEmbeddingThreads) embedding_row(EmbeddingForward<From, To> at) {
  const std::int64_t t = blockIdx.x;
  const std::int32_t token = at.tokens[t];
  const bool known = token >= 0 && token < at.vocabulary;
  if (!known && threadIdx.x == 0) report(at.fault, FaultSlot::token, token, t, at.vocabulary);
  for (std::int64_t d = static_cast<std::int64_t>(threadIdx.x) * kEmbeddingPack; d < at.width; d += kEmbeddingColumns) {
    float value[kEmbeddingPack] = {};
    if (known) load_pack<Whole, kEmbeddingPack>(at.table + token * at.width + d, at.width - d, value);
    store_pack<Whole, kEmbeddingPack>(at.y + t * at.width + d, at.width - d, value);
  }
}

template <class T>
struct EmbeddingGradient {
  const std::int32_t* tokens;
  const T* dy;
  float* gradient;
  std::int64_t count, vocabulary, width;
};

// One block for each position and strip of columns. The first position of a token sums for all of its positions, so that one
// thread adds an element's terms in order; the other blocks exit.
template <bool Whole, class T>
__global__ void __launch_bounds__(kEmbeddingThreads) embedding_gradient_row(EmbeddingGradient<T> at) {
  __shared__ unsigned matches[kEmbeddingThreads];  // thread i's word has one bit for each of its tokens that equals this block's
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t first = blockIdx.x;
  const std::int32_t token = at.tokens[first];
  if (token < 0 || token >= at.vocabulary) return;  // the forward pass has reported it
  for (std::int64_t begin = 0; begin < first; begin += kTokensAtOnce) {
    bool earlier = false;
#pragma unroll
    for (int k = 0; k < kTokensEach; ++k) {
      const std::int64_t t = begin + k * kEmbeddingThreads + thread;
      earlier = earlier || (t < first && at.tokens[t] == token);
    }
    if (__syncthreads_or(earlier ? 1 : 0) != 0) return;
  }

  const std::int64_t d = static_cast<std::int64_t>(blockIdx.y) * kEmbeddingColumns + thread * kEmbeddingPack;
  const std::int64_t left = at.width - d;  // may be none: the thread still searches for tokens
  float* row = at.gradient + token * at.width + d;
  float sum[kEmbeddingPack] = {};
  if (left > 0) load_pack<Whole, kEmbeddingPack>(row, left, sum);
  for (std::int64_t begin = first; begin < at.count; begin += kTokensAtOnce) {
    unsigned mine = 0;
#pragma unroll
    for (int k = 0; k < kTokensEach; ++k) {
      const std::int64_t t = begin + thread * kTokensEach + k;
      if (t < at.count && at.tokens[t] == token) mine |= 1U << k;
    }
    matches[thread] = mine;
    if (__syncthreads_or(mine != 0 ? 1 : 0) != 0 && left > 0) {
      for (int other = 0; other < kEmbeddingThreads; ++other) {
        const unsigned found = matches[other];
        if (found == 0) continue;
        for (int k = 0; k < kTokensEach; ++k) {
          if ((found >> k & 1U) == 0) continue;
          float value[kEmbeddingPack];
          load_pack<Whole, kEmbeddingPack>(at.dy + (begin + other * kTokensEach + k) * at.width + d, left, value);
#pragma unroll
          for (int i = 0; i < kEmbeddingPack; ++i) sum[i] += value[i];
        }
      }
    }
    __syncthreads();  // before `matches` changes
  }
  if (left > 0) store_pack<Whole, kEmbeddingPack>(row, left, sum);
}

void embedding_forward(const ExecutionContext& context, const Tensor& tokens, const Tensor& table, const Tensor& y) {
  constexpr const char* component = "kernels.embedding_forward";
  const std::int64_t count = tokens.elements(), vocabulary = table.shape[0], width = table.shape[1];
  if (count == 0) return;
  const bool whole = width % kEmbeddingPack == 0 && packs_aligned({table.data, y.data});
  with_type(table.dtype, [&]<class From>(From) {
    with_type(y.dtype, [&]<class To>(To) {
      launch(
          context, component, whole ? embedding_row<true, From, To> : embedding_row<false, From, To>, dim3(blocks_of(count, 1)),
          dim3(kEmbeddingThreads), 0,
          EmbeddingForward<From, To>{tokens.as<std::int32_t>(), table.as<From>(), y.as<To>(), vocabulary, width, state_of(context).fault});
    });
  });
}

void embedding_weight_gradient(const ExecutionContext& context, const Tensor& tokens, const Tensor& dy, const Tensor& gradient) {
  constexpr const char* component = "kernels.embedding_weight_gradient";
  const std::int64_t count = tokens.elements(), vocabulary = gradient.shape[0], width = gradient.shape[1];
  if (count == 0 || width == 0) return;
  const bool whole = width % kEmbeddingPack == 0 && packs_aligned({dy.data, gradient.data});
  with_type(dy.dtype, [&]<class T>(T) {
    launch(context, component, whole ? embedding_gradient_row<true, T> : embedding_gradient_row<false, T>,
           dim3(blocks_of(count, 1), blocks_of(width, kEmbeddingColumns)), dim3(kEmbeddingThreads), 0,
           EmbeddingGradient<T>{tokens.as<std::int32_t>(), dy.as<T>(), gradient.as<float>(), count, vocabulary, width});
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::embedding_forward, embedding_forward},
    {Backend::cuda, table::embedding_weight_gradient, embedding_weight_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cuda
