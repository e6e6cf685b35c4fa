#include "configs/presets.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"

namespace millrace::configs {
namespace fs = std::filesystem;
namespace {

constexpr const char* presets_component = "configs.presets";

bool has_presets(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(folder / "models", error);
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

}  // namespace

std::vector<fs::path> configs_folders() {
  std::vector<fs::path> folders;
  if (const char* share = std::getenv("MILLRACE_SHARE"); share != nullptr && *share != '\0') {
    folders.push_back(fs::path(share) / "configs");
    MILLRACE_CHECK(has_presets(folders.back()), ExitCode::config, presets_component,
                   "MILLRACE_SHARE = {}, expected a folder with configs/models, such as /usr/share/millrace", share);
  }
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside = executable.parent_path();
  folders.push_back((beside.parent_path() / "share/millrace/configs").lexically_normal());
  for (fs::path folder = beside; !folder.empty(); folder = folder.parent_path()) {
    if (has_presets(folder / "configs")) folders.push_back(folder / "configs");
    if (folder == folder.root_path()) break;
  }
  for (const char* built_in : {MILLRACE_CONFIGS_FOLDER, MILLRACE_INSTALLED_CONFIGS})
    if (std::ranges::find(folders, fs::path(built_in)) == folders.end()) folders.emplace_back(built_in);
  return folders;
}

fs::path find_configs_folder() {
  const auto folders = configs_folders();
  const auto found = std::ranges::find_if(folders, has_presets);
  if (found != folders.end()) return *found;
  std::vector<std::string> searched;
  for (const auto& folder : folders) searched.push_back(folder.string());
  fail(ExitCode::config, presets_component,
       "no presets: searched {}, expected one of them with models/ in it; MILLRACE_SHARE may name the folder above configs/",
       fmt::join(searched, ", "));
}

std::vector<std::string> preset_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

fs::path find_preset(const std::string& preset, const fs::path& folder, const std::string& place) {
  const bool is_path = preset.ends_with(".toml");
  fs::path file = is_path ? fs::path(preset) : folder / (preset + ".toml");
  if (is_file(file)) return file;
  if (is_path) fail(ExitCode::config, "configs.load", "{}: model.preset = {}: no such file", place, preset);
  const auto names = preset_names(folder);
  fail(ExitCode::config, "configs.load", "{}: model.preset = {}, which is not in {}, expected one of {}{}", place, preset, folder.string(),
       fmt::join(names, ", "), did_you_mean(preset, names));
}

fs::path find_run(const std::string& run, const fs::path& runs) {
  std::error_code error;
  const bool exists = fs::exists(run, error);
  if (exists && !fs::is_directory(run)) return run;
  const bool is_name = !fs::path(run).has_parent_path();
  const std::string name = run.ends_with(".toml") ? run.substr(0, run.size() - 5) : run;
  if (fs::path file = runs / (name + ".toml"); is_name && is_file(file)) return file;
  if (exists) return run;  // a folder is refused where it is read
  const auto names = preset_names(runs);
  MILLRACE_CHECK(!is_name || !is_file(runs.parent_path() / "models" / (name + ".toml")), ExitCode::config, "configs.load",
                 "{}: a preset of a model, not of a run, expected RUN.toml, or one of the runs in {}: {}; it goes behind the run, as "
                 "model.preset={}",
                 run, runs.string(), fmt::join(names, ", "), name);
  fail(ExitCode::config, "configs.load", "{}: no such file{}, expected one, or one of the runs in {}: {}{}", run,
       error && error != std::errc::no_such_file_or_directory ? " (" + error.message() + ")" : "", runs.string(), fmt::join(names, ", "),
       did_you_mean(fs::path(name).filename().string(), names));
}

fs::path find_run(const std::string& run) {
  std::error_code error;
  const bool is_other = fs::exists(run, error) && !fs::is_directory(run, error);
  return is_other ? fs::path(run) : find_run(run, find_configs_folder() / "runs");
}

}  // namespace millrace::configs
