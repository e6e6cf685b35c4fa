#include "configs/presets.hpp"

#include <algorithm>
#include <system_error>

#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"

namespace millrace::configs {
namespace fs = std::filesystem;

fs::path find_configs_folder() {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  for (fs::path folder = executable.parent_path(); !folder.empty(); folder = folder.parent_path()) {
    for (const char* place : {"configs", "share/millrace/configs"}) {
      if (fs::is_directory(folder / place / "models", error)) return folder / place;
    }
    if (folder == folder.root_path()) break;
  }
  const fs::path source = MILLRACE_CONFIGS_FOLDER;
  MILLRACE_CHECK(fs::is_directory(source / "models", error), ExitCode::config, "configs.presets",
                 "no folder configs/models above {} and none at {}; keep the presets beside the executable", executable.string(),
                 source.string());
  return source;
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
  const fs::path file = is_path ? fs::path(preset) : folder / (preset + ".toml");
  std::error_code error;
  if (fs::is_regular_file(file, error)) return file;
  if (is_path) fail(ExitCode::config, "configs.load", "{}: model.preset = {}: no such file", place, preset);
  const auto names = preset_names(folder);
  fail(ExitCode::config, "configs.load", "{}: model.preset = {}, expected one of {}{}", place, preset, fmt::join(names, ", "),
       did_you_mean(preset, names));
}

}  // namespace millrace::configs
