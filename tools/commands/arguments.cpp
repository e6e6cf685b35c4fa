#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"
#include "layers/config_file.hpp"
#include "tools/commands/command.hpp"

namespace millrace::tools {

Arguments::Arguments(const std::vector<std::string>& words, const std::vector<std::string>& options,
                     const std::vector<std::string>& flags) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--")) {
      positional_.push_back(words[i]);
      continue;
    }
    const auto equals = words[i].find('=');
    const auto name = words[i].substr(2, equals == std::string::npos ? std::string::npos : equals - 2);
    if (std::find(flags.begin(), flags.end(), name) != flags.end()) {
      given_.emplace_back(name, "");
      continue;
    }
    if (std::find(options.begin(), options.end(), name) == options.end()) {
      auto known = options;
      known.insert(known.end(), flags.begin(), flags.end());
      const auto close = nearest_name(name, known);
      fail(ExitCode::usage, "millrace", "unknown option --{}{}", name, close.empty() ? "" : ", nearest is --" + close);
    }
    if (equals != std::string::npos) {
      given_.emplace_back(name, words[i].substr(equals + 1));
    } else {
      MILLRACE_CHECK(i + 1 < words.size(), ExitCode::usage, "millrace", "--{} wants a value", name);
      given_.emplace_back(name, words[++i]);
    }
  }
}

bool Arguments::flag(const std::string& name) const {
  return std::any_of(given_.begin(), given_.end(), [&](const auto& option) { return option.first == name; });
}

std::string Arguments::text(const std::string& name, const std::string& otherwise) const {
  std::string value = otherwise;
  for (const auto& [option, text] : given_)
    if (option == name) value = text;
  return value;
}

std::vector<std::string> Arguments::texts(const std::string& name) const {
  std::vector<std::string> values;
  for (const auto& [option, text] : given_)
    if (option == name) values.push_back(text);
  return values;
}

long Arguments::integer(const std::string& name, long otherwise, long least, long most) const {
  const auto value = text(name, std::to_string(otherwise));
  char* end = nullptr;
  errno = 0;
  const long number = std::strtol(value.c_str(), &end, 10);
  MILLRACE_CHECK(!value.empty() && *end == 0 && errno == 0 && number >= least && number <= most, ExitCode::usage, "millrace",
                 "--{} {}, expected a whole number from {} to {}", name, value, least, most);
  return number;
}

std::uint64_t Arguments::bytes(const std::string& name) const {
  const auto value = text(name, "");
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(value.c_str(), &end, 10);
  const std::string unit(end);
  constexpr std::array<std::string_view, 5> units{"", "KiB", "MiB", "GiB", "TiB"};
  const auto found = std::find(units.begin(), units.end(), unit);
  const auto shift = 10 * (found - units.begin());
  MILLRACE_CHECK(end != value.c_str() && found != units.end() && errno == 0 && number > 0 && number <= (1LL << (60 - shift)),
                 ExitCode::usage, "millrace", "--{} {}, expected bytes as 16000000000 or with a unit, KiB, MiB, GiB or TiB, as 15GiB", name,
                 value);
  return static_cast<std::uint64_t>(number) << shift;
}

double Arguments::real(const std::string& name, double otherwise) const {
  if (!flag(name)) return otherwise;
  const auto value = text(name, "");
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  MILLRACE_CHECK(!value.empty() && *end == 0 && number > 0, ExitCode::usage, "millrace", "--{} {}, expected a number above 0", name, value);
  return number;
}

configs::LoadedRun load_run(const std::vector<std::string>& words, bool complete) {
  MILLRACE_CHECK(!complete || !words.empty(), ExitCode::usage, "millrace", "no run description, expected RUN.toml or key=value");
  configs::LoadRequest request;
  for (const auto& word : words) (word.find('=') != std::string::npos ? request.overrides : request.files).push_back(word);
  request.environment = configs::environment_of_process();
  request.read_model = [](const std::string& path) {
    auto file = layers::read_config_file(path);
    return configs::ModelFile{std::move(file.model), file.z_loss, std::move(file.warnings)};
  };
  request.complete = complete;
  return configs::load(request);
}

void print_warnings(const std::vector<std::string>& warnings) {
  // Not fmt::print, which throws where stderr cannot be written.
  for (const auto& warning : warnings) std::fputs(fmt::format("warning: {}\n", warning).c_str(), stderr);
}

void print_warnings(const configs::LoadedRun& run) {
  print_warnings(run.model_warnings);
  print_warnings(run.warnings);
}

}  // namespace millrace::tools
