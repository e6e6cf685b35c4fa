// Finds a schedule by name and generates it.

#include <fmt/ranges.h>

#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"
#include "runtime/schedule/component.hpp"
#include "runtime/schedule/generators/named_schedule.hpp"
#include "runtime/schedule/schedule_config.hpp"

namespace millrace::runtime {

// Each generator's file defines its function.
#define MILLRACE_SCHEDULE(name) const NamedSchedule& name##_schedule();
#include "runtime/schedule/generators/schedules.inc"
#undef MILLRACE_SCHEDULE

namespace {

const NamedSchedule& find_schedule(std::string_view name) {
  const NamedSchedule* nearest = named_schedules().front();
  for (const NamedSchedule* schedule : named_schedules()) {
    if (schedule->name == name) return *schedule;
    if (edit_distance(name, schedule->name) < edit_distance(name, nearest->name)) nearest = schedule;
  }
  fail(ExitCode::config, schedule_component, "pipeline.schedule = \"{}\" is unknown, did you mean \"{}\"? (known: {})", name, nearest->name,
       fmt::join(schedule_names(), ", "));
}

// Rejects what no schedule can do, and settings that this one does not use.
void check_request(const ScheduleRequest& request, const NamedSchedule& schedule) {
  MILLRACE_CHECK(request.ranks >= 1, ExitCode::config, schedule_component, "pipeline.ranks = {}, expected 1 or more", request.ranks);
  MILLRACE_CHECK(request.chunks >= 1, ExitCode::config, schedule_component, "pipeline.chunks = {}, expected 1 or more", request.chunks);
  MILLRACE_CHECK(request.microbatches >= 1, ExitCode::config, schedule_component, "train.microbatches = {}, expected 1 or more",
                 request.microbatches);
  MILLRACE_CHECK(schedule.chunks != Chunks::one || request.chunks == 1, ExitCode::config, schedule_component,
                 "{} has one chunk per rank, but pipeline.chunks = {}; use pipeline.chunks = 1, or looped-bfs, which takes several",
                 request.name, request.chunks);
  MILLRACE_CHECK(schedule.chunks != Chunks::two || request.chunks == 2, ExitCode::config, schedule_component,
                 "{} has two chunks per rank, but pipeline.chunks = {}; use pipeline.chunks = 2", request.name, request.chunks);
  MILLRACE_CHECK(!request.warmup || schedule.takes_warmup, ExitCode::config, schedule_component,
                 "{} has no warm-up parameter; omit it, or use 1f1b, which has one", request.name);
  MILLRACE_CHECK(request.group >= 0, ExitCode::config, schedule_component, "pipeline.group = {}, expected 0 or more", request.group);
  MILLRACE_CHECK(request.group == 0 || schedule.takes_groups, ExitCode::config, schedule_component,
                 "{} has no groups, but pipeline.group = {}; use pipeline.group = 0, or interleaved, which has groups", request.name,
                 request.group);
}

}  // namespace

std::span<const NamedSchedule* const> named_schedules() {
#define MILLRACE_SCHEDULE(name) &name##_schedule(),
  static const std::vector<const NamedSchedule*> schedules = {
#include "runtime/schedule/generators/schedules.inc"
  };
#undef MILLRACE_SCHEDULE
  return schedules;
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const NamedSchedule* schedule : named_schedules()) all.emplace_back(schedule->name);
    return all;
  }();
  return names;
}

int usual_chunks(std::string_view name) { return find_schedule(name).chunks == Chunks::one ? 1 : 2; }

Schedule make_schedule(const ScheduleRequest& request) {
  const NamedSchedule& schedule = find_schedule(request.name);
  check_request(request, schedule);
  return schedule.make(request);
}

Placement placement_of(const ScheduleRequest& request) { return make_schedule(request).placement; }

}  // namespace millrace::runtime
