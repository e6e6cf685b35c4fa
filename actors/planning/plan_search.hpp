#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/planning/link_costs.hpp"
#include "actors/planning/model_costs.hpp"
#include "actors/rank/rank_blueprint.hpp"

namespace millrace::actors {

/// One way to run a training step, with the results of the simulator and the ranks' memory plans.
struct PlannedRun {
  std::string schedule;
  std::int64_t chunks = 1;
  std::string weave = "off";
  std::vector<std::string> policy;  // of rematerialisation
  std::vector<std::string> stages;  // a policy per stage if they differ, in the form of rematerialize.stages; else empty
  std::string layout;
  double step = 0;                   // in the unit of the costs, with the transfers between replicas and the update
  double exposed = 0;                // … of which so much is waiting for these
  double update = 0;                 // … and so much the update, if its times are known
  std::uint64_t sent = 0;            // bytes that a rank sends to its replicas in a step; of the rank that sends most
  double bubble = 0;                 // fraction of the ranks' time
  std::vector<double> idle;          // by rank, fraction of the step
  std::vector<std::uint64_t> bytes;  // by rank, everything that the run allocates
  runtime::Costs prices;             // costs of its stages and links
  runtime::LayerCosts parts;         // costs of its parts, each with the policy of its stage
  [[nodiscard]] std::uint64_t max_bytes() const;
  /// The policy of all stages, or of each.
  [[nodiscard]] std::string policy_text() const;
};

/// Why a schedule is not in the list.
struct NotPlanned {
  std::string schedule;
  std::string reason;
};

struct PlanSearch {
  actors::PlanRequest request;  // model, train, ranks, policy; its schedule and layout are ignored
  actors::RankResources needs;  // of a rank, for its memory
  std::vector<std::string> schedules;
  std::function<ModelCosts(const actors::PlanRequest&)> costs;  // computes the costs for the request's policy
  bool may_rematerialize = true;                                // if memory is the limit, other policies may be used too
  std::optional<std::uint64_t> memory;                          // limit per rank in bytes
  PlannedLinks links = {};                                      // in the unit of the costs
};

struct PlanResult {
  PlannedRun uniform;              // 1f1b with evenly distributed layers and the request's policy
  std::vector<PlannedRun> runs;    // the best layout of each schedule, fastest first; among equally fast ones, the least memory first
  std::vector<NotPlanned> others;  // schedules that are impossible here or do not fit
};

/// Finds the best layout for every schedule, with pipeline.weave = "auto" also whether to weave; schedules with several chunks are tried
/// with two, three and four if there are enough layers. With a memory limit it searches layouts within the limit and, if there are none,
/// policies that keep fewer values, on the stages of those ranks that need them. Error(config) if the model has no uniform layout on these
/// ranks.
[[nodiscard]] PlanResult search_plans(const PlanSearch& search);

}  // namespace millrace::actors
