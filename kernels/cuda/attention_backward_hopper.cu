#include "kernels/cuda/attention_backward_hopper.hpp"

#include <initializer_list>
#include <type_traits>

#include "kernels/base/buffer.hpp"
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/dynamic_shared.cuh"
#include "kernels/cuda/hopper_device.hpp"
#include "kernels/cuda/hopper_fragments.cuh"
#include "kernels/cuda/tensor_map.hpp"

// dq, dk and dv without atomics, so that bits repeat: one kernel owns tiles of keys and adds up dk and dv over the queries that see them,
// the other owns tiles of queries and adds up dq. Both compute the probabilities again, so that together they have seven products where one
// kernel would have five. No matrix of scores is stored: what one product leaves in a thread's registers is the left operand of the next.
// A block has three warpgroups: one thread of the first one copies tiles of 64 tokens into a ring of stages, and the other two own 64 keys
// or queries each. P and dS are rounded to bf16 where they enter a product; all sums are fp32.
namespace millrace::kernels::cuda {
namespace {

constexpr const char* component = "kernels.attention_input_gradient";
constexpr std::int64_t kStep = 64;  // tokens of a stage

/// What backward needs of a query and head: log₂ of the softmax's sum, and d_o · o.
struct QueryNumbers {
  float log_sum, delta;
};

bool covers(const Shape& q, const Shape& k, DType dtype, AttentionOptions options) {
  return dtype == DType::bf16 && options.soft_cap == 0 && options.block == 0 && options.sequence > 0 && options.sequence % kStep == 0 &&
         q[0] > 0 && q[0] % options.sequence == 0 && q[2] % 8 == 0 && q[2] <= 128 && value_width(options, q[2]) == q[2] &&
         q[1] % k[1] == 0 && q[0] < (std::int64_t{1} << 30) && q[0] / kStep * q[1] < (std::int64_t{1} << 30);
}

}  // namespace

std::size_t attention_gradient_scratch_on_hopper(const Shape& q, const Shape& k, DType dtype, AttentionOptions options) {
  if (!covers(q, k, dtype, options)) return 0;
  return align_up(static_cast<std::size_t>(q[0] * q[1]) * sizeof(QueryNumbers)) + 256;
}

namespace {

using namespace hopper;

constexpr int kOwners = 2;  // warpgroups that own 64 rows each
constexpr int kOwnedRows = kOwners * 64;
constexpr int kBlockThreads = 128 + kOwners * 128;
// Whether a step's products of queries and keys are enqueued during the step before it.
template <int P>
constexpr bool kAhead = P == 64;
template <int P>
constexpr int kStages = P == 64 ? 6 : 4;
constexpr int kMostStages = 6;
// Registers of a thread of the copying warpgroup, and of the others.
template <int P>
constexpr int kFewRegisters = P == 64 ? 40 : 24;
template <int P>
constexpr int kManyRegisters = P == 64 ? 232 : 240;
constexpr float kLog2E = 1.4426950408889634F;

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
constexpr int kResidentBytes = 2 * kOwners* Stage<P>::kTileBytes;
template <int P>
constexpr int kSharedBytes = kStages<P>* Stage<P>::kBytes + kResidentBytes<P> + 1024;

/// A position in the ring of stages, and the parity of the phase in which its stage is filled there.
template <int Count>
struct Ring {
  int stage = 0, parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == Count) {
      stage = 0;
      parity ^= 1;
    }
  }
};

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
            pair_of(sums[j * 4 + half * 2] * factor, sums[j * 4 + half * 2 + 1] * factor);
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
[[maybe_unused]] __device__ __forceinline__ int anew(int number) {
  asm volatile("" : "+r"(number));
  return number;
}

struct Barriers {
  std::uint64_t filled[kMostStages], emptied[kMostStages], resident;
};
[[maybe_unused]] __device__ __forceinline__ void initialize(Barriers& barriers, int stages) {
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

// One block for each 128 keys of a key/value head. Early keys have the most queries, so they come first. Rows of the block's products are
// keys, and columns are queries.
template <int P, bool Plain>
__global__ void __launch_bounds__(kBlockThreads, 1) key_gradients(const __grid_constant__ Backward at) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  auto* const dynamic_bytes = dynamic_shared<unsigned char>();
  __shared__ Barriers barriers;
  constexpr int step_tokens = static_cast<int>(kStep);
  const AttentionSizes& sizes = at.sizes;
  const std::int64_t kv_head = blockIdx.x % sizes.kv_heads, row = blockIdx.x / sizes.kv_heads % sizes.rows,
                     row_begin = row * sizes.sequence;
  const int group = static_cast<int>(sizes.heads / sizes.kv_heads), sequence = static_cast<int>(sizes.sequence),
            width = static_cast<int>(sizes.width);
  const int first = static_cast<int>(blockIdx.x / (sizes.kv_heads * sizes.rows)) * kOwnedRows,
            last = (first + kOwnedRows < sequence ? first + kOwnedRows : sequence) - 1;
  const Mask<Plain> mask(at, row);
  const Seen queries = mask.seeing_queries(first, last);
  const int begin = queries.begin / step_tokens * step_tokens, end = queries.end;
  const SegmentRange key_range = mask.template range<kOwnedRows>(first);
  const auto skipped = [&](int query) { return mask.has_segments() && !may_meet(mask.template range<step_tokens>(query), key_range); };

  unsigned char* const aligned = dynamic_bytes + (1024 - shared_address(dynamic_bytes) % 1024) % 1024;
  const std::uint32_t stages = shared_address(aligned), resident = stages + kStages<P> * Stage<P>::kBytes;
  const int thread = static_cast<int>(threadIdx.x), warpgroup = __shfl_sync(0xffffffffU, thread / 128, 0);
  initialize(barriers, kStages<P>);
  Ring<kStages<P>> ring;

  if (warpgroup == 0) {
    give_registers_back<kFewRegisters<P>>();
    if (thread != 0) return;
    const int tiles = last + 1 - first > step_tokens ? 2 : 1;
    arrive_and_expect(&barriers.resident, 2 * tiles * Stage<P>::kTileBytes);
    for (int tile = 0; tile < tiles; ++tile) {
      copy_tile<P>(resident + 2 * tile * Stage<P>::kTileBytes, at.k, &barriers.resident, row_begin + first + tile * kStep, kv_head);
      copy_tile<P>(resident + (2 * tile + 1) * Stage<P>::kTileBytes, at.v, &barriers.resident, row_begin + first + tile * kStep, kv_head);
    }
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
      for (int query = begin; query < end; query += step_tokens) {
        if (skipped(query)) continue;
        std::uint64_t* const barrier = &barriers.filled[ring.stage];
        const std::uint32_t stage = stages + ring.stage * Stage<P>::kBytes;
        wait(&barriers.emptied[ring.stage], ring.parity ^ 1);
        arrive_and_expect(barrier, 2 * Stage<P>::kTileBytes + Stage<P>::kNumberBytes + (mask.has_segments() ? Stage<P>::kSegmentBytes : 0));
        copy_tile<P>(stage, at.q, barrier, row_begin + query, head);
        copy_tile<P>(stage + Stage<P>::kTileBytes, at.d_o, barrier, row_begin + query, head);
        copy_bytes(stage + Stage<P>::kNumbers, at.numbers + (row * sizes.heads + head) * sequence + query, Stage<P>::kNumberBytes, barrier);
        if (mask.has_segments()) copy_bytes(stage + Stage<P>::kSegments, at.segments + row_begin + query, Stage<P>::kSegmentBytes, barrier);
        ring.advance();
      }
    return;
  }

  take_registers<kManyRegisters<P>>();
  const int key = first + (warpgroup - 1) * step_tokens, lane = thread % 32;
  const bool owns = key < sequence;
  const std::int64_t stride = sizes.kv_heads * width, place = (row_begin + key) * stride + kv_head * width;
  const std::uint32_t own_keys = resident + 2 * (warpgroup - 1) * Stage<P>::kTileBytes, own_values = own_keys + Stage<P>::kTileBytes;
  LeftFragment keys[kAhead<P> ? P / 16 : 1];  // if there are registers for them
  const int own_row = thread % 128 / 32 * 16 + lane / 4, column = lane % 4 * 2;
  std::int32_t own_segments[2] = {0, 0};
  if (owns) {
    if constexpr (kAhead<P>) load_fragments<P>(keys, at.k_data + place, stride, width);
    wait(&barriers.resident, 0);
    if (mask.has_segments())
      for (int half = 0; half < 2; ++half) own_segments[half] = at.segments[row_begin + key + own_row + half * 8];
  }
  const SegmentRange own_range = owns ? mask.template range<step_tokens>(key) : SegmentRange{0, 0};
  const float factor = sizes.scale * kLog2E;
  const auto release = [&](int stage) {
    if (lane == 0) arrive(&barriers.emptied[stage]);
  };
  // The next step in which a query sees some of these keys; its tiles are there. Tiles between are given back.
  int head = 0, query = begin;
  const auto find = [&](Step& step) {
    for (; head < group; ++head, query = begin)
      while (query < end) {
        const int token = query;
        query += step_tokens;
        if (skipped(token)) continue;
        const SegmentRange range = mask.has_segments() ? mask.template range<step_tokens>(token) : SegmentRange{0, 0};
        const Sight sight = sight_of(mask, token, key, range, own_range);
        step = {token, ring.stage, sight};
        wait(&barriers.filled[ring.stage], ring.parity);
        ring.advance();
        if (owns && sight.any) return true;
        release(step.stage);
      }
    return false;
  };
  const auto tiles_of = [&](const Step& step) { return stages + step.stage * Stage<P>::kBytes; };
  const auto multiply_by_queries = [&](float(&scores)[32], const Step& step) {
    if constexpr (kAhead<P>)
      multiply_by_tokens<P>(scores, keys, tiles_of(step));
    else
      multiply_by_tokens<P>(scores, own_keys, tiles_of(step));
  };

  float dk[P / 2], dv[P / 2], d_s[32];
  Step step, next;
  bool any = false, more = find(step);
  const auto advance = [&](float(&p)[32], float(&p_of_next)[32]) {
    const Step current = step;
    fence_products();
    if constexpr (!kAhead<P>) {
      multiply_by_queries(p, current);
      commit_products();
    }
    multiply_by_tokens<P>(d_s, own_values, tiles_of(current) + Stage<P>::kTileBytes);
    commit_products();
    if constexpr (kAhead<P>) {
      more = find(next);
      fence_products();
      multiply_by_queries(p_of_next, more ? next : current);  // behind the last step without a use
      commit_products();
    }
    if constexpr (!kAhead<P>) {
      wait_for_products<1>();
      settle(p);
    }
    // Two queries and their numbers at a time: {log_sum, delta, log_sum, delta}.
    const unsigned char* const bytes = aligned + current.stage * Stage<P>::kBytes;
    const auto* const numbers = reinterpret_cast<const float4*>(bytes + Stage<P>::kNumbers) + lane % 4;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float4 of = numbers[j * 4];
      p[j * 4] = power_of_two(p[j * 4] * factor - of.x);
      p[j * 4 + 1] = power_of_two(p[j * 4 + 1] * factor - of.z);
      p[j * 4 + 2] = power_of_two(p[j * 4 + 2] * factor - of.x);
      p[j * 4 + 3] = power_of_two(p[j * 4 + 3] * factor - of.z);
    }
    if (!current.sight.all) {
      const auto* const query_segments = reinterpret_cast<const std::int32_t*>(bytes + Stage<P>::kSegments);
      const int own = anew(key + own_row);
#pragma unroll
      for (int j = 0; j < 8; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int token = j * 8 + column + e;
          const Seen seen = mask.seen(current.token + token);
#pragma unroll
          for (int half = 0; half < 2; ++half)
            if (own + half * 8 < seen.begin || own + half * 8 >= seen.end ||
                (!current.sight.one && query_segments[token] != own_segments[half]))
              p[j * 4 + half * 2 + e] = 0;
        }
    }
    LeftFragment weights[4], gradients[4];
#pragma unroll
    for (int slice = 0; slice < 4; ++slice) weights[slice] = fragment_of(p, slice);
    fence_products();
    add_vectors<P>(dv, weights, tiles_of(current) + Stage<P>::kTileBytes, any);
    commit_products();
    wait_for_products<kAhead<P> ? 1 : 0>();  // without kAhead, the registers of `weights` are needed
    settle(d_s);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float4 of = numbers[j * 4];
      d_s[j * 4] = p[j * 4] * (d_s[j * 4] - of.y);
      d_s[j * 4 + 1] = p[j * 4 + 1] * (d_s[j * 4 + 1] - of.w);
      d_s[j * 4 + 2] = p[j * 4 + 2] * (d_s[j * 4 + 2] - of.y);
      d_s[j * 4 + 3] = p[j * 4 + 3] * (d_s[j * 4 + 3] - of.w);
    }
#pragma unroll
    for (int slice = 0; slice < 4; ++slice) gradients[slice] = fragment_of(d_s, slice);
    fence_products();
    add_vectors<P>(dk, gradients, tiles_of(current), any);
    commit_products();
    any = true;
    wait_for_products<0>();
    if constexpr (kAhead<P>) settle(p_of_next);
    settle(dv);
    settle(dk);
    release(current.stage);
    if constexpr (!kAhead<P>) more = find(next);
    step = next;
  };
  float even[32];
  if constexpr (kAhead<P>) {
    float odd[32];
    if (more) {
      fence_products();
      multiply_by_queries(even, step);
      commit_products();
      wait_for_products<0>();
      settle(even);
      do {
        advance(even, odd);
        if (!more) break;
        advance(odd, even);
      } while (more);
    }
  } else {
    while (more) advance(even, even);
  }
  if (!owns) return;
  if (!any) {
#pragma unroll
    for (int i = 0; i < P / 2; ++i) dk[i] = dv[i] = 0;
  }
  store_rows<P>(at.dk + place, stride, width, dk, sizes.scale);
  store_rows<P>(at.dv + place, stride, width, dv, 1.0F);
#endif
}

// One block for each 128 queries of a head. Late queries see the most keys, so they come first. Rows of the block's products are queries,
// and columns are keys.
template <int P, bool Plain>
__global__ void __launch_bounds__(kBlockThreads, 1) query_gradients(const __grid_constant__ Backward at) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  auto* const dynamic_bytes = dynamic_shared<unsigned char>();
  __shared__ Barriers barriers;
  constexpr int step_tokens = static_cast<int>(kStep);
  const AttentionSizes& sizes = at.sizes;
  const std::int64_t head = blockIdx.x % sizes.heads, row = blockIdx.x / sizes.heads % sizes.rows,
                     kv_head = head / (sizes.heads / sizes.kv_heads), row_begin = row * sizes.sequence;
  const int sequence = static_cast<int>(sizes.sequence), width = static_cast<int>(sizes.width);
  const int tiles = (sequence + kOwnedRows - 1) / kOwnedRows;
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x / (sizes.heads * sizes.rows))) * kOwnedRows,
            last = (first + kOwnedRows < sequence ? first + kOwnedRows : sequence) - 1;
  const Mask<Plain> mask(at, row);
  const int begin = mask.seen(first).begin / step_tokens * step_tokens, end = mask.seen(last).end;
  const SegmentRange query_range = mask.template range<kOwnedRows>(first);
  const auto skipped = [&](int key) { return mask.has_segments() && !may_meet(mask.template range<step_tokens>(key), query_range); };

  unsigned char* const aligned = dynamic_bytes + (1024 - shared_address(dynamic_bytes) % 1024) % 1024;
  const std::uint32_t stages = shared_address(aligned);
  const int thread = static_cast<int>(threadIdx.x), warpgroup = __shfl_sync(0xffffffffU, thread / 128, 0);
  initialize(barriers, kStages<P>);
  Ring<kStages<P>> ring;

  if (warpgroup == 0) {
    give_registers_back<kFewRegisters<P>>();
    if (thread != 0) return;
    for (int key = begin; key < end; key += step_tokens) {
      if (skipped(key)) continue;
      std::uint64_t* const barrier = &barriers.filled[ring.stage];
      const std::uint32_t stage = stages + ring.stage * Stage<P>::kBytes;
      wait(&barriers.emptied[ring.stage], ring.parity ^ 1);
      arrive_and_expect(barrier, 2 * Stage<P>::kTileBytes + (mask.has_segments() ? Stage<P>::kSegmentBytes : 0));
      copy_tile<P>(stage, at.k, barrier, row_begin + key, kv_head);
      copy_tile<P>(stage + Stage<P>::kTileBytes, at.v, barrier, row_begin + key, kv_head);
      if (mask.has_segments()) copy_bytes(stage + Stage<P>::kSegments, at.segments + row_begin + key, Stage<P>::kSegmentBytes, barrier);
      ring.advance();
    }
    return;
  }

  take_registers<kManyRegisters<P>>();
  const int query = first + (warpgroup - 1) * step_tokens, lane = thread % 32;
  const bool owns = query < sequence;
  const std::int64_t stride = sizes.heads * width, place = (row_begin + query) * stride + head * width;
  const int own_row = thread % 128 / 32 * 16 + lane / 4, column = lane % 4 * 2;
  LeftFragment queries[P / 16], outputs[P / 16];
  QueryNumbers own[2] = {};
  std::int32_t own_segments[2] = {0, 0};
  if (owns) {
    load_fragments<P>(queries, at.q_data + place, stride, width);
    load_fragments<P>(outputs, at.d_o_data + place, stride, width);
    for (int half = 0; half < 2; ++half) {
      own[half] = at.numbers[(row * sizes.heads + head) * sequence + query + own_row + half * 8];
      if (mask.has_segments()) own_segments[half] = at.segments[row_begin + query + own_row + half * 8];
    }
  }
  const SegmentRange own_range = owns ? mask.template range<step_tokens>(query) : SegmentRange{0, 0};
  const float factor = sizes.scale * kLog2E;
  const auto release = [&](int stage) {
    if (lane == 0) arrive(&barriers.emptied[stage]);
  };
  // The next step in which one of these queries sees some key; its tiles are there. Tiles between are given back.
  int key = begin;
  const auto find = [&](Step& step) {
    while (key < end) {
      const int token = key;
      key += step_tokens;
      if (skipped(token)) continue;
      const SegmentRange range = mask.has_segments() ? mask.template range<step_tokens>(token) : SegmentRange{0, 0};
      const Sight sight = sight_of(mask, query, token, own_range, range);
      step = {token, ring.stage, sight};
      wait(&barriers.filled[ring.stage], ring.parity);
      ring.advance();
      if (owns && sight.any) return true;
      release(step.stage);
    }
    return false;
  };
  const auto tiles_of = [&](const Step& step) { return stages + step.stage * Stage<P>::kBytes; };

  float dq[P / 2], d_s[32];
  Step step, next;
  bool any = false, more = find(step);
  const auto advance = [&](float(&p)[32], float(&p_of_next)[32]) {
    const Step current = step;
    fence_products();
    if constexpr (!kAhead<P>) {
      multiply_by_tokens<P>(p, queries, tiles_of(current));
      commit_products();
    }
    multiply_by_tokens<P>(d_s, outputs, tiles_of(current) + Stage<P>::kTileBytes);
    commit_products();
    if constexpr (kAhead<P>) {
      more = find(next);
      fence_products();
      multiply_by_tokens<P>(p_of_next, queries, tiles_of(more ? next : current));  // behind the last step without a use
      commit_products();
    }
    if constexpr (!kAhead<P>) {
      wait_for_products<1>();
      settle(p);
    }
#pragma unroll
    for (int i = 0; i < 32; ++i) p[i] = power_of_two(p[i] * factor - own[i / 2 % 2].log_sum);
    if (!current.sight.all) {
      const auto* const key_segments =
          reinterpret_cast<const std::int32_t*>(aligned + current.stage * Stage<P>::kBytes + Stage<P>::kSegments);
      const int own_query = anew(query + own_row);
      const Seen seen[2] = {mask.seen(own_query), mask.seen(own_query + 8)};
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        const int half = i / 2 % 2, token = i / 4 * 8 + column + i % 2;
        if (current.token + token < seen[half].begin || current.token + token >= seen[half].end ||
            (!current.sight.one && key_segments[token] != own_segments[half]))
          p[i] = 0;
      }
    }
    wait_for_products<kAhead<P> ? 1 : 0>();
    settle(d_s);
#pragma unroll
    for (int i = 0; i < 32; ++i) d_s[i] = p[i] * (d_s[i] - own[i / 2 % 2].delta);
    LeftFragment gradients[4];
#pragma unroll
    for (int slice = 0; slice < 4; ++slice) gradients[slice] = fragment_of(d_s, slice);
    fence_products();
    add_vectors<P>(dq, gradients, tiles_of(current), any);
    commit_products();
    any = true;
    wait_for_products<0>();
    if constexpr (kAhead<P>) settle(p_of_next);
    settle(dq);
    release(current.stage);
    if constexpr (!kAhead<P>) more = find(next);
    step = next;
  };
  float even[32];
  if constexpr (kAhead<P>) {
    float odd[32];
    if (more) {
      fence_products();
      multiply_by_tokens<P>(even, queries, tiles_of(step));
      commit_products();
      wait_for_products<0>();
      settle(even);
      do {
        advance(even, odd);
        if (!more) break;
        advance(odd, even);
      } while (more);
    }
  } else {
    while (more) advance(even, even);
  }
  if (!owns) return;
  if (!any) {
#pragma unroll
    for (int i = 0; i < P / 2; ++i) dq[i] = 0;
  }
  store_rows<P>(at.dq + place, stride, width, dq, sizes.scale);
#endif
}

constexpr int kLanesOfVector = 8;

// Eight lanes for each query and head.
__global__ void __launch_bounds__(kThreads)
    query_numbers(const __nv_bfloat16* d_o, const __nv_bfloat16* o, const float* log_sum_exp, QueryNumbers* numbers, AttentionSizes sizes) {
  const std::int64_t vector = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kLanesOfVector;
  const int lane = static_cast<int>(threadIdx.x) % kLanesOfVector;
  const bool stands = vector < sizes.rows * sizes.sequence * sizes.heads;
  float sum = 0;
  for (std::int64_t d = lane * 8; stands && d < sizes.width; d += kLanesOfVector * 8) {
    const uint4 left = *reinterpret_cast<const uint4*>(d_o + vector * sizes.width + d),
                right = *reinterpret_cast<const uint4*>(o + vector * sizes.width + d);
    __nv_bfloat16 a[8], b[8];
    memcpy(a, &left, sizeof(left));
    memcpy(b, &right, sizeof(right));
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += load(a + i) * load(b + i);
  }
  for (int distance = kLanesOfVector / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, distance);
  if (!stands || lane != 0) return;
  const std::int64_t token = vector / sizes.heads, head = vector % sizes.heads, row = token / sizes.sequence;
  numbers[(row * sizes.heads + head) * sizes.sequence + token % sizes.sequence] = {log_sum_exp[vector] * kLog2E, sum};
}

bool aligned_to_16(std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* tensor : tensors)
    if (reinterpret_cast<std::uintptr_t>(tensor->data) % 16 != 0) return false;
  return true;
}

/// [T, heads, width] as boxes of one head and 64 tokens.
CUtensorMap map_of_heads(const Tensor& x) {
  return map_of_lines(component, x.data, {x.shape[2], x.shape[0], x.shape[1]}, {x.shape[1] * x.shape[2], x.shape[2]},
                      static_cast<int>(kStep));
}

}  // namespace

bool attention_input_gradient_on_hopper(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k,
                                        const Tensor& v, const Tensor& o, const Tensor& log_sum_exp, const Tensor& segments,
                                        AttentionOptions options, const Tensor& dq, const Tensor& dk, const Tensor& dv,
                                        const SegmentRange* ranges, Scratch scratch) {
  if (!covers(q.shape, k.shape, q.dtype, options) || !aligned_to_16({&d_o, &q, &k, &v, &o, &dq, &dk, &dv}) ||
      (ranges != nullptr && !aligned_to_16({&segments})) || !hopper_device_of(context, component).usable)
    return false;
  const AttentionSizes sizes = attention_sizes(q.shape, k.shape, options);
  auto* const numbers =
      reinterpret_cast<QueryNumbers*>(scratch.data() + (256 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 256) % 256);
  launch(context, component, query_numbers, dim3(blocks_of(q.shape[0] * q.shape[1] * kLanesOfVector, kThreads)), dim3(kThreads), 0,
         d_o.as<__nv_bfloat16>(), o.as<__nv_bfloat16>(), log_sum_exp.as<float>(), numbers, sizes);
  const Backward at{.q = map_of_heads(q),
                    .k = map_of_heads(k),
                    .v = map_of_heads(v),
                    .d_o = map_of_heads(d_o),
                    .q_data = q.as<__nv_bfloat16>(),
                    .k_data = k.as<__nv_bfloat16>(),
                    .d_o_data = d_o.as<__nv_bfloat16>(),
                    .numbers = numbers,
                    .segments = ranges == nullptr ? nullptr : segments.as<std::int32_t>(),
                    .ranges = ranges,
                    .dq = dq.as<__nv_bfloat16>(),
                    .dk = dk.as<__nv_bfloat16>(),
                    .dv = dv.as<__nv_bfloat16>(),
                    .sizes = sizes};
  const std::int64_t tiles = (sizes.sequence + kOwnedRows - 1) / kOwnedRows * sizes.rows;
  const auto enqueue = [&]<int P, bool Plain>(std::integral_constant<int, P>, std::bool_constant<Plain>) {
    launch(context, component, key_gradients<P, Plain>, dim3(blocks_of(tiles * sizes.kv_heads, 1)), dim3(kBlockThreads), kSharedBytes<P>,
           at);
    launch(context, component, query_gradients<P, Plain>, dim3(blocks_of(tiles * sizes.heads, 1)), dim3(kBlockThreads), kSharedBytes<P>,
           at);
  };
  const bool plain = ranges == nullptr && sizes.causal && sizes.window == sizes.sequence && sizes.chunk == sizes.sequence;
  const auto with_width = [&](auto is_plain) {
    if (sizes.width <= 64)
      enqueue(std::integral_constant<int, 64>{}, is_plain);
    else
      enqueue(std::integral_constant<int, 128>{}, is_plain);
  };
  if (plain)
    with_width(std::true_type{});
  else
    with_width(std::false_type{});
  return true;
}

}  // namespace millrace::kernels::cuda
