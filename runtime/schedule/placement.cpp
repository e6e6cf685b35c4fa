#include "runtime/schedule/placement.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"
#include "runtime/schedule/component.hpp"

namespace millrace::runtime {
Placement Placement::single(int ranks) {
  Placement placement = loop(ranks, 1);
  placement.name_ = "single";
  return placement;
}

Placement Placement::loop(int ranks, int chunks) {
  MILLRACE_CHECK(ranks >= 1, ExitCode::config, schedule_component, "pipeline.ranks = {}, expected 1 or more", ranks);
  MILLRACE_CHECK(chunks >= 1, ExitCode::config, schedule_component, "pipeline.chunks = {}, expected 1 or more", chunks);
  std::vector<RankId> rank_of;
  for (int stage = 0; stage < ranks * chunks; ++stage) rank_of.emplace_back(stage % ranks);
  return {"loop", ranks, std::move(rank_of)};
}

Placement Placement::v_shape(int ranks) {
  MILLRACE_CHECK(ranks >= 1, ExitCode::config, schedule_component, "pipeline.ranks = {}, expected 1 or more", ranks);
  std::vector<RankId> rank_of;
  for (int stage = 0; stage < 2 * ranks; ++stage) rank_of.emplace_back(std::min(stage, 2 * ranks - 1 - stage));
  return {"v", ranks, std::move(rank_of)};
}

Placement Placement::mirror(int ranks) {
  Placement placement = v_shape(ranks);  // the same map of stages to ranks; only the order of the stages differs
  placement.name_ = "mirror";
  placement.replicas_ = 2;
  return placement;
}

Placement Placement::by_hand(int ranks, std::vector<RankId> rank_of_stage) { return {"by-hand", ranks, std::move(rank_of_stage)}; }

Placement Placement::copies_of(const Placement& one, int count) {
  MILLRACE_CHECK(count >= 1 && one.copies_ == 1, ExitCode::internal, schedule_component,
                 "{} copies of a placement that has {} already, expected 1 or more of one", count, one.copies_);
  std::vector<RankId> rank_of;
  for (int copy = 0; copy < count; ++copy)
    for (const RankId rank : one.rank_of_) rank_of.emplace_back(copy * one.ranks() + rank.value);
  Placement all(one.name_, count * one.ranks(), std::move(rank_of));
  all.copies_ = count;
  all.replicas_ = count * one.replicas_;
  return all;
}

Placement Placement::one_copy() const {
  Placement one(name_, positions(), {rank_of_.begin(), rank_of_.begin() + stages() / copies_});
  one.replicas_ = directions();
  return one;
}

Placement::Placement(std::string name, int ranks, std::vector<RankId> rank_of_stage)
    : name_(std::move(name)), rank_of_(std::move(rank_of_stage)) {
  MILLRACE_CHECK(ranks >= 1, ExitCode::config, schedule_component, "pipeline.ranks = {}, expected 1 or more", ranks);
  stages_of_.resize(static_cast<std::size_t>(ranks));
  for (int stage = 0; stage < stages(); ++stage) {
    const RankId rank = rank_of_[static_cast<std::size_t>(stage)];
    MILLRACE_CHECK(rank.value >= 0 && rank.value < ranks, ExitCode::config, schedule_component,
                   "stage {} is placed on rank {}, expected 0 to {}", stage, rank, ranks - 1);
    chunk_of_.push_back(static_cast<int>(stages_of_[rank.index()].size()));
    stages_of_[rank.index()].emplace_back(stage);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    MILLRACE_CHECK(!stages_of_[static_cast<std::size_t>(rank)].empty(), ExitCode::config, schedule_component,
                   "rank {} owns no stage of {}, expected at least one", rank, stages());
  }
}

std::string Placement::rank_text(RankId rank) const {
  if (copies_ == 1) return fmt::format("rank {}", rank);
  return fmt::format("rank {} (copy {}, position {})", rank, copy_of(rank), position_of(rank));
}

int Placement::chunks() const {
  std::size_t result = 0;
  for (const auto& stages : stages_of_) result = std::max(result, stages.size());
  return static_cast<int>(result);
}

std::optional<StageId> Placement::previous(StageId stage) const {
  if (model_stage(stage) == 0) return std::nullopt;
  return StageId{stage.value - 1};
}

std::optional<StageId> Placement::next(StageId stage) const {
  if (model_stage(stage) + 1 == model_stages()) return std::nullopt;
  return StageId{stage.value + 1};
}

}  // namespace millrace::runtime
