#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace millrace::configs {

/// The folder with models/ and runs/: the nearest configs/ or share/millrace/configs/ beside or above the executable, else the source
/// folder. Errors: Error(config) if there is none.
[[nodiscard]] std::filesystem::path find_configs_folder();

/// The names of the presets in a folder, sorted.
[[nodiscard]] std::vector<std::string> preset_names(const std::filesystem::path& folder);

/// The file of a preset: `name` is a path if it ends with .toml, else a name in the folder. `place` is where the preset was named,
/// for messages. Errors: Error(config) with the nearest name.
[[nodiscard]] std::filesystem::path find_preset(const std::string& preset, const std::filesystem::path& folder, const std::string& place);

}  // namespace millrace::configs
