#include "actors/jobs/machine_peak.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "actors/jobs/other_programs.hpp"
#include "actors/rank/device_placement.hpp"
#include "cluster/host/host_cores.hpp"
#include "cluster/host/log.hpp"
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

namespace {

/// Measures again, after a pause, while other programs have the cores. The highest of all peaks counts: others can only lower it.
runtime::Machine believed_peak(const Session& session, const CudaConfig& cuda, const PipelinePlan& plan, const RankResources& needs) {
  constexpr int most = 4;  // measurements
  constexpr auto pause = std::chrono::milliseconds(300);
  runtime::Machine best;
  std::string doubt;
  for (int measurement = 0; measurement < most; ++measurement) {
    if (measurement > 0) std::this_thread::sleep_for(pause);
    const OtherPrograms others;
    const auto machine = machine_peak(session, cuda, plan, needs);
    if (machine.job_peak_flops > best.job_peak_flops) best = machine;
    doubt = others.doubt(session, needs.threads);
    if (doubt.empty()) return best;
  }
  cluster::log_warning("the peak of {:.1f} GFLOP/s, and with it every MFU, is in doubt: {}", best.job_peak_flops * 1e-9, doubt);
  return best;
}

}  // namespace

runtime::Machine undisturbed_peak(const Session& session, const CudaConfig& cuda, const PipelinePlan& plan, const RankResources& needs) {
  const auto machine = !session.leads()        ? runtime::Machine()
                       : needs.devices.empty() ? believed_peak(session, cuda, plan, needs)
                                               : machine_peak(session, cuda, plan, needs);
  session.control().agree({});
  return machine;
}

}  // namespace millrace::actors
