#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.cuh"

/// What the losses of routers share: a warp computes a token.
namespace millrace::kernels::cuda {

inline constexpr int kTokenWarps = kThreads / 32;  // of a block

/// The largest logit of a token, and the sum of exp(logit − maximum).
struct SoftmaxRow {
  float maximum, sum;
};
/// Every lane of the warp calls it, and it returns the same to all.
template <class T>
__device__ SoftmaxRow softmax_row(const T* logits, std::int64_t experts) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float maximum = -INFINITY, sum = 0;
  for (std::int64_t e = lane; e < experts; e += 32) maximum = fmaxf(maximum, load(logits + e));
  maximum = warp_maximum(maximum);
  for (std::int64_t e = lane; e < experts; e += 32) sum += expf(load(logits + e) - maximum);
  return {maximum, warp_sum(sum)};
}

/// parts[block] = the sum of term(t) over the block's tokens: each of its warps takes every kTokenWarps-th, then the warps' sums are added
/// in order. Term: a struct with a __device__ call operator that returns a double to every lane.
template <class Term>
__global__ void __launch_bounds__(kThreads) token_parts(Term term, std::int64_t tokens, std::int64_t each, double* parts) {
  __shared__ double warps[kTokenWarps];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * each;
  const std::int64_t end = begin + each < tokens ? begin + each : tokens;
  double sum = 0;
  for (std::int64_t t = begin + warp; t < end; t += kTokenWarps) sum += term(t);
  if (threadIdx.x % 32 == 0) warps[warp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double all = 0;
  for (int other = 0; other < kTokenWarps; ++other) all += warps[other];
  parts[blockIdx.x] = all;
}

/// total[0] = factor · Σ parts, by one block.
static __global__ void __launch_bounds__(kThreads) add_token_parts(const double* parts, std::int64_t count, double factor, double* total) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) sum += parts[i];
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) total[0] = factor * sum;
}

/// total[0] = factor · Σ term(t) over all tokens, in an order that depends on their number alone.
template <class Term>
void sum_tokens(const ExecutionContext& context, const char* component, std::int64_t tokens, const Term& term, double factor,
                double* total) {
  const std::int64_t each = std::max<std::int64_t>((tokens + kSumParts - 1) / kSumParts, kTokenWarps);
  const std::int64_t blocks = (tokens + each - 1) / each;
  double* parts = state_of(context).parts;
  if (blocks > 0)
    launch(context, component, token_parts<Term>, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, term, tokens, each, parts);
  launch(context, component, add_token_parts, dim3(1), dim3(kThreads), 0, parts, blocks, factor, total);
}

/// Calls body(t) for every token, on all lanes of a warp.
template <class Body>
__global__ void __launch_bounds__(kThreads) each_token(Body body, std::int64_t tokens) {
  const std::int64_t t = static_cast<std::int64_t>(blockIdx.x) * kTokenWarps + threadIdx.x / 32;
  if (t < tokens) body(t);
}
template <class Body>
void for_each_token(const ExecutionContext& context, const char* component, std::int64_t tokens, const Body& body) {
  if (tokens > 0) launch(context, component, each_token<Body>, dim3(blocks_of(tokens, kTokenWarps)), dim3(kThreads), 0, body, tokens);
}

}  // namespace millrace::kernels::cuda
