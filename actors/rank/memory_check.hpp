#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/rank/rank_blueprint.hpp"
#include "actors/setup/session.hpp"
#include "cluster/host/host_memory.hpp"

namespace millrace::actors {

/// The host memory of a planned rank in bytes: its arena, or on a GPU its pinned memory.
[[nodiscard]] std::uint64_t host_bytes(const runtime::RankMemoryPlan& plan);

/// A limit and the total memory that counts against it.
struct MemoryNeed {
  std::uint64_t host = 0, group = 0, process = 0;
  [[nodiscard]] std::uint64_t of(cluster::MemoryScope scope) const;
};

/// The exceeded limit, the tightest one if there are several; nothing if everything fits.
[[nodiscard]] std::optional<cluster::MemoryBound> passed_bound(const std::vector<cluster::MemoryBound>& bounds, const MemoryNeed& need);

/// Collective, before a rank is built: plans the ranks of this process and compares the total memory of all processes on the host
/// with what is free there. Allocates nothing. Errors: Error(memory), the same in every process of the host, with the memory of
/// each of its ranks by stage.
void check_memory(Session& session, const PipelinePlan& plan, RankResources needs);
/// The same for one process that hosts all ranks.
void check_memory(const PipelinePlan& plan, const RankResources& needs);

}  // namespace millrace::actors
