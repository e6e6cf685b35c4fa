#pragma once

#include <cstdint>
#include <vector>

#include "actors/planning/link_costs.hpp"
#include "actors/rank/rank_blueprint.hpp"
#include "runtime/schedule/simulator/cost.hpp"

namespace millrace::actors {

/// What a rank and its replicas transfer in a steady training step, priced.
struct RankTransfers {
  std::vector<runtime::ListTransfer> list;  // empty if it transfers nothing
  std::uint64_t sent = 0;                   // bytes, to all other replicas
};

/// The transfers of a rank as its run would plan them: sums of gradients and gathers of parameters, bucket by bucket, with what the rank
/// sends or receives, whichever is more, on a link of its own. With mesh.shard = none all sums follow the list; with "optimizer" and
/// "gradients" the gathers of the update before begin with the list.
[[nodiscard]] RankTransfers transfer_costs(const PipelinePlan& plan, runtime::RankId rank, const RankResources& needs,
                                           const PlannedLinks& links);

}  // namespace millrace::actors
