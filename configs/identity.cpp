#include "configs/identity.hpp"

#include "configs/schema.hpp"
#include "kernels/base/check.hpp"

namespace millrace::configs {

std::map<std::string, std::string> identity(const RunConfig& config) {
  std::map<std::string, std::string> result;
  for (const Key& key : schema()) {
    if (key.mark == Mark::identity) result.emplace(key.name, to_text(key.fetch(config)));
  }
  return result;
}

std::string canonical_text(const RunConfig& config) {
  std::string text;
  for (const Key& key : schema()) text += key.name + " = " + to_text(key.fetch(config)) + "\n";
  return text;
}

std::vector<IdentityChange> identity_changes(const std::map<std::string, std::string>& recorded,
                                             const std::map<std::string, std::string>& current) {
  std::map<std::string, IdentityChange> all;
  for (const auto& [key, value] : recorded) all[key].recorded = value;
  // A key that was introduced after the checkpoint was written had its default then.
  const RunConfig defaults;
  for (const auto& [key, value] : current)
    if (const Key* known = find_key(key); known != nullptr && !recorded.contains(key)) all[key].recorded = to_text(known->fetch(defaults));
  for (const auto& [key, value] : current) all[key].current = value;
  std::vector<IdentityChange> changes;
  for (auto& [key, change] : all) {
    if (change.recorded == change.current || (key == "train.threads" && change.current == "0")) continue;
    change.key = key;
    changes.push_back(change);
  }
  return changes;
}

void check_identity(const std::map<std::string, std::string>& recorded, const std::map<std::string, std::string>& current,
                    const std::string& checkpoint) {
  const auto changes = identity_changes(recorded, current);
  if (changes.empty()) return;
  const auto shown = [](const std::string& value) { return value.empty() ? std::string("(not there)") : value; };
  std::string list;
  for (const IdentityChange& change : changes) {
    list += fmt::format("{}{} was {}, now {}", list.empty() ? "" : "; ", change.key, shown(change.recorded), shown(change.current));
  }
  fail(ExitCode::checkpoint, "configs.identity", "{} belongs to another run: {}. Use the old values, or another run.directory", checkpoint,
       list);
}

}  // namespace millrace::configs
