#include <chrono>

#include "cluster/host/console.hpp"
#include "cluster/host/log.hpp"
#include "configs/presets.hpp"
#include "kernels/base/check.hpp"
#include "layers/formats/config_file.hpp"
#include "runtime/data/run_files.hpp"
#include "tools/commands/command.hpp"

namespace millrace::tools {
namespace {

constexpr auto shown_limit = std::chrono::seconds(1);

}  // namespace

configs::LoadedRun load_run(const std::vector<std::string>& words, bool complete) {
  MILLRACE_CHECK(!complete || !words.empty(), ExitCode::usage, "millrace", "no run description, expected RUN.toml or key=value");
  configs::LoadRequest request;
  for (const auto& word : words) {
    if (word.find('=') != std::string::npos)
      request.overrides.push_back(word);
    else
      request.files.push_back(configs::find_run(word).string());
  }
  request.environment = configs::environment_of_process();
  request.read_model = [](const std::string& path) {
    auto file = layers::read_config_file(path);
    return configs::ModelFile{std::move(file.model), file.losses, std::move(file.warnings)};
  };
  request.find_validation = [](const runtime::DataConfig& data) {
    auto found = runtime::find_validation(data);
    return configs::FoundValidation{std::move(found.files), found.in_training};
  };
  request.complete = complete;
  return configs::load(request);
}

void print_warnings(const std::vector<std::string>& warnings) {
  for (const auto& warning : warnings) cluster::log_warning("{}", warning);
  cluster::drain_console(shown_limit);  // before what the command itself prints
}

void print_warnings(const configs::LoadedRun& run) {
  print_warnings(run.model_warnings);
  print_warnings(run.warnings);
}

}  // namespace millrace::tools
