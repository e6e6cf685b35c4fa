#include "actors/jobs/machine_peak.hpp"

#include <algorithm>

#include "actors/jobs/other_programs.hpp"
#include "actors/rank/device_placement.hpp"
#include "cluster/host/host_cores.hpp"
#include "kernels/peak.hpp"

namespace millrace::actors {

runtime::Machine shares_of_peak(double host_peak, const cluster::HostTeams& teams, int ranks) {
  runtime::Machine machine;
  machine.peak_flops = host_peak * teams.threads_at_once() / teams.computing();
  machine.job_peak_flops = host_peak * std::max(1.0, static_cast<double>(ranks) / teams.ranks);
  return machine;
}

runtime::Machine machine_peak(const Session& session, const CudaConfig& cuda, const PipelinePlan& plan, const RankResources& needs) {
  if (!needs.devices.empty()) {
    const auto peak = device_peak(needs, session, cuda, plan.compute);
    return {peak.rank, 0, peak.job};
  }
  const auto teams = cluster::host_teams(session.topology(), session.launch(), cluster::usable_cores(), needs.threads);
  return shares_of_peak(kernels::measured_peak_flops(plan.compute, teams.computing()), teams, plan.ranks());
}

runtime::Machine undisturbed_peak(const Session& session, const CudaConfig& cuda, const PipelinePlan& plan, const RankResources& needs) {
  runtime::Machine machine;
  if (session.leads()) {
    const OtherPrograms others;
    machine = machine_peak(session, cuda, plan, needs);
    if (needs.devices.empty()) machine.doubt = others.doubt(session, needs.threads);
  }
  session.control().agree({});
  return machine;
}

}  // namespace millrace::actors
