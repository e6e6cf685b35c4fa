#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace millrace::configs {

/// The folders that may have models/ and runs/, in the order in which they are searched: configs/ in the folder that MILLRACE_SHARE names;
/// in ../share/millrace beside the executable; of the source tree that a build is run from; in the prefix that the build installs to.
/// Errors: Error(config) if MILLRACE_SHARE names a folder without presets.
[[nodiscard]] std::vector<std::filesystem::path> configs_folders();

/// The first of configs_folders() that has presets. Errors: Error(config) with the folders searched if none has.
[[nodiscard]] std::filesystem::path find_configs_folder();

/// The names of the presets in a folder, sorted.
[[nodiscard]] std::vector<std::string> preset_names(const std::filesystem::path& folder);

/// The file of a model's preset: `preset` is a path if it ends with .toml, else a name in the folder. `place` is where the preset was
/// named, for messages. Errors: Error(config) with the folder and the nearest name.
[[nodiscard]] std::filesystem::path find_preset(const std::string& preset, const std::filesystem::path& folder, const std::string& place);

/// The file of a run description: `run` itself if it is a file, else the run of that name ("quickstart") in the folder `runs`. Errors:
/// Error(config) with the folder and the nearest name.
[[nodiscard]] std::filesystem::path find_run(const std::string& run, const std::filesystem::path& runs);
/// The same in runs/ of find_configs_folder(), which a path that exists does not need.
[[nodiscard]] std::filesystem::path find_run(const std::string& run);

}  // namespace millrace::configs
