#include "kernels/choose_keys.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "kernels/base/buffer.hpp"
#include "kernels/base/torch_topk.hpp"
#include "kernels/cpu/aligned_scratch.hpp"
#include "kernels/cpu/choose_keys_loops.hpp"
#include "kernels/cpu/items_in_turn.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kQueryTile = 8;  // the queries that a thread takes at a time

/// Score and place as one number, which is larger for the better key: both zeros are equal, a NaN is above +∞, and of equal scores the
/// lower place is better.
std::uint64_t candidate(float score, std::int64_t place) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);
  const std::uint32_t rank = score != score ? 0xffffffffU : (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return std::uint64_t{rank} << 32 | (0xffffffffU - static_cast<std::uint32_t>(place));
}

std::int64_t tiles_of(std::int64_t sequence) { return (sequence + kIndexTile - 1) / kIndexTile; }

std::size_t memory_bytes(const Shape& q, std::int64_t sequence) {
  const auto places = static_cast<std::size_t>(sequence);
  const auto floats = static_cast<std::size_t>(tiles_of(sequence) * kIndexTile + q[1] * (q[2] + kIndexTile));
  return align_up(places * (sizeof(std::uint64_t) + sizeof(std::int32_t)) + floats * sizeof(float));
}

/// A thread's memory: candidates u64 [S], the places that a query sees i32 [S], scores f32 [tiles · 64], and that of index_scores.
struct ChoiceMemory {
  ChoiceMemory(std::int64_t sequence, std::byte* first)
      : candidates(reinterpret_cast<std::uint64_t*>(first)),
        places(reinterpret_cast<std::int32_t*>(candidates + sequence)),
        scores(reinterpret_cast<float*>(places + sequence)),
        loops(scores + tiles_of(sequence) * kIndexTile) {}
  std::uint64_t* candidates;
  std::int32_t* places;
  float *scores, *loops;
};

std::size_t packed_bytes(const Shape& q, std::int64_t sequence) {
  return align_up(static_cast<std::size_t>(tiles_of(sequence) * kIndexTile * q[2]) * sizeof(float));
}

/// Writes the key list of a query that sees `count` places, in increasing order, with these scores by place.
void choose(const ChoiceMemory& memory, std::int64_t count, std::int64_t chosen, std::int32_t* list) {
  std::uint64_t worst = 0;
  if (count > chosen) {
    for (std::int64_t i = 0; i < count; ++i) memory.candidates[i] = candidate(memory.scores[memory.places[i]], memory.places[i]);
    std::nth_element(memory.candidates, memory.candidates + chosen - 1, memory.candidates + count, std::greater<>());
    worst = memory.candidates[chosen - 1];
  }
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < count; ++i)
    if (candidate(memory.scores[memory.places[i]], memory.places[i]) >= worst) list[found++] = memory.places[i];
  for (; found < chosen; ++found) list[found] = -1;
}

/// The same with the keys that torch.topk takes from a row of `sequence` keys, of which more than `chosen` are seen.
void choose_as_torch(const ChoiceMemory& memory, std::int64_t count, std::int64_t chosen, std::int64_t sequence, std::int32_t* list) {
  static_assert(sizeof(ScoredPlace) == sizeof(std::uint64_t));
  auto* const entries = reinterpret_cast<ScoredPlace*>(memory.candidates);
  for (std::int64_t u = 0; u < sequence; ++u) entries[u] = {-std::numeric_limits<float>::infinity(), static_cast<std::int32_t>(u)};
  for (std::int64_t i = 0; i < count; ++i) entries[memory.places[i]].score = memory.scores[memory.places[i]];
  torch_topk(entries, sequence, chosen);
  for (std::int64_t i = 0; i < chosen; ++i) list[i] = entries[i].place;
  std::sort(list, list + chosen);
}

template <class T, class Pack, class Scores>
void choose_keys(ThreadTeam& team, const IndexerScores<T>& at, Pack* pack, Scores* score, const Shape& q, const Tensor& segments,
                 bool torch_ties, const Tensor& keys, Scratch scratch) {
  auto* const packed = reinterpret_cast<float*>(aligned_begin(scratch));
  auto* const memories = reinterpret_cast<std::byte*>(packed) + packed_bytes(q, at.sequence);
  const std::int64_t query_tiles = (at.sequence + kQueryTile - 1) / kQueryTile, chosen = keys.shape[1];
  for (std::int64_t row = 0; row * at.sequence < q[0]; ++row) {
    const auto* segment = segments.as<std::int32_t>() + row * at.sequence;
    team.for_ranges(tiles_of(at.sequence), 1, [&](std::int64_t begin, std::int64_t end) { pack(at, row, begin, end, packed); });
    for_items_in_turn(team, query_tiles, [&](std::int64_t item, int thread) {
      const ChoiceMemory memory(at.sequence, memories + static_cast<std::size_t>(thread) * memory_bytes(q, at.sequence));
      const std::int64_t first = (query_tiles - 1 - item) * kQueryTile;  // later queries have the most work
      for (std::int64_t t = first; t < std::min(first + kQueryTile, at.sequence); ++t) {
        std::int64_t count = 0;
        for (std::int64_t u = 0; u <= t; ++u)
          if (segment[u] == segment[t]) memory.places[count++] = static_cast<std::int32_t>(u);
        if (count > chosen)
          score(at, row * at.sequence + t, memory.places[0] / kIndexTile, t / kIndexTile + 1, packed, memory.loops, memory.scores);
        else
          std::fill_n(memory.scores, t + 1, 0.0F);  // all of them are chosen
        if (torch_ties && count > chosen)
          choose_as_torch(memory, count, chosen, at.sequence, keys.as<std::int32_t>() + (row * at.sequence + t) * chosen);
        else
          choose(memory, count, chosen, keys.as<std::int32_t>() + (row * at.sequence + t) * chosen);
      }
    });
  }
}

void choose_keys(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& weights, const Tensor& segments,
                 ChooseKeysOptions options, const Tensor& keys, Scratch scratch) {
  const auto call = [&]<class T>(T, auto* pack, auto* score) {
    choose_keys(context.team(),
                IndexerScores<T>{q.as<T>(), k.as<T>(), weights.as<float>(), options.sequence, q.shape[1], q.shape[2], options.scale}, pack,
                score, q.shape, segments, options.torch_ties, keys, scratch);
  };
  if (q.dtype == DType::f32)
    call(float{}, pick_pack_index_keys_f32(), pick_index_scores_f32());
  else
    call(BFloat16{}, pick_pack_index_keys_bf16(), pick_index_scores_bf16());
}

std::size_t choose_keys_scratch_bytes(const Shape& q, DType /*dtype*/, ChooseKeysOptions options, const Processor& processor) {
  const auto threads = static_cast<std::size_t>(processor.threads);
  return packed_bytes(q, options.sequence) + threads * memory_bytes(q, options.sequence) + kAlignment;
}

const InTable in_table[] = {
    {Backend::cpu, table::choose_keys, choose_keys},
    {Backend::cpu, table::choose_keys_scratch_bytes, choose_keys_scratch_bytes},
};

}  // namespace
}  // namespace millrace::kernels::cpu
