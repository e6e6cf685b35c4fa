#include <algorithm>
#include <iterator>

#include "configs/schema.hpp"
#include "configs/show.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"
#include "tools/commands/command.hpp"

namespace millrace::tools {
namespace {

constexpr const char* config_component = "millrace config";

/// Prints TOML that loads to the same run, with the origin of each value. A run without a model or data is accepted.
int show(const Arguments& arguments) {
  const auto run = load_run(arguments.positional(), Needs::nothing);
  print_warnings(run);
  fmt::print("{}", configs::show(run));
  return 0;
}

/// "model, data, train, …"
std::string sections() {
  std::vector<std::string> names;
  for (const configs::Key& key : configs::schema()) {
    const std::string name(configs::section_of(key.name));
    if (!name.empty() && (names.empty() || names.back() != name)) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The keys that a word names: one, or all of a section, which may end in its dot.
std::vector<const configs::Key*> keys_named(const std::string& word) {
  if (const auto* key = configs::find_key(word)) return {key};
  const std::string section = word.ends_with(".") ? word : word + ".";
  std::vector<const configs::Key*> found;
  for (const configs::Key& key : configs::schema())
    if (key.name.starts_with(section)) found.push_back(&key);
  if (!found.empty()) return found;
  const std::string meant = did_you_mean(word, configs::key_names());
  fail(ExitCode::config, config_component, "unknown key {}{}", word,
       meant.empty() ? "; sections are " + sections() + ", and `millrace config keys` prints every key" : meant);
}

int keys(const Arguments& arguments) {
  const auto& words = arguments.positional();
  std::vector<const configs::Key*> named;
  for (const auto& word : words) std::ranges::copy(keys_named(word), std::back_inserter(named));
  if (words.empty()) fmt::print("{}", arguments.given("markdown") ? configs::key_reference() : configs::help_text());
  for (const configs::Key* key : named)
    fmt::print("{}\n    {}; default {}; {}; {}\n    {}\n", key->name, configs::expected_text(*key),
               configs::to_text(key->fetch(configs::RunConfig{})), key->mark == configs::Mark::identity ? "identity" : "layout",
               configs::environment_name(*key), key->doc);
  return 0;
}

}  // namespace

Command config_command() {
  return {.name = "config",
          .summary = "Print every value of a run with the file and line it came from, or every key.",
          .parts = {{.name = "show",
                     .words = "[RUN.toml] [key=value …]",
                     .summary = "Print TOML that loads to the same run, each value with the place it came from.",
                     .notes = "A model or data may be missing.",
                     .offer = offer_run,
                     .run = show},
                    {.name = "keys",
                     .words = "[KEY|SECTION …]",
                     .summary = "Print what a key, or each key of a section, means: type, range, default, environment variable.",
                     .options = {{.name = "markdown", .help = "Print the page docs/keys.md."}},
                     .offer = offer_keys,
                     .run = keys}}};
}

}  // namespace millrace::tools
