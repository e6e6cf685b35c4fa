#include <chrono>
#include <filesystem>
#include <string>
#include <utility>

#include "cluster/host/console.hpp"
#include "cluster/host/log.hpp"
#include "configs/presets.hpp"
#include "kernels/base/check.hpp"
#include "layers/formats/config_file.hpp"
#include "runtime/data/run_files.hpp"
#include "runtime/io/file_system.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/found_checkpoint.hpp"

namespace millrace::tools {
namespace {

constexpr auto shown_limit = std::chrono::seconds(1);

constexpr const char* recorded_name = "run.toml";

/// Whether the run directory has a run that began without validation data. It goes on without them, though there are some now: it holds
/// out a part of what would then be trained on. (Other training data are refused in any case.)
bool began_without_validation(const std::string& directory) {
  const auto recorded = runtime::join_path(directory, recorded_name);
  if (directory.empty() || runtime::kind_of(recorded) != runtime::PathKind::file) return false;
  configs::LoadRequest request;
  request.files = {recorded};
  request.overrides = {"model.from=", "model.preset="};  // the file has all sizes, and the folder may be gone
  request.complete = false;
  try {
    const auto data = configs::load(request).config.data;
    return data.validation.empty() && data.text.empty();  // a run on text does not go on with token files
  } catch (const Error&) {                                // starting the run says what is wrong with its directory
    return false;
  }
}

}  // namespace

configs::ModelFile read_model_file(const std::string& path) {
  const bool run = is_run_directory(path) || is_checkpoint(path);
  MILLRACE_CHECK(!run, ExitCode::model, "millrace",
                 "model.from = {}: a run of millrace, expected the folder of a model; train.start_from={} begins with its weights, and "
                 "`millrace ckpt export-hf {} OUT` makes a folder of them",
                 path, path, path);
  auto file = layers::read_config_file(path);
  return {std::move(file.model), file.losses, std::move(file.warnings)};
}

configs::LoadedRun load_run(const std::vector<std::string>& words, Needs needs) {
  const bool complete = needs != Needs::nothing;
  MILLRACE_CHECK(!complete || !words.empty(), ExitCode::usage, "millrace", "no run description, expected RUN.toml or key=value");
  configs::LoadRequest request;
  for (const auto& word : words) {
    if (word.find('=') != std::string::npos)
      request.overrides.push_back(word);
    else
      request.files.push_back(configs::find_run(word).string());
  }
  request.environment = configs::environment_of_process();
  request.read_model = read_model_file;
  // The description that a run directory has may name another place, where the run was before it was moved.
  const std::filesystem::path first(request.files.empty() ? "" : request.files.front());
  const std::string recorded_in = first.filename() == recorded_name ? first.parent_path().string() : "";
  request.find_validation = [recorded_in](const configs::RunConfig& run) {
    auto found = runtime::find_validation(run.data);
    configs::FoundValidation result{std::move(found.files), found.in_training};
    const std::string& directory = recorded_in.empty() ? run.directory : recorded_in;
    if (!result.files.empty() && began_without_validation(directory))
      result.unused = fmt::format("not used for evaluation, since the run in {} began without it", directory);
    return result;
  };
  request.complete = complete;
  request.saves = needs == Needs::to_save;
  auto run = configs::load(request);
  if (const auto doubt = runtime::doubt_of_text(run.config.data.text, run.config.data.suffixes); !doubt.empty())
    run.warnings.push_back(fmt::format("{}: data.text: {}", run.settings.at("data.text").origin.place, doubt));
  return run;
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
