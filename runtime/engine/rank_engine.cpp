#include "runtime/engine/rank_engine.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* rank_engine_component = "runtime.engine";

std::string name_of(const Edge& edge) {
  return fmt::format("the {} edge from stage {} to {}", to_string(edge.kind), edge.producer, edge.consumer);
}

}  // namespace

RankEngine::RankEngine(Options options) : rank_(options.rank), issue_ahead_(options.issue_ahead), leaves_(options.leaves) {
  MILLRACE_CHECK(options.depths.size() == options.edges.size(), ExitCode::internal, rank_engine_component,
                 "rank {}: {} channel depths, expected one for each of {} edges", rank_, options.depths.size(), options.edges.size());
  MILLRACE_CHECK(issue_ahead_ >= 1, ExitCode::internal, rank_engine_component, "rank {}: issue-ahead bound {}, expected 1 or more", rank_,
                 issue_ahead_);
  std::size_t slots = 0;
  for (const Edge& edge : options.edges) {
    const int depth = options.depths[edge.id.index()];
    MILLRACE_CHECK(depth >= 1, ExitCode::internal, rank_engine_component, "rank {}: {} slots on {}, expected 1 or more", rank_, depth,
                   name_of(edge));
    Channel channel;
    channel.edge = edge;
    channel.depth = depth;
    channel.over.assign(static_cast<std::size_t>(depth), 0);
    channel.holder.assign(static_cast<std::size_t>(depth), -1);
    channels_.push_back(std::move(channel));
    slots = std::max(slots, static_cast<std::size_t>(depth));
  }
  decisions_.sends.reserve(1);  // an action has one output
  // an action ends the use of at most one boundary of each kind, which may free later ones as well
  decisions_.releases.reserve(2 * slots);
  decisions_.issues.reserve(static_cast<std::size_t>(issue_ahead_));
}

// -- events ------------------------------------------------------------------------------------------------------------------

const Decisions& RankEngine::start(const RankPlan& plan, StepId step) {
  MILLRACE_CHECK(plan_ == nullptr, ExitCode::internal, rank_engine_component,
                 "rank {}: step {} starts while {} of {} entries of step {} are done", rank_, step, finished_, plan_->entries.size(),
                 step_);
  MILLRACE_CHECK(plan.rank == rank_, ExitCode::internal, rank_engine_component, "rank {} was given the list of rank {}", rank_, plan.rank);
  clear_decisions();
  plan_ = &plan;
  step_ = step;
  issued_ = 0;
  finished_ = 0;
  leaves_made_ = leaves_added_ = gathered_ = 0;
  batches_.assign(static_cast<std::size_t>(plan.microbatches), 0);
  ended_.assign(plan.exchanges.size(), 0);
  return advance();
}

const Decisions& RankEngine::boundary_arrived(EdgeId edge, std::int64_t sequence) {
  clear_decisions();
  Channel& channel = incoming(edge, sequence, "boundary");
  MILLRACE_CHECK(sequence == channel.arrived, ExitCode::internal, rank_engine_component,
                 "rank {}: boundary {} arrived on {}, expected boundary {}", rank_, sequence, name_of(channel.edge), channel.arrived);
  MILLRACE_CHECK(sequence < channel.released + channel.depth, ExitCode::internal, rank_engine_component,
                 "rank {}: boundary {} arrived on {}, whose {} slots are all taken (boundaries {} to {})", rank_, sequence,
                 name_of(channel.edge), channel.depth, channel.released, sequence - 1);
  ++channel.arrived;
  return advance();
}

const Decisions& RankEngine::credit_returned(EdgeId edge, std::int64_t sequence) {
  clear_decisions();
  Channel& channel = outgoing(edge, sequence, "credit");
  auto& holder = channel.holder[static_cast<std::size_t>(std::max<std::int64_t>(sequence, 0) % channel.depth)];
  MILLRACE_CHECK(sequence >= 0 && holder == sequence, ExitCode::internal, rank_engine_component,
                 "rank {}: the slot of boundary {} was freed on {}, but it holds boundary {}", rank_, sequence, name_of(channel.edge),
                 holder);
  holder = -1;
  return advance();
}

const Decisions& RankEngine::batch_ready(MicrobatchId microbatch) {
  clear_decisions();
  MILLRACE_CHECK(plan_ != nullptr, ExitCode::internal, rank_engine_component,
                 "rank {}: the batch of microbatch {} arrived while no list runs", rank_, microbatch);
  MILLRACE_CHECK(microbatch.value >= 0 && microbatch.value < plan_->microbatches, ExitCode::internal, rank_engine_component,
                 "rank {}: the batch of microbatch {} arrived in step {}, expected 0 to {}", rank_, microbatch, step_,
                 plan_->microbatches - 1);
  MILLRACE_CHECK(!batches_[microbatch.index()], ExitCode::internal, rank_engine_component,
                 "rank {}: the batch of microbatch {} of step {} arrived twice", rank_, microbatch, step_);
  batches_[microbatch.index()] = 1;
  return advance();
}

const Decisions& RankEngine::exchange_ended(std::int64_t sequence) {
  clear_decisions();
  const std::int64_t posted = plan_ == nullptr || issued_ == 0 ? 0 : [&] {
    const PlannedEntry& newest = plan_->entries[static_cast<std::size_t>(issued_ - 1)];
    return std::int64_t{newest.first_exchange} + newest.posts;
  }();
  const std::int64_t ordinal = sequence - first_exchange_;
  MILLRACE_CHECK(ordinal >= 0 && ordinal < posted, ExitCode::internal, rank_engine_component,
                 "rank {}: exchange {} ended, expected one of {} to {}, which are posted", rank_, sequence, first_exchange_,
                 first_exchange_ + posted - 1);
  auto& ended = ended_[static_cast<std::size_t>(ordinal)];
  MILLRACE_CHECK(!ended, ExitCode::internal, rank_engine_component, "rank {}: exchange {} ended twice", rank_, sequence);
  ended = 1;
  return advance();
}

void RankEngine::weights_leave(StageId stage) {
  if (away_.size() <= stage.index()) away_.resize(stage.index() + 1);
  away_[stage.index()] = 1;
}

const Decisions& RankEngine::weights_arrived(StageId stage) {
  clear_decisions();
  MILLRACE_CHECK(stage.index() < away_.size() && away_[stage.index()], ExitCode::internal, rank_engine_component,
                 "rank {}: the weights of stage {} arrived, which were not being exchanged", rank_, stage);
  away_[stage.index()] = 0;
  return advance();
}

const Decisions& RankEngine::gathered() {
  clear_decisions();
  MILLRACE_CHECK(plan_ != nullptr && std::ranges::find(needed_, gathered_ + 1) != needed_.end(), ExitCode::internal, rank_engine_component,
                 "rank {}: weights were gathered {} times in step {}, more often than its list needs", rank_, gathered_ + 1, step_);
  ++gathered_;
  return advance();
}

const Decisions& RankEngine::leaf_added() {
  clear_decisions();
  MILLRACE_CHECK(leaves_added_ < leaves_made_, ExitCode::internal, rank_engine_component,
                 "rank {}: gradients of a further action of step {} were added, but only {} actions have made some", rank_, step_,
                 leaves_made_);
  ++leaves_added_;
  return advance();
}

const Decisions& RankEngine::entry_finished(const Action& action, int segment) {
  clear_decisions();
  MILLRACE_CHECK(plan_ != nullptr && finished_ < issued_, ExitCode::internal, rank_engine_component,
                 "rank {}: {} finished, but nothing was issued", rank_, action);
  const PlannedEntry& oldest = plan_->entries[static_cast<std::size_t>(finished_)];
  MILLRACE_CHECK(oldest.action == action && oldest.segment == segment, ExitCode::internal, rank_engine_component,
                 "rank {}: segment {} of {} finished, but the oldest issued entry is segment {} of {}", rank_, segment, action,
                 oldest.segment, oldest.action);
  ++finished_;
  if (!oldest.ends_action()) return advance();
  if (oldest.leaf >= 0) ++leaves_made_;
  if (oldest.output.present() && !channels_[oldest.output.edge.index()].edge.local()) decisions_.sends.push_back(slot_of(oldest.output));
  if (oldest.last_use) {
    for (const BoundaryUse* use : {&oldest.activation, &oldest.gradient}) {
      if (use->present() && !channels_[use->edge.index()].edge.local()) release(*use);
    }
  }
  return advance();
}

RankEngine::Ring RankEngine::ring(EdgeId edge) const {
  const Channel& channel = channels_.at(edge.index());
  Ring ring;
  ring.depth = static_cast<int>(channel.depth);
  ring.tokens = static_cast<int>(channel.arrived - channel.released);
  for (const auto token : channel.holder) ring.taken += token >= 0 ? 1 : 0;
  return ring;
}

// -- deciding ----------------------------------------------------------------------------------------------------------------

WaitReason RankEngine::missing(const PlannedEntry& planned) const {
  const auto absent = [&](const BoundaryUse& use) {
    return use.present() && channels_[use.edge.index()].arrived <= channels_[use.edge.index()].base + use.ordinal;
  };
  if (planned.awaits >= 0 && !ended_[static_cast<std::size_t>(planned.awaits)]) return WaitReason::exchange;
  if (!needed_.empty() && needed_[static_cast<std::size_t>(&planned - plan_->entries.data())] > gathered_) return WaitReason::weights;
  if (!planned.begins_action()) return WaitReason::none;
  if (planned.action.stage.index() < away_.size() && away_[planned.action.stage.index()]) return WaitReason::weights;
  if (leaves_ > 0 && planned.leaf >= leaves_added_ + leaves_) return WaitReason::replicas;
  if (absent(planned.activation)) return WaitReason::activation;
  if (absent(planned.gradient)) return WaitReason::gradient;
  if (!batches_[planned.action.microbatch.index()]) return WaitReason::batch;
  if (!planned.output.present()) return WaitReason::none;
  const Channel& channel = channels_[planned.output.edge.index()];
  const bool full = channel.edge.local() ? channel.arrived - channel.released >= channel.depth
                                         : channel.holder[static_cast<std::size_t>(channel.produced % channel.depth)] >= 0;
  return full ? WaitReason::credit : WaitReason::none;
}

const Decisions& RankEngine::advance() {
  if (!plan_) return decisions_;
  const int size = static_cast<int>(plan_->entries.size());
  while (issued_ < size && issued_ - finished_ < issue_ahead_) {
    const PlannedEntry& next = plan_->entries[static_cast<std::size_t>(issued_)];
    if (missing(next) != WaitReason::none) break;
    issue(next);
  }
  if (finished_ == size) finish_list();
  return decisions_;
}

void RankEngine::issue(const PlannedEntry& planned) {
  decisions_.issues.push_back({.step = step_,
                               .index = issued_,
                               .action = planned.action,
                               .segment = planned.segment,
                               .segments = planned.segments,
                               .strand = planned.strand,
                               .first_exchange = first_exchange_ + planned.first_exchange,
                               .posts = planned.posts,
                               .stash_input = planned.stash_input,
                               .stash_weight = planned.stash_weight,
                               .handoff = planned.handoff,
                               .activation = slot_of(planned.activation),
                               .gradient = slot_of(planned.gradient),
                               .output = slot_of(planned.output)});
  ++issued_;
  if (planned.output.present()) {
    Channel& channel = channels_[planned.output.edge.index()];
    const std::int64_t sequence = decisions_.issues.back().output.sequence;
    if (planned.begins_action()) {
      if (!channel.edge.local()) channel.holder[static_cast<std::size_t>(sequence % channel.depth)] = sequence;
      channel.produced = sequence + 1;
    }
    if (planned.ends_action() && channel.edge.local()) channel.arrived = sequence + 1;
  }
  if (!planned.last_use || !planned.ends_action()) return;
  for (const BoundaryUse* use : {&planned.activation, &planned.gradient}) {
    if (use->present() && channels_[use->edge.index()].edge.local()) release(*use);
  }
}

// Slots are freed in order: a W that comes after a later B holds back the slots after it.
void RankEngine::release(const BoundaryUse& use) {
  Channel& channel = channels_[use.edge.index()];
  const auto slot = [&](std::int64_t sequence) { return static_cast<std::size_t>(sequence % channel.depth); };
  channel.over[slot(channel.base + use.ordinal)] = 1;
  while (channel.over[slot(channel.released)]) {
    channel.over[slot(channel.released)] = 0;
    if (!channel.edge.local()) {
      decisions_.releases.push_back({channel.edge.id, channel.released, static_cast<std::int32_t>(slot(channel.released))});
    }
    ++channel.released;
  }
}

void RankEngine::finish_list() {
  for (Channel& channel : channels_) channel.base = channel.edge.consumer_rank == rank_ ? channel.released : channel.produced;
  first_exchange_ += static_cast<std::int64_t>(plan_->exchanges.size());
  plan_ = nullptr;
  needed_.clear();
  decisions_.finished = true;
}

Wait RankEngine::wait() const {
  Wait wait;
  wait.rank = rank_;
  if (!plan_) return wait;
  if (finished_ < issued_) {
    wait.reason = WaitReason::compute;
    wait.action = plan_->entries[static_cast<std::size_t>(finished_)].action;
    wait.segment = plan_->entries[static_cast<std::size_t>(finished_)].segment;
    return wait;
  }
  const PlannedEntry& next = plan_->entries[static_cast<std::size_t>(issued_)];
  wait.reason = missing(next);
  wait.action = next.action;
  wait.segment = next.segment;
  if (wait.reason == WaitReason::batch || wait.reason == WaitReason::weights || wait.reason == WaitReason::replicas) return wait;
  if (wait.reason == WaitReason::exchange) {
    wait.exchange = first_exchange_ + next.awaits;
    return wait;
  }
  const bool credit = wait.reason == WaitReason::credit;
  const BoundaryUse& use = credit ? next.output : wait.reason == WaitReason::activation ? next.activation : next.gradient;
  const Edge& edge = channels_[use.edge.index()].edge;
  wait.stage = credit ? edge.consumer : edge.producer;
  wait.peer = credit ? edge.consumer_rank : edge.producer_rank;
  return wait;
}

// -- channels ----------------------------------------------------------------------------------------------------------------

RankEngine::Channel& RankEngine::incoming(EdgeId edge, std::int64_t sequence, const char* event) {
  const bool known = edge.value >= 0 && edge.index() < channels_.size();
  MILLRACE_CHECK(known, ExitCode::internal, rank_engine_component, "rank {}: {} {} arrived on unknown edge {} of {}", rank_, event,
                 sequence, edge, channels_.size());
  Channel& channel = channels_[edge.index()];
  MILLRACE_CHECK(channel.edge.consumer_rank == rank_ && !channel.edge.local(), ExitCode::internal, rank_engine_component,
                 "rank {}: {} {} arrived on {}, which goes from rank {} to rank {}", rank_, event, sequence, name_of(channel.edge),
                 channel.edge.producer_rank, channel.edge.consumer_rank);
  return channel;
}

RankEngine::Channel& RankEngine::outgoing(EdgeId edge, std::int64_t sequence, const char* event) {
  const bool known = edge.value >= 0 && edge.index() < channels_.size();
  MILLRACE_CHECK(known, ExitCode::internal, rank_engine_component, "rank {}: {} {} arrived on unknown edge {} of {}", rank_, event,
                 sequence, edge, channels_.size());
  Channel& channel = channels_[edge.index()];
  MILLRACE_CHECK(channel.edge.producer_rank == rank_ && !channel.edge.local(), ExitCode::internal, rank_engine_component,
                 "rank {}: {} {} arrived on {}, which goes from rank {} to rank {}", rank_, event, sequence, name_of(channel.edge),
                 channel.edge.producer_rank, channel.edge.consumer_rank);
  return channel;
}

RingSlot RankEngine::slot_of(const BoundaryUse& use) const {
  if (!use.present()) return {};
  const Channel& channel = channels_[use.edge.index()];
  const std::int64_t sequence = channel.base + use.ordinal;
  return {use.edge, sequence, static_cast<std::int32_t>(sequence % channel.depth)};
}

void RankEngine::clear_decisions() {
  decisions_.sends.clear();
  decisions_.releases.clear();
  decisions_.issues.clear();
  decisions_.finished = false;
}

}  // namespace millrace::runtime
