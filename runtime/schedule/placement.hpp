#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/ids.hpp"

namespace millrace::runtime {

/// Which rank owns which stage, and which stage follows which. P ranks, V chunks per rank, S = P·V stages.
///
///     single   V = 1, stage s on rank s
///     loop     stage s on rank s mod P
///     v        V = 2, rank r owns r and 2P−1−r: embedding and head share rank 0
///     mirror   two replicas of a model of P stages, one for each direction: replica 0 has stage s on rank s; replica 1 has the stage ids
///              P…2P−1 and runs the other way, its stage s on rank P−1−s. Two chains; each takes every second microbatch.
///     by hand  any map from stage to rank
///
/// Copies of a placement, for data parallelism, have stages and ranks of their own: copy d of a placement of S stages on P ranks has the
/// stage ids d·S…d·S+S−1 and the ranks d·P…d·P+P−1. A rank's place in its copy is its position.
///
/// Use previous() and next() for neighbours, never s ± 1, so that another chain of stages needs no change in schedule code.
class Placement {
 public:
  [[nodiscard]] static Placement single(int ranks);
  [[nodiscard]] static Placement loop(int ranks, int chunks);
  [[nodiscard]] static Placement v_shape(int ranks);
  [[nodiscard]] static Placement mirror(int ranks);
  /// `rank_of_stage[s]` owns stage s; every rank 0…ranks−1 must own at least one stage, else Error(config).
  [[nodiscard]] static Placement by_hand(int ranks, std::vector<RankId> rank_of_stage);
  /// `count` copies of a placement that is not made of copies itself.
  [[nodiscard]] static Placement copies_of(const Placement& one, int count);

  /// The placement of each copy.
  [[nodiscard]] Placement one_copy() const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] int ranks() const { return static_cast<int>(stages_of_.size()); }
  [[nodiscard]] int stages() const { return static_cast<int>(rank_of_.size()); }
  /// The largest number of stages that any rank owns.
  [[nodiscard]] int chunks() const;

  [[nodiscard]] RankId rank_of(StageId stage) const { return rank_of_.at(stage.index()); }
  /// Index of the stage among those of its rank, in stage order.
  [[nodiscard]] int chunk_of(StageId stage) const { return chunk_of_.at(stage.index()); }
  [[nodiscard]] const std::vector<StageId>& stages_of(RankId rank) const { return stages_of_.at(rank.index()); }
  [[nodiscard]] StageId stage_of(RankId rank, int chunk) const { return stages_of(rank).at(static_cast<std::size_t>(chunk)); }

  /// Replicas of the model in this placement: 2 for each copy of a mirror, 1 for each copy of the others. Stage ids count all replicas, one
  /// after another.
  [[nodiscard]] int replicas() const { return replicas_; }
  /// The copies that it was made of: 1, unless copies_of() made it.
  [[nodiscard]] int copies() const { return copies_; }
  /// Replicas of one copy, which share its ranks: 2 for mirror, 1 for all others.
  [[nodiscard]] int directions() const { return replicas_ / copies_; }
  /// Ranks of one copy.
  [[nodiscard]] int positions() const { return ranks() / copies_; }
  [[nodiscard]] int copy_of(RankId rank) const { return rank.value / positions(); }
  [[nodiscard]] int position_of(RankId rank) const { return rank.value % positions(); }
  /// "rank 5", or "rank 5 (copy 1, position 1)" where there are copies.
  [[nodiscard]] std::string rank_text(RankId rank) const;
  /// Number of stages of one replica.
  [[nodiscard]] int model_stages() const { return stages() / replicas_; }
  [[nodiscard]] int replica_of(StageId stage) const { return stage.value / model_stages(); }
  /// The part of the model that a stage holds, 0…model_stages()−1.
  [[nodiscard]] int model_stage(StageId stage) const { return stage.value % model_stages(); }

  /// The stage whose activation this one consumes; nothing for the first of a replica.
  [[nodiscard]] std::optional<StageId> previous(StageId stage) const;
  /// The stage whose gradient this one consumes; nothing for the last of a replica.
  [[nodiscard]] std::optional<StageId> next(StageId stage) const;

 private:
  Placement(std::string name, int ranks, std::vector<RankId> rank_of_stage);

  std::string name_;
  int replicas_ = 1;
  int copies_ = 1;
  std::vector<RankId> rank_of_;                  // by stage
  std::vector<int> chunk_of_;                    // by stage
  std::vector<std::vector<StageId>> stages_of_;  // by rank
};

}  // namespace millrace::runtime
