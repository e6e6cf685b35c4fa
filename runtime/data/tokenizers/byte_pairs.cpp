#include "runtime/data/tokenizers/byte_pairs.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include "kernels/base/mix.hpp"

namespace millrace::runtime {
namespace {

constexpr std::size_t few = 32;  // up to this size a linear scan over all pairs is faster than a queue

std::uint64_t key_of(std::int32_t left, std::int32_t right) noexcept {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

std::uint64_t place_of(std::uint64_t key) noexcept {
  const std::uint64_t product = key * golden_ratio;
  return product ^ product >> 32;
}

}  // namespace

BytePairs::BytePairs(std::size_t pairs) : table_(std::bit_ceil(std::max<std::size_t>(pairs, 8) * 2)), mask_(table_.size() - 1) {}

const BytePairs::Pair* BytePairs::find(std::int32_t left, std::int32_t right) const noexcept {
  const std::uint64_t key = key_of(left, right);
  for (std::uint64_t at = place_of(key) & mask_;; at = (at + 1) & mask_) {
    const Pair& pair = table_[at];
    if (pair.key == key || pair.key == empty) return &pair;
  }
}

bool BytePairs::add(std::int32_t left, std::int32_t right, std::int32_t rank, std::int32_t merged) {
  auto* pair = const_cast<Pair*>(find(left, right));
  if (pair->key != empty) return false;
  *pair = {key_of(left, right), rank, merged};
  return true;
}

std::int32_t BytePairs::rank_of(std::int32_t left, std::int32_t right) const noexcept {
  const Pair* pair = find(left, right);
  return pair->key == empty ? never : pair->rank;
}

std::size_t BytePairs::merge(std::span<std::int32_t> pieces, Scratch& scratch) const {
  return pieces.size() <= few ? merge_few(pieces) : merge_many(pieces, scratch);
}

std::size_t BytePairs::merge_few(std::span<std::int32_t> pieces) const noexcept {
  std::size_t count = pieces.size();
  if (count < 2) return count;
  std::array<std::int32_t, few> ranks;  // rank of the pair that begins at each piece
  for (std::size_t i = 0; i + 1 < count; ++i) ranks[i] = rank_of(pieces[i], pieces[i + 1]);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) best = ranks[i] < ranks[best] ? i : best;
    if (ranks[best] == never) break;
    pieces[best] = find(pieces[best], pieces[best + 1])->merged;
    --count;
    for (std::size_t i = best + 1; i < count; ++i) pieces[i] = pieces[i + 1];
    for (std::size_t i = best + 1; i + 1 < count; ++i) ranks[i] = ranks[i + 1];
    if (best > 0) ranks[best - 1] = rank_of(pieces[best - 1], pieces[best]);
    if (best + 1 < count) ranks[best] = rank_of(pieces[best], pieces[best + 1]);
  }
  return count;
}

// Pieces form a doubly linked list by `next` and `previous`. The queue holds (rank, place) of pairs; an entry is stale, and
// skipped, if its place has another rank by now. A rank belongs to exactly one pair, so equal ranks mean the same pair.
std::size_t BytePairs::merge_many(std::span<std::int32_t> pieces, Scratch& scratch) const {
  const auto count = static_cast<std::int32_t>(pieces.size());
  auto& next = scratch.next;
  auto& previous = scratch.previous;
  auto& rank = scratch.rank;
  auto& queue = scratch.queue;
  next.resize(pieces.size());
  previous.resize(pieces.size());
  rank.resize(pieces.size());
  queue.clear();
  const auto piece = [&](std::int32_t at) -> std::int32_t& { return pieces[static_cast<std::size_t>(at)]; };
  const auto entry = [](std::int32_t of, std::int32_t at) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(of)) << 32 | static_cast<std::uint32_t>(at);
  };
  for (std::int32_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    next[at] = i + 1;
    previous[at] = i - 1;
    rank[at] = i + 1 < count ? rank_of(piece(i), piece(i + 1)) : never;
    if (rank[at] != never) queue.push_back(entry(rank[at], i));
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  const auto look_again = [&](std::int32_t at) {
    const auto i = static_cast<std::size_t>(at);
    rank[i] = next[i] < count ? rank_of(piece(at), piece(next[i])) : never;
    if (rank[i] == never) return;
    queue.push_back(entry(rank[i], at));
    std::push_heap(queue.begin(), queue.end(), std::greater<>());
  };
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const std::uint64_t top = queue.back();
    queue.pop_back();
    const auto at = static_cast<std::int32_t>(top & 0xffffffffU);
    const auto i = static_cast<std::size_t>(at);
    if (rank[i] != static_cast<std::int32_t>(top >> 32)) continue;
    const auto gone = static_cast<std::size_t>(next[i]);
    piece(at) = find(piece(at), pieces[gone])->merged;
    rank[gone] = never;
    next[i] = next[gone];
    if (next[i] < count) previous[static_cast<std::size_t>(next[i])] = at;
    look_again(at);
    if (previous[i] >= 0) look_again(previous[i]);
  }
  std::size_t kept = 0;
  for (std::int32_t at = 0; at < count; at = next[static_cast<std::size_t>(at)]) pieces[kept++] = piece(at);
  return kept;
}

}  // namespace millrace::runtime
