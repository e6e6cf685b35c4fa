#include "runtime/passes/hide_exchanges.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace millrace::runtime {
namespace {

/// Whether the operation does nothing but add into accumulators. One that also yields the gradient of an activation does more.
bool only_accumulates(const ProgramSet& set, const Operation& operation) {
  const auto is_accumulator = [&](ValueId id) { return set.value(id).role == Role::accumulator; };
  return !operation.outputs.empty() && std::ranges::all_of(operation.outputs, is_accumulator);
}

/// Moves operations of [first, post), of which `moves` says which do, behind the post.
void move_behind(std::vector<Operation>& program, std::size_t first, std::size_t post, const std::vector<bool>& moves) {
  std::vector<Operation> moved;
  std::size_t kept = first;
  for (std::size_t i = first; i <= post; ++i) {
    if (moves[i - first])
      moved.push_back(std::move(program[i]));
    else if (kept++ != i)
      program[kept - 1] = std::move(program[i]);
  }
  std::ranges::move(moved, program.begin() + static_cast<std::ptrdiff_t>(kept));
}

}  // namespace

void hide_exchanges(ProgramSet& set) {
  auto& backward = set.programs[static_cast<std::size_t>(ProgramKind::backward)];
  for (const Segment& segment : segments_of(backward)) {
    if (segment.posts.empty()) continue;
    std::size_t post = segment.first;
    while (!posted_by(backward[post]).valid()) ++post;
    // From the post back: an addition stays if a later one into the same accumulator does.
    std::vector<bool> moves(post + 1 - segment.first, false), added_to(set.values.size(), false);
    for (std::size_t i = post; i-- > segment.first;) {
      const auto is_added_to = [&](ValueId id) { return added_to[static_cast<std::size_t>(id.index)]; };
      moves[i - segment.first] = only_accumulates(set, backward[i]) && std::ranges::none_of(backward[i].outputs, is_added_to);
      if (!moves[i - segment.first])
        for (const ValueId output : backward[i].outputs) added_to[static_cast<std::size_t>(output.index)] = true;
    }
    move_behind(backward, segment.first, post, moves);
  }
}

}  // namespace millrace::runtime
