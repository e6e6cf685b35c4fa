#pragma once

#include <cstdint>

#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/hopper_fragments.cuh"
#include "kernels/cuda/hopper_ring.cuh"

/// What both kernels of attention_backward_hopper.hpp are made of. A block has three warpgroups: one thread of the first one copies tiles
/// of 64 tokens into a ring of stages, and the other two own 64 keys or queries each. What one product leaves in a thread's registers is
/// the left operand of the next. P is 64 or 128: the numbers of a head, with zeros behind them.
namespace millrace::kernels::cuda::hopper {

inline constexpr std::int64_t kStep = 64;  // tokens of a stage

/// What backward needs of a query and head: log₂ of the softmax's sum, and d_o · o.
struct QueryNumbers {
  float log_sum, delta;
};

inline constexpr int kOwners = 2;  // warpgroups that own 64 rows each
inline constexpr int kOwnedRows = kOwners * 64;
inline constexpr int kBlockThreads = 128 + kOwners * 128;
// Whether a step's products of queries and keys are enqueued during the step before it.
template <int P>
inline constexpr bool kAhead = P == 64;
template <int P>
inline constexpr int kStages = P == 64 ? 6 : 4;
inline constexpr int kMostStages = 6;
// Registers of a thread of the copying warpgroup, and of the others.
template <int P>
inline constexpr int kFewRegisters = P == 64 ? 40 : 24;
template <int P>
inline constexpr int kManyRegisters = P == 64 ? 232 : 240;
inline constexpr float kLog2E = 1.4426950408889634F;

struct Backward {
  CUtensorMap q, k, v, d_o;  // [head, token, number]
  const __nv_bfloat16 *q_data, *k_data, *d_o_data;
  const QueryNumbers* numbers;  // [row, head, token]
  const std::int32_t* segments;
  const SegmentRange* ranges;  // null: every row is one segment
  __nv_bfloat16 *dq, *dk, *dv;
  AttentionSizes sizes;
};

/// A stage: the boxes of two tiles of 64 tokens, of P numbers each, then what belongs to their tokens.
template <int P>
struct Stage {
  static constexpr int kBoxes = P / kLine, kTileBytes = kBoxes * kBoxBytes;
  static constexpr int kNumbers = 2 * kTileBytes, kNumberBytes = kStep * static_cast<int>(sizeof(QueryNumbers));
  static constexpr int kSegments = kNumbers + kNumberBytes, kSegmentBytes = kStep * static_cast<int>(sizeof(std::int32_t));
  static constexpr int kBytes = 2 * kTileBytes + 1024;
  static_assert(kSegments + kSegmentBytes <= kBytes);
};
/// Behind the stages: keys and values of a block that owns them.
template <int P>
inline constexpr int kResidentBytes = 2 * kOwners* Stage<P>::kTileBytes;
template <int P>
inline constexpr int kSharedBytes = kStages<P>* Stage<P>::kBytes + kResidentBytes<P> + 1024;

template <int P>
__device__ __forceinline__ void copy_tile(std::uint32_t to, const CUtensorMap& map, std::uint64_t* barrier, std::int64_t token,
                                          std::int64_t head) {
#pragma unroll
  for (int box = 0; box < P / kLine; ++box)
    copy_box(to + box * kBoxBytes, map, barrier, box * kLine, static_cast<int>(token), static_cast<int>(head));
}

/// This lane's part of 64 head vectors as left operands, from global memory. `first`: the first of them.
template <int P>
__device__ __forceinline__ void load_fragments(LeftFragment (&fragments)[P / 16], const __nv_bfloat16* first, std::int64_t stride,
                                               int width) {
  const int thread = static_cast<int>(threadIdx.x) % 128, row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
#pragma unroll
  for (int slice = 0; slice < P / 16; ++slice)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int d = slice * 16 + i / 2 * 8 + column;
      fragments[slice].pairs[i] = d < width ? *reinterpret_cast<const std::uint32_t*>(first + (row + i % 2 * 8) * stride + d) : 0U;
    }
}

/// The products of 64 owned rows with the 64 tokens of a tile whose vectors are lines.
template <int P>
__device__ __forceinline__ void multiply_by_tokens(float (&sums)[32], const LeftFragment (&left)[P / 16], std::uint32_t tile) {
#pragma unroll
  for (int slice = 0; slice < P / 16; ++slice)
    multiply<Major::k>(sums, left[slice], descriptor<Major::k>(tile + slice / 4 * kBoxBytes) + slice % 4 * slice_offset<Major::k>,
                       slice > 0);
}
template <int P>
__device__ __forceinline__ void multiply_by_tokens(float (&sums)[32], std::uint32_t left, std::uint32_t tile) {
#pragma unroll
  for (int slice = 0; slice < P / 16; ++slice)
    multiply<Major::k, Major::k>(sums, descriptor<Major::k>(left + slice / 4 * kBoxBytes) + slice % 4 * slice_offset<Major::k>,
                                 descriptor<Major::k>(tile + slice / 4 * kBoxBytes) + slice % 4 * slice_offset<Major::k>, slice > 0);
}

/// sums[64 owned rows][P] += weights[64 owned rows][64 tokens] · the tokens' vectors.
template <int P>
__device__ __forceinline__ void add_vectors(float (&sums)[P / 2], const LeftFragment (&weights)[4], std::uint32_t tile, bool accumulate) {
#pragma unroll
  for (int slice = 0; slice < 4; ++slice)
    multiply<Major::mn>(sums, weights[slice], descriptor<Major::mn>(tile) + slice * slice_offset<Major::mn>, accumulate || slice > 0);
}

/// Writes 64 owned head vectors, times `factor`.
template <int P>
__device__ __forceinline__ void store_rows(__nv_bfloat16* first, std::int64_t stride, int width, const float (&sums)[P / 2], float factor) {
  const int thread = static_cast<int>(threadIdx.x) % 128, row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
#pragma unroll
  for (int j = 0; j < P / 8; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (j * 8 < width)
        *reinterpret_cast<std::uint32_t*>(first + (row + half * 8) * stride + j * 8 + column) =
            rounded_pair(sums[j * 4 + half * 2] * factor, sums[j * 4 + half * 2 + 1] * factor);
}

/// Which keys a query sees, in a kernel for one kind of calls: with Plain every query sees all keys of its row before it, and nothing of
/// the mask has to be computed.
template <bool Plain>
class Mask {
 public:
  __device__ __forceinline__ Mask(const Backward& at, std::int64_t row)
      : sizes_(at.sizes), ranges_(Plain || at.ranges == nullptr ? nullptr : at.ranges + row * ranges_of_row(at.sizes)) {}

  [[nodiscard]] __device__ __forceinline__ bool has_segments() const { return !Plain && ranges_ != nullptr; }
  [[nodiscard]] __device__ __forceinline__ Seen seen(int query) const {
    if constexpr (Plain) return {0, query + 1};
    return seen_by(sizes_, query);
  }
  /// The queries that may see some key of [first, last].
  [[nodiscard]] __device__ __forceinline__ Seen seeing_queries(int first, int last) const {
    if constexpr (Plain) return {first, static_cast<int>(sizes_.sequence)};
    return seeing(sizes_, first, last);
  }
  /// The segments of the B tokens from this one on.
  template <int B>
  [[nodiscard]] __device__ __forceinline__ SegmentRange range(int token) const {
    return segment_range<B>(ranges_, token, static_cast<int>(sizes_.sequence));
  }

 private:
  const AttentionSizes& sizes_;
  const SegmentRange* ranges_;  // of the row; null: it is one segment
};

/// What of a tile of 64 queries and 64 keys is seen, and whether all its tokens are in one segment.
struct Sight {
  bool any, all, one;
};
template <bool Plain>
__device__ __forceinline__ Sight sight_of(const Mask<Plain>& mask, int query, int key, SegmentRange queries, SegmentRange keys) {
  constexpr int tokens = static_cast<int>(kStep);
  // Both ends of what a query sees grow with it.
  const Seen early = mask.seen(query), late = mask.seen(query + tokens - 1);
  const bool any = late.end > key && early.begin < key + tokens, all = late.begin <= key && early.end >= key + tokens;
  if (!mask.has_segments()) return {any, all, true};
  const bool one = are_one(queries, keys);
  return {any && may_meet(queries, keys), all && one, one};
}

/// The same number, computed anew: what follows from it is not computed ahead of the branch that needs it.
__device__ __forceinline__ int anew(int number) {
  asm volatile("" : "+r"(number));
  return number;
}

struct Barriers {
  std::uint64_t filled[kMostStages], emptied[kMostStages], resident;
};
__device__ __forceinline__ void initialize(Barriers& barriers, int stages) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; ++i) {
      initialize_barrier(&barriers.filled[i], 1);
      initialize_barrier(&barriers.emptied[i], kOwners * 4);
    }
    initialize_barrier(&barriers.resident, 1);
    fence_initialized_barriers();
  }
  __syncthreads();
}

/// One step of a warpgroup: its first query or key, and where its tiles are.
struct Step {
  int token, stage;
  Sight sight;
};

// Products of a step, in groups that complete in this order: scores, gradients of probabilities, then those that add to the results. With
// kAhead the scores of the next step are on their way while the exponentials of this one are computed; wide heads leave no registers for
// it.

/// Takes all steps of a warpgroup, as long as `more` holds. begin(scores) enqueues the first step's scores; advance(scores, next) takes a
/// step whose scores are there and leaves those of the next one, or, without kAhead, computes its scores itself.
template <int P, class Begin, class Advance>
__device__ __forceinline__ void take_steps(const bool& more, Begin&& begin, Advance&& advance) {
  float even[32];
  if constexpr (kAhead<P>) {
    float odd[32];
    if (!more) return;
    fence_products();
    begin(even);
    commit_products();
    wait_for_products<0>();
    settle(even);
    do {
      advance(even, odd);
      if (!more) return;
      advance(odd, even);
    } while (more);
  } else {
    while (more) advance(even, even);
  }
}

/// Enqueues the kernel that owns tiles of keys and adds up dk and dv over the queries that see them, and the one that owns tiles of queries
/// and adds up dq. `plain`: every query sees all keys of its row before it, and nothing else limits it.
void enqueue_key_gradients(cudaStream_t lane, const Backward& at, bool plain);
void enqueue_query_gradients(cudaStream_t lane, const Backward& at, bool plain);

/// Calls body.template operator()<P, Plain>() for the padded width of a head.
template <class Body>
void with_heads(const AttentionSizes& sizes, bool plain, Body&& body) {
  if (sizes.width <= 64)
    plain ? body.template operator()<64, true>() : body.template operator()<64, false>();
  else
    plain ? body.template operator()<128, true>() : body.template operator()<128, false>();
}

}  // namespace millrace::kernels::cuda::hopper
