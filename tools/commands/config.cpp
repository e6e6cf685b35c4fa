#include "configs/schema.hpp"
#include "configs/show.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"
#include "tools/commands/command.hpp"

namespace millrace::tools {
namespace {

constexpr const char* who = "millrace config";

/// TOML that loads to the same run, each value with where it came from. A model or data may be missing: it shows what there is.
int show(const std::vector<std::string>& words) {
  const auto run = load_run(words, false);
  print_warnings(run);
  fmt::print("{}", configs::show(run));
  return 0;
}

int keys(const std::vector<std::string>& words, bool markdown) {
  for (const auto& word : words) {
    MILLRACE_CHECK(configs::find_key(word) != nullptr, ExitCode::config, who, "unknown key {}{}", word,
                   did_you_mean(word, configs::key_names()));
  }
  if (words.empty()) fmt::print("{}", markdown ? configs::key_reference() : configs::help_text());
  for (const auto& word : words) {
    const configs::Key& key = *configs::find_key(word);
    fmt::print("{}\n    {}; default {}; {}; {}\n    {}\n", key.name, configs::wanted(key),
               configs::to_text(key.fetch(configs::RunConfig{})), key.mark == configs::Mark::identity ? "identity" : "layout",
               configs::environment_name(key), key.doc);
  }
  return 0;
}

}  // namespace

int config(const std::vector<std::string>& arguments) {
  const Arguments parsed(arguments, {}, {"markdown"});
  auto words = parsed.positional();
  MILLRACE_CHECK(!words.empty(), ExitCode::usage, who,
                 "nothing to do, expected show [RUN.toml] [key=value …] or keys [KEY …] [--markdown]");
  const std::string what = words.front();
  words.erase(words.begin());
  const std::vector<std::string> known{"show", "keys"};
  MILLRACE_CHECK(what == "keys" || !parsed.flag("markdown"), ExitCode::usage, who, "--markdown goes with keys, not with {}", what);
  if (what == "show") return show(words);
  if (what == "keys") return keys(words, parsed.flag("markdown"));
  fail(ExitCode::usage, who, "unknown word {}, expected show or keys{}", what, did_you_mean(what, known));
}

}  // namespace millrace::tools
