#include "actors/rank/stall_watch.hpp"

#include <algorithm>
#include <set>

#include "runtime/engine/wait.hpp"

namespace millrace::actors {
namespace {

using cluster::Progress;
using Seconds = std::chrono::duration<double>;

constexpr auto silence = std::chrono::milliseconds(500);  // of a process, while heartbeats come every 100 ms

/// The reason of a wait within a step; none for every other activity of a rank.
runtime::WaitReason reason_of(const Progress& progress) { return static_cast<runtime::WaitReason>(progress.wait); }

bool same(const Progress& left, const Progress& right) {
  return left.stage == right.stage && left.microbatch == right.microbatch && left.step == right.step && left.finished == right.finished &&
         left.wait == right.wait && left.exchange == right.exchange && left.transfers == right.transfers && left.action == right.action;
}

std::string span_text(std::chrono::steady_clock::duration span) { return fmt::format("{:.1f} s", Seconds(span).count()); }

}  // namespace

StallWatch::StallWatch(const runtime::Schedule& schedule, const cluster::Topology& topology, std::chrono::milliseconds limit)
    : schedule_(schedule), topology_(topology), limit_(limit) {}

void StallWatch::heard(std::span<const Progress> ranks, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  for (const auto& progress : ranks) {
    auto [place, fresh] = ranks_.try_emplace(progress.rank);
    auto& seen = place->second;
    seen.heard = now;
    if (!fresh && same(seen.doing, progress)) continue;
    seen.doing = progress;
    seen.since = now;
    seen.made = {};
    if (moved_ != Clock::time_point{}) longest_pause_ = std::max(longest_pause_, now - moved_);
    reported_ = false;
    moved_ = now;
  }
}

const StallWatch::Seen* StallWatch::seen(int rank) const {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? nullptr : &found->second;
}

bool StallWatch::waits_in_step(const Seen& seen) const { return reason_of(seen.doing) != runtime::WaitReason::none; }

/// Whether the boundary that it waits for was produced: its producer has passed it in its list.
bool StallWatch::made(const Seen& waiter) const {
  const auto reason = reason_of(waiter.doing);
  const bool activation = reason == runtime::WaitReason::activation;
  if (!activation && reason != runtime::WaitReason::gradient) return false;
  const auto* peer = seen(waiter.doing.peer);
  if (peer == nullptr || peer->doing.step != waiter.doing.step || peer->doing.finished < 0) return false;
  const auto& list = schedule_.ranks.at(static_cast<std::size_t>(waiter.doing.peer));
  const auto maker = std::find_if(list.begin(), list.end(), [&](const runtime::Action& action) {
    return action.stage.value == waiter.doing.peer_stage && action.microbatch.value == waiter.doing.microbatch &&
           (activation ? action.kind == runtime::ActionKind::forward : runtime::makes_gradient(action.kind));
  });
  return maker != list.end() && maker - list.begin() < peer->doing.finished;
}

std::string StallWatch::rank_text(int rank) const { return schedule_.placement.rank_text(runtime::RankId(rank)); }

std::string StallWatch::wait_text(const Seen& waiter, Clock::time_point now) const {
  const auto& doing = waiter.doing;
  const auto time = span_text(now - waiter.since);
  const auto rank = rank_text(doing.rank), peer = doing.peer < 0 ? std::string() : rank_text(doing.peer);
  switch (reason_of(doing)) {
    case runtime::WaitReason::batch:
      return fmt::format("{} waits for the batch of microbatch {} ({})", rank, doing.microbatch, time);
    case runtime::WaitReason::credit:
      return fmt::format("{} waits for a free slot towards stage {} on {} ({})", rank, doing.peer_stage, peer, time);
    case runtime::WaitReason::exchange:
      return fmt::format("{} {} of microbatch {}: {} of {} members have not delivered ({})", rank, doing.action.data(), doing.microbatch,
                         doing.missing, doing.members, time);
    case runtime::WaitReason::weights:
    case runtime::WaitReason::replicas:
      return fmt::format("{} {}: {} of {} have not delivered ({})", rank, doing.action.data(), doing.missing, doing.members, time);
    default:
      return fmt::format("{} waits for the {} of microbatch {} from stage {} on {} ({})", rank, to_string(reason_of(doing)),
                         doing.microbatch, doing.peer_stage, peer, time);
  }
}

/// Follows the waits from rank to rank to their end.
std::string StallWatch::cause_of(const Seen& waiter, Clock::time_point now) const {
  std::set<int> passed;
  for (const Seen* at = &waiter;;) {
    const auto& doing = at->doing;
    const auto host = fmt::format("{} in process {}", rank_text(doing.rank), topology_.process_of(doing.rank));
    if (now - at->heard > silence)
      return fmt::format("{} has been silent for {}; last known: {}", host, span_text(now - at->heard), to_text(doing));
    if (!waits_in_step(*at)) return fmt::format("{}, for {}", to_text(doing), span_text(now - at->since));
    if (doing.peer < 0) return wait_text(*at, now);
    if (made(*at))
      return fmt::format("the transfer from {} to {}: the {} of microbatch {} was produced on stage {} and has not arrived",
                         rank_text(doing.peer), rank_text(doing.rank), to_string(reason_of(doing)), doing.microbatch, doing.peer_stage);
    if (!passed.insert(doing.rank).second) return fmt::format("the waits form a cycle through rank {}", doing.rank);
    const Seen* peer = seen(doing.peer);
    if (peer == nullptr) return fmt::format("{} has not reported yet", rank_text(doing.peer));
    // Both have posted, and what they wait for is under way between them.
    if (is_for_replicas(reason_of(doing)) && is_for_replicas(reason_of(peer->doing))) return wait_text(*at, now);
    at = peer;
  }
}

std::string StallWatch::waits_text(Clock::time_point now, std::span<const cluster::PeerFailure> lost) const {
  std::string text;
  for (const auto& [rank, seen] : ranks_) {
    const bool is_lost = std::ranges::find(lost, topology_.process_of(rank), &cluster::PeerFailure::process) != lost.end();
    if (waits_in_step(seen) && !is_lost) text += (text.empty() ? "" : "; ") + wait_text(seen, now);
  }
  return text;
}

std::string StallWatch::waits(Clock::time_point now, std::span<const cluster::PeerFailure> lost) const {
  const std::lock_guard lock(mutex_);
  return waits_text(now, lost);
}

std::optional<std::string> StallWatch::look(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (limit_.count() == 0 || reported_) return std::nullopt;
  const auto patience = std::max<Clock::duration>(limit_, longest_pause_ + longest_pause_ / 2);
  const Seen* longest = nullptr;
  for (auto& [rank, seen] : ranks_) {
    if (!waits_in_step(seen)) continue;
    if (seen.made == Clock::time_point{} && made(seen)) seen.made = now;
    if (now - seen.since < patience) continue;
    const bool halted = now - moved_ >= patience;
    const bool late = seen.made != Clock::time_point{} && now - seen.made >= patience;
    if (!halted && !late) continue;  // the others make progress, so this one will too
    if (longest == nullptr || seen.since < longest->since) longest = &seen;
  }
  if (longest == nullptr) return std::nullopt;
  reported_ = true;
  return fmt::format("[actors.stall_watch] no progress for {}: {}. The cause: {}", span_text(now - longest->since), waits_text(now),
                     cause_of(*longest, now));
}

}  // namespace millrace::actors
