#include "actors/telemetry/live_profile.hpp"

#include <utility>

#include "runtime/profile/step_view.hpp"

namespace millrace::actors {

LiveProfile::LiveProfile(const PipelinePlan& plan, const RankResources& needs, const cluster::Topology& topology, std::string build,
                         RecordGather& gather, const runtime::Machine& machine)
    : plan_(plan), needs_(needs), topology_(topology), build_(std::move(build)), gather_(gather), machine_(machine) {}

void LiveProfile::step(const StepRecord& record) {
  const std::lock_guard lock(mutex_);
  done_.push_back({record.step - 1, record.loss, record.experts});
  if (done_.size() > steps) done_.pop_front();
}

bool LiveProfile::due() const {
  if (!requested_) return false;
  const std::lock_guard lock(mutex_);
  return done_.size() == steps;
}

std::optional<runtime::Measured> LiveProfile::take() {
  requested_ = false;
  std::deque<Done> done;
  {
    const std::lock_guard lock(mutex_);
    done = done_;
  }
  auto measured = measured_of(plan_, needs_, topology_, build_, gather_.gather(done.front().step));
  measured.machine = machine_;
  for (const auto& each : done) {
    if (!runtime::is_whole(measured.schedule, measured.traces, runtime::StepId(each.step))) continue;
    measured.steps.emplace_back(each.step);
    measured.losses.push_back(each.loss);
    runtime::add_loads(measured.experts, each.experts);
  }
  if (measured.steps.empty()) return std::nullopt;
  return measured;
}

}  // namespace millrace::actors
