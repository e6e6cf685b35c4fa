#include "configs/identity.hpp"

#include "configs/schema.hpp"
#include "kernels/base/check.hpp"

namespace millrace::configs {
namespace {

using Identity = std::map<std::string, std::string>;

/// The number of steps that the learning rate is a rule for. Checkpoints from before train.schedule_steps recorded train.steps.
Identity with_schedule_steps(Identity identity) {
  const auto steps = identity.find("train.steps");
  if (steps == identity.end()) return identity;
  identity.emplace(schedule_key, steps->second);
  identity.erase(steps);
  return identity;
}

}  // namespace

std::map<std::string, std::string> identity(const RunConfig& config) {
  std::map<std::string, std::string> result;
  for (const Key& key : schema()) {
    if (key.mark == Mark::identity) result.emplace(key.name, to_text(key.fetch(config)));
  }
  result[schedule_key] = std::to_string(runtime::schedule_steps(config.train));
  return result;
}

std::string canonical_text(const RunConfig& config) {
  std::string text;
  for (const Key& key : schema()) text += key.name + " = " + to_text(key.fetch(config)) + "\n";
  return text;
}

std::vector<IdentityChange> identity_changes(const std::map<std::string, std::string>& stored,
                                             const std::map<std::string, std::string>& current) {
  const Identity recorded = with_schedule_steps(stored);
  std::map<std::string, IdentityChange> all;
  for (const auto& [key, value] : recorded)
    if (key != "train.threads") all[key].recorded = value;  // which identified runs as long as bits depended on it
  // A key that was introduced after the checkpoint was written had its default then.
  const RunConfig defaults;
  for (const auto& [key, value] : current)
    if (const Key* known = find_key(key); known != nullptr && !recorded.contains(key)) all[key].recorded = to_text(known->fetch(defaults));
  for (const auto& [key, value] : current) all[key].current = value;
  std::vector<IdentityChange> changes;
  for (auto& [key, change] : all) {
    if (change.recorded == change.current) continue;
    change.key = key;
    changes.push_back(change);
  }
  return changes;
}

void check_identity(const std::map<std::string, std::string>& recorded, const std::map<std::string, std::string>& current,
                    const std::string& checkpoint) {
  const auto shown = [](const std::string& value) { return value.empty() ? std::string("(not there)") : value; };
  std::string list;
  for (const IdentityChange& change : identity_changes(recorded, current)) {
    if (change.key == schedule_key) continue;
    list += fmt::format("{}{} was {}, now {}", list.empty() ? "" : "; ", change.key, shown(change.recorded), shown(change.current));
  }
  MILLRACE_CHECK(list.empty(), ExitCode::checkpoint, "configs.identity",
                 "{} belongs to another run: {}. Use the old values, or another run.directory", checkpoint, list);
}

}  // namespace millrace::configs
