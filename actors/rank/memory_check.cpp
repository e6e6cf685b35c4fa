#include "actors/rank/memory_check.hpp"

#include <fmt/format.h>

#include <span>

#include "cluster/links/gather.hpp"
#include "cluster/topology.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/units.hpp"

namespace millrace::actors {
namespace {

constexpr const char* component = "actors.memory_check";

/// What every process sends to the others.
struct Share {
  cluster::MemoryDomain domain;
  std::uint64_t bytes = 0;
};

/// Planned again when needed, since plans of large models are large themselves.
runtime::RankMemoryPlan planned(const PipelinePlan& plan, int rank, const RankResources& needs) {
  return RankBlueprint(plan, runtime::RankId(rank), needs).build(true)->memory_plan();
}

std::vector<Share> shares_of_all(Session& session, const Share& own) {
  auto* transport = session.transport();
  if (transport == nullptr) return {own};
  std::vector<Share> all(static_cast<std::size_t>(transport->processes()));
  cluster::all_gather(*transport, std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

[[noreturn]] void refuse(const cluster::MemoryBound& bound, const MemoryNeed& need, const PipelinePlan& plan, const RankResources& needs,
                         const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) {
    const auto memory = planned(plan, rank, needs);
    text += fmt::format("\n  rank {}: {} ({})", rank, runtime::bytes_text(host_bytes(memory)), memory.needs());
  }
  fail(ExitCode::memory, component, "on {} {} need{} {} together, but {} are free: {}; nothing was allocated{}", cluster::host_name(),
       counted(ranks.size(), "rank"), ranks.size() == 1 ? "s" : "", runtime::bytes_text(need.of(bound.scope)),
       runtime::bytes_text(bound.free), bound.source, text);
}

}  // namespace

std::uint64_t host_bytes(const runtime::RankMemoryPlan& plan) {
  std::uint64_t sum = 0;
  for (const auto& section : plan.sections())
    if (section.space != kernels::MemorySpace::device) sum += section.bytes();
  return sum;
}

std::uint64_t MemoryNeed::of(cluster::MemoryScope scope) const {
  switch (scope) {
    case cluster::MemoryScope::host:
      return host;
    case cluster::MemoryScope::group:
      return group;
    case cluster::MemoryScope::process:
      return process;
  }
  return 0;
}

std::optional<cluster::MemoryBound> passed_bound(const std::vector<cluster::MemoryBound>& bounds, const MemoryNeed& need) {
  for (const auto& bound : bounds)
    if (need.of(bound.scope) > bound.free) return bound;
  return std::nullopt;
}

void check_memory(Session& session, const PipelinePlan& plan, RankResources needs) {
  const auto files = cluster::HostFiles::of_this_host();
  const auto& topology = session.topology();
  needs.ranks_per_process = topology.ranks_per_process();
  Share own{cluster::memory_domain(files)};
  for (int index = 0; index < topology.ranks_per_process(); ++index)
    own.bytes += host_bytes(planned(plan, topology.first_rank() + index, needs));
  // Read before the processes communicate: no process has allocated yet.
  const auto bounds = cluster::memory_bounds(files);
  const auto all = shares_of_all(session, own);
  MemoryNeed need{0, 0, own.bytes};
  std::vector<int> of_host, of_group, of_process;
  for (std::size_t process = 0; process < all.size(); ++process) {
    if (all[process].domain.host != own.domain.host) continue;
    const bool same_group = all[process].domain.group == own.domain.group;
    need.host += all[process].bytes;
    if (same_group) need.group += all[process].bytes;
    for (int index = 0; index < topology.ranks_per_process(); ++index) {
      const int rank = topology.first_rank_of(static_cast<int>(process)) + index;
      of_host.push_back(rank);
      if (same_group) of_group.push_back(rank);
      if (topology.hosts(rank)) of_process.push_back(rank);
    }
  }
  const auto bound = passed_bound(bounds, need);
  if (!bound) return;
  refuse(*bound, need, plan, needs,
         bound->scope == cluster::MemoryScope::host    ? of_host
         : bound->scope == cluster::MemoryScope::group ? of_group
                                                       : of_process);
}

void check_memory(const PipelinePlan& plan, const RankResources& needs) {
  std::uint64_t bytes = 0;
  std::vector<int> ranks;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    bytes += host_bytes(planned(plan, rank, needs));
    ranks.push_back(rank);
  }
  const MemoryNeed need{bytes, bytes, bytes};
  if (const auto bound = passed_bound(cluster::memory_bounds(cluster::HostFiles::of_this_host()), need))
    refuse(*bound, need, plan, needs, ranks);
}

}  // namespace millrace::actors
