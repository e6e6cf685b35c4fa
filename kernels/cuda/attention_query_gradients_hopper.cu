#include "kernels/cuda/attention_hopper_tile.cuh"

namespace millrace::kernels::cuda::hopper {
namespace {

// One block for each 128 queries of a head. Late queries see the most keys, so they come first. Rows of the block's products are queries,
// and columns are keys.
template <int P, bool Plain>
__global__ void __launch_bounds__(kBlockThreads, 1) query_gradients(const __grid_constant__ Backward at) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
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

  unsigned char* const aligned = tile_memory();
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
  take_steps<P>(
      more, [&](float(&scores)[32]) { multiply_by_tokens<P>(scores, queries, tiles_of(step)); }, advance);
  if (!owns) return;
  if (!any) {
#pragma unroll
    for (int i = 0; i < P / 2; ++i) dq[i] = 0;
  }
  store_rows<P>(at.dq + place, stride, width, dq, sizes.scale);
#endif
}

}  // namespace

void enqueue_query_gradients(cudaStream_t lane, const Backward& at, bool plain) {
  const AttentionSizes& sizes = at.sizes;
  const std::int64_t tiles = (sizes.sequence + kOwnedRows - 1) / kOwnedRows * sizes.rows;
  with_heads(sizes, plain, [&]<int P, bool Plain>() {
    launch(lane, "kernels.attention_input_gradient", query_gradients<P, Plain>, dim3(blocks_of(tiles * sizes.heads, 1)),
           dim3(kBlockThreads), kSharedBytes<P>, at);
  });
}

}  // namespace millrace::kernels::cuda::hopper
