#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "configs/run_config.hpp"
#include "configs/value.hpp"

namespace millrace::configs {

/// Where a value comes from; each layer overrules the ones before.
enum class Layer : std::uint8_t { built_in, preset, file, environment, command_line };

struct Origin {
  Layer layer = Layer::built_in;
  std::string place = "built-in";  // "run.toml:14:3", "environment MILLRACE_TRAIN_STEPS", "command line"
};

struct Setting {
  Value value;
  Origin origin;
};

/// What the folder or file of a model says.
struct ModelFile {
  layers::ModelConfig model;
  double z_loss = 0;
  std::vector<std::string> warnings = {};
};

/// What a run is loaded from.
struct LoadRequest {
  std::vector<std::string> files;        // TOML; later ones overrule earlier ones
  std::vector<std::string> overrides;    // "train.steps=200", "pipeline.schedule=zb-h1", "data.text=a,b"
  std::vector<std::string> environment;  // "MILLRACE_TRAIN_STEPS=200"; other names are passed over
  /// Reads the model folder or file that model.from names (layers::read_config_file does). Only called when model.from is given.
  std::function<ModelFile(const std::string& path)> read_model;
  std::string presets;   // folder of the presets; empty: find_configs_folder() / models
  bool complete = true;  // a run: model and data must be given. false: shows and checks what there is
};

/// A run, and every value with its origin.
struct LoadedRun {
  RunConfig config;
  std::map<std::string, Setting> settings;  // of every key of the schema
  std::vector<std::string> model_warnings;  // what the reader of model.from found, to be shown to the person
  std::vector<std::string> warnings;        // values that have no effect, to be shown to the person

  /// Was the key given, by a preset or anything above it?
  [[nodiscard]] bool given(const std::string& key) const { return settings.at(key).origin.layer != Layer::built_in; }
};

/// Relative paths in values are left as they are: relative to the current folder.
/// Errors: Error(config), each with file:line:column or the layer it came from: a file that cannot be read or parsed, an unknown key (with
/// the nearest name), a wrong type, a value out of range, values that contradict each other; Error(usage) for an override without "=".
[[nodiscard]] LoadedRun load(const LoadRequest& request);

/// The environment of this process, for LoadRequest::environment.
[[nodiscard]] std::vector<std::string> environment_of_process();

}  // namespace millrace::configs
