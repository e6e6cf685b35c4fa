#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/planning/model_costs.hpp"
#include "actors/rank/rank_blueprint.hpp"

namespace millrace::actors {

/// One way to run a training step, with what the simulator and the ranks' memory plans say of it.
struct PlannedRun {
  std::string schedule;
  std::int64_t chunks = 1;
  std::vector<std::string> policy;  // of rematerialisation
  std::vector<std::string> stages;  // a policy of each stage where they differ, as rematerialize.stages takes them; else empty
  std::string layout;
  double step = 0;                   // in the unit of the costs
  double bubble = 0;                 // part of the ranks' time
  std::vector<double> idle;          // by rank, part of the step
  std::vector<std::uint64_t> bytes;  // by rank, all that the run asks for
  runtime::Costs prices;             // of its stages and links: what `step` was simulated with
  runtime::LayerCosts parts;         // what its parts cost, each with the policy of its stage
  [[nodiscard]] std::uint64_t most_bytes() const;
  /// The policy of all stages, or of each.
  [[nodiscard]] std::string policy_text() const;
};

/// Why a schedule is not in the list.
struct NotPlanned {
  std::string schedule;
  std::string reason;
};

struct PlanSearch {
  actors::PlanRequest request;  // model, train, ranks, policy; its schedule and layout are not looked at
  actors::RankResources needs;  // of a rank, for its memory
  std::vector<std::string> schedules;
  std::function<ModelCosts(const actors::PlanRequest&)> costs;  // of the request's policy
  bool may_rematerialize = true;                                // where memory binds, other policies than the request's too
  std::optional<std::uint64_t> memory;                          // bytes of a rank
  double latency = 0;                                           // of a link, in the unit of the costs
  double bytes_per_unit = 0;                                    // of a link, bytes for each unit of time; 0: no limit
};

struct PlanResult {
  PlannedRun uniform;              // 1f1b with layers spread evenly and the request's policy
  std::vector<PlannedRun> runs;    // the best layout of each schedule, fastest first; those that need least memory first where as fast
  std::vector<NotPlanned> others;  // schedules that cannot do this, or do not fit
};

/// For every schedule the best layout; schedules of several chunks with two, three and four as far as there are layers. Where a limit of
/// memory binds, layouts within it; where there is none, policies that keep less, on the stages of the ranks that need them.
/// Error(config) where the model has no uniform layout on these ranks.
[[nodiscard]] PlanResult search_plans(const PlanSearch& search);

}  // namespace millrace::actors
