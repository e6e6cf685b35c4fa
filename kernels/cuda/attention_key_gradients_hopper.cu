#include "kernels/cuda/attention_hopper_tile.cuh"

namespace millrace::kernels::cuda::hopper {
namespace {

// One block for each 128 keys of a key/value head. Early keys have the most queries, so they come first. Rows of the block's products are
// keys, and columns are queries.
template <int P, bool Plain>
__global__ void __launch_bounds__(kBlockThreads, 1) key_gradients(const __grid_constant__ Backward at) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
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

  unsigned char* const aligned = tile_memory();
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
  take_steps<P>(
      more, [&](float(&scores)[32]) { multiply_by_queries(scores, step); }, advance);
  if (!owns) return;
  if (!any) {
#pragma unroll
    for (int i = 0; i < P / 2; ++i) dk[i] = dv[i] = 0;
  }
  store_rows<P>(at.dk + place, stride, width, dk, sizes.scale);
  store_rows<P>(at.dv + place, stride, width, dv, 1.0F);
#endif
}

}  // namespace

void enqueue_key_gradients(cudaStream_t lane, const Backward& at, bool plain) {
  const AttentionSizes& sizes = at.sizes;
  const std::int64_t tiles = (sizes.sequence + kOwnedRows - 1) / kOwnedRows * sizes.rows;
  with_heads(sizes, plain, [&]<int P, bool Plain>() {
    launch(lane, "kernels.attention_input_gradient", key_gradients<P, Plain>, dim3(blocks_of(tiles * sizes.kv_heads, 1)),
           dim3(kBlockThreads), kSharedBytes<P>, at);
  });
}

}  // namespace millrace::kernels::cuda::hopper
