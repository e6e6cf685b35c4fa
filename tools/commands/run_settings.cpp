#include "tools/commands/run_settings.hpp"

#include "configs/identity.hpp"
#include "configs/schema.hpp"
#include "kernels/base/check.hpp"
#include "runtime/optimizers/learning_rate.hpp"

namespace millrace::tools {
namespace {

runtime::LearningRate learning_rate_of(const actors::IdentityKeys& identity) {
  configs::LoadRequest request;
  request.complete = false;
  for (const char* key :
       {"train.decay", "train.learning_rate", "train.final_learning_rate", "train.warmup_steps", "train.decay_steps", "train.numerics"})
    if (const auto found = identity.find(key); found != identity.end()) request.overrides.push_back(found->first + "=" + found->second);
  const auto largest = configs::find_key(configs::schedule_key)->most;  // the caller sets it; here no warm-up may be too long for it
  request.overrides.push_back(fmt::format("{}={:.0f}", configs::schedule_key, largest));
  return runtime::learning_rate(configs::load(request).config.train);
}

/// Refuses a learning rate that is a rule for another number of steps, unless it gives each finished step the rate that it was made with.
void check_schedule(const actors::IdentityKeys& recorded, const configs::IdentityChange& change, const std::string& checkpoint,
                    std::int64_t steps) {
  auto before = learning_rate_of(recorded), now = before;
  before.steps = std::stoll(change.recorded);
  now.steps = std::stoll(change.current);
  std::int64_t step = 0;
  while (step < steps && before.at(step) == now.at(step)) ++step;
  MILLRACE_CHECK(step == steps, ExitCode::checkpoint, "millrace",
                 "{}: its steps would have other learning rates: the rate was for a run of {} steps (train.decay = {}), now it is for {} "
                 "(train.steps, or train.schedule_steps if given), and step {}, made with {:.6g}, would have {:.6g}. Set "
                 "train.schedule_steps={} to keep the rate, which is {:.6g} after step {}; or begin a new run with this checkpoint "
                 "(train.start_from){}",
                 checkpoint, change.recorded, before.rule, change.current, step + 1, before.at(step), now.at(step), change.recorded,
                 before.at(before.steps), change.recorded,
                 step == 0
                     ? ""
                     : fmt::format("; or move the checkpoints after step {} out of its folder: with the newest of the others, up to which "
                                   "the rates are the same, the run goes on",
                                   step));
}

void check_identity(const actors::IdentityKeys& recorded, const actors::IdentityKeys& current, const std::string& checkpoint,
                    std::int64_t steps) {
  configs::check_identity(recorded, current, checkpoint);
  for (const auto& change : configs::identity_changes(recorded, current))
    if (change.key == configs::schedule_key) check_schedule(recorded, change, checkpoint, steps);
}

}  // namespace

actors::RunSettings settings_of(const configs::LoadedRun& run, const std::string& build) {
  const configs::RunConfig& config = run.config;
  actors::RunSettings settings;
  static_cast<actors::JobConfig&>(settings) = config;
  settings.overruled_model = run.overruled_model;
  settings.identity = {configs::canonical_text(config), build, configs::identity(config), check_identity};
  return settings;
}

}  // namespace millrace::tools
