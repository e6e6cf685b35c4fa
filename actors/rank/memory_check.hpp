#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/rank/rank_blueprint.hpp"
#include "actors/setup/session.hpp"
#include "cluster/host/host_memory.hpp"

namespace millrace::actors {

/// Bytes of the host's memory that a planned rank takes: its arena, or, on a GPU, what is pinned for it.
[[nodiscard]] std::uint64_t host_bytes(const runtime::RankMemoryPlan& plan);

/// What takes from a bound together, summed.
struct MemoryNeed {
  std::uint64_t host = 0, group = 0, process = 0;
  [[nodiscard]] std::uint64_t of(cluster::MemoryScope scope) const;
};

/// The bound that is passed, the one with the least room where several are; nothing where the need fits.
[[nodiscard]] std::optional<cluster::MemoryBound> passed_bound(const std::vector<cluster::MemoryBound>& bounds, const MemoryNeed& need);

/// Collective, before a rank is built: plans the ranks of this process and compares what all processes of the host need together with what
/// is free there. Nothing is allocated. Errors: Error(memory), the same in every process of the host, with the need of each of its ranks by
/// stage.
void check_memory(Session& session, const PipelinePlan& plan, RankResources needs);
/// The same for one process that holds all ranks.
void check_memory(const PipelinePlan& plan, const RankResources& needs);

}  // namespace millrace::actors
