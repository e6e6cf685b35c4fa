#include "tools/commands/continuation.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <vector>

#include "configs/identity.hpp"
#include "configs/schema.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/checkpoint/checkpoint_names.hpp"
#include "runtime/checkpoint/checkpoint_records.hpp"
#include "runtime/optimizers/learning_rate.hpp"

namespace millrace::tools {
namespace {

/// The keys that a trial of a few steps shortens.
constexpr std::array lengths = {"train.warmup_steps", "train.decay_steps"};

bool is_length(const std::string& key) { return std::ranges::find(lengths, key) != lengths.end(); }

/// The learning rate of a run with this identity.
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

/// The first of `steps` steps of which the two rules give other rates; `steps` if there is none.
std::int64_t first_other(const runtime::LearningRate& one, const runtime::LearningRate& other, std::int64_t steps) {
  std::int64_t step = 0;
  while (step < steps && one.at(step) == other.at(step)) ++step;
  return step;
}

std::string key_and_value(const std::string& key, const std::string& value) { return fmt::format(" {}={}", key, value); }

/// "train.warmup_steps was 1, now 5 (…); " with each length that differs; empty if none does.
std::string lengths_text(const std::vector<configs::IdentityChange>& changes, const RateKeys& keys) {
  std::string text;
  bool may_be_shortened = false;
  for (const auto& change : changes) {
    if (!is_length(change.key)) continue;
    text += fmt::format("{}{} was {}, now {}", text.empty() ? "" : ", ", change.key, change.recorded, change.current);
    may_be_shortened |= keys.from_files.contains(change.key);
  }
  if (may_be_shortened) text += " (what a file says is shortened where train.steps, given beside it, is too small for that)";
  return text.empty() ? text : text + "; ";
}

/// Refuses a learning rate that gives a finished step another rate than the one that it was made with.
void check_rate(const actors::IdentityKeys& recorded, const actors::IdentityKeys& current, const std::string& checkpoint,
                std::int64_t steps, const RateKeys& keys) {
  const auto changes = configs::identity_changes(recorded, current);
  auto before = learning_rate_of(recorded), now = learning_rate_of(current), kept = before;
  std::string was, is, add;
  for (const auto& change : changes)
    if (change.key == configs::schedule_key) was = change.recorded, is = change.current;
  if (was.empty()) was = is = current.at(configs::schedule_key);
  before.steps = std::stoll(was);
  now.steps = kept.steps = std::stoll(is);
  const auto step = first_other(before, now, steps);
  if (step == steps) return configs::check_identity(recorded, current, checkpoint);
  // With the lengths of before, the number of steps may be one that leaves the rates as they are.
  const bool needs_steps = first_other(before, kept, steps) < steps;
  if (needs_steps) add += key_and_value(configs::schedule_key, was);
  for (const char* key : lengths) {
    const auto length = recorded.find(key);
    const bool changed = std::ranges::any_of(changes, [&](const auto& change) { return change.key == key; });
    if (length != recorded.end() && (changed || keys.shortened.contains(key))) add += key_and_value(key, length->second);
  }
  const auto run = std::filesystem::path(checkpoint).parent_path().parent_path().string();
  const auto others = runtime::checkpoint_steps(runtime::checkpoints_folder(run));
  const bool goes_back = std::ranges::any_of(others, [&](std::uint64_t other) { return other <= static_cast<std::uint64_t>(step); });
  fail(ExitCode::checkpoint, "millrace",
       "{}: its steps would have other learning rates: {}the rate was for a run of {} (train.decay = {}), now it is for {} "
       "(train.steps, or train.schedule_steps if given), and step {}, made with {:.6g}, would have {:.6g}. Set{} to keep {}; or begin a "
       "new run with these weights and a rate of its own: set train.start_from={} and another "
       "run.directory{}",
       checkpoint, lengths_text(changes, keys), counted(before.steps, "step"), before.rule, is, step + 1, before.at(step), now.at(step),
       add,
       needs_steps ? fmt::format("the rate, which is {:.6g} after step {}", before.at(before.steps), was)
                   : std::string("the rates of the steps that were made"),
       run,
       !goes_back ? ""
                  : fmt::format("; or move the checkpoints after step {} out of its folder: with the newest of the others, up to which "
                                "the rates are the same, the run goes on",
                                step));
}

}  // namespace

RateKeys rate_keys(const configs::LoadedRun& run) {
  RateKeys keys;
  for (const char* key : lengths)
    if (run.settings.at(key).origin.layer == configs::Layer::file) keys.from_files.emplace(key);
  keys.shortened = {run.shortened.begin(), run.shortened.end()};
  return keys;
}

void check_identity(const actors::IdentityKeys& recorded, const actors::IdentityKeys& current, const std::string& checkpoint,
                    std::int64_t steps, const RateKeys& keys) {
  const auto changes = configs::identity_changes(recorded, current);
  if (changes.empty()) return;
  const bool of_rate =
      std::ranges::all_of(changes, [](const auto& change) { return change.key == configs::schedule_key || is_length(change.key); });
  if (of_rate)
    check_rate(recorded, current, checkpoint, steps, keys);
  else
    configs::check_identity(recorded, current, checkpoint);
}

std::string continuation_of(const configs::LoadedRun& run) {
  const auto& train = run.config.train;
  const auto rate = runtime::learning_rate(train);
  const bool decays = train.decay != "constant" && train.decay != "rsqrt" && (!train.decay.starts_with("wsd") || train.decay_steps > 0);
  const bool warms_up = train.warmup_steps >= train.steps;  // then the rates so far are those of a run of any length
  if (decays && !warms_up && rate.at(train.steps) == 0)
    return fmt::format("its learning rate has ended at 0: train.start_from={} and another run.directory begin a run with its weights",
                       run.config.directory);
  std::string keys;
  if (decays && train.schedule_steps == 0 && !warms_up) keys += key_and_value(configs::schedule_key, std::to_string(train.steps));
  for (const auto& key : run.shortened) keys += key_and_value(key, configs::to_text(run.settings.at(key).value));
  std::string text = "a larger train.steps";
  if (!keys.empty()) text += " with" + keys;
  text += " continues it";
  if (decays && !warms_up && rate.at(train.steps) == rate.at(rate.steps))
    text += fmt::format(" at the rate that it ended with, {:.6g}", rate.at(train.steps));
  return text;
}

}  // namespace millrace::tools
