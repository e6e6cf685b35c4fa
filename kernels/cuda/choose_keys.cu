#include "kernels/choose_keys.hpp"

#include <algorithm>

#include "kernels/base/buffer.hpp"
#include "kernels/cuda/key_lists.cuh"

namespace millrace::kernels::cuda {
namespace {

constexpr std::int64_t kChoiceBlocks = 1024;  // at most; each has the ranks of one query's keys in scratch

/// A score's rank: the order of the numbers, both zeros equal, a NaN above +∞. Rank 0 is below all of them.
__device__ __forceinline__ unsigned rank_of_score(float x) {
  const unsigned bits = __float_as_uint(x + 0.0F);
  if (x != x) return 0xffffffffU;
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

template <class T>
struct ChooseKeys {
  const T *q, *k;
  const float* weights;
  const std::int32_t* segments;
  std::int32_t* keys;
  unsigned* ranks;  // [blocks, S]; 0: the query does not see the key
  std::int64_t tokens, sequence, heads, width, chosen;
  float scale;

  __device__ float score(std::int64_t t, std::int64_t u) const {
    float sum = 0;
    for (std::int64_t h = 0; h < heads; ++h) {
      const float product = thread_dot(q + (t * heads + h) * width, k + u * width, width);
      sum += weights[t * heads + h] * (product < 0 ? 0.0F : product);  // a NaN stays
    }
    return sum * scale;
  }
};

/// The rank of the chosen-th best of ranks [0, count), and how many keys of this very rank are chosen: byte by byte from the highest, from
/// the numbers of ranks that have each value of the byte. By a whole block.
struct Cut {
  unsigned rank;
  std::int64_t equal;
};
__device__ Cut find_cut(const unsigned* ranks, std::int64_t count, std::int64_t chosen) {
  __shared__ unsigned numbers[256], byte_shared;
  __shared__ long long left_shared;
  unsigned known = 0;
  std::int64_t left = chosen;
  for (int shift = 24; shift >= 0; shift -= 8) {
    numbers[threadIdx.x] = 0;
    __syncthreads();
    for (std::int64_t u = threadIdx.x; u < count; u += kThreads)
      if (ranks[u] != 0 && (shift == 24 || ranks[u] >> (shift + 8) == known)) atomicAdd(numbers + (ranks[u] >> shift & 0xffU), 1U);
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned byte = 255;
      while (byte > 0 && numbers[byte] < left) left -= numbers[byte--];
      byte_shared = byte;
      left_shared = left;
    }
    __syncthreads();
    known = known << 8 | byte_shared;
    left = left_shared;
    __syncthreads();  // before `numbers` changes
  }
  return {known, left};
}
static_assert(kThreads == 256, "a thread for each value of a byte");

/// A block chooses for one query after the other.
template <class T>
__global__ void __launch_bounds__(kThreads) choose_block(ChooseKeys<T> at) {
  unsigned* ranks = at.ranks + static_cast<std::int64_t>(blockIdx.x) * at.sequence;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t t = blockIdx.x; t < at.tokens; t += gridDim.x) {
    const std::int64_t place = t % at.sequence, row = t - place;
    std::int32_t mine = 0;
    for (std::int64_t u = threadIdx.x; u <= place; u += kThreads) {
      const bool seen = at.segments[row + u] == at.segments[t];
      ranks[u] = seen ? rank_of_score(at.score(t, row + u)) : 0U;
      mine += seen ? 1 : 0;
    }
    const std::int64_t count = block_sum<kThreads>(mine);
    Cut cut{0, 0};
    const bool all = count <= at.chosen;
    if (!all) cut = find_cut(ranks, place + 1, at.chosen);
    if (threadIdx.x < 32) {  // one warp writes the list, 32 places at a time
      std::int32_t* list = at.keys + t * at.chosen;
      std::int64_t found = 0, equal = 0;
      for (std::int64_t begin = 0; begin <= place; begin += 32) {
        const unsigned rank = begin + lane <= place ? ranks[begin + lane] : 0U;
        const unsigned before = (1U << lane) - 1U;
        const unsigned ties = __ballot_sync(0xffffffffU, !all && rank == cut.rank ? 1 : 0);
        const bool tied = (ties >> lane & 1U) != 0 && equal + __popc(ties & before) < cut.equal;
        const bool chosen = rank != 0 && (all || rank > cut.rank || tied);
        const unsigned chosen_lanes = __ballot_sync(0xffffffffU, chosen ? 1 : 0);
        if (chosen) list[found + __popc(chosen_lanes & before)] = static_cast<std::int32_t>(begin + lane);
        found += __popc(chosen_lanes);
        equal += __popc(ties);
      }
      for (std::int64_t i = found + lane; i < at.chosen; i += 32) list[i] = -1;
    }
    __syncthreads();  // before the ranks of the next query
  }
}

std::int64_t blocks_for(std::int64_t tokens) { return std::min(tokens, kChoiceBlocks); }

void choose_keys(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& weights, const Tensor& segments,
                 ChooseKeysOptions options, const Tensor& keys, Scratch scratch) {
  const std::int64_t tokens = q.shape[0];
  if (tokens == 0) return;
  with_type(q.dtype, [&]<class T>(T) {
    const ChooseKeys<T> at{.q = q.as<T>(),
                           .k = k.as<T>(),
                           .weights = weights.as<float>(),
                           .segments = segments.as<std::int32_t>(),
                           .keys = keys.as<std::int32_t>(),
                           .ranks = reinterpret_cast<unsigned*>(scratch.data()),
                           .tokens = tokens,
                           .sequence = options.sequence,
                           .heads = q.shape[1],
                           .width = q.shape[2],
                           .chosen = options.keys_per_query,
                           .scale = options.scale};
    launch(context, "kernels.choose_keys", choose_block<T>, dim3(static_cast<unsigned>(blocks_for(tokens))), dim3(kThreads), 0, at);
  });
}

std::size_t choose_keys_scratch_bytes(const Shape& q, DType /*dtype*/, ChooseKeysOptions options, const Processor& /*processor*/) {
  return align_up(static_cast<std::size_t>(blocks_for(q[0]) * options.sequence) * sizeof(unsigned));
}

const InTable in_table[] = {
    {Backend::cuda, table::choose_keys, choose_keys},
    {Backend::cuda, table::choose_keys_scratch_bytes, choose_keys_scratch_bytes},
};

}  // namespace
}  // namespace millrace::kernels::cuda
