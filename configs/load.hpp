#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "configs/run_config.hpp"
#include "configs/value.hpp"

namespace millrace::configs {

/// Where a value comes from; each layer overrides the ones before.
enum class Layer : std::uint8_t { built_in, preset, file, environment, command_line };

struct Origin {
  Layer layer = Layer::built_in;
  std::string place = "built-in";  // "run.toml:14:3", "environment MILLRACE_TRAIN_STEPS", "command line"
};

struct Setting {
  Value value;
  Origin origin;
};

/// The content of a model's folder or file.
struct ModelFile {
  layers::ModelConfig model;
  runtime::LossWeights losses = {};
  std::vector<std::string> warnings = {};
};

/// Validation data that lie beside the training data (runtime::find_validation).
struct FoundValidation {
  std::vector<std::string> files;
  bool in_training = false;  // a folder of the training data contains one of them
  std::string unused;        // why the run does not take them; empty: it does
};

/// The inputs of load().
struct LoadRequest {
  std::vector<std::string> files;        // TOML; later files override earlier ones
  std::vector<std::string> overrides;    // "train.steps=200", "pipeline.schedule=zb-h1", "data.text=a,b"
  std::vector<std::string> environment;  // "MILLRACE_TRAIN_STEPS=200"; other names are ignored
  /// Reads the model folder or file that model.from names (layers::read_config_file does). Only called when model.from is given.
  std::function<ModelFile(const std::string& path)> read_model;
  /// Finds validation data beside data.tokens; may be empty. Called if data.tokens is given and data.validation is not.
  std::function<FoundValidation(const RunConfig& run)> find_validation;
  std::string presets;   // folder of the presets; empty: find_configs_folder() / models
  bool complete = true;  // model and data must be given; false: an incomplete description is accepted
  bool saves = true;     // checkpoints need a run directory; false: none are written
};

/// A loaded run, and every value with its origin.
struct LoadedRun {
  RunConfig config;
  std::map<std::string, Setting> settings;  // of every key of the schema
  std::vector<std::string> model_warnings;  // from reading model.from; to be shown to the user
  std::vector<std::string> warnings;        // about values that have no effect; to be shown to the user
  std::vector<std::string> shortened;       // keys of the learning rate that were too long for the few steps of a trial
  // Keys that overrule the file of model.from, a line for each, for the message if its weights do not fit: "\n  run.toml:3:1: model.layers
  // = 2 overrules 4".
  std::string overruled_model;

  /// Whether the key was given by any layer above the built-in defaults.
  [[nodiscard]] bool given(const std::string& key) const { return settings.at(key).origin.layer != Layer::built_in; }
};

/// Loads a run. Relative paths in values are not changed; they are relative to the current folder. Errors: Error(config), each with
/// file:line:column or the layer it came from: a file that cannot be read or parsed, an unknown key (with the nearest name), a
/// wrong type, a value out of range, values that contradict each other; Error(usage) for an override without "=".
[[nodiscard]] LoadedRun load(const LoadRequest& request);

/// "TOML++ 3.3.0": the library that reads run descriptions.
[[nodiscard]] std::string toml_version();

/// The environment of this process, for LoadRequest::environment.
[[nodiscard]] std::vector<std::string> environment_of_process();

}  // namespace millrace::configs
