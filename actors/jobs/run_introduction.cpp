#include "actors/jobs/run_introduction.hpp"

#include <fmt/format.h>

#include "actors/jobs/run_setup.hpp"
#include "actors/jobs/start_source.hpp"
#include "actors/setup/parameters_text.hpp"
#include "cluster/host/host_cores.hpp"
#include "kernels/base/count.hpp"
#include "kernels/base/device_type.hpp"
#include "runtime/units.hpp"

namespace millrace::actors {
namespace {

/// The GPUs of process 0's host, such as " | 2 x NVIDIA H200".
std::string gpus_text(kernels::DeviceKind kind) {
  const auto devices = kernels::device_type(kind).devices();
  return devices.empty() ? "" : fmt::format(" | {} x {}", devices.size(), devices.front().name);
}

/// Formats " | 4 ranks take turns on 2 cores | peak 312.0 GFLOP/s".
std::string cores_text(const Session& session, const RankResources& needs, const runtime::Machine& machine) {
  const auto teams = cluster::host_teams(session.topology(), session.launch(), cluster::usable_cores(), needs.threads);
  std::string text;
  if (needs.devices.empty() && teams.ranks > teams.cores)
    text += fmt::format(" | {} take turns on {}", counted(teams.ranks, "rank"), counted(teams.cores, "core"));
  if (machine.job_peak_flops > 0) text += fmt::format(" | peak {:.1f} GFLOP/s", machine.job_peak_flops * 1e-9);
  return text;
}

/// "3.0e-04 | cosine, 100 steps of warm-up"
std::string rate_text(const runtime::TrainConfig& train) {
  const std::string warmup = train.warmup_steps == 0 ? "" : fmt::format(", {} of warm-up", counted(train.warmup_steps, "step"));
  return fmt::format("{:.1e}, {}{}", train.learning_rate, train.decay, warmup);
}

}  // namespace

void introduce(Telemetry& telemetry, const PipelinePlan& plan, const Session& session, const RankResources& needs,
               const runtime::Machine& machine, const RunBeginning& beginning, const DataSource& batches, const HeldOut& held_out,
               const RunSettings& job) {
  auto& reporter = telemetry.reporter();
  reporter.say(fmt::format("model     {} | {} | {}, hidden {}, vocabulary {} | {}", layers::family_title(plan.model),
                           parameters_text(plan.parameters), counted(plan.model.layers, "layer"), plan.model.hidden_size,
                           plan.model.vocab_size, runtime::dtype_text(plan.compute)));
  const std::int64_t steps = job.train.steps;
  const auto read = batches.progress(steps).sources;
  reporter.say(fmt::format("data      {}{}", batches.describe(),
                           read.size() == 1 ? fmt::format(" | {:.2f} epochs in {}", read.front().epochs, counted(steps, "step")) : ""));
  for (const std::string& source : batches.sources_text(steps)) reporter.say(fmt::format("source    {}", source));
  reporter.say(
      fmt::format("held out  {}{}", held_out.text,
                  held_out.microbatches > 0 ? fmt::format(" | {} per evaluation", counted(held_out.microbatches, "microbatch")) : ""));
  reporter.say(fmt::format("pipeline  {}{} in {}, {} | {} | {} of {} x {} tokens", plan.copies_text(),
                           counted(plan.schedule.placement.positions(), "rank"), counted(session.topology().processes(), "process"),
                           plan.schedule.name, plan.layout_text(), counted(plan.schedule.microbatches, "microbatch"), plan.rows,
                           plan.sequence));
  reporter.say(fmt::format("machine   {} | {} per rank{}{}", instruction_set(), counted(beginning.threads, "thread"),
                           cores_text(session, needs, machine), gpus_text(plan.device)));
  if (!machine.doubt.empty()) reporter.say(fmt::format("doubt     the peak, and with it MFU: {}", machine.doubt));
  if (!beginning.source.empty())
    reporter.say(fmt::format("start     at step 0 with the {} of step {} in {}", taken_text(takes_state(job.train)), beginning.source_step,
                             beginning.source));
  reporter.say(fmt::format("optimizer {} | learning rate {}", job.train.optimizer, rate_text(job.train)));
  if (!job.directory.empty())
    reporter.say(fmt::format("run       {}{}", job.directory,
                             beginning.checkpoint.empty() ? "" : fmt::format(" | resumes after step {}", beginning.step)));
  if (const auto url = telemetry.status_url(); !url.empty()) reporter.say(fmt::format("status    {}", url));
}

}  // namespace millrace::actors
